"""Lines over a number (a budget, a length), with bands where values have intervals."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studio.figures.redraw import redrawable
from studio.figures.style import category, finish, ink, notice
from studio.figures.token_text import escaped

MARKED = 40
"""More places than this are a line without marks."""
DASHES = ("solid", "dash", "dot", "dashdot")


@redrawable
def curves(
    title: str, caption: str, x: Sequence[float], series: Sequence[str], values: Sequence[Sequence[float]], x_title: str, unit: str,
    low: Sequence[Sequence[float]] | None = None, high: Sequence[Sequence[float]] | None = None, log_x: bool = False, log_y: bool = False,
    lines: Sequence[tuple[str, float]] = (), from_zero: bool = True, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """values: one row for each series, one value for each x; NaN leaves a gap. low, high: ends of intervals, drawn as whiskers.

    lines: (words, value) of horizontal lines to compare with. Raises ValueError where rows and names do not match.
    """
    x, values = np.asarray(x, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if values.shape != (len(series), len(x)):
        raise ValueError(f"There are {len(series)} series over {len(x)} places, but values of shape {values.shape}.")
    if not np.isfinite(values).any():
        return notice("There are no values to show.", title, dark)
    fig = go.Figure()
    for index, (name, row) in enumerate(zip(series, values, strict=True)):
        whiskers = None
        if low is not None and high is not None:
            below, above = row - np.asarray(low[index], dtype=np.float64), np.asarray(high[index], dtype=np.float64) - row
            whiskers = dict(type="data", symmetric=False, array=above, arrayminus=below, thickness=1.2, width=4)
        fig.add_trace(
            go.Scatter(
                x=x, y=row, name=escaped(name), mode="lines+markers" if len(x) <= MARKED else "lines", error_y=whiskers, showlegend=len(series) > 1,
                line=dict(color=category(index, dark), width=2.2, dash=DASHES[index // 7 % len(DASHES)]), marker=dict(size=7, symbol=index % 8),
                hovertemplate=f"{escaped(name)}: %{{y:.4~g}} {escaped(unit)} at %{{x:.4~g}}<extra></extra>",
            )
        )  # fmt: skip
    for words, value in lines:
        fig.add_hline(y=value, line=dict(color=ink(dark), width=1.4, dash="dash"))
        place = np.log10(value) if log_y else value
        fig.add_annotation(x=0.995, xref="paper", xanchor="right", y=place, yanchor="bottom", text=escaped(words), showarrow=False, font_size=11)
    ticks = dict(tickvals=x, ticktext=[f"{value:g}" for value in x]) if len(x) <= 12 else {}
    fig.update_xaxes(title_text=escaped(x_title), type="log" if log_x else "linear", showgrid=False, **ticks)
    fig.update_yaxes(title_text=escaped(unit), type="log" if log_y else "linear", rangemode="tozero" if from_zero and not log_y else "normal")
    rows = -(-sum(len(name) + 8 for name in series) // 90) if len(series) > 1 else 0
    fig.update_layout(legend=dict(x=0, y=1.02, yanchor="bottom", orientation="h"), margin_t=64 + 24 * rows)
    missing = int(np.isnan(values).sum())
    return finish(fig, title, caption + (f" Not evaluated: {missing} of {values.size} values." if missing else ""), dark, height=400)
