"""One measurement against another, point by point: do two ways of looking agree?"""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from studio.figures.redraw import redrawable
from studio.figures.style import category, finish, ink, notice
from studio.figures.token_text import escaped


@redrawable
def against(
    x: Sequence[float], y: Sequence[float], groups: Sequence[str], labels: Sequence[str], x_title: str, y_title: str, title: str, caption: str,
    diagonal: bool = True, dark: bool = False,
) -> go.Figure:  # fmt: skip
    """Points coloured by group; labels are what hover says. diagonal: draw the line on which both are equal (same unit only).

    Points without a finite x or y are left out and counted. Raises ValueError when the lengths differ.
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if not len(x) == len(y) == len(groups) == len(labels):
        raise ValueError(f"Every point needs x, y, a group and a label; got {len(x)}, {len(y)}, {len(groups)} and {len(labels)}.")
    known = np.isfinite(x) & np.isfinite(y)
    if not known.any():
        return notice("Not evaluated: there is no pair of values to compare.", title, dark)
    fig = go.Figure()
    if diagonal:
        ends = [float(min(x[known].min(), y[known].min())), float(max(x[known].max(), y[known].max()))]
        fig.add_trace(go.Scatter(x=ends, y=ends, mode="lines", line=dict(color=ink(dark), width=1.2, dash="dash"), name="equal", hoverinfo="skip",
                                 showlegend=True, meta={"scaffold": True}))  # fmt: skip
    for index, group in enumerate(dict.fromkeys(groups)):
        mine = [place for place, one in enumerate(groups) if one == group and known[place]]
        fig.add_trace(
            go.Scatter(
                x=x[mine], y=y[mine], mode="markers", name=escaped(group), showlegend=True, customdata=[escaped(labels[place]) for place in mine],
                marker=dict(color=category(index, dark), symbol=index, size=11, line=dict(color=ink(dark), width=0.6)),
                meta={"columns": ["label"]}, hovertemplate="%{customdata}<br>%{x:+.3f}, %{y:+.3f}",
            )
        )  # fmt: skip
    fig.update_xaxes(title_text=escaped(x_title))
    fig.update_yaxes(title_text=escaped(y_title))
    fig.update_layout(legend=dict(x=0, y=1.02, yanchor="bottom", orientation="h"), margin_t=100)
    missing = int((~known).sum())
    said = f" Not evaluated: {missing} points." if missing else ""
    return finish(fig, title, f"{caption} n = {int(known.sum())} points.{said}", dark, height=460)
