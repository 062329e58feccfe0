"""Where CoTR's weights lie on the original picture. Every cell comes from the expert's Geometry, never from a guess."""

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float

from leo_core.geometry import Geometry
from leo_core.tracing.trace import ExpertTrace, Trace
from studio.figures.numbers import mass, token_numbers
from studio.figures.picture_ground import has_content, lay_picture, mark_unseen
from studio.figures.style import DIVERGING, SEQUENTIAL, at, finish, hatched, notice, outlines, scale

BINS = 24
"""Steps of colour where tokens are polygons of their own: one drawn path per step stays fast."""
TERMS = {"query": "query", "self": "self_", "cross": "cross", "text": "text"}
"""Names of the four score terms, and of their fields in a trace."""


@dataclass(frozen=True)
class _Colours:
    """How values become colours: the scale's ends, and what the colour bar says."""

    low: float
    high: float
    colours: tuple[str, ...]
    bar: dict

    @property
    def keywords(self) -> dict:
        return {"colorscale": scale(self.colours), "showscale": True, "colorbar": self.bar}


def kept_map(
    trace: Trace, expert: str, picture: int = 0, token: int | None = None, term: str = "total", opacity: float = 0.65, dark: bool = False
) -> go.Figure:
    """One vision expert's weights (term="total") or one of the score terms (query, self, cross, text) on the picture.

    token: an output token, 0-based; None = all of them together (mean). Weights are absolute shares of the mass, from
    zero upwards. Raises KeyError for an expert that the trace does not hold, IndexError for an output token beyond v.
    """
    what = "weights" if term == "total" else f"{term} term"
    which = "all output tokens" if token is None else f"output token {token + 1}"
    if not trace.pictures:
        return notice("The question came without a picture: there is nothing to look at.", f"{expert}: {what}", dark)
    one = trace.of_expert(expert, picture)
    title = f"{one.name} ({one.domain}): {what} of {which}, picture {picture + 1}"
    values = _values(one, token, term)
    trouble = _trouble(one, values, term)
    if trouble:
        return notice(trouble, title, dark)

    fig = go.Figure()
    height = lay_picture(fig, trace.pictures[picture], dark)
    colours = _colours(values[one.geometry.placed], term)
    steps = _paint(fig, one.geometry, values, colours, opacity)
    unseen = mark_unseen(fig, one.geometry, dark)
    caption = _caption(trace, one, values, token, term, unseen) + steps
    fig.update_layout(legend=dict(x=0, y=1.01, yanchor="bottom", orientation="h"), margin=dict(t=84))
    return finish(fig, title, caption, dark, height)


def _values(one: ExpertTrace, token: int | None, term: str) -> Float[np.ndarray, "n"] | None:
    if term == "total":
        return mass(one, token)
    scores = getattr(one, TERMS[term])
    if scores is None or scores.ndim == 1:
        return None if scores is None else np.asarray(scores, dtype=np.float64)
    scores = np.asarray(scores, dtype=np.float64)
    return scores.mean(axis=0) if token is None else scores[token]


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


def _colours(values: np.ndarray, term: str) -> _Colours:
    low, high, mean = np.nanmin(values), np.nanmax(values), np.nanmean(values)
    if term == "total":
        top = float(high) * (2 if _constant(values) else 1) or 1.0  # a flat map takes the middle of the scale
        return _Colours(0.0, top, SEQUENTIAL, dict(title_text="share of<br>the mass", tickformat=".2~%"))
    reach = float(max(high - mean, mean - low)) or 1.0
    return _Colours(float(mean - reach), float(mean + reach), DIVERGING, dict(title_text="score,<br>not weight<br>(no unit)", tickformat=".3~g"))


def _constant(values: np.ndarray) -> bool:
    values = values[np.isfinite(values)]
    return len(values) > 1 and bool(np.ptp(values) <= 1e-6 * np.abs(values).max())


def lattice(geometry: Geometry) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """(x edges, y edges, token of each cell or -1) when the placed tokens are cells of one axis-parallel lattice, else None.

    Edges are the polygons' own coordinates; class tokens, padded tails and cells beyond the picture do not disturb.
    """
    placed = np.flatnonzero(geometry.placed)
    corners = geometry.polygons[placed]
    left, top, right, bottom = corners[:, 0, 0], corners[:, 0, 1], corners[:, 2, 0], corners[:, 2, 1]
    upright = np.stack([np.stack(p, axis=-1) for p in ((left, top), (right, top), (right, bottom), (left, bottom))], axis=1)
    if not np.array_equal(upright, corners):
        return None
    x, y = np.unique([left, right]), np.unique([top, bottom])
    column, row = np.searchsorted(x, left), np.searchsorted(y, top)
    single = np.array_equal(np.searchsorted(x, right), column + 1) and np.array_equal(np.searchsorted(y, bottom), row + 1)
    if not single or len(np.unique(row * len(x) + column)) < len(placed):
        return None
    cells = np.full((len(y) - 1, len(x) - 1), -1)
    cells[row, column] = placed
    return x, y, cells


