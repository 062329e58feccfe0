"""Stage 3 once more from a model that has been through it: token reduction, MMoE and projector learn from own pictures."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from leo_core.errors import InputError
from leo_core.model import LeoMini
from leo_core.processor import LeoProcessor
from leo_core.training.batches import answered, by_domain, model_inputs, question_batch, some_questions
from leo_core.training.features import FeatureStore
from leo_core.training.loop import Metrics, train_stage
from leo_core.training.recipe import drop_experts
from leo_core.training.stages import STAGE_3, Stage, pictures_of

_RATES = {pattern: rate for pattern, rate in STAGE_3.rates.items() if not pattern.startswith("projector")}
FINE_TUNE = replace(STAGE_3, name="fine-tune", rates={**_RATES, "projector.*": 1e-4}, steps=20, batch=8, warmup=4, precision="float32", save_every=20)
"""Few pictures, few steps: about a minute on two processor cores with the embedded model."""


def fine_tune(
    model: LeoMini, processor: LeoProcessor, store: FeatureStore, folder: Path, stage: Stage = FINE_TUNE, seed: int = 0
) -> Iterator[Metrics]:
    """Train `model` in place, yielding metrics after each step; it is back in evaluation mode, and frozen, once all are taken.

    store: features of own pictures, standardised as the model's experts are. folder: for the log and the checkpoint of the stage;
    a run that was stopped goes on from there. Decoder and vision experts stay as they are. What an absent expert delivers is
    left as it was fitted on many more pictures. Raises InputError for a store without pictures or with other experts.
    """
    if not len(store) or list(store.names) != list(model.vision_experts or ()):
        raise InputError(f"Fine-tuning needs pictures with the features of {', '.join(model.vision_experts or ())}: make them with these experts.")
    processor.visual_tokens = model.reducer.tokens
    order = pictures_of(stage, len(store), seed)

    def loss(step: int) -> tuple[Tensor, dict[str, float]]:
        pairs = [(i, some_questions(store.samples[i].questions, 1, seed=[seed, step, place])[0]) for place, i in enumerate(order(step))]
        batch = question_batch(store, processor, pairs, device=model.device)
        mask = drop_experts(batch, stage.expert_dropout)
        longest = int((batch["labels"] != -100).sum(dim=1).max()) + 1
        output = model(**model_inputs(batch), expert_mask=mask, logits_to_keep=longest)
        right = by_domain([question for _, question in pairs], answered(output.logits, batch["labels"]))
        return output.loss, {**right, **({} if output.balance is None else {"balance": output.balance.item()})}

    folder.mkdir(parents=True, exist_ok=True)
    device = model.device
    model.train()
    try:
        yield from train_stage(model, stage, loss, folder, data=store.identity())
    finally:
        model.eval().requires_grad_(False).to(device)  # accelerate trains on a GPU where there is one
        model.zero_grad(set_to_none=True)


def exact(model: LeoMini, processor: LeoProcessor, store: FeatureStore, batch: int = 32) -> list[bool]:
    """Which questions of all pictures, in order, would be answered exactly (every token the likeliest, teacher-forced)."""
    pairs = [(index, question) for index, sample in enumerate(store.samples) for question in sample.questions]
    right = []
    with torch.no_grad():
        for start in range(0, len(pairs), batch):
            inputs = question_batch(store, processor, pairs[start : start + batch], device=model.device)
            longest = int((inputs["labels"] != -100).sum(dim=1).max()) + 1
            right += answered(model(**model_inputs(inputs), logits_to_keep=longest).logits, inputs["labels"])
    return right
