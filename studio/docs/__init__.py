"""The notebooks as pages: every notebook executed in a clean kernel and written as HTML that opens without a network."""
