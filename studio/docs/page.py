"""An executed notebook as one HTML page. Beside the pages lie one style, one script and plotly.js; nothing is ever fetched."""

import html
import json
import re
from copy import deepcopy
from pathlib import Path

from nbconvert import HTMLExporter
from nbformat import NotebookNode
from plotly.offline import get_plotlyjs
from pygments.formatters import HtmlFormatter
from traitlets.config import Config

from leo_core.files import atomic_path
from studio.docs.pictures import PLOTLY

HERE = Path(__file__).parent
FETCHED = re.compile(r"""<(?:script|link|img|iframe|source|video|audio)\b[^>]*?\b(?:src|href)\s*=\s*["']?(?:https?:)?//""", re.IGNORECASE)
"""Marks of a page that would ask the network for something."""


def write_shared(folder: Path) -> None:
    """What all pages use: plotly.js, the style and the script."""
    style = (HERE / "docs.css").read_text("utf-8") + HtmlFormatter(style="friendly").get_style_defs(".highlight")
    for name, text in (("plotly.min.js", get_plotlyjs()), ("docs.css", style), ("docs.js", (HERE / "docs.js").read_text("utf-8"))):
        write(folder / name, text)


def page(notebook: NotebookNode, name: str, names: list[str], foot: str = "") -> str:
    """HTML of an executed notebook. names: all pages in order, for the links to the neighbours. foot: a plain sentence."""
    shown = deepcopy(notebook)
    for cell in shown.cells:
        for number, output in enumerate(cell.get("outputs", [])):
            if PLOTLY in output.get("data", {}):
                output.data = {"text/html": figure_html(output, f"{cell.id}-{number}")}
    exporter = HTMLExporter(template_name="basic", config=Config({"HTMLExporter": {"exclude_input_prompt": True, "exclude_output_prompt": True}}))
    body, _ = exporter.from_notebook_node(shown)
    body = re.sub(r'(href="[^":]*)\.ipynb(["#])', r"\1.html\2", body)
    plot = '<script src="plotly.min.js"></script><script src="docs.js"></script>' if 'class="figure"' in body else ""
    title = html.escape(title_of(notebook, name))
    around = neighbours(name, names)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{title}</title><link rel="icon" href="data:,"><link rel="stylesheet" href="docs.css"></head><body>{around}<main>{body}</main>'
        f'<footer>{around}<p>{html.escape(foot)}</p></footer>{plot}</body></html>'
    )  # fmt: skip


def title_of(notebook: NotebookNode, name: str) -> str:
    """The notebook's first heading, else its name."""
    first = re.search(r"^# (.+)$", "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown"), re.MULTILINE)
    return first.group(1).strip() if first else name


def figure_html(output: NotebookNode, name: str) -> str:
    """A figure's still picture, its data for the script that makes it interactive, and its caption."""
    shown = output.data[PLOTLY]
    layout = shown["layout"]
    caption = html.escape((layout.get("meta") or {}).get("caption", ""))
    still = output.data.get("image/png")
    alternative = html.escape(re.sub("<[^>]+>", " ", (layout.get("title") or {}).get("text") or "figure"), quote=True)
    picture = f'<img class="still" alt="{alternative}" src="data:image/png;base64,{still.strip()}">' if still else ""
    data = json.dumps({"data": shown["data"], "layout": layout}).replace("</", "<\\/")
    return (
        f'<figure class="figure" id="{name}"><div class="plot" style="min-height:{int(layout.get("height") or 450)}px">{picture}</div>'
        f'<script type="application/json">{data}</script><figcaption>{caption}</figcaption></figure>'
    )


def neighbours(name: str, names: list[str]) -> str:
    """Links to the notebook before, the index and the notebook after; none on the index itself."""
    if name == "index":
        return ""
    row = [one for one in names if one != "index"]
    place = row.index(name) if name in row else len(row)
    link = lambda one, words: f'<a href="{one}.html">{words}</a>'  # noqa: E731
    before = link(row[place - 1], f"← {label(row[place - 1])}") if 0 < place < len(row) else "<span></span>"
    after = link(row[place + 1], f"{label(row[place + 1])} →") if place < len(row) - 1 else "<span></span>"
    return f"<nav>{before}{link('index', 'All notebooks')}{after}</nav>"


def label(name: str) -> str:
    """A page's name in words: its number and the rest."""
    return name.replace("_", " ")


def write(path: Path, text: str) -> Path:
    """One file, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, "utf-8")
    return path
