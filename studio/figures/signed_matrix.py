"""Signed values of rows by columns: who gains and who loses, with every number in its cell."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from studio.figures.positions import ticks
from studio.figures.redraw import redrawable
from studio.figures.style import DIVERGING, OVER, bar_across, finish, hatched, name_axis, notice, place_bar, scale
from studio.figures.token_text import escaped

_ROW, _BELOW = 34, 84  # pixels of a row, and of the axis below
_ACROSS = 84  # characters that stand beside each other under a page's width
_NUMBERS = 12  # columns: beyond them numbers would run into each other and stay in the hover text


@redrawable
def signed_matrix(
    values: Float[np.ndarray, "rows columns"], rows: Sequence[str], columns: Sequence[str], title: str, caption: str, unit: str = "nats",
    row_title: str = "", column_title: str = "", reach: float | None = None, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """Heat map around zero: red above, blue below. NaN is hatched as not evaluated.

    reach: value at the ends of the colours (default: the largest absolute value); larger ones keep the end's colour and their number.
    caption: what the values are; how many there are is added. Raises ValueError when names and values do not fit.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.shape != (len(rows), len(columns)):
        raise ValueError(f"{len(rows)} rows and {len(columns)} columns do not fit values of shape {values.shape}.")
    if not np.isfinite(values).any():
        return notice("Not evaluated: there is no value to show.", title, dark)
    limit = reach or float(np.nanmax(np.abs(values))) or 1.0
    fig = go.Figure(
        go.Heatmap(
            z=values, zmin=-limit, zmax=limit, colorscale=scale(DIVERGING), colorbar=bar_across(escaped(unit), tickformat=".2~g"), hoverongaps=False,
            xgap=1, ygap=1, texttemplate="%{z:+.2f}" if len(columns) <= _NUMBERS else None, textfont_size=12,
            customdata=[[escaped(f"{row}, {column}") for column in columns] for row in rows],
            hovertemplate="%{customdata}: %{z:+.4f} " + escaped(unit) + "<extra></extra>",
        )
    )  # fmt: skip
    missing = np.argwhere(np.isnan(values))
    if len(missing):
        corners = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
        fig.add_trace(hatched(missing[:, None, ::-1] + corners))
        fig.update_layout(legend=dict(x=0, y=1.01, yanchor="bottom", orientation="h"))
    name_axis(fig, "x", {column_title or "column": columns})
    name_axis(fig, "y", {row_title or "row": rows})
    plot, top = _ROW * len(rows), OVER + (26 if len(missing) else 0)
    turned = max(map(len, columns)) * len(columns) > _ACROSS
    # room for the labels, so that turned ones do not shrink the plot under its colour bar
    below = (_BELOW if column_title else _BELOW - 36) + (4 * min(max(map(len, columns)), 30) if turned else 0)
    fig.update_layout(margin=dict(t=top, b=below))
    place_bar(fig, top, plot)
    fig.update_xaxes(title_text=escaped(column_title), range=[-0.5, len(columns) - 0.5], showgrid=False, zeroline=False,
                     tickangle=-35 if turned else 0, **ticks(columns))  # fmt: skip
    fig.update_yaxes(title_text=escaped(row_title), range=[len(rows) - 0.5, -0.5], showgrid=False, zeroline=False, **ticks(rows))
    said = f" Not evaluated (hatched): {len(missing)} of {values.size} values." if len(missing) else ""
    clipped = int((np.abs(values) > limit).sum())
    said += f" {clipped} values lie beyond the ends of the colours." if clipped else ""
    return finish(fig, title, f"{caption} n = {len(rows)} x {len(columns)} values in {unit}; white is zero.{said}", dark, plot + top + below)
