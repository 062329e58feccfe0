"""A table as Markdown text, for notebooks: numbers computed in a cell, words around them."""

from collections.abc import Iterable, Sequence


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence]) -> str:
    """One line a row; floats with three digits, everything else as it is. Bars in texts are escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(value) -> str:
    if isinstance(value, float):
        return "not evaluated" if value != value else f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value).replace("|", "\\|").replace("\n", " ")
