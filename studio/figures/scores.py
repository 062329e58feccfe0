"""Scores of several models on several benchmarks: one line a benchmark, one mark a model, hollow where the number is not certain."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studio.figures.redraw import redrawable
from studio.figures.style import category, finish, name_axis, notice
from studio.figures.token_text import escaped

ROW = 34
"""Height of a line in pixels."""
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down", "x", "star")


@redrawable
def scores(
    title: str, caption: str, models: Sequence[str], benchmarks: Sequence[str], values: Sequence[Sequence[float]], certain: Sequence[bool],
    unit: str = "score", dark: bool = False,
) -> go.Figure:  # fmt: skip
    """values: one row for each model, one value for each benchmark; NaN where none was reported. certain: False draws hollow marks."""
    values = np.asarray(values, dtype=np.float64)
    if values.shape != (len(models), len(benchmarks)) or len(certain) != len(models):
        raise ValueError(f"There are {len(models)} models and {len(benchmarks)} benchmarks, but values of shape {values.shape}.")
    if not np.isfinite(values).any():
        return notice("No score was reported.", title, dark)
    fig, place = go.Figure(), np.arange(len(benchmarks))[::-1]
    for row, (low, high) in zip(place, zip(np.nanmin(values, axis=0), np.nanmax(values, axis=0), strict=True), strict=True):
        fig.add_shape(type="line", x0=low, x1=high, y0=row, y1=row, line=dict(color="rgba(140,140,140,0.35)", width=6), layer="below")
    for index, (model, row, sure) in enumerate(zip(models, values, certain, strict=True)):
        known, colour = np.flatnonzero(np.isfinite(row)), category(index, dark)
        symbol = SYMBOLS[index % len(SYMBOLS)] + ("" if sure else "-open")
        fig.add_trace(
            go.Scatter(
                x=row[known], y=place[known], mode="markers", name=escaped(model), showlegend=True,
                marker=dict(symbol=symbol, size=11, color=colour, line=dict(width=0.5 if sure else 2.2, color=colour)),
                customdata=[escaped(benchmarks[one]) for one in known],
                hovertemplate=f"{escaped(model)}, %{{customdata}}: %{{x:.4~g}}<extra></extra>",
            )
        )  # fmt: skip
    name_axis(fig, "y", {"benchmark": list(benchmarks)[::-1]})
    words = [escaped(one) for one in benchmarks]
    fig.update_yaxes(title_text="", tickvals=place, ticktext=words, range=[-0.6, len(benchmarks) - 0.4], showgrid=False)
    fig.update_xaxes(title_text=escaped(unit))
    rows = -(-sum(len(model) + 7 for model in models) // 88)
    fig.update_layout(legend=dict(x=0, y=1.0, yanchor="bottom", orientation="h"), margin_t=66 + 24 * rows)
    missing = int(np.isnan(values).sum())
    caption += f" Not reported: {missing} of {values.size} scores." if missing else ""
    return finish(fig, title, caption, dark, height=ROW * len(benchmarks) + 150 + 24 * rows)
