"""Which of CoTR's four similarities decides, and how alike the output tokens are."""

import numpy as np
import plotly.graph_objects as go

from leo_core.tracing.trace import Trace
from studio.figures.numbers import cosines, likeness
from studio.figures.picture_map import TERMS
from studio.figures.redraw import redrawable
from studio.figures.style import OVER, SEQUENTIAL, bar_across, category, finish, hatched, ink, notice, of_several, place_bar, scale

_MEANING = {"query": "query", "self": "self:<br>own tokens", "cross": "cross: other<br>experts", "text": "text:<br>question"}


@redrawable
def term_shares(trace: Trace, expert: str, picture: int = 0, dark: bool = False) -> go.Figure:
    """Standard deviation over source tokens of each score term: what does not vary over tokens decides nothing.

    query has one row per output token: the bar is the mean of their deviations, the whisker their range.
    """
    title = f"{expert}: which term decides{of_several(trace, picture)}"
    if not trace.pictures:
        return notice("The question came without a picture: there are no terms.", title, dark)
    one = trace.of_expert(expert, picture)
    rows = {name: getattr(one, field) for name, field in TERMS.items() if getattr(one, field) is not None}
    if not rows:
        return notice("Not available: this reducer weighs tokens without scores, so there are no terms to compare.", title, dark)
    if np.nansum(one.weights) == 0:
        return notice(f"The vision expert '{one.name}' was absent in this run: its terms decided nothing.", title, dark)
    spread = {name: np.nanstd(np.atleast_2d(np.asarray(row, dtype=np.float64)), axis=1) for name, row in rows.items()}
    means = np.array([each.mean() for each in spread.values()])
    fig = go.Figure(
        go.Bar(
            x=[f"{_MEANING[name]}<br>{_number(mean)}" for name, mean in zip(spread, means, strict=True)], y=means, showlegend=False,
            marker_color=[category(list(TERMS).index(name), dark) for name in spread],
            error_y=dict(type="data", symmetric=False, array=[s.max() - s.mean() if len(s) > 1 else np.nan for s in spread.values()],
                         arrayminus=[s.mean() - s.min() if len(s) > 1 else np.nan for s in spread.values()], thickness=1.4, color=ink(dark)),
            hovertemplate="%{x}<br>standard deviation %{y:.4~g}<extra></extra>",
        )
    )  # fmt: skip
    fig.update_xaxes(title_text="score term", tickangle=0, tickfont_size=11)
    fig.update_yaxes(title_text="deviation of the score (no unit)", rangemode="tozero")
    v, n = one.weights.shape
    missing = [name for name in TERMS if name not in rows]
    caption = (
        f"Vision expert '{one.name}' ({one.domain}), picture {picture + 1}: standard deviation of each score term over n = {n} source tokens. "
        f"query: mean over {v} output tokens, the whisker from the smallest to the largest; the others are one row shared by all output tokens. "
        "The larger a bar, the more this term decides where the weights go."
    )
    return finish(fig, title, caption + (f" Not recorded: {', '.join(missing)}." if missing else ""), dark)


def _number(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "not evaluated"


@redrawable
def likeness_matrix(trace: Trace, expert: str, picture: int = 0, dark: bool = False) -> go.Figure:
    """Cosine between the weights of every two output tokens, v x v."""
    title = f"{expert}: how alike output tokens are{of_several(trace, picture)}"
    if not trace.pictures:
        return notice("The question came without a picture: there are no output tokens.", title, dark)
    one = trace.of_expert(expert, picture)
    if np.nansum(one.weights) == 0:
        return notice(f"The vision expert '{one.name}' was absent in this run: it has no weights to compare.", title, dark)
    pairs = cosines(one.weights)
    v, n = one.weights.shape
    place = np.arange(1, v + 1)
    fig = go.Figure(
        go.Heatmap(
            x=place, y=place, z=pairs, zmin=0, zmax=1, colorscale=scale(SEQUENTIAL), colorbar=bar_across("cosine (0 to 1)"),
            hoverongaps=False, hovertemplate="output tokens %{x} and %{y}<br>cosine %{z:.3f}<extra></extra>",
        )
    )  # fmt: skip
    empty = np.argwhere(np.isnan(pairs)) + 1.0
    if len(empty):
        square = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
        fig.add_trace(hatched(empty[:, None, ::-1] + square))
        fig.update_layout(legend=dict(x=0, y=1.01, yanchor="bottom", orientation="h"))
    top = OVER + (26 if len(empty) else 0)
    fig.update_layout(margin_t=top)
    place_bar(fig, top, 420)
    step = max(1, -(-v // 10))
    fig.update_xaxes(title_text="output token", range=[0.5, v + 0.5], constrain="domain", showgrid=False, tickvals=place[::step])
    fig.update_yaxes(title_text="output token", range=[v + 0.5, 0.5], showgrid=False, tickvals=place[::step])
    fig.update_yaxes(scaleanchor="x", constrain="domain", constraintoward="top")
    caption = (
        f"Vision expert '{one.name}' ({one.domain}), picture {picture + 1}: cosine between the weights (soft) of every two of {v} output tokens over "
        f"n = {n} source tokens; mean of different pairs {likeness(one.weights):.2f}. 1 everywhere means that all output tokens look at the same."
    )
    return finish(fig, title, caption, dark, height=420 + top + 64)
