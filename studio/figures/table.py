"""The numbers of a figure as rows, read from the figure itself, so that they cannot differ from what is shown."""

import csv
import html
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Table:
    """columns: names. rows: one tuple a mark of the figure (bar, point, cell, hatched region); "" where a column does not apply."""

    columns: tuple[str, ...]
    rows: tuple[tuple, ...]

    def column(self, name: str) -> list:
        """Values of one column. Raises ValueError for a name that there is not."""
        place = self.columns.index(name)
        return [row[place] for row in self.rows]


def table(figure: go.Figure) -> Table:
    """Every value that the figure shows, in the order of its layers. Missing values are regions ("not evaluated"), never numbers.

    A layer says in its own `meta` what it adds: "series" (else its name), "value" (name of the coloured quantity), "columns"
    (names of its customdata), or "scaffold" when it repeats or frames others and holds no data. Places of an axis that
    stand for words have them in layout.meta["axes"] (see style.name_axis).
    """
    rows = [row for layer in figure.data if not (layer.meta or {}).get("scaffold") for row in _rows(figure, layer)]
    if not rows:
        rows = [{"note": plain(note.text)} for note in figure.layout.annotations] or [{"note": "nothing is shown"}]
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    return Table(columns, tuple(tuple(row.get(name, "") for name in columns) for row in rows))


def csv_text(figure: go.Figure) -> str:
    """The table as CSV (RFC 4180, numbers with a point and all their digits).

    A text that a spreadsheet would run as a formula gets an apostrophe before it; one of a single character stays.
    """
    out, shown = io.StringIO(), table(figure)
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(shown.columns)
    writer.writerows([_cell(value) for value in row] for row in shown.rows)
    return out.getvalue()


def plain(text: str) -> str:
    """A Plotly label as the plain text that it shows, on one line."""
    return html.unescape(re.sub(r"</?b>", "", re.sub(r"<br ?/?>", " ", text or "")))


def _cell(value) -> str:
    if isinstance(value, str):
        return "'" + value if len(value) > 1 and value.startswith(_FORMULA) else value
    return repr(value)


def _number(value) -> float | int | str:
    """A plain number; "" for what is none."""
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, float):
        return "" if value is None else value
    if not np.isfinite(value):
        return ""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _rows(figure: go.Figure, layer) -> Iterator[dict]:
    if layer.type == "heatmap":
        return _cells(figure, layer)
    if layer.type == "table":
        return _lines(layer)
    if layer.type == "scatter" and layer.fill == "toself":
        return _regions(figure, layer)
    return _points(figure, layer)


def _titles(figure: go.Figure, layer) -> tuple[str, str]:
    x, y = ((getattr(layer, f"{one}axis") or one).replace(one, f"{one}axis") for one in "xy")
    across, down = plain(figure.layout[x].title.text), plain(figure.layout[y].title.text)
    return (f"{across} (column)", f"{down} (row)") if across == down else (across, down)


def _series(layer) -> dict:
    name = (layer.meta or {}).get("series") or plain(layer.name)
    return {"series": name} if name else {}


def _place(figure: go.Figure, axis: str, title: str, value) -> dict:
    """A place on an axis: its words where it has some, else its number."""
    words = ((figure.layout.meta or {}).get("axes") or {}).get(axis)
    return {name: _number(values[int(value)]) for name, values in words.items()} if words else {title: _number(value)}


def _extra(layer, row) -> dict:
    names = (layer.meta or {}).get("columns")
    return dict(zip(names, map(_number, np.atleast_1d(row)), strict=True)) if names else {}


def _points(figure: go.Figure, layer) -> Iterator[dict]:
    """Bars and points; those that stand in the legend alone (no place) are left out."""
    across, down = _titles(figure, layer)
    below, above = (getattr(layer.error_y, name, None) if layer.error_y else None for name in ("arrayminus", "array"))
    for index, x in enumerate(() if layer.x is None else layer.x):
        if x is None:
            continue
        row = _series(layer) | (_place(figure, "x", across, x) if not isinstance(x, str) else {across: plain(x)})
        value = (layer.meta or {}).get("value")
        row |= {down: _number(layer.y[index])} | ({value: _number(layer.marker.color[index])} if value else {})
        row |= _extra(layer, layer.customdata[index]) if layer.customdata is not None else {}
        yield row | ({"below": _number(below[index]), "above": _number(above[index])} if above is not None else {})


def _cells(figure: go.Figure, layer) -> Iterator[dict]:
    """Coloured cells of a heat map; those without a value are regions of another layer."""
    z = np.asarray(layer.z, dtype=np.float64)
    across, down = _titles(figure, layer)
    x, y = (np.arange(count) if values is None else np.asarray(values) for values, count in ((layer.x, z.shape[1]), (layer.y, z.shape[0])))
    edges = len(x) > z.shape[1]
    value = (layer.meta or {}).get("value") or plain(layer.colorbar.title.text)
    for row, column in np.argwhere(np.isfinite(z)):
        extra = _extra(layer, layer.customdata[row][column]) if layer.customdata is not None else {}
        if edges:
            place = _box(x[column], y[row], x[column + 1], y[row + 1])
        else:
            place = _place(figure, "x", across, x[column]) | _place(figure, "y", down, y[row])
        yield _series(layer) | extra | place | {value: _number(np.asarray(layer.z)[row, column])}


def _regions(figure: go.Figure, layer) -> Iterator[dict]:
    """Hatched or outlined regions: words in place of a value."""
    corners = np.stack([np.asarray(layer.x, dtype=np.float64), np.asarray(layer.y, dtype=np.float64)], axis=-1)
    breaks = np.flatnonzero(np.isnan(corners[:, 0]))
    for region in np.split(corners, breaks):
        region = region[np.isfinite(region[:, 0])][:-1]  # closed outlines repeat their first corner
        if len(region):
            upright = len(np.unique(region[:, 0])) == len(np.unique(region[:, 1])) == 2
            slant = {} if upright else {"corners": " ".join(f"{_number(x)},{_number(y)}" for x, y in region)}
            yield _series(layer) | _box(*region.min(axis=0), *region.max(axis=0)) | slant


def _box(left, top, right, bottom) -> dict:
    return {"x from": _number(left), "y from": _number(top), "x to": _number(right), "y to": _number(bottom)}


def _lines(layer) -> Iterator[dict]:
    names = [plain(one) for one in layer.header.values]
    for cells in zip(*layer.cells["values"], strict=True):
        yield {name: plain(cell) if isinstance(cell, str) else _number(cell) for name, cell in zip(names, cells, strict=True)}
