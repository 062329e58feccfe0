"""Stage 3 at lab size: reducer, MMoE and projector learn, the decoder is frozen."""

from collections.abc import Callable
from itertools import islice

import torch
from torch import Tensor

from leo_core.experiments.configuration import Configuration, Training
from leo_core.experiments.lab import Lab
from leo_core.experiments.lab_model import fit_absent, keep_terms_absent, new_model, nobody, pictures_of
from leo_core.experiments.lab_sizes import EXPERTS
from leo_core.model import LeoMini
from leo_core.training.stages import set_trainable, shuffled

ABSENT_EVERY = 40
"""Steps between two fits of what an absent expert delivers."""


def rates(configuration: Configuration, training: Training) -> dict[str, float]:
    """Pattern of parameter names -> learning rate, for what the configuration has and trains."""
    found = {"projector.*": training.projector_rate} if configuration.train_projector else {}
    if configuration.reducer.kind in ("cotr", "resampler"):
        found["reducer.*"] = training.reducer_rate
    if configuration.mmoe.installed:
        found |= {"decoder.*.lora_a.*": training.mmoe_rate, "decoder.*.lora_b.*": training.mmoe_rate}
    if configuration.mmoe.num_experts:
        found["decoder.*.router.*"] = training.mmoe_rate
    return found


def train(
    lab: Lab, configuration: Configuration, seed: int, training: Training, report: Callable[[int, float], None] | None = None
) -> tuple[LeoMini, list[float]]:
    """(model in evaluation mode, loss of each step). report(step, loss) after each step.

    seed decides the new weights, the order of questions and which experts are absent when.
    """
    model = new_model(lab, configuration, seed).train()
    optimizer = torch.optim.AdamW(set_trainable(model, rates(configuration, training)), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _decay(step, training))
    order, losses = list(islice(shuffled(len(lab.train.questions), seed), training.steps * training.batch)), []
    generator = torch.Generator().manual_seed(seed)
    for step in range(training.steps):
        asked = [lab.train.questions[i] for i in order[step * training.batch : (step + 1) * training.batch]]
        mask = nobody(len(asked)) if configuration.blind else _present(len(asked), training.dropout, generator)
        rows = lab.rows(asked, model.reducer.tokens)
        longest = max(len(one.answer) for one in asked) + 1
        reduced = model.reduce(pictures_of(lab.train, asked), rows["input_ids"], rows["question_mask"], torch.arange(len(asked)), mask)
        with torch.autocast("cpu", torch.bfloat16):  # the decoder's products only: not the softmax over similarities
            loss = model(**rows, reduced=reduced, logits_to_keep=longest).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        keep_terms_absent(model, configuration)
        if (step + 1) % ABSENT_EVERY == 0 and not configuration.blind:
            fit_absent(model, lab)
        losses.append(loss.item())
        if report is not None:
            report(step + 1, losses[-1])
    if not configuration.blind:
        fit_absent(model, lab)
    return model.eval(), losses


def _present(count: int, dropout: float, generator: torch.Generator) -> Tensor:
    """(p, m): each vision expert is absent with probability `dropout`, but never all of them."""
    mask = torch.rand(count, len(EXPERTS), generator=generator) >= dropout
    return mask | ~mask.any(dim=1, keepdim=True)


def _decay(step: int, training: Training) -> float:
    """Linear warm-up, then linear decay to zero."""
    return min((step + 1) / training.warmup, (training.steps - step) / max(1, training.steps - training.warmup))
