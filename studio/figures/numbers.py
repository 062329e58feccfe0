"""Numbers beside a map of weights, in plain numpy (the same formulas as leo_core.analysis.tokens, without torch)."""

import numpy as np
from jaxtyping import Float

from leo_core.tracing.trace import ExpertTrace, Trace


def _known(values: np.ndarray) -> np.ndarray:
    """Values in float64; what is no finite number counts as 0."""
    return np.nan_to_num(np.asarray(values, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)


def effective_tokens(weights: Float[np.ndarray, "*b n"]) -> Float[np.ndarray, "*b"]:
    """exp(entropy) along the last axis: 1 = one source token, n = all equally. 0 for a row without weight; NaN is left out."""
    weights = _known(weights)
    entropy = -(weights * np.log(np.where(weights > 0, weights, 1.0))).sum(axis=-1)
    return np.where(weights.sum(axis=-1) > 0, np.exp(entropy), 0.0)


def cosines(weights: Float[np.ndarray, "v n"]) -> Float[np.ndarray, "v v"]:
    """Cosine between the rows of all output tokens; NaN for a row without weight."""
    weights = _known(weights)
    length = np.linalg.norm(weights, axis=1, keepdims=True)
    rows = np.divide(weights, length, out=np.full_like(weights, np.nan), where=length > 0)
    return rows @ rows.T


def likeness(weights: Float[np.ndarray, "v n"]) -> float:
    """Mean cosine between different output tokens, 0..1: 1 = all look at the same (collapse). 1 for a single one."""
    count = len(weights)
    if count == 1:
        return 1.0
    pairs = np.nan_to_num(cosines(weights), nan=0.0)  # rows without weight are unlike everything
    return float((pairs.sum() - np.trace(pairs)) / (count * (count - 1)))


def area_holding(share: Float[np.ndarray, "n"], areas: Float[np.ndarray, "n"], picture_area: float, part: float) -> float:
    """Share of the picture, 0..1, under the fewest tokens that hold `part` of the mass. Overlaps count once each, capped at 1."""
    share = _known(share)
    order = np.argsort(-share, kind="stable")
    running = np.cumsum(share[order])
    if not len(running) or running[-1] <= 0:
        return 0.0
    needed = int((running < part * running[-1] * (1 - 1e-6)).sum()) + 1
    return min(1.0, float(areas[order[:needed]].sum()) / picture_area)


def mass(one: ExpertTrace, token: int | None = None) -> Float[np.ndarray, "n"]:
    """Share of each source token in one output token (0-based), or in all of them together; NaN for what is no finite number.

    Raises IndexError for an output token beyond v.
    """
    weights = np.where(np.isfinite(one.weights), np.asarray(one.weights, dtype=np.float64), np.nan)
    if token is not None and not 0 <= token < len(weights):
        raise IndexError(f"Output tokens run from 0 to {len(weights) - 1}; got {token}.")
    return weights.mean(axis=0) if token is None else weights[token]


def token_numbers(trace: Trace, expert: str, picture: int = 0, token: int | None = None) -> dict:
    """How concentrated, how wide and how alike the weights of one vision expert are.

    effective_tokens: of the mass (or of the one output token's weights). effective_tokens_mean: mean over output tokens.
    area_50, area_90: share of the picture that holds 50 % and 90 % of the mass. unplaced_mass: on tokens without a place.
    """
    one = trace.of_expert(expert, picture)
    share, geometry = mass(one, token), one.geometry
    whole = float(geometry.width * geometry.height)
    return {
        "source_tokens": int(one.weights.shape[1]),
        "output_tokens": int(one.weights.shape[0]),
        "total_mass": float(np.nansum(share)),
        "effective_tokens": float(effective_tokens(share)),
        "effective_tokens_mean": float(effective_tokens(one.weights).mean()),
        "likeness": likeness(one.weights),
        "area_50": area_holding(share, geometry.areas, whole, 0.5),
        "area_90": area_holding(share, geometry.areas, whole, 0.9),
        "unplaced_mass": float(np.nansum(share[~geometry.placed])),
        "unplaced_tokens": int((~geometry.placed).sum()),
        "not_evaluated": int(np.isnan(share).sum()),
        "unseen_share": geometry.unseen_share(),
    }
