"""Values of tokens as coloured cells on the picture: exact cells of a lattice, or polygons of their own."""

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from leo_core.geometry import Geometry
from studio.figures.style import at, hatched, outlines, scale
from studio.figures.table import plain

BINS = 24
"""Steps of colour where tokens are polygons of their own: one drawn path per step stays fast."""


@dataclass(frozen=True)
class Colours:
    """How values become colours: the scale's ends, and what the colour bar and hover say."""

    low: float
    high: float
    colours: tuple[str, ...]
    bar: dict
    unit: str

    @property
    def keywords(self) -> dict:
        return {"colorscale": scale(self.colours), "showscale": True, "colorbar": self.bar}


def lattice(geometry: Geometry) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """(x edges, y edges, token of each cell or -1) when the placed tokens are cells of one axis-parallel lattice, else None.

    Edges are the polygons' own coordinates; class tokens, padded tails and cells beyond the picture do not disturb.
    """
    placed = np.flatnonzero(geometry.placed)
    corners = geometry.polygons[placed]
    left, top, right, bottom = corners[:, 0, 0], corners[:, 0, 1], corners[:, 2, 0], corners[:, 2, 1]
    upright = np.stack([np.stack(p, axis=-1) for p in ((left, top), (right, top), (right, bottom), (left, bottom))], axis=1)
    if not np.array_equal(upright, corners):
        return None
    x, y = np.unique([left, right]), np.unique([top, bottom])
    column, row = np.searchsorted(x, left), np.searchsorted(y, top)
    single = np.array_equal(np.searchsorted(x, right), column + 1) and np.array_equal(np.searchsorted(y, bottom), row + 1)
    if not single or len(np.unique(row * len(x) + column)) < len(placed):
        return None
    cells = np.full((len(y) - 1, len(x) - 1), -1)
    cells[row, column] = placed
    return x, y, cells


def paint(fig: go.Figure, geometry: Geometry, values: np.ndarray, colours: Colours, opacity: float) -> str:
    """Draw the values of all placed tokens; returns words for the caption."""
    unknown = geometry.placed & np.isnan(values)
    regular = lattice(geometry)
    if regular:
        _paint_lattice(fig, *regular, values, colours, opacity)
    else:
        _paint_polygons(fig, geometry, values, colours, opacity)
    if unknown.any():
        fig.add_trace(hatched(geometry.polygons[unknown]))
    return "" if regular else f" Tokens are polygons of their own, coloured in {BINS} steps; hover gives exact values."


def _paint_lattice(fig, x, y, cells, values, colours: Colours, opacity: float) -> None:
    drawn = np.where(cells >= 0, values[cells], np.nan)
    rows, columns = np.indices(cells.shape)
    hover = "source token %{customdata[0]} (row %{customdata[1]}, column %{customdata[2]})<br>%{z:.4~g} " + colours.unit + "<extra></extra>"
    fig.add_trace(
        go.Heatmap(
            x=x, y=y, z=drawn, zmin=colours.low, zmax=colours.high, opacity=opacity, hoverongaps=False, hovertemplate=hover,
            customdata=np.stack([cells + 1, rows + 1, columns + 1], axis=-1), meta={"columns": ["source token", "row", "column"]},
            **colours.keywords,
        )
    )  # fmt: skip


def _paint_polygons(fig, geometry: Geometry, values, colours: Colours, opacity: float) -> None:
    known = np.flatnonzero(geometry.placed & np.isfinite(values))
    place = (values[known] - colours.low) / (colours.high - colours.low)
    bins = np.clip((place * BINS).astype(int), 0, BINS - 1)
    for one in np.unique(bins):  # light ones first, so that the heaviest lie on top where tokens overlap
        x, y = outlines(geometry.polygons[known[bins == one]])
        fill = at(colours.colours, (one + 0.5) / BINS, opacity)
        fig.add_trace(go.Scatter(x=x, y=y, mode="lines", line_width=0, fill="toself", fillcolor=fill, hoverinfo="skip", showlegend=False,
                                 meta={"scaffold": True}))  # fmt: skip
    columns = ["source token", plain(colours.bar["title"]["text"]), *(f"{axis}{corner}" for corner in range(1, 5) for axis in "xy")]
    centres = geometry.polygons[known].mean(axis=1)
    marker = dict(color=values[known], cmin=colours.low, cmax=colours.high, opacity=0, size=12, **colours.keywords)
    fig.add_trace(
        go.Scatter(
            x=centres[:, 0], y=centres[:, 1], mode="markers", marker=marker, showlegend=False, name="values",
            customdata=np.column_stack([known + 1, values[known], geometry.polygons[known].reshape(-1, 8)]), meta={"columns": columns},
            hovertemplate="source token %{customdata[0]}<br>%{customdata[1]:.4~g} " + colours.unit + "<extra></extra>",
        )
    )  # fmt: skip
