"""Intervals of shares and of differences. Questions about one picture are not independent: pictures are what is resampled."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

RESAMPLES = 2000


@dataclass(frozen=True)
class Estimate:
    """A mean with its bootstrap 95 % interval; n: questions (times seeds) it rests on."""

    value: float
    low: float
    high: float
    n: int

    @property
    def sign(self) -> int:
        """1 or -1 where the interval lies on one side of zero, else 0."""
        return int(self.low > 0) - int(self.high < 0)


def bootstrap(values: Float[np.ndarray, "q"], pictures: Int[np.ndarray, "q"], resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """Mean of `values` over questions; whole pictures are drawn with replacement (percentile method).

    Paired differences are just values: pass the difference of each question. Several seeds: pass the mean over seeds.
    """
    values, (_, owner) = np.asarray(values, dtype=float), np.unique(pictures, return_inverse=True)
    sums, counts = np.bincount(owner, values), np.bincount(owner)
    drawn = np.random.default_rng(seed).integers(len(sums), size=(resamples, len(sums)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(float(values.mean()), float(low), float(high), len(values))


def difference(first: Sequence[Sequence[bool]], second: Sequence[Sequence[bool]], pictures: Int[np.ndarray, "q"], seed: int = 0) -> Estimate:
    """Share right of `first` minus that of `second`, paired by question and by seed.

    first, second: one row of answers for each seed (the same seeds). Seeds are resampled together with pictures where there
    are several, so that the interval holds for other pictures and other starts.
    """
    gain = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    _, owner = np.unique(pictures, return_inverse=True)
    counts = np.bincount(owner)
    sums = np.stack([np.bincount(owner, row) for row in gain])
    rng = np.random.default_rng(seed)
    drawn = rng.integers(len(counts), size=(RESAMPLES, len(counts)))
    seeds = rng.integers(len(sums), size=(RESAMPLES, len(sums)))
    over_seeds = np.stack([(seeds == one).mean(axis=1) for one in range(len(sums))], axis=1) @ sums  # (resamples, pictures)
    means = np.take_along_axis(over_seeds, drawn, axis=1).sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(float(gain.mean()), float(low), float(high), gain.size)
