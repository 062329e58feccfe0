"""Routing per layer: how the load is spread, how sure the routers are, how much each LoRA expert adds."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from leo_core.tracing.trace import Trace
from studio.figures.positions import NOTHING_FITS, layer_labels, select, ticks, trouble, words
from studio.figures.redraw import redrawable
from studio.figures.style import category, finish, hatched, ink, mixed, name_axis, notice


@redrawable
def load_per_layer(trace: Trace, roles: Sequence[str] | None = None, phase: str = "all", dark: bool = False) -> go.Figure:
    """Share of positions that used each routed expert, stacked per layer; lines part the stack where balance would."""
    title = "Load of the LoRA experts per layer"
    positions = select(trace, roles, phase)
    reason = trouble(trace, len(positions))
    if reason:
        return notice(reason, title, dark)
    coefficient = trace.routing.coefficient[:, positions]
    share = np.where(np.isnan(coefficient), np.nan, coefficient > 0)
    share, count = _mean(share), share.shape[-1]
    target = trace.routing.top_k / count
    fig = go.Figure()
    for expert in range(count):
        fig.add_trace(_bars(share[:, expert], f"expert {expert + 1}", category(expert, dark)))
        if expert < count - 1:
            fig.add_hline(y=target * (expert + 1), line=dict(color=ink(dark), width=1.4, dash="dash"))
    fig.add_trace(_legend_line(f"balance ({target:.2f} each)", ink(dark)))
    fig.update_layout(barmode="stack", bargap=0.15)
    fig.update_yaxes(title_text="share of positions that used the expert", range=[0, max(float(np.nansum(share, axis=1).max()), target * count) * 1.001])
    caption = (
        f"Share of positions that used each routed expert (hard: coefficient above 0), {words(trace, roles, phase, len(positions))}; "
        f"top {trace.routing.top_k} of {count}. Dashed: a balanced router would give every expert {target:.2f}."
    )
    return _per_layer(fig, trace, title, caption, dark, np.isnan(share).all(axis=1))


@redrawable
def routing_entropy(trace: Trace, roles: Sequence[str] | None = None, phase: str = "all", dark: bool = False) -> go.Figure:
    """Entropy of the routers' probability in bits: mean over positions and their 10-90 % range, per layer."""
    title = "How undecided the routers are, per layer"
    positions = select(trace, roles, phase)
    reason = trouble(trace, len(positions))
    if reason:
        return notice(reason, title, dark)
    probability = np.asarray(trace.routing.probability[:, positions], dtype=np.float64)
    entropy = -(probability * np.log2(np.where(probability > 0, probability, 1.0))).sum(axis=-1)  # NaN stays NaN
    most, place = np.log2(probability.shape[-1]), np.arange(len(entropy))
    missing = np.isnan(entropy).all(axis=1)
    filled = np.where(missing[:, None], 0.0, entropy)
    low, high = (np.where(missing, np.nan, one) for one in np.nanpercentile(filled, [10, 90], axis=1))
    mean, colour = _mean(entropy), category(0, dark)
    fig = go.Figure()
    fig.add_trace(
        go.Scatter(x=place, y=high, mode="lines", line_width=0, hoverinfo="skip", showlegend=False, meta={"series": "90th percentile of positions"})
    )
    fig.add_trace(
        go.Scatter(x=place, y=low, mode="lines", line_width=0, fill="tonexty", fillcolor=mixed(colour, colour, 1, 0.25), hoverinfo="skip",
                   name="10 to 90 % of positions", showlegend=True, meta={"series": "10th percentile of positions"})
    )  # fmt: skip
    fig.add_trace(
        go.Scatter(x=place, y=mean, mode="lines+markers", line_color=colour, name="mean", showlegend=True, customdata=np.stack([low, high], axis=-1),
                   hovertemplate="mean %{y:.3f} bits<br>10 to 90 %: %{customdata[0]:.3f} to %{customdata[1]:.3f}<extra></extra>")
    )  # fmt: skip
    fig.add_hline(y=most, line=dict(color=ink(dark), width=1.4, dash="dash"))
    fig.add_trace(_legend_line(f"maximum, log2({probability.shape[-1]}) = {most:.2f}", ink(dark)))
    fig.update_yaxes(title_text="entropy (bits)", range=[0, max(most, 0.1) * 1.06])
    caption = (
        f"Entropy of the router's probability (soft), {words(trace, roles, phase, len(positions))}. Line: mean over positions; band: 10th to 90th "
        f"percentile; dashed: {most:.2f} bits, all {probability.shape[-1]} experts equally likely. 0 means that the router has no doubt."
    )
    return _per_layer(fig, trace, title, caption, dark, missing)


