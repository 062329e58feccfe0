"""What the routers look at: their visual, text and hidden input, each switched off or taken from elsewhere, one at a time.

A router adds a part for the mean visual token, one for the mean question embedding and one for the hidden state, then decides
(section 3.3 of LEO-Mini). Switched off, a part adds nothing, which no router met in training; taken from another run, it is an
input of a kind that it knows. The two together say more than either.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from leo_core.analysis.contributions import answer_log_probability, teacher_forced
from leo_core.errors import InputError
from leo_core.model import LeoMini
from leo_core.routing import RoutingContext
from leo_core.tracing.record import lock_of, record, router_hooks
from leo_core.tracing.run import Asked

INPUTS = ("visual", "text", "hidden")


@dataclass(frozen=True)
class RouterView:
    """What every router sees in place of the run's own. off: inputs that add nothing. visual, text: a vector (d,) to use instead."""

    off: tuple[str, ...] = ()
    visual: Float[Tensor, "d"] | None = None
    text: Float[Tensor, "d"] | None = None

    def __post_init__(self):
        unknown = [name for name in self.off if name not in INPUTS]
        if unknown:
            raise InputError(f"A router has no input '{unknown[0]}'; its inputs are {', '.join(INPUTS)}.")


@dataclass(frozen=True)
class RoutedAnswer:
    """One teacher-forced pass. value: log-probability of the answer in nats. probability: of every router; leader: its first choice."""

    value: float
    probability: Float[np.ndarray, "l s e"]

    @property
    def leader(self) -> Int[np.ndarray, "l s"]:
        return self.probability.argmax(axis=-1)


@torch.no_grad()
def router_context(model: LeoMini, asked: Asked) -> tuple[Float[Tensor, "d"], Float[Tensor, "d"]]:
    """(mean visual token, mean question embedding): what the routers see of a run beside its hidden states."""
    names = ("input_ids", "attention_mask", "question_mask", "picture_owner")
    prompt = model.prompt(**{name: asked.inputs[name] for name in names if name in asked.inputs}, pictures=asked.features)
    return prompt.visual[0], prompt.text[0]


@contextlib.contextmanager
def router_sees(model: LeoMini, view: RouterView) -> Iterator[None]:
    """All routers decide by this view inside the block, and as before after it."""
    with lock_of(model):
        handles = router_hooks(model, lambda index: _hook(view))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def _hook(view: RouterView):
    def decide(router, inputs, routing):
        hidden, context, shape = inputs
        seen = replace(context, visual=_seen(context, "visual", view), text=_seen(context, "text", view))
        return router.forward(None if "hidden" in view.off else hidden, seen, shape)

    return decide


def _seen(context: RoutingContext, name: str, view: RouterView) -> Float[Tensor, "b d"]:
    own, other = getattr(context, name), getattr(view, name)
    if name in view.off:
        return torch.zeros_like(own)
    return own if other is None else other.to(own).expand_as(own)


@torch.no_grad()
def routed_answer(model: LeoMini, asked: Asked, answer_ids: Int[Tensor, "a"], view: RouterView | None = None) -> RoutedAnswer:
    """Prompt and answer in one pass, with the routers' own view or another one. Raises InputError without a picture to route by."""
    if asked.features is None:
        raise InputError("Without a picture no router decides anything: give a picture.")
    inputs, count = teacher_forced(asked, answer_ids)
    with router_sees(model, view or RouterView()), record(model) as recording:
        logits = model(**inputs, pictures=asked.features, picture_owner=asked.inputs["picture_owner"], logits_to_keep=count + 1).logits
    value = float(answer_log_probability(logits, answer_ids).double().sum())
    return RoutedAnswer(value, recording.stacked("probability")[0].numpy())


def moved(before: RoutedAnswer, after: RoutedAnswer, positions: Bool[np.ndarray, "s"] | None = None) -> Float[np.ndarray, "l"]:
    """Share of positions, 0..1 per layer, that another expert leads after the change. positions: which ones count (default: all)."""
    other = before.leader != after.leader
    return other.mean(axis=1) if positions is None else other[:, positions].mean(axis=1)
