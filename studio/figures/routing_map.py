"""Which LoRA expert every token was routed to, in every layer."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from leo_core.tracing.trace import ROLES, Trace
from studio.figures.positions import layer_labels, names, select, ticks, trouble, words
from studio.figures.redraw import redrawable
from studio.figures.style import bar_across, category, finish, ground, hatched, ink, mixed, name_axis, notice, place_bar, scale
from studio.figures.token_text import escaped

QUANTITIES = {
    "probability": ("router probability", "the router's first choice; strength: its probability (soft)"),
    "coefficient": ("coefficient used", "the expert with the largest coefficient; strength: what really multiplied its output (hard choice)"),
    "norm": ("relative norm", "the routed expert that added most; strength: |c B A x| / |f_ORI(x)|, the general expert left out"),
}

_OVER = 140  # pixels above the map for title, colour bar and names of roles; the legend comes on top

FAINT = 0.3
"""Part of an expert's colour at the weak end of its scale; the rest is the paper's."""


@redrawable
def routing_map(
    trace: Trace, experts: Sequence[int] | None = None, roles: Sequence[str] | None = None, phase: str = "all",
    quantity: str = "probability", dark: bool = False,
) -> go.Figure:  # fmt: skip
    """Layers x tokens: colour = the expert that leads by `quantity`, strength = how much.

    experts: routed experts to colour (0-based; None = all); cells led by others stay empty. roles: None = all but padding.
    phase: all, prefill or decode. quantity: probability, coefficient or norm. Unread positions are hatched.
    """
    if quantity not in QUANTITIES:
        raise ValueError(f"quantity is one of {', '.join(QUANTITIES)}; got '{quantity}'.")
    bar, meaning = QUANTITIES[quantity]
    title = f"Routing of tokens through the layers: {bar}"
    positions = select(trace, roles, phase, unread=True)
    reason = trouble(trace, len(positions))
    if reason:
        return notice(reason, title, dark)
    values = _values(trace, quantity)[:, positions]
    known = np.isfinite(values).all(axis=-1)
    leader = np.where(known, np.nan_to_num(values, nan=-1.0).argmax(axis=-1), -1)
    strength = values.max(axis=-1)
    leader[known & (strength == 0)] = -1  # no routed expert took part
    wanted = range(values.shape[-1]) if experts is None else experts
    low, high = _ends(strength[known], quantity, values.shape[-1])

    fig = go.Figure()
    for expert in range(values.shape[-1]):
        if expert in wanted:
            _add_expert(fig, expert, np.where(leader == expert, strength, np.nan), bar, low, high, dark)
    _add_strength_bar(fig, bar, low, high, dark)
    _add_unknown(fig, known)
    _add_hover(fig, trace, positions)
    _add_roles(fig, trace, positions, dark)
    _add_axes(fig, trace, positions)
    read = int(trace.read[positions].sum())
    shown = "" if experts is None else f" Only experts {', '.join(str(one + 1) for one in experts)} are coloured."
    unread = f" {len(positions) - read} position was generated last and never read: not evaluated (hatched)." if read < len(positions) else ""
    caption = (
        f"Colour: {meaning}. {words(trace, roles, phase, read)}; {values.shape[-1]} routed experts, top {trace.routing.top_k}."
        f"{shown}{unread} An answer token was predicted by the position before it: the column under its name is the position that reads it."
    )
    height = _place_legend(fig, values.shape[-1], int(np.clip(12 * len(values), 180, 620)))
    return finish(fig, title, caption, dark, height)


def _place_legend(fig: go.Figure, experts: int, height: int) -> int:
    """Title, colour bar, legend and role names above each other, over a map that keeps the whole width. Returns the figure's height."""
    over = _OVER + 20 * -(-experts // 3)
    fig.update_layout(
        margin=dict(t=over),
        legend=dict(itemsizing="constant", itemclick=False, itemdoubleclick=False, x=0, y=1 + 22 / height, yanchor="bottom", orientation="h"),
    )
    place_bar(fig, over, height)
    return height + over + 110


def _values(trace: Trace, quantity: str) -> Float[np.ndarray, "l s e"]:
    """One quantity of the routed experts at every position; NaN where the decoder never read."""
    read = np.asarray(getattr(trace.routing, quantity), dtype=np.float64)
    if quantity == "norm" and trace.routing.general:
        read = read[..., 1:]
    values = np.full((len(read), len(trace.roles), read.shape[-1]), np.nan)
    values[:, : read.shape[1]] = read
    return values


def _ends(strength: np.ndarray, quantity: str, experts: int) -> tuple[float, float]:
    if quantity == "probability":
        return (1 / experts if experts > 1 else 0.0), 1.0
    return 0.0, float(strength.max(initial=0.0)) or 1.0


def _add_expert(fig: go.Figure, expert: int, z: np.ndarray, value: str, low: float, high: float, dark: bool) -> None:
    colour = category(expert, dark)
    faint = mixed(colour, ground(dark), FAINT)
    fig.add_trace(go.Heatmap(z=z, zmin=low, zmax=high, colorscale=scale([faint, colour]), showscale=False, hoverinfo="skip",
                             xgap=int(z.shape[1] <= 60), name=f"expert {expert + 1}", meta={"value": value}))  # fmt: skip
    square = dict(symbol="square", size=12, color=colour)
    fig.add_trace(go.Scatter(x=[None], y=[None], mode="markers", marker=square, name=f"expert {expert + 1}", showlegend=True))


def _add_strength_bar(fig: go.Figure, title: str, low: float, high: float, dark: bool) -> None:
    grey = "#7d8592"
    bar = {**bar_across(f"{title} (no unit)", tickformat=".2~g"), "len": 0.6, "x": 0.0, "xanchor": "left"}
    marker = dict(color=[low], cmin=low, cmax=high, colorscale=scale([mixed(grey, ground(dark), FAINT), grey]), showscale=True, colorbar=bar)
    fig.add_trace(go.Scatter(x=[None], y=[None], mode="markers", marker=marker, showlegend=False, hoverinfo="skip", name="strength"))


def _add_unknown(fig: go.Figure, known: np.ndarray) -> None:
    """Whole columns as one region, single cells on their own."""
    columns = np.flatnonzero(~known.any(axis=0))
    cells = [(layer, place) for layer, place in np.argwhere(~known) if place not in columns]
    boxes = [(place - 0.5, -0.5, place + 0.5, len(known) - 0.5) for place in columns]
    boxes += [(place - 0.5, layer - 0.5, place + 0.5, layer + 0.5) for layer, place in cells]
    if boxes:
        fig.add_trace(hatched(np.array([[(x0, y0), (x1, y0), (x1, y1), (x0, y1)] for x0, y0, x1, y1 in boxes], dtype=np.float64)))


def _add_hover(fig: go.Figure, trace: Trace, positions: np.ndarray) -> None:
    """One invisible layer that answers for all: numbers travel as binary arrays, texts once per position and layer."""
    called, layers = names(trace), layer_labels(trace)
    numbers = np.concatenate([_values(trace, one)[:, positions] for one in ("probability", "coefficient")], axis=-1).astype(np.float32)
    count = numbers.shape[-1] // 2
    lines = [
        f"expert {i + 1}: probability %{{customdata[{i}]:.3f}}, coefficient used %{{customdata[{count + i}]:.3f}}" for i in range(count)
    ]
    column = [f"<b>{escaped(called[p])}</b> · {ROLES[trace.roles[p]]} · position {p + 1}" for p in positions]
    column = [text if trace.read[p] else f"{text}<br>not evaluated: never read" for text, p in zip(column, positions, strict=True)]
    template = "%{text}<br>layer %{y}<br>" + "<br>".join(lines) + "<extra></extra>"
    fig.add_trace(
        go.Heatmap(
            z=np.zeros((len(layers), len(positions)), dtype=np.float32), opacity=0, showscale=False, customdata=numbers,
            text=[column] * len(layers), hovertemplate=template, name="hover", meta={"scaffold": True},
        )
    )  # fmt: skip


def _add_roles(fig: go.Figure, trace: Trace, positions: np.ndarray, dark: bool) -> None:
    """A line between roles, and their names above where there is room."""
    keys = [(ROLES[trace.roles[p]], int(trace.picture_index[p]) if ROLES[trace.roles[p]] == "picture" else -1) for p in positions]
    starts = [0, *(i for i in range(1, len(keys)) if keys[i] != keys[i - 1]), len(keys)]
    for start, end in zip(starts[:-1], starts[1:], strict=True):
        if start:
            fig.add_shape(type="line", x0=start - 0.5, x1=start - 0.5, y0=0, y1=1.03, yref="paper", line=dict(color=ink(dark), width=1))
        role, picture = keys[start]
        text = role if picture < 0 else f"picture {picture + 1}"
        if (end - start) / len(keys) > 0.02 * len(text):
            fig.add_annotation(x=(start + end - 1) / 2, y=1.0, yref="paper", yanchor="bottom", text=text, showarrow=False, font_size=11)


def _add_axes(fig: go.Figure, trace: Trace, positions: np.ndarray) -> None:
    called, layers = names(trace), layer_labels(trace)
    name_axis(fig, "x", {"position": (positions + 1).tolist(), "token": [called[p] for p in positions]})
    name_axis(fig, "y", {"layer": layers})
    fig.update_xaxes(
        title_text="token (one column per position)", range=[-0.5, len(positions) - 0.5], showgrid=False, zeroline=False, tickangle=-90,
        tickfont_size=9, **ticks([called[p] for p in positions], most=48),
    )  # fmt: skip
    fig.update_yaxes(title_text="layer", range=[-0.5, len(layers) - 0.5], showgrid=False, zeroline=False, **ticks(layers, most=16))
