"""The same questions answered by a variant of the model, by domain: without one vision expert, or another checkpoint."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from leo_core.model import LeoMini
from leo_core.processor import LeoProcessor
from leo_core.statistics import bootstrap
from leo_core.training.evaluate import Graded, greedy_answers, normalised, question_inputs
from leo_core.training.features import FeatureStore


@dataclass(frozen=True)
class Variant:
    """Share right of the model and of the variant `name`, over `n` questions of a domain ("all": of every domain).

    difference: model minus variant, its paired bootstrap 95 % interval (over pictures) from low to high.
    """

    name: str
    domain: str
    n: int
    model: float
    variant: float
    difference: float
    low: float
    high: float


def answers_without(
    model: LeoMini, processor: LeoProcessor, store: FeatureStore, graded: Sequence[Graded], expert: str, batch: int = 32
) -> Iterator[list[bool]]:
    """Yields for one batch after the other which questions are answered exactly when the expert is absent."""
    present = torch.tensor([name != expert for name in model.vision_experts])
    for start in range(0, len(graded), batch):
        rows = graded[start : start + batch]
        inputs = question_inputs(processor, store, [(one.picture, one.question) for one in rows], with_answers=False)
        answers = greedy_answers(model, processor, {**inputs, "expert_mask": present.expand(len(rows), -1)})
        yield [normalised(answer) == normalised(one.question.answer) for answer, one in zip(answers, rows, strict=True)]


def variant(name: str, graded: Sequence[Graded], right: Sequence[bool]) -> list[Variant]:
    """One line for all questions, then one for each domain. right: the variant's answers, in the order of `graded`."""
    domains = defaultdict(list)
    for one, other in zip(graded, right, strict=True):
        for domain in ("all", one.question.domain):
            domains[domain].append((one.right(), other, one.picture))
    return [_compared(name, domain, pairs) for domain, pairs in sorted(domains.items(), key=lambda item: (item[0] != "all", item[0]))]


def _compared(name: str, domain: str, answers: Sequence[tuple[bool, bool, int]]) -> Variant:
    """answers: right by the model, right by the variant, picture."""
    model, other, pictures = (np.array(column) for column in zip(*answers, strict=True))
    gain = bootstrap(model.astype(float) - other, pictures)
    return Variant(name, domain, len(answers), float(model.mean()), float(other.mean()), gain.value, gain.low, gain.high)
