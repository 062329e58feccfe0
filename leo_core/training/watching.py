"""Numbers that show a collapse while it happens: how spread and how alike CoTR's rows are, how even and how sure the routers."""

import math

import torch

from leo_core.analysis.tokens import effective_tokens, likeness
from leo_core.model import LeoMini
from leo_core.tracing.record import record

WATCHED = 20
"""Steps between two looks: each costs a forward pass."""


@torch.no_grad()
def watched(model: LeoMini, batch: dict, inputs: dict) -> dict[str, float]:
    """batch: with `pictures`, as the processor and the store made it. inputs: what the decoder's pass was given.

    effective.NAME, likeness.NAME: per vision expert, means over the batch. entropy: of the routers, 1 = undecided.
    load.E: share of the routed positions that went to LoRA expert E, over all layers.
    """
    text, mask = model.question(batch["input_ids"], batch["question_mask"])
    with torch.autocast(model.device.type, enabled=False):
        reduction = model.reducer.explain(batch["pictures"], text, mask)
    report, names = {}, list(model.vision_experts or map(str, range(len(reduction.weights))))
    for name, weights in zip(names, reduction.weights, strict=True):
        report[f"effective.{name}"] = effective_tokens(weights).mean().item()
        report[f"likeness.{name}"] = likeness(weights).mean().item()
    if model.config.mmoe_config.num_experts < 2:
        return report
    with record(model) as seen:
        model(**{name: value for name, value in inputs.items() if name != "labels"})
    valid = batch["attention_mask"].bool()
    probability = seen.stacked("probability").transpose(1, 2)[valid].double()  # (positions, layers, experts)
    chosen = (seen.stacked("coefficient").transpose(1, 2)[valid] > 0).double()
    report["entropy"] = float(torch.special.entr(probability).sum(dim=-1).mean() / math.log(probability.shape[-1]))
    for number, share in enumerate(chosen.sum(dim=(0, 1)) / chosen.sum(), start=1):
        report[f"load.{number}"] = float(share)
    return report
