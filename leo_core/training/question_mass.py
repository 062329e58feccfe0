"""Does CoTR look where the question points? Its mass on the thing a question names, against the same picture's other questions."""

from dataclasses import dataclass

import numpy as np
import torch

from leo_core.data.english import mentions
from leo_core.model import LeoMini
from leo_core.position import centred_in
from leo_core.processor import LeoProcessor
from leo_core.statistics import bootstrap
from leo_core.training.batches import question_batch
from leo_core.training.features import FeatureStore


@dataclass(frozen=True)
class QuestionMass:
    """Share of one expert's mass (mean over output tokens) on the thing asked about: by questions that name it, and by the
    picture's other questions. difference: named - other, paired, with its bootstrap 95 % interval; n: (picture, thing) pairs."""

    expert: str
    named: float
    other: float
    difference: float
    low: float
    high: float
    n: int


@torch.no_grad()
def question_mass(model: LeoMini, processor: LeoProcessor, store: FeatureStore, expert: str, most: int = 200) -> QuestionMass | None:
    """Over things that some, but not all questions of a picture name; only the question changes. None where there are none."""
    position, named, other, owners = list(model.vision_experts).index(expert), [], [], []
    for index, sample in enumerate(store.samples):
        if len(named) >= most:
            break
        things = {region.phrase: region.box for region in sample.regions if sum(r.phrase == region.phrase for r in sample.regions) == 1}
        asks = {phrase: [mentions(question.text, phrase) for question in sample.questions] for phrase in things}
        asks = {phrase: flags for phrase, flags in asks.items() if any(flags) and not all(flags)}
        if not asks:
            continue
        batch = question_batch(store, processor, [(index, question) for question in sample.questions], answered=False)
        text, mask = model.question(batch["input_ids"], batch["question_mask"])
        weights = model.reducer.explain(batch["pictures"], text, mask).weights[position].mean(dim=1)
        boxes, size = batch["pictures"].boxes[position][0], torch.tensor([*sample.size, *sample.size])
        for phrase, flags in asks.items():
            share = (weights * centred_in(boxes, torch.tensor([things[phrase]], dtype=torch.float32) / size)).sum(dim=1).numpy()
            flags = np.array(flags)
            named.append(share[flags].mean())
            other.append(share[~flags].mean())
            owners.append(index)
    if not named:
        return None
    gain = bootstrap(np.array(named) - np.array(other), np.array(owners))
    return QuestionMass(expert, float(np.mean(named)), float(np.mean(other)), gain.value, gain.low, gain.high, gain.n)
