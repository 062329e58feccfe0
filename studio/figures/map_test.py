"""The test of a map: the answer's log-probability while the map's tokens are masked or kept, beside random orders."""

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from leo_core.analysis.maptest import MapTest
from leo_core.tracing.trace import Trace
from studio.figures.bars import bars
from studio.figures.redraw import redrawable
from studio.figures.style import category, finish, ink, mixed, notice

_PREFIX = "faithfulness/"


def tested_maps(trace: Trace) -> dict[str, MapTest]:
    """Every test of a map that the trace holds, by name of the map."""
    return {key.removeprefix(_PREFIX): MapTest.from_dict(words) for key, words in trace.analyses.items() if key.startswith(_PREFIX)}


@redrawable
def map_curves(trace: Trace, tested: str, dark: bool = False) -> go.Figure:
    """Deletion and insertion of one tested map (a vision expert's name or "visual tokens"), with all random orders."""
    title = f"Does the map of '{tested}' show what the answer depends on?"
    found = tested_maps(trace)
    if tested not in found:
        return notice(f"The map of '{tested}' was not tested in this run; tested are {', '.join(found) or 'none'}.", title, dark)
    one = found[tested]
    fig = make_subplots(rows=1, cols=2, shared_yaxes=True, horizontal_spacing=0.06, subplot_titles=("heaviest masked first", "heaviest kept first"))
    for column, kind in enumerate(("deletion", "insertion"), start=1):
        drawn, even, mine = (getattr(one, name) for name in (f"random_{kind}", f"equal_{kind}", kind))
        _band(fig, one.shares, drawn, column, dark)
        _line(fig, one.shares, even, "equal weights", ink(dark), "dot", column, kind)
        _line(fig, one.shares, mine, "the map", category(0, dark), "solid", column, kind)
    fig.update_xaxes(tickformat=".0%", range=[0, 1])
    fig.update_xaxes(title_text="share of tokens masked", col=1)
    fig.update_xaxes(title_text="share of tokens kept", col=2)
    fig.update_yaxes(title_text="log-probability of the answer (nats)", col=1)
    fig.update_layout(legend=dict(x=0, y=1.09, yanchor="bottom", orientation="h"), margin_t=132)
    caption = (
        f"Map of '{tested}', n = {one.tokens} tokens; the answer's log-probability is {one.full:.3f} nats with all and {one.absent:.3f} with none. "
        f"Grey: {len(one.random_deletion)} random orders, from the lowest to the highest. {one.verdict}"
    )
    return finish(fig, title, caption, dark, height=460)


@redrawable
def map_gains(trace: Trace, dark: bool = False) -> go.Figure:
    """Of every tested map: how much better than random orders it is, by deletion and by insertion."""
    title, found = "How far each map can be trusted", tested_maps(trace)
    if not found:
        return notice("No map of this run was tested.", title, dark)
    gains = np.array([[one.deletion_gain for one in found.values()], [one.insertion_gain for one in found.values()]])
    spread = np.array([one.spread for one in found.values()]).T
    caption = (
        "Area between a map's curve and the mean of the random orders, positive where the map is better; whiskers: one standard deviation of the "
        "random orders. A gain within two of them says nothing."
    )
    return bars(title, caption, list(found), ["deletion", "insertion"], gains, "nats", gains - spread, gains + spread, group_title="map", dark=dark)


def _band(fig: go.Figure, shares: np.ndarray, drawn: np.ndarray, column: int, dark: bool) -> None:
    grey = mixed(ink(dark), "#8c8c8c", 0.3)
    for values, more in ((drawn.max(axis=0), {}), (drawn.min(axis=0), dict(fill="tonexty", fillcolor=mixed(grey, grey, 1, 0.35)))):
        end = "lowest" if more else "highest"
        look = dict(mode="lines", line_width=0, hoverinfo="skip", name="random orders", legendgroup="random", showlegend=bool(more) and column == 1)
        fig.add_trace(go.Scatter(x=shares, y=values, meta={"series": f"random orders, {end}"}, **look, **more), row=1, col=column)


def _line(fig: go.Figure, shares, values, name: str, colour: str, dash: str, column: int, kind: str) -> None:
    fig.add_trace(go.Scatter(x=shares, y=values, mode="lines+markers", name=name, legendgroup=name, showlegend=column == 1,
                             line=dict(color=colour, dash=dash), meta={"series": f"{name}, {kind}"},
                             hovertemplate=f"{name}: %{{y:.3f}} nats at %{{x:.0%}}<extra></extra>"), row=1, col=column)  # fmt: skip
