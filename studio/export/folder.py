"""The figures of a run as a folder: captions, tables, the program that draws them, one page, and pictures."""

import html
import re
from collections.abc import Iterable
from pathlib import Path

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from leo_core.files import atomic_path
from studio.figures import code_of_all, csv_text
from studio.figures.table import plain

_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
_STYLE = (
    "body{font-family:system-ui,'DejaVu Sans',sans-serif;max-width:900px;margin:24px auto;padding:0 12px}"
    ".figure{overflow-x:auto}p{font-size:.85rem;margin:0 4px 36px}"
)


def write_words(folder: Path, figures: dict[str, go.Figure], trace_path: str, formats: Iterable[str]) -> list[Path]:
    """Write captions.md, code.py and one CSV for each figure; returns the files.

    formats: of the pictures that captions.md shows (the first one of them). trace_path: what code.py loads.
    """
    texts = {"captions.md": captions(figures, next(iter(formats), None)), "code.py": code_of_all(figures, trace_path)}
    texts |= {f"{name}.csv": csv_text(figure) for name, figure in figures.items()}
    return [write(folder / name, text.encode("utf-8")) for name, text in texts.items()]


def write_page(folder: Path, figures: dict[str, go.Figure]) -> Path:
    """figures.html: all figures and captions on one page that needs no network and may fetch nothing."""
    parts = [f"<script>{get_plotlyjs()}</script>"]
    for name, figure in figures.items():
        drawn = figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, config={"displaylogo": False, "responsive": True})
        caption = html.escape(figure.layout.meta["caption"])
        parts.append(f'<div class="figure">{drawn}</div><p>{caption}</p>')
    head = f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}"><title>Figures of one run</title>'
    page = f'<!doctype html><html lang="en"><head>{head}<style>{_STYLE}</style></head><body>{"".join(parts)}</body></html>'
    return write(folder / "figures.html", page.encode("utf-8"))


def captions(figures: dict[str, go.Figure], picture: str | None) -> str:
    """Markdown: title, picture (its file's ending, or None) and caption of each figure. Names appear as they are, never as marks."""
    parts = ["# Figures"]
    for name, figure in figures.items():
        parts.append(f"## {literal(plain(figure.layout.title.text))}")
        parts += [f"![{name}]({name}.{picture})"] if picture else []
        parts.append(literal(figure.layout.meta["caption"]))
    return "\n\n".join(parts) + "\n"


def literal(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_\[\]#|~$!{}])", r"\\\1", html.escape(" ".join(text.split()), quote=False))


def write(path: Path, content: bytes) -> Path:
    """One file, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)
    return path
