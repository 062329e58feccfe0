"""Stages 1 and 2 of the lab: the projector in closed form (or not at all), then everything with all tokens."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import torch
from safetensors.torch import save_file

from leo_core.embedded import KEEP_ALL, PLAIN_DECODER
from leo_core.experiments.lab import STARTS, Lab
from leo_core.experts.expert import PictureFeatures
from leo_core.files import atomic_path
from leo_core.model import LeoMini
from leo_core.training.batches import packed_batch, packed_loss, some_questions
from leo_core.training.ridge import named_cells, ridge
from leo_core.training.stages import shuffled

STEPS, ROWS, PACKED = 4500, 16, 5
"""Steps, pictures a step, questions of each."""
RATE, WARMUP, DECAY, NOISE = 2e-3, 100, 0.1, 0.3
"""Learning rate, its warm-up, weight decay, and the noise on features (in standard deviations): few pictures are seen often."""
RIDGE_PENALTY = 100.0


def train_start(lab: Lab, name: str, steps: int = STEPS, report: Callable[[int, float, float], None] | None = None) -> LeoMini:
    """A model with all tokens, trained from nothing; written to the lab's folder in half precision.

    name: a key of STARTS. report(step, loss, share of questions right in this step).
    """
    torch.manual_seed(0)
    model = LeoMini(lab.config(KEEP_ALL, PLAIN_DECODER)).train()
    if name == "stage2":
        _ridge(model, lab)
    model.decoder.set_attn_implementation("eager")  # for short rows its backward pass is faster on a CPU than the fused kernel's
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / WARMUP, (steps - step) / steps))
    processor = lab.new_processor()
    processor.segments, processor.plain_ids = cache(processor.segments), cache(processor.plain_ids)  # the same questions come again and again
    known = [index for index, numbers in enumerate(lab.train.of_picture()) if numbers]
    order = shuffled(len(known), 5)
    for step in range(steps):
        pictures = [known[next(order)] for _ in range(ROWS)]
        asked = [some_questions(lab.train.store.samples[i].questions, PACKED, seed=[5, step, i]) for i in pictures]
        batch = packed_batch(lab.train.store, processor, pictures, asked)
        with torch.autocast("cpu", torch.bfloat16):
            loss, _, right = packed_loss(model, model.decoder.base_model, replace(batch, pictures=_noisy(batch.pictures)))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        if report is not None:
            report(step + 1, loss.item(), sum(right.values()) / len(right))
    with atomic_path(lab.folder / STARTS[name]) as temporary:
        kept = {
            key: value.half().contiguous()
            for key, value in model.state_dict().items()
            if not key.startswith("reducer.") and key != "decoder.lm_head.weight"
        }
        save_file(kept, temporary)
    return model.eval()


def _noisy(pictures: PictureFeatures) -> PictureFeatures:
    return replace(pictures, features=tuple(one + NOISE * torch.randn_like(one) for one in pictures.features))


def _ridge(model: LeoMini, lab: Lab) -> None:
    """Stage 1: the projector's linear part onto the token embeddings of what the tokens show."""
    embedding = model.get_input_embeddings().weight.detach()
    known = lambda phrase: [i for i in lab.processor.plain_ids(phrase) if i != lab.tokenizer.unk_token_id]  # noqa: E731
    inputs, names = named_cells(lab.train.store, model.reducer)
    targets = torch.stack([embedding[known(name)].sum(dim=0) for name in names])
    weight, bias = ridge(inputs, targets, RIDGE_PENALTY)
    with torch.no_grad():
        model.projector.linear.weight.copy_(weight)
        model.projector.linear.bias.copy_(bias)
