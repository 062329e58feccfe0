"""Figures as files: pictures made by a browser, tables, and the lines that draw them again."""
