"""What the frozen features allow: a linear probe for naming, and the recogniser's own decoding for reading."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from leo_core.data.samples import Question, Region
from leo_core.experts.spelling import spelled
from leo_core.position import centred_in
from leo_core.training.evaluate import normalised
from leo_core.training.features import FeatureStore
from leo_core.training.ridge import ridge

READ_KINDS = ("word", "number", "price", "line", "title")
SEE_THINGS, READS = ("objects", "details"), "reading"
"""Vision experts of the embedded model whose features the probe may use, and the one whose words are decoded."""

PROBE_PENALTY = 300.0
"""For each expert: features are standardised, so that two experts have twice the length."""


@dataclass(frozen=True)
class NamingProbe:
    """Ridge regression from the mean features of some experts over a thing's box to one of `names`."""

    experts: tuple[str, ...]
    names: tuple[str, ...]
    weight: Float[Tensor, "names d"]
    bias: Float[Tensor, "names"]

    def name(self, feature: Float[Tensor, "d"]) -> str:
        return self.names[int((self.weight @ feature + self.bias).argmax())]


def fit_probe(store: FeatureStore, experts: Sequence[str] = SEE_THINGS) -> NamingProbe:
    """Fitted on every named thing of the store's scenes."""
    rows, phrases = [], []
    for index, sample in enumerate(store.samples):
        if sample.name.startswith("scenes"):
            for region in sample.regions:
                rows.append(feature_of(store, experts, index, region.box))
                phrases.append(region.phrase)
    names = tuple(sorted(set(phrases)))
    targets = F.one_hot(torch.tensor([names.index(phrase) for phrase in phrases]), len(names)).float()
    return NamingProbe(tuple(experts), names, *ridge(torch.stack(rows), targets, PROBE_PENALTY * len(experts)))


def feature_of(store: FeatureStore, experts: Sequence[str], index: int, box: Sequence[float]) -> Float[Tensor, "d"]:
    """For each expert the mean feature of the tokens whose centre lies in the box (pixels), of all tokens where none does; joined."""
    size, means = store.samples[index].size, []
    for expert in experts:
        features, boxes = store.tokens(expert, index)
        inside = centred_in(boxes, torch.tensor([box], dtype=torch.float32) / torch.tensor([*size, *size]))
        means.append(features[inside if inside.any() else slice(None)].mean(dim=0))
    return torch.cat(means)


def probed(probe: NamingProbe, store: FeatureStore, pairs: Sequence[tuple[int, Question]]) -> list[bool]:
    """For each naming question about one thing: does the probe name it? (The probe is told where the thing is.)"""
    regions = [named_region(store, index, question) for index, question in pairs]
    return [
        probe.name(feature_of(store, probe.experts, index, region.box)) == region.phrase for (index, _), region in zip(pairs, regions, strict=True)
    ]


def named_region(store: FeatureStore, index: int, question: Question) -> Region | None:
    """The region of a picture whose name is the answer; None where there is none."""
    answer = normalised(question.answer)
    return next((region for region in store.samples[index].regions if region.phrase == answer), None)


def decoded(store: FeatureStore, expert: str, index: int, question: Question) -> str:
    """What the recogniser alone would answer: all text, the line asked for, or the line of the tallest letters."""
    features, _ = store.tokens(expert, index, standardised=False)
    words = [word for word in map(spelled, features.numpy()) if word.text]
    if question.kind == "line" and words:
        strips = sorted({word.strip for word in words})
        wanted = strips[min(1 if "second" in question.text else 0, len(strips) - 1)]
        words = [word for word in words if word.strip == wanted]
    if question.kind == "title" and words:
        tallest = max(words, key=lambda word: word.height).strip
        words = [word for word in words if word.strip == tallest]
    return " ".join(word.text for word in words)
