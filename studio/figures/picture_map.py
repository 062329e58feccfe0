"""Where CoTR's weights lie on the original picture. Every cell comes from the expert's Geometry, never from a guess."""

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from leo_core.tracing.trace import ExpertTrace, Trace
from studio.figures.numbers import mass, token_numbers
from studio.figures.picture_ground import has_content, lay_picture, mark_unseen
from studio.figures.picture_paint import Colours, paint
from studio.figures.redraw import redrawable
from studio.figures.style import DIVERGING, OVER, SEQUENTIAL, bar_across, finish, notice, of_several, place_bar

_BELOW = 64  # pixels for ticks and title of the lower axis
TERMS = {"query": "query", "self": "self_", "cross": "cross", "text": "text"}
"""Names of the four score terms, and of their fields in a trace."""


@redrawable
def kept_map(
    trace: Trace, expert: str, picture: int = 0, token: int | None = None, term: str = "total", opacity: float = 0.65, dark: bool = False
) -> go.Figure:
    """One vision expert's weights (term="total") or one of the score terms (query, self, cross, text) on the picture.

    token: an output token, 0-based; None = all of them together (mean). Weights are absolute shares of the mass, from
    zero upwards. Raises KeyError for an expert that the trace does not hold, IndexError for an output token beyond v.
    """
    if term != "total" and term not in TERMS:
        raise ValueError(f"term is total or one of {', '.join(TERMS)}; got '{term}'.")
    what = "weights" if term == "total" else f"{term} term"
    which = "all output tokens" if token is None else f"output token {token + 1}"
    if not trace.pictures:
        return notice("The question came without a picture: there is nothing to look at.", f"{expert}: {what}", dark)
    one = trace.of_expert(expert, picture)
    title = f"{one.name} ({one.domain}): {what} of {which}{of_several(trace, picture)}"
    values = _values(one, token, term)
    trouble = _trouble(one, values, term)
    if trouble:
        return notice(trouble, title, dark)

    fig = go.Figure()
    plot = lay_picture(fig, trace.pictures[picture], dark)
    colours = _colours(values[one.geometry.placed], term)
    steps = paint(fig, one.geometry, values, colours, opacity)
    unseen = mark_unseen(fig, one.geometry, dark)
    caption = _caption(trace, one, values, token, term, unseen) + steps
    top = OVER + (26 if any(trace.showlegend for trace in fig.data) else 0)
    fig.update_layout(legend=dict(x=0, y=1.01, yanchor="bottom", orientation="h"), margin=dict(t=top, b=_BELOW))
    place_bar(fig, top, plot)
    return finish(fig, title, caption, dark, plot + top + _BELOW)


def _values(one: ExpertTrace, token: int | None, term: str) -> Float[np.ndarray, "n"] | None:
    """What to draw; NaN for all that is no finite number, None where the term was not recorded."""
    if term == "total":
        values = mass(one, token)
    else:
        scores = getattr(one, TERMS[term])
        if scores is None:
            return None
        scores = np.asarray(scores, dtype=np.float64)
        values = scores if scores.ndim == 1 else scores.mean(axis=0) if token is None else scores[token]
    return np.where(np.isfinite(values), values, np.nan)


def _trouble(one: ExpertTrace, values: np.ndarray | None, term: str) -> str | None:
    """Why there is nothing to draw, in words; None when there is."""
    if values is None:
        return f"Not available: this reducer weighs tokens without scores, so there is no {term} term."
    if not np.isnan(one.weights).all() and np.nansum(one.weights) == 0:
        return f"The vision expert '{one.name}' was absent in this run: it has no weights to show."
    if not one.geometry.placed.any():
        return f"No token of '{one.name}' has a place on the picture."
    if np.isnan(values[one.geometry.placed]).all():
        return f"Not evaluated: the trace holds no values for '{one.name}' here."
    if term == "total" and np.nansum(values) == 0:
        return "This output token has no weight on any source token."
    return None


def _colours(values: np.ndarray, term: str) -> Colours:
    low, high, mean = np.nanmin(values), np.nanmax(values), np.nanmean(values)
    if term == "total":
        top = float(high) * (2 if _constant(values) else 1) or 1.0  # a flat map takes the middle of the scale
        return Colours(0.0, top, SEQUENTIAL, bar_across("share of the mass", tickformat=".2~%"), "of the mass")
    reach = max(1.0, abs(float(mean))) if _constant(values) else float(max(high - mean, mean - low)) or 1.0  # no colours from rounding
    bar = bar_across("score, not weight (no unit)", tickformat=".3~g")
    return Colours(float(mean - reach), float(mean + reach), DIVERGING, bar, "(score, not weight)")


def _constant(values: np.ndarray) -> bool:
    values = values[np.isfinite(values)]
    return len(values) > 1 and bool(np.ptp(values) <= 1e-6 * np.abs(values).max())


def _caption(trace: Trace, one: ExpertTrace, values, token: int | None, term: str, unseen: str) -> str:
    numbers = token_numbers(trace, one.name, one.picture, token)
    which = f"all {numbers['output_tokens']} output tokens (mean)" if token is None else f"output token {token + 1} of {numbers['output_tokens']}"
    parts = [f"Vision expert '{one.name}' ({one.domain}), picture {one.picture + 1}, {which}, n = {numbers['source_tokens']} source tokens."]
    if term == "total":
        parts.append(
            f"Colour: share of the mass (soft weights, absolute; equal weights would be {1 / numbers['source_tokens']:.3g} each). "
            f"Effective number of source tokens {numbers['effective_tokens']:.1f} (mean of single output tokens "
            f"{numbers['effective_tokens_mean']:.1f}); {numbers['area_50']:.0%} of the picture holds 50% and {numbers['area_90']:.0%} "
            f"holds 90% of the mass; likeness of output tokens {numbers['likeness']:.2f} (1 = all look at the same)."
        )
        if numbers["unplaced_tokens"]:
            parts.append(f"On tokens without a place ({numbers['unplaced_tokens']}, not drawn): {numbers['unplaced_mass']:.1%} of the mass.")
    else:
        mean = np.nanmean(values[one.geometry.placed])
        own = "averaged over output tokens" if token is None else "of this output token"
        shared = own if term == "query" else "the same for all output tokens"
        parts.append(
            f"Colour: the {term} term of the score ({shared}), score, not weight; white is the mean over tokens ({mean:.3g}), since the softmax "
            "ignores what all share."
        )
    if _constant(values[one.geometry.placed]):
        parts.append("The map is constant: every token has the same value, so it tells nothing apart.")
    missing = int(np.isnan(values[one.geometry.placed]).sum())
    if missing:
        parts.append(f"Not evaluated (hatched): {missing} of {numbers['source_tokens']} tokens.")
    if not has_content(trace.pictures[one.picture]):
        parts.append("The picture itself is not in the trace; its frame stands in for it.")
    return " ".join([*parts, unseen, "A cell marks where a token sits, not all that it saw."]).replace("  ", " ")
