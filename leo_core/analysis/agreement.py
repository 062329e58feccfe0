"""Do two ways of sharing out an answer agree? By order, by sign, and about who comes first."""

import numpy as np
from jaxtyping import Float
from scipy.stats import spearmanr


def rank_agreement(one: Float[np.ndarray, "*r m"], other: Float[np.ndarray, "*r m"]) -> float:
    """Spearman's rank correlation over all values, -1..1; NaN where one of them is constant."""
    one, other = np.ravel(one), np.ravel(other)
    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return float("nan")
    return float(spearmanr(one, other).statistic)


def same_sign(one: Float[np.ndarray, "*r m"], other: Float[np.ndarray, "*r m"], least: float = 0.0) -> tuple[int, int]:
    """(how many values have the same sign, how many were compared): those larger than `least` in both, by absolute value."""
    one, other = np.ravel(one), np.ravel(other)
    counted = (np.abs(one) > least) & (np.abs(other) > least)
    return int((np.sign(one) == np.sign(other))[counted].sum()), int(counted.sum())


def same_leader(one: Float[np.ndarray, "r m"], other: Float[np.ndarray, "r m"]) -> int:
    """In how many rows both have their largest value at the same place."""
    return int((np.argmax(one, axis=1) == np.argmax(other, axis=1)).sum())