def _paint(fig: go.Figure, geometry: Geometry, values: np.ndarray, colours: _Colours, opacity: float) -> str:
    """Draw the values of all placed tokens; returns words for the caption."""
    unknown = geometry.placed & np.isnan(values)
    regular = lattice(geometry)
    if regular:
        _paint_lattice(fig, *regular, values, colours, opacity)
    else:
        _paint_polygons(fig, geometry, values, colours, opacity)
    if unknown.any():
        fig.add_trace(hatched(geometry.polygons[unknown]))
    return "" if regular else f" Tokens are polygons of their own, coloured in {BINS} steps; hover gives exact values."


def _paint_lattice(fig, x, y, cells, values, colours: _Colours, opacity: float) -> None:
    drawn = np.where(cells >= 0, values[cells], np.nan)
    rows, columns = np.indices(cells.shape)
    hover = "source token %{customdata[0]} (row %{customdata[1]}, column %{customdata[2]})<br>%{z:.4~g}<extra></extra>"
    fig.add_trace(
        go.Heatmap(
            x=x, y=y, z=drawn, zmin=colours.low, zmax=colours.high, opacity=opacity, hoverongaps=False, hovertemplate=hover,
            customdata=np.stack([cells + 1, rows + 1, columns + 1], axis=-1), **colours.keywords,
        )
    )  # fmt: skip


def _paint_polygons(fig, geometry: Geometry, values, colours: _Colours, opacity: float) -> None:
    known = np.flatnonzero(geometry.placed & np.isfinite(values))
    place = (values[known] - colours.low) / (colours.high - colours.low)
    bins = np.clip((place * BINS).astype(int), 0, BINS - 1)
    for one in np.unique(bins):  # light ones first, so that the heaviest lie on top where tokens overlap
        x, y = outlines(geometry.polygons[known[bins == one]])
        fill = at(colours.colours, (one + 0.5) / BINS, opacity)
        fig.add_trace(go.Scatter(x=x, y=y, mode="lines", line_width=0, fill="toself", fillcolor=fill, hoverinfo="skip", showlegend=False))
    centres = geometry.polygons[known].mean(axis=1)
    marker = dict(color=values[known], cmin=colours.low, cmax=colours.high, opacity=0, size=12, **colours.keywords)
    fig.add_trace(
        go.Scatter(
            x=centres[:, 0], y=centres[:, 1], mode="markers", marker=marker, showlegend=False, name="values",
            customdata=np.stack([known + 1, values[known]], axis=-1),
            hovertemplate="source token %{customdata[0]}<br>%{customdata[1]:.4~g}<extra></extra>",
        )
    )  # fmt: skip


def _caption(trace: Trace, one: ExpertTrace, values, token: int | None, term: str, unseen: str) -> str:
    numbers = token_numbers(trace, one.name, one.picture, token)
    which = f"all {numbers['output_tokens']} output tokens (mean)" if token is None else f"output token {token + 1} of {numbers['output_tokens']}"
    parts = [f"Vision expert '{one.name}' ({one.domain}), picture {one.picture + 1}, {which}, n = {numbers['source_tokens']} source tokens."]
    if term == "total":
        parts.append(
            f"Colour: share of the mass (soft weights, absolute; equal weights would be {1 / numbers['source_tokens']:.3g} each). "
            f"Effective number of source tokens {numbers['effective_tokens']:.1f} (mean of single output tokens "
            f"{numbers['effective_tokens_mean']:.1f}); {numbers['area_50']:.0%} of the picture holds 50 % and {numbers['area_90']:.0%} "
            f"holds 90 % of the mass; likeness of output tokens {numbers['likeness']:.2f} (1 = all look at the same)."
        )
        if numbers["unplaced_tokens"]:
            parts.append(f"{numbers['unplaced_mass']:.1%} of the mass lies on {numbers['unplaced_tokens']} tokens without a place (not drawn).")
    else:
        mean = np.nanmean(values[one.geometry.placed])
        shared = "averaged over output tokens" if term == "query" and token is None else "of this output token" if term == "query" else "the same for all"
        parts.append(f"Colour: the {term} term of the score ({shared}), score, not weight; white is the mean over tokens ({mean:.3g}), since the softmax ignores what all share.")
    if _constant(values[one.geometry.placed]):
        parts.append("The map is constant: every token has the same value, so it tells nothing apart.")
    missing = int(np.isnan(values[one.geometry.placed]).sum())
    if missing:
        parts.append(f"{missing} tokens were not evaluated (hatched).")
    if not has_content(trace.pictures[one.picture]):
        parts.append("The picture itself is not in the trace; its frame stands in for it.")
    return " ".join([*parts, unseen, "A cell marks where a token sits, not all that it saw."]).replace("  ", " ")
