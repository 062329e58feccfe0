"""What each vision expert earns: the same questions answered without it, by domain."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from leo_core.model import LeoMini
from leo_core.processor import LeoProcessor
from leo_core.training.evaluate import Graded, greedy_answers, normalised, question_inputs
from leo_core.training.features import FeatureStore
from leo_core.training.scores import interval


@dataclass(frozen=True)
class Earned:
    """Share right with all experts and without this one, over `n` questions of a domain ("all": of every domain).

    difference: with minus without, its paired bootstrap 95 % interval from low to high.
    """

    expert: str
    domain: str
    n: int
    whole: float
    without: float
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
        inputs = question_inputs(processor, store, [(one.picture, one.question) for one in rows], answered=False)
        answers = greedy_answers(model, processor, {**inputs, "expert_mask": present.expand(len(rows), -1)})
        yield [normalised(answer) == normalised(one.question.answer) for answer, one in zip(answers, rows, strict=True)]


def earned(expert: str, graded: Sequence[Graded], without: Sequence[bool]) -> list[Earned]:
    """One line for all questions, then one for each domain. without: from `answers_without`, in the order of `graded`."""
    domains = defaultdict(list)
    for one, right in zip(graded, without, strict=True):
        for domain in ("all", one.question.domain):
            domains[domain].append((one.right(), right))
    return [_earned(expert, domain, pairs) for domain, pairs in sorted(domains.items(), key=lambda item: (item[0] != "all", item[0]))]


def _earned(expert: str, domain: str, pairs: Sequence[tuple[bool, bool]]) -> Earned:
    gains = [int(with_it) - int(without) for with_it, without in pairs]
    whole, without = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
    return Earned(expert, domain, len(pairs), whole, without, sum(gains) / len(gains), *interval(gains))
