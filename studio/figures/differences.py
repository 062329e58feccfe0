"""Differences to a reference with their intervals, one line each: what an interval that crosses zero does not show."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studio.figures.redraw import redrawable
from studio.figures.style import UNKNOWN, category, finish, ink, name_axis, notice
from studio.figures.token_text import clipped, escaped

ROW = 30
"""Height of a line in pixels."""
KINDS = {"better": 0, "worse": 4, "cannot tell": None}
"""What an interval says, and the colour that it gets."""


def verdict(low: float, high: float) -> str:
    """better: the whole interval is above zero; worse: below; cannot tell: it holds zero."""
    return "better" if low > 0 else "worse" if high < 0 else "cannot tell"


@redrawable
def differences(
    title: str, caption: str, names: Sequence[str], values: Sequence[float], low: Sequence[float], high: Sequence[float], unit: str,
    reference: str, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """values, low, high: difference of each configuration to the reference and the ends of its interval; NaN is not evaluated."""
    values, low, high = (np.asarray(one, dtype=np.float64) for one in (values, low, high))
    if not len(names) or not np.isfinite(values).any():
        return notice("There are no differences to show yet: no finished runs.", title, dark)
    fig, place = go.Figure(), np.arange(len(names))[::-1]
    kinds = np.array([verdict(*ends) for ends in zip(low, high, strict=True)])
    for kind, colour in KINDS.items():
        rows = np.flatnonzero((kinds == kind) & np.isfinite(values))
        paint = UNKNOWN if colour is None else category(colour, dark)
        whiskers = dict(array=(high - values)[rows], arrayminus=(values - low)[rows], thickness=2, width=5, color=paint)
        fig.add_trace(
            go.Scatter(
                x=values[rows], y=place[rows], mode="markers", name=kind, showlegend=True, error_x=dict(type="data", symmetric=False, **whiskers),
                marker=dict(color=paint, size=10, symbol="square" if colour is None else "circle"),
                customdata=[[escaped(names[row]), low[row], high[row]] for row in rows], meta={"columns": ["configuration", "low", "high"]},
                hovertemplate="%{customdata[0]}: %{x:+.3f} [%{customdata[1]:+.3f}, %{customdata[2]:+.3f}] " + escaped(unit) + "<extra></extra>",
            )
        )  # fmt: skip
    fig.add_vline(x=0, line=dict(color=ink(dark), width=1.4))
    name_axis(fig, "y", {"configuration": list(names)[::-1]})
    fig.update_yaxes(
        title_text="", range=[-0.6, len(names) - 0.4], tickvals=place, ticktext=[escaped(clipped(name, 44)) for name in names], showgrid=False,
    )  # fmt: skip
    fig.update_xaxes(title_text=escaped(f"{unit}, compared with: {reference}"), zeroline=False)
    fig.update_layout(legend=dict(x=0, y=1.0, yanchor="bottom", orientation="h"), margin_t=92)
    return finish(fig, title, caption, dark, height=ROW * len(names) + 92 + 80)
