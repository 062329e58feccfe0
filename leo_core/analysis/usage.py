"""Which LoRA expert is used when: counts over runs, their balance, and what they know about a label, against a shuffled null.

Plain numpy on traces: no model is run. Counts from few positions always show some information by chance; only what exceeds the
information of shuffled labels says that experts and labels belong together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from leo_core.errors import InputError
from leo_core.roles import ROLES
from leo_core.tracing.trace import Trace


@dataclass(frozen=True)
class Information:
    """Mutual information between the chosen expert and a label, in bits per layer; null: the same with shuffled labels, one row a draw."""

    bits: Float[np.ndarray, "l"]
    null: Float[np.ndarray, "draws l"]

    @property
    def excess(self) -> Float[np.ndarray, "l"]:
        """Bits above the mean of the null."""
        return self.bits - self.null.mean(axis=0)

    @property
    def p_value(self) -> float:
        """Share of shuffles (the labels as they are counted with them) whose mean over layers is at least as large."""
        return float((1 + (self.null.mean(axis=1) >= self.bits.mean()).sum()) / (1 + len(self.null)))


def used(trace: Trace, roles: Sequence[str] | None = None) -> Int[np.ndarray, "l e"]:
    """How many positions of these roles (None: all that were read) used each routed expert, per layer."""
    unknown = [role for role in roles or () if role not in ROLES]
    if unknown:
        raise InputError(f"There is no role '{unknown[0]}'; roles are {', '.join(ROLES)}.")
    wanted = np.isin(trace.roles, [ROLES.index(role) for role in roles or ROLES[:-1]]) & trace.read
    return (trace.routing.coefficient[:, wanted[: trace.routing.coefficient.shape[1]]] > 0).sum(axis=1)


def shares(counts: Int[np.ndarray, "*k e"]) -> Float[np.ndarray, "*k e"]:
    """Counts as shares of their sum; NaN where there are none."""
    total = counts.sum(axis=-1, keepdims=True)
    return np.divide(counts, total, out=np.full(counts.shape, np.nan), where=total > 0)


def effective_experts(counts: Int[np.ndarray, "*k e"]) -> Float[np.ndarray, "*k"]:
    """exp(entropy) of the shares: 1 = one expert does all, e = a balanced load."""
    share = np.nan_to_num(shares(counts))
    return np.exp(-(share * np.log(np.where(share > 0, share, 1.0))).sum(axis=-1))


def mutual_information(counts: Int[np.ndarray, "k *l e"]) -> Float[np.ndarray, "*l"]:
    """Bits that the expert tells about the label (first axis), from joint counts; 0 where there are none."""
    total = counts.sum(axis=(0, -1), keepdims=True)
    joint = counts / np.where(total > 0, total, 1)
    apart = joint.sum(axis=0, keepdims=True) * joint.sum(axis=-1, keepdims=True)
    ratio = np.divide(joint, apart, out=np.ones_like(joint), where=joint > 0)
    return (joint * np.log2(ratio)).sum(axis=(0, -1))


def by_label(counts: Int[np.ndarray, "r *l e"], labels: Sequence[str]) -> tuple[tuple[str, ...], Int[np.ndarray, "k *l e"]]:
    """(names of the labels in order of appearance, counts summed over the runs of each)."""
    names = tuple(dict.fromkeys(labels))
    places = np.array([names.index(label) for label in labels])
    return names, np.stack([counts[places == place].sum(axis=0) for place in range(len(names))])


def information(
    counts: Int[np.ndarray, "r l e"], labels: Sequence[str], groups: Sequence[str] | None = None, draws: int = 500, seed: int = 0
) -> Information:
    """Information of the experts about a label of each run. Labels are shuffled between whole runs, since positions of one run
    are no independent samples, and within `groups` (such as pictures) where given, so that what a group has in common counts nowhere.
    """
    if len(labels) != len(counts) or len(groups or labels) != len(counts):
        raise InputError(f"There are {len(counts)} runs and {len(labels)} labels: give each run its label, and its group where there are groups.")
    labels, rng = np.asarray(labels), np.random.default_rng(seed)
    group = np.zeros(len(labels), int) if groups is None else np.unique(groups, return_inverse=True)[1]
    null = []
    for _ in range(draws):
        shuffled = labels.copy()
        for each in np.unique(group):
            shuffled[group == each] = rng.permutation(labels[group == each])
        null.append(mutual_information(by_label(counts, shuffled.tolist())[1]))
    return Information(mutual_information(by_label(counts, labels.tolist())[1]), np.stack(null))
