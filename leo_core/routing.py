"""Which LoRA expert a position uses: the router, its decision as a value, and the balance losses."""

import contextlib
from contextvars import ContextVar
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from leo_core.config import MMoEConfig
from leo_core.errors import InputError


@dataclass(frozen=True)
class Routing:
    """One layer's decision for every position. probability sums to 1 over experts; coefficient is what really multiplies
    an expert's output (1/k or p/k for the chosen, 0 for the others and for samples without a picture)."""

    logits: Float[Tensor, "b s e"]
    probability: Float[Tensor, "b s e"]
    coefficient: Float[Tensor, "b s e"]


@dataclass(frozen=True)
class RoutingContext:
    """What the routers of all layers see beside the hidden state, for the duration of one forward pass.

    visual, text: mean visual token and mean question embedding of each sample. has_picture: False = only the general
    expert works. valid: positions that count in the balance loss (no padding). decisions: filled by the layers in
    training, for the balance loss; None where nobody asks.
    """

    visual: Float[Tensor, "b d"]
    text: Float[Tensor, "b d"]
    has_picture: Bool[Tensor, "b"]
    valid: Bool[Tensor, "b s"] | None = None
    decisions: list[Routing] | None = field(default=None, compare=False)


_CONTEXT: ContextVar[RoutingContext | None] = ContextVar("leo_routing_context", default=None)


@contextlib.contextmanager
def routing_context(context: RoutingContext | None):
    """Hand the context to every router below. A context variable, so that threads and users never meet."""
    token = _CONTEXT.set(context)
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def current_context() -> RoutingContext | None:
    """The context of the forward pass that is running here; None outside LeoMini.forward."""
    return _CONTEXT.get()


def reentering(checkpoint):
    """An activation-checkpointing function whose recomputation sees the routing context of its first run.

    Recomputation happens in the backward pass, outside LeoMini.forward: without this every router would see no picture,
    and gradients would be wrong without a word.
    """

    def call(function, *args, **kwargs):
        context = current_context()

        def within(*inner, **options):
            with routing_context(context):
                return function(*inner, **options)

        return checkpoint(within, *args, **kwargs)

    return call


class Router(nn.Module):
    """Two-layer MLP with GELU over (visual, text, hidden): one decision per token and layer (section 3.3).

    The hidden state's part of the first layer is computed with the LoRA experts' A matrices and arrives as `hidden`.
    """

    def __init__(self, text_width: int, config: MMoEConfig):
        super().__init__()
        self.top_k, self.gate = config.top_k, {"straight_through": straight_through, "probability": by_probability}[config.gate]
        width = config.router_width
        self.visual = nn.Linear(text_width, width, bias=False) if "visual" in config.router_inputs else None
        self.text = nn.Linear(text_width, width, bias=False) if "text" in config.router_inputs else None
        self.bias = nn.Parameter(torch.zeros(width))
        self.out = nn.Linear(width, config.num_experts)

    def forward(self, hidden: Float[Tensor, "b s w"] | None, context: RoutingContext, shape: torch.Size) -> Routing:
        """shape: (b, s). Raises nothing; samples without a picture get coefficient 0 ("not evaluated")."""
        first = self.bias.expand(*shape, -1) if hidden is None else hidden + self.bias
        if self.visual is not None:
            first = first + self.visual(context.visual)[:, None]
        if self.text is not None:
            first = first + self.text(context.text)[:, None]
        logits = self.out(nn.functional.gelu(first))
        probability = logits.softmax(dim=-1)
        coefficient = self.gate(probability, self.top_k) * context.has_picture[:, None, None]
        return Routing(logits, probability, coefficient)


def chosen(probability: Float[Tensor, "*b e"], top_k: int) -> Float[Tensor, "*b e"]:
    """1 for the top_k experts, 0 for the others."""
    return torch.zeros_like(probability).scatter(-1, probability.topk(top_k, dim=-1).indices, 1.0)


def straight_through(probability: Float[Tensor, "*b e"], top_k: int) -> Float[Tensor, "*b e"]:
    """Value 1/k on the chosen (Eq. 8), gradient that of the probability: without it no task gradient reaches the router."""
    surrogate = probability - probability.detach() if torch.is_grad_enabled() else 0.0
    return (chosen(probability, top_k) + surrogate) / top_k


def by_probability(probability: Float[Tensor, "*b e"], top_k: int) -> Float[Tensor, "*b e"]:
    """p/k on the chosen."""
    return chosen(probability, top_k) * probability / top_k


def balance_loss(decisions: list[Routing], valid: Bool[Tensor, "b s"], config: MMoEConfig) -> Float[Tensor, ""]:
    """Sum over layers, valid positions only; both forms have a gradient that reaches the router.

    switch: E * sum_i f_i P_i (Fedus et al. 2021), f the share of choices and P the mean probability; 1 at balance.
    squared: sum_i (P_i - 1/E)^2, LEO-Mini's balance loss with probabilities in place of counts; 0 at balance.
    """
    weight = valid / valid.sum().clamp(min=1)
    total = valid.new_zeros((), dtype=torch.float32)
    for decision in decisions:
        mean = torch.einsum("bse,bs->e", decision.probability.float(), weight)
        if config.balance == "switch":
            picks = chosen(decision.probability.detach().float(), config.top_k) / config.top_k
            total = total + config.num_experts * (torch.einsum("bse,bs->e", picks, weight) * mean).sum()
        elif config.balance == "squared":
            total = total + ((mean - 1 / config.num_experts) ** 2).sum()
        else:
            raise InputError("balance is 'none': there is no balance loss to compute.")
    return total
