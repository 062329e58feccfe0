"""Which decoder positions a routing figure counts, what they are called, and the words that say so."""

import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from leo_core.tracing.trace import ROLES, Trace
from studio.figures.token_text import clipped, escaped, labels

PHASES = {"all": "prefill and decode", "prefill": "prefill", "decode": "decode"}
NOTHING_FITS = "No position of this run fits the chosen roles and phase."


def select(trace: Trace, roles: Sequence[str] | None, phase: str, unread: bool = False) -> Int[np.ndarray, "s"]:
    """Positions of some roles (None: all but padding) in one phase ("all", "prefill" or "decode").

    unread: also those that the decoder never read. Raises ValueError for a role or phase that does not exist.
    """
    if phase not in PHASES:
        raise ValueError(f"phase is one of {', '.join(PHASES)}; got '{phase}'.")
    wrong = [role for role in roles or () if role not in ROLES]
    if wrong:
        raise ValueError(f"roles are some of {', '.join(ROLES)}; got {', '.join(map(repr, wrong))}.")
    wanted = [ROLES.index(role) for role in (ROLES[:-1] if roles is None else roles)]
    place = np.arange(len(trace.roles))
    in_phase = {"all": place >= 0, "prefill": place < trace.prompt_length, "decode": place >= trace.prompt_length}[phase]
    return np.flatnonzero(np.isin(trace.roles, wanted) & in_phase & (trace.read | unread))


def words(trace: Trace, roles: Sequence[str] | None, phase: str, count: int) -> str:
    """The settings of a routing figure, for its caption."""
    named = "all roles, padding left out" if roles is None else f"roles: {', '.join(roles) or 'none'}"
    return f"n = {count} positions ({PHASES[phase]}; {named}) in {len(trace.routing.layers)} layers"


def trouble(trace: Trace, count: int) -> str | None:
    """Why there is no routing to draw, in words; None when there is."""
    if trace.routing.probability.shape[-1] == 0:
        return "This model has no routed LoRA experts: there is no routing to show."
    if not trace.routing.evaluated:
        return "Not evaluated: the question came without a picture, so no router was asked and only the general expert worked."
    return NOTHING_FITS if count == 0 else None


def names(trace: Trace) -> list[str]:
    """What to call each position, unescaped: its token, or its number within a picture (1-based)."""
    called, seen = [], {}
    for label, role, picture in zip(labels(trace.token_bytes), trace.roles, trace.picture_index, strict=True):
        if ROLES[role] == "picture":
            seen[picture] = seen.get(picture, 0) + 1
            called.append(f"picture {picture + 1} · {seen[picture]}")
        else:
            called.append(label.text)
    return called


def ticks(called: Sequence[str], most: int = 60) -> dict:
    """Axis settings that put labels at 0, 1, 2, ...: short ones, and no more than `most` of them."""
    places = np.arange(0, len(called), max(1, -(-len(called) // most)))
    return {"tickvals": places, "ticktext": [escaped(clipped(called[i])) for i in places]}


def layer_labels(trace: Trace) -> list[str]:
    """The decoder's own number of each layer where its name holds one, else its place."""
    found = [re.search(r"\d+", name) for name in trace.routing.layers]
    return [match.group() if match else str(place) for place, match in enumerate(found)]
