"""Changing one thing and running again: the causal side of every picture."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool
from torch import Tensor

from leo_core.errors import InputError
from leo_core.experts.expert import PictureFeatures
from leo_core.mmoe import mmoe_layers
from leo_core.model import LeoMini
from leo_core.processor import LeoProcessor
from leo_core.routing import Routing
from leo_core.tracing.record import lock_of, reducer_hook, router_hooks


@dataclass(frozen=True)
class Interventions:
    """What is changed. Nothing given, nothing changed.

    drop_experts: vision experts that are absent. drop_visual: reduced tokens (numbers 0..v-1, in every picture) masked in
    attention. drop_sources: source tokens of an expert that CoTR may not use. force_route: layer -> the only LoRA expert
    used there, with coefficient 1; forbid_route: layer -> LoRA experts not used there (the next best take their place).
    Layers count from 0; the key -1 means every layer. reducer_question: CoTR alone is asked another question.
    """

    drop_experts: tuple[str, ...] = ()
    drop_visual: tuple[int, ...] = ()
    drop_sources: dict[str, tuple[int, ...]] = field(default_factory=dict)
    force_route: dict[int, int] = field(default_factory=dict)
    forbid_route: dict[int, tuple[int, ...]] = field(default_factory=dict)
    reducer_question: str | None = None

    def model_inputs(self, model: LeoMini, pictures: PictureFeatures) -> dict:
        """pictures, expert_mask and visual_mask for LeoMini, with everything changed that is an input."""
        names = list(model.vision_experts)
        unknown = [name for name in (*self.drop_experts, *self.drop_sources) if name not in names]
        if unknown:
            raise InputError(f"There is no vision expert '{unknown[0]}'; there are {', '.join(names)}.")
        masks = list(pictures.masks)
        for name, tokens in self.drop_sources.items():
            masks[names.index(name)] = _without(masks[names.index(name)], tokens, f"source token of '{name}'")
        changed = replace(pictures, masks=tuple(masks))
        experts = torch.tensor([[name not in self.drop_experts for name in names]] * pictures.pictures)
        visual = _without(torch.ones(pictures.pictures, model.reducer.tokens, dtype=torch.bool), self.drop_visual, "visual token")
        return {"pictures": changed, "expert_mask": experts, "visual_mask": visual}


def _without(mask: Bool[Tensor, "p n"], tokens: tuple[int, ...], what: str) -> Bool[Tensor, "p n"]:
    wrong = [token for token in tokens if not 0 <= token < mask.shape[1]]
    if wrong:
        raise InputError(f"There is no {what} {wrong[0]}; they are numbered 0 to {mask.shape[1] - 1}.")
    mask = mask.clone()
    mask[:, list(tokens)] = False
    return mask


@contextlib.contextmanager
def intervene(model: LeoMini, interventions: Interventions, processor: LeoProcessor | None = None) -> Iterator[None]:
    """Routes and CoTR's question changed inside the block; everything as before after it, also after an exception.

    processor is needed for reducer_question. The inputs' part of the interventions is `model_inputs`.
    """
    handles = []
    with lock_of(model):
        try:
            if interventions.force_route or interventions.forbid_route:
                _check_routes(model, interventions)
                handles += router_hooks(model, lambda index: _reroute(index, interventions))
            if interventions.reducer_question is not None:
                handles.append(reducer_hook(model, _other_question(model, processor, interventions.reducer_question)))
            yield
        finally:
            for handle in handles:
                handle.remove()


def _check_routes(model: LeoMini, interventions: Interventions) -> None:
    layers, experts = len(mmoe_layers(model.decoder)), model.config.mmoe_config.num_experts
    for layer, chosen in [*interventions.force_route.items(), *interventions.forbid_route.items()]:
        wanted = chosen if isinstance(chosen, tuple) else (chosen,)
        if not -1 <= layer < layers or any(not 0 <= expert < experts for expert in wanted):
            raise InputError(
                f"Layer {layer}, expert {wanted} does not exist: layers are 0 to {layers - 1} (-1 = all), LoRA experts 0 to {experts - 1}."
            )


def _reroute(index: int, interventions: Interventions):
    forced = interventions.force_route.get(index, interventions.force_route.get(-1))
    forbidden = interventions.forbid_route.get(index, interventions.forbid_route.get(-1, ()))

    def hook(router, inputs, routing: Routing):
        evaluated = inputs[1].has_picture[:, None, None]
        if forced is not None:
            only = torch.zeros_like(routing.coefficient)
            only[..., forced] = 1.0
            return Routing(routing.logits, routing.probability, only * evaluated)
        if forbidden:
            logits = routing.logits.clone()
            logits[..., list(forbidden)] = -torch.inf
            allowed = min(router.top_k, logits.shape[-1] - len(set(forbidden)))
            probability = logits.softmax(dim=-1) if allowed else torch.zeros_like(logits)
            coefficient = router.gate(probability, allowed) * allowed / router.top_k if allowed else torch.zeros_like(logits)
            return Routing(routing.logits, routing.probability, coefficient * evaluated)
        return None

    return hook


def _other_question(model: LeoMini, processor: LeoProcessor | None, question: str):
    if processor is None:
        raise InputError("Another question for CoTR needs the processor that tokenises it.")
    ids = torch.tensor([processor.plain_ids(question)], device=model.device)
    text = model.get_input_embeddings()(ids).detach()

    def hook(reducer, inputs):
        pictures, _, _, *rest = inputs
        count = pictures.pictures
        return (pictures, text.expand(count, -1, -1), torch.ones(count, ids.shape[1], dtype=torch.bool, device=ids.device), *rest)

    return hook
