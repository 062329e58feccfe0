"""MMoE in the decoder: a frozen linear layer, a general LoRA expert and routed LoRA experts (Eq. 8 of LEO-Mini).

    y = f_ORI(x) + f_GEN(x) + (1/k) sum over chosen experts f_i(x)

Two thin matrix products: the A matrices of all experts and the hidden part of the router are one product, the routing
scales the rank-sized middle, the B matrices are the second.
"""

import math

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from leo_core.config import MMoEConfig
from leo_core.errors import InputError
from leo_core.routing import Router, current_context


class MMoELinear(nn.Linear):
    """nn.Linear with LoRA experts; `weight` and `bias` keep their names, so decoder checkpoints stay as they are.

    lora_a: ((general + e) * r [+ router width], in). lora_b: (out, (general + e) * r), zeros at the start, so that a new
    layer equals the plain one. The general expert, where there is one, comes first.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool, text_width: int, config: MMoEConfig, device=None, dtype=None):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.rank, self.scale = config.rank, config.alpha / config.rank
        self.groups = config.num_experts + int(config.general)
        self.general = config.general
        self.num_experts = config.num_experts
        middle = self.groups * config.rank
        hidden = config.router_width if config.num_experts and "hidden" in config.router_inputs else 0
        self.lora_a = nn.Linear(in_features, middle + hidden, bias=False, device=device, dtype=dtype)
        self.lora_b = nn.Linear(middle, out_features, bias=False, device=device, dtype=dtype)
        self.router = Router(text_width, config).to(device=device, dtype=dtype) if config.num_experts else None
        nn.init.kaiming_uniform_(self.lora_a.weight, a=math.sqrt(5))
        nn.init.zeros_(self.lora_b.weight)

    @classmethod
    def around(cls, linear: nn.Linear, text_width: int, config: MMoEConfig) -> "MMoELinear":
        """The layer that computes what `linear` does, with experts beside it; shares its weight."""
        has_bias = linear.bias is not None
        layer = cls(linear.in_features, linear.out_features, has_bias, text_width, config, linear.weight.device, linear.weight.dtype)
        layer.weight, layer.bias = linear.weight, linear.bias
        return layer

    def forward(self, x: Float[Tensor, "b s in"]) -> Float[Tensor, "b s out"]:
        middle = self.lora_a(x)
        split = self.groups * self.rank
        scaled = self.gate(x, middle[..., :split], middle[..., split:])
        return F.linear(x, self.weight, self.bias) + self.lora_b(scaled)

    def gate(self, x: Tensor, middle: Float[Tensor, "b s gr"], hidden: Float[Tensor, "b s w"]) -> Float[Tensor, "b s gr"]:
        """The middle of every expert times its coefficient and the LoRA scale."""
        coefficient = self.coefficients(x, hidden if hidden.shape[-1] else None) * self.scale
        return (middle.unflatten(-1, (self.groups, self.rank)) * coefficient[..., None]).flatten(-2)

    def coefficients(self, x: Tensor, hidden: Tensor | None) -> Float[Tensor, "b s g"]:
        """1 for the general expert; the routing's coefficient for the others, 0 without a context or a picture."""
        context = current_context()
        if self.router is None or context is None:
            ones = x.new_ones(*x.shape[:-1], int(self.general))
            return F.pad(ones, (0, self.num_experts))
        routing = self.router(hidden, context, x.shape[:-1])
        if context.decisions is not None:
            context.decisions.append(routing)
        return F.pad(routing.coefficient, (int(self.general), 0), value=1.0)

    def expert(self, index: int) -> tuple[Float[Tensor, "r in"], Float[Tensor, "out r"]]:
        """(A, B) of one group, in order general (if there is one), expert 0, expert 1, ..."""
        rows = slice(index * self.rank, (index + 1) * self.rank)
        return self.lora_a.weight[rows], self.lora_b.weight[:, rows]


def mmoe_layers(decoder: nn.Module) -> dict[str, MMoELinear]:
    """All MMoE layers of a decoder by dotted name, in the order of its blocks."""
    return {name: module for name, module in decoder.named_modules() if isinstance(module, MMoELinear)}


def install_mmoe(decoder: nn.Module, text_width: int, config: MMoEConfig) -> None:
    """Replace the mlp.down_proj of every block. Raises InputError for a decoder without one."""
    if not config.installed:
        return
    found = [(name, module) for name, module in decoder.named_modules() if name.endswith("mlp.down_proj") and isinstance(module, nn.Linear)]
    if not found:
        raise InputError(f"{type(decoder).__name__} has no linear 'mlp.down_proj'; MMoE needs one in its blocks (Llama, Qwen2, Mistral have).")
    for name, linear in found:
        parent = decoder.get_submodule(name.rpartition(".")[0])
        parent.down_proj = MMoELinear.around(linear, text_width, config)
