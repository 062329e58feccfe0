"""What a change does to an answer: the log-probability of given tokens, teacher-forced, as it is and with something changed.

The value is the one of design rule 7: the sum over the answer's tokens, end mark included, in nats.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Int
from torch import Tensor

from leo_core.analysis.contributions import answer_log_probability, teacher_forced
from leo_core.model import LeoMini
from leo_core.processor import LeoProcessor
from leo_core.tracing.intervene import Interventions, intervene
from leo_core.tracing.run import Asked


@torch.no_grad()
def value_under(model: LeoMini, processor: LeoProcessor, asked: Asked, answer_ids: Int[Tensor, "a"], change: Interventions | None = None) -> float:
    """Log-probability of an answer under a change (None: as it is), in nats. Raises InputError for a change that cannot be made."""
    change = change or Interventions()
    inputs, count = teacher_forced(asked, answer_ids)
    if asked.features is not None:
        inputs |= {"picture_owner": asked.inputs["picture_owner"]} | change.model_inputs(model, asked.features)
        inputs = {name: value.to(model.device) for name, value in inputs.items()}
    with intervene(model, change, processor):
        logits = model(**inputs, logits_to_keep=count + 1).logits
    return float(answer_log_probability(logits, answer_ids).double().sum())


def effects(
    model: LeoMini, processor: LeoProcessor, asked: Asked, answer_ids: Int[Tensor, "a"], changes: Mapping[str, Interventions]
) -> dict[str, float]:
    """Value under each change minus the value as it is, in nats: below zero, the change speaks against the answer."""
    before = value_under(model, processor, asked, answer_ids)
    return {name: value_under(model, processor, asked, answer_ids, change) - before for name, change in changes.items()}


def absences(model: LeoMini) -> dict[str, Interventions]:
    """Every vision expert taken away, one at a time."""
    return {f"without {name}": Interventions(drop_experts=(name,)) for name in model.vision_experts}


def reroutings(model: LeoMini) -> dict[str, Interventions]:
    """Every routed LoRA expert alone in every layer, every one forbidden, and all forbidden; experts are named from 1 on."""
    experts = range(model.config.mmoe_config.num_experts)
    only = {f"only {one + 1}": Interventions(force_route={-1: one}) for one in experts}
    never = {f"never {one + 1}": Interventions(forbid_route={-1: (one,)}) for one in experts}
    return {**only, **never, "none": Interventions(forbid_route={-1: tuple(experts)})}
