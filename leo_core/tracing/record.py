"""Watching a run with plain hooks, all removed on exit: the only place in the project where hooks are registered."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor

from leo_core.mmoe import MMoELinear, mmoe_layers
from leo_core.model import LeoMini
from leo_core.reducer import Reduction

_LOCKS: WeakKeyDictionary = WeakKeyDictionary()
_LOCKS_GUARD = threading.Lock()


def lock_of(model: LeoMini) -> threading.RLock:
    """Hooks are model-wide, so one run at a time holds the model: whoever runs it takes this lock."""
    with _LOCKS_GUARD:
        return _LOCKS.setdefault(model, threading.RLock())


@dataclass
class Recording:
    """What was seen, in order of the forward passes (prefill, then one per decoded token), detached on the CPU.

    Lists run over passes for each layer: probability and coefficient (b, s, e), norm (b, s, g).
    """

    reductions: list[Reduction] = field(default_factory=list)
    probability: dict[str, list[Tensor]] = field(default_factory=dict)
    coefficient: dict[str, list[Tensor]] = field(default_factory=dict)
    norm: dict[str, list[Tensor]] = field(default_factory=dict)

    def stacked(self, kind: str) -> Float[Tensor, "b l s x"]:
        """All layers and positions of one quantity: probability, coefficient or norm."""
        return torch.stack([torch.cat(passes, dim=1) for passes in getattr(self, kind).values()], dim=1)


@contextlib.contextmanager
def record(model: LeoMini) -> Iterator[Recording]:
    """Record reductions and routings of every forward pass inside the block. Answers are the same as without."""
    recording, handles = Recording(), []
    with lock_of(model):
        try:
            handles.append(model.reducer.register_forward_hook(_explain_into(recording)))
            for name, layer in mmoe_layers(model.decoder).items():
                for kind in ("probability", "coefficient", "norm"):
                    getattr(recording, kind)[name] = []
                handles += _watch_layer(name, layer, recording)
            yield recording
        finally:
            for handle in handles:
                handle.remove()


def _explain_into(recording: Recording):
    def hook(reducer, inputs, output):
        with torch.no_grad():
            recording.reductions.append(_on_cpu(reducer.explain(*inputs)))

    return hook


def _on_cpu(reduction: Reduction) -> Reduction:
    move = lambda value: value.detach().float().cpu()  # noqa: E731
    scores = tuple(type(one)(**{name: move(term) for name, term in vars(one).items()}) for one in reduction.scores)
    return Reduction(tuple(map(move, reduction.tokens)), tuple(map(move, reduction.weights)), scores)


def _watch_layer(name: str, layer: MMoELinear, recording: Recording) -> list:
    seen: dict[str, Tensor] = {}
    gram = b_gram(layer)

    def on_router(router, inputs, routing):
        recording.probability[name].append(routing.probability.detach().float().cpu())
        recording.coefficient[name].append(routing.coefficient.detach().float().cpu())

    def on_input_to_b(lora_b, inputs, output):
        seen["middle"], seen["delta"] = inputs[0].detach(), output.detach()

    def on_layer(linear, inputs, output):
        original = (output.detach() - seen["delta"]).float().norm(dim=-1, keepdim=True)
        recording.norm[name].append((expert_norms(gram, seen["middle"]) / original.clamp(min=1e-12)).cpu())
        seen.clear()

    handles = [layer.lora_b.register_forward_hook(on_input_to_b), layer.register_forward_hook(on_layer)]
    if layer.router is not None:
        handles.append(layer.router.register_forward_hook(on_router))
    return handles


def b_gram(layer: MMoELinear) -> Float[Tensor, "g r r"]:
    """B^T B of each group."""
    b = layer.lora_b.weight.detach().unflatten(1, (layer.groups, layer.rank)).float()
    return torch.einsum("ogr,ogq->grq", b, b)


def expert_norms(gram: Float[Tensor, "g r r"], middle: Float[Tensor, "b s gr"]) -> Float[Tensor, "b s g"]:
    """|c B A x| of each group, from the scaled middle c A x and B^T B: no expert is run again."""
    rows = middle.float().unflatten(-1, gram.shape[:2])
    mixed = torch.einsum("bsgr,grq->bsgq", rows, gram)
    return (mixed * rows).sum(dim=-1).clamp(min=0).sqrt()


def reducer_hook(model: LeoMini, hook) -> torch.utils.hooks.RemovableHandle:
    """A forward pre-hook on the reducer, for interventions; the caller removes it."""
    return model.reducer.register_forward_pre_hook(hook)


def router_hooks(model: LeoMini, hook_of_layer) -> list[torch.utils.hooks.RemovableHandle]:
    """A forward hook on every router, for interventions. hook_of_layer(index) gives the hook of one layer."""
    layers = [layer for layer in mmoe_layers(model.decoder).values() if layer.router is not None]
    return [layer.router.register_forward_hook(hook_of_layer(index)) for index, layer in enumerate(layers)]
