"""The result of a map's test as a value: curves, areas and one sentence. No torch: it goes into a trace and comes back."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from leo_core.errors import InputError

SPREADS = 2.0
"""A gain counts when it exceeds the random orders' standard deviation this many times."""
NOTHING = 0.05
"""Nats: where all tokens together matter less for the answer, there is nothing a map could show."""

_CURVES = {
    "shares": 1, "deletion": 1, "insertion": 1, "random_deletion": 2, "random_insertion": 2, "equal_deletion": 1, "equal_insertion": 1,
}  # fmt: skip


def area(shares: Float[np.ndarray, "s"], curve: Float[np.ndarray, "*k s"]) -> Float[np.ndarray, "*k"]:
    """Area under curves over shares 0..1 by trapezoids: the mean value along the way, in the curve's unit."""
    steps = np.diff(shares)
    return ((curve[..., 1:] + curve[..., :-1]) / 2 * steps).sum(axis=-1)


@dataclass(frozen=True)
class MapTest:
    """Log-probability of the answer, in nats, with tokens deleted or inserted in the order of a map, and in other orders.

    map: a vision expert's name or "visual tokens". tokens: how many there are. shares: of the tokens, from 0 to 1. deletion[i]:
    the heaviest shares[i] masked; insertion[i]: only these kept. random_*: one row for each seed. equal_*: the order that a map
    of equal weights gives, evenly spread. Gains are areas between curves, positive where the map is better.
    """

    map: str
    picture: int
    tokens: int
    shares: Float[np.ndarray, "s"]
    deletion: Float[np.ndarray, "s"]
    insertion: Float[np.ndarray, "s"]
    random_deletion: Float[np.ndarray, "seeds s"]
    random_insertion: Float[np.ndarray, "seeds s"]
    equal_deletion: Float[np.ndarray, "s"]
    equal_insertion: Float[np.ndarray, "s"]

    @property
    def key(self) -> str:
        """Name under which it is kept in Trace.analyses."""
        return f"faithfulness/{self.map}" + (f"/{self.picture}" if self.picture else "")

    @property
    def full(self) -> float:
        """Value with all tokens."""
        return float(self.insertion[-1])

    @property
    def absent(self) -> float:
        """Value with none: the expert is absent, or the decoder sees no visual token of this picture."""
        return float(self.deletion[-1])

    @property
    def auc(self) -> dict[str, float]:
        """Area under each curve (mean over seeds for random ones)."""
        return {name: float(area(self.shares, getattr(self, name)).mean()) for name in _CURVES if name != "shares"}

    @property
    def deletion_gain(self) -> float:
        """How much lower the answer stays when the map's tokens go first, in nats, against the mean of the random orders."""
        return self.auc["random_deletion"] - self.auc["deletion"]

    @property
    def insertion_gain(self) -> float:
        """How much higher the answer is when the map's tokens come first, in nats, against the mean of the random orders."""
        return self.auc["insertion"] - self.auc["random_insertion"]

    @property
    def gain_over_equal(self) -> tuple[float, float]:
        """(deletion, insertion) gain against equal weights, in nats."""
        auc = self.auc
        return auc["equal_deletion"] - auc["deletion"], auc["insertion"] - auc["equal_insertion"]

    @property
    def spread(self) -> tuple[float, float]:
        """Standard deviation of the random orders' areas (deletion, insertion) over seeds, in nats."""
        return tuple(float(area(self.shares, rows).std(ddof=1)) for rows in (self.random_deletion, self.random_insertion))

    @property
    def verdict(self) -> str:
        """One sentence for a reader: what the test says about this map, with numbers."""
        seeds = len(self.random_deletion)
        curves = np.concatenate([self.deletion, self.insertion, self.random_deletion.ravel(), self.random_insertion.ravel()])
        if not np.isfinite(curves).all():
            return "The answer's log-probability is not finite for some sets of tokens, so the test says nothing."
        if np.ptp(curves) < NOTHING:
            return f"Masking these tokens changes the answer's log-probability by less than {NOTHING} nats, so there is nothing the map could show."
        gains, spreads = (self.deletion_gain, self.insertion_gain), self.spread
        better = [gain > SPREADS * spread for gain, spread in zip(gains, spreads, strict=True)]
        worse = [gain < -SPREADS * spread for gain, spread in zip(gains, spreads, strict=True)]
        numbers = f"deletion {gains[0]:+.3f} ± {spreads[0]:.3f}, insertion {gains[1]:+.3f} ± {spreads[1]:.3f} nats against {seeds} random orders"
        if all(better):
            return f"The answer depends on what the map shows: {numbers}."
        if any(better) and not any(worse):
            return f"The answer depends on what the map shows by {'deletion' if better[0] else 'insertion'} only: {numbers}."
        if any(better):
            return f"Deletion and insertion disagree about the map: {numbers}."
        if any(worse):
            return f"The map is worse than random tokens: {numbers}."
        return f"The map is no better than random tokens: {numbers}."

    def as_dict(self) -> dict:
        """Plain values for Trace.analyses; the areas and the verdict are in it for readers, and computed again on return."""
        curves = {name: getattr(self, name).tolist() for name in _CURVES}
        results = {
            "auc": self.auc, "deletion_gain": self.deletion_gain, "insertion_gain": self.insertion_gain,
            "gain_over_equal": list(self.gain_over_equal), "spread": list(self.spread), "verdict": self.verdict,
        }  # fmt: skip
        return {"map": self.map, "picture": self.picture, "tokens": self.tokens, "unit": "nats", **curves, **results}

    @classmethod
    def from_dict(cls, words: dict) -> "MapTest":
        """Back from `as_dict`. Raises InputError for anything else (traces come from strangers too)."""
        try:
            arrays = {name: np.array(words[name], dtype=np.float64) for name in _CURVES}
            sound = all(arrays[name].ndim == axes and arrays[name].shape[-1] == len(words["shares"]) > 1 for name, axes in _CURVES.items())
            sound = sound and len(arrays["random_deletion"]) == len(arrays["random_insertion"]) > 1
            if not sound or not isinstance(words["map"], str) or not all(isinstance(words[name], int) for name in ("picture", "tokens")):
                raise ValueError
        except (KeyError, TypeError, ValueError, OverflowError):
            raise InputError("This is no result of a map's test: run the test again.") from None
        return cls(words["map"], words["picture"], words["tokens"], **arrays)