@redrawable
def expert_norms(trace: Trace, roles: Sequence[str] | None = None, phase: str = "all", dark: bool = False) -> go.Figure:
    """Mean size of what each LoRA expert added, relative to the frozen layer's own output, per layer."""
    title = "How much each LoRA expert adds, per layer"
    positions = select(trace, roles, phase)
    groups = trace.routing.norm.shape[-1]
    if groups == 0:
        return notice("This model has no LoRA experts: nothing is added to the frozen layers.", title, dark)
    if len(positions) == 0:
        return notice(NOTHING_FITS, title, dark)
    norm = np.asarray(trace.routing.norm[:, positions], dtype=np.float64)
    if not trace.routing.evaluated:
        norm = norm[..., : int(trace.routing.general)]
        if norm.shape[-1] == 0:
            return notice(trouble(trace, len(positions)), title, dark)
    mean, used = _mean(norm), _mean(np.where(norm > 0, norm, np.nan))
    place = np.arange(len(norm))
    fig = go.Figure()
    for group in range(norm.shape[-1]):
        expert = group - int(trace.routing.general)
        name, colour = ("general (always on)", ink(dark)) if expert < 0 else (f"expert {expert + 1}", category(expert, dark))
        fig.add_trace(
            go.Scatter(x=place, y=mean[:, group], mode="lines+markers", name=name, showlegend=True, marker_symbol=group, customdata=used[:, group],
                       meta={"columns": ["mean where it was used"]},
                       line=dict(color=colour, dash="dot" if expert < 0 else "solid"),
                       hovertemplate="mean %{y:.4~g}<br>mean where it was used: %{customdata:.4~g}")
        )  # fmt: skip
    fig.update_yaxes(title_text="relative norm |c B A x| / |f_ORI(x)|", rangemode="tozero")
    caption = (
        f"Mean norm of each LoRA expert's contribution relative to the frozen layer's output (no unit), {words(trace, roles, phase, len(positions))}. "
        "A position that did not use an expert counts as 0; hover gives the mean where it was used."
    )
    caption += "" if trace.routing.evaluated else " Routed experts were not evaluated: the question came without a picture."
    return _per_layer(fig, trace, title, caption, dark, np.isnan(mean).all(axis=1))


def _mean(values: np.ndarray) -> np.ndarray:
    """Mean over positions (axis 1) without NaN; NaN where nothing is left."""
    known = np.isfinite(values)
    total = np.where(known, values, 0.0).sum(axis=1)
    return np.divide(total, known.sum(axis=1), out=np.full(total.shape, np.nan), where=known.any(axis=1))


def _top(fig: go.Figure) -> float:
    """A little above the highest point of all lines."""
    points = np.concatenate([np.asarray(line.y, dtype=np.float64) for line in fig.data])
    return float(points[np.isfinite(points)].max(initial=0.0)) * 1.05 or 1.0


def _bars(share: np.ndarray, name: str, colour: str) -> go.Bar:
    return go.Bar(x=np.arange(len(share)), y=share, name=name, marker=dict(color=colour, line_width=0), showlegend=True,
                  hovertemplate="%{y:.1%} of positions")  # fmt: skip


def _legend_line(name: str, colour: str) -> go.Scatter:
    return go.Scatter(x=[None], y=[None], mode="lines", line=dict(color=colour, width=1.4, dash="dash"), name=name, showlegend=True)


def _per_layer(fig: go.Figure, trace: Trace, title: str, caption: str, dark: bool, missing: np.ndarray) -> go.Figure:
    """Axes by layer; layers without a single value are hatched over the whole height."""
    labels = layer_labels(trace)
    name_axis(fig, "x", {"layer": labels})
    fig.update_xaxes(title_text="layer", range=[-0.6, len(labels) - 0.4], zeroline=False, showgrid=False, **ticks(labels, most=10))
    if missing.any():
        low, high = fig.layout.yaxis.range or (0.0, _top(fig))
        fig.update_yaxes(range=[low, high])
        fig.add_trace(hatched(np.array([[(i - 0.5, low), (i + 0.5, low), (i + 0.5, high), (i - 0.5, high)] for i in np.flatnonzero(missing)])))
        caption += f" Not evaluated (hatched): {int(missing.sum())} of {len(labels)} layers."
    fig = finish(fig, title, caption, dark)
    return fig.update_layout(margin_t=150, height=480, legend=dict(
        orientation="h", traceorder="normal", x=0, xanchor="left", y=1.02, yanchor="bottom",
    ))  # fmt: skip
