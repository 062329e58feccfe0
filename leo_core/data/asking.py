"""Turn facts into questions: several phrasings for each kind, never the same question twice on a picture."""

from collections.abc import Sequence

import numpy as np

from leo_core.data.samples import Question

LEAST, MOST = 3, 5
"""Questions per picture; the number wanted is drawn between the two."""

Group = list[Question]
"""Questions that are asked together or not at all: a yes and a no, which keeps the two exactly balanced."""


def phrased(rng: np.random.Generator, templates: Sequence[str], **fields: str) -> str:
    """One of the templates at random, filled in."""
    return templates[rng.integers(len(templates))].format(**fields)


def single(rng: np.random.Generator, templates: Sequence[str], answer: str, kind: str, domain: str, **fields: str) -> Group:
    """A group of one question."""
    return [Question(phrased(rng, templates, **fields), answer, kind, domain)]


def yes_and_no(rng: np.random.Generator, templates: Sequence[str], yes: dict, no: dict, kind: str, domain: str) -> Group:
    """A question that is answered yes and one that is answered no, from the same templates."""
    group = [Question(phrased(rng, templates, **fields), answer, kind, domain) for fields, answer in ((yes, "yes"), (no, "no"))]
    return group if rng.random() < 0.5 else group[::-1]


def choose(rng: np.random.Generator, must: Sequence[Group], optional: Sequence[Group]) -> tuple[Question, ...]:
    """All of `must` that fits into MOST questions, then groups of `optional` in random order until the wanted number."""
    wanted = int(rng.integers(LEAST, MOST + 1))
    chosen, texts = [], set()
    for position, group in enumerate([*must, *(optional[i] for i in rng.permutation(len(optional)))]):
        limit = MOST if position < len(must) or len(chosen) < LEAST else wanted
        fresh = texts.isdisjoint(question.text for question in group)
        if fresh and len(chosen) + len(group) <= limit:
            chosen += group
            texts.update(question.text for question in group)
    return tuple(chosen)
