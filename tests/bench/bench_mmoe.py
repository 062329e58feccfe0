"""An MMoE layer against the plain linear and the naive loop: python tests/bench/bench_mmoe.py

128 tokens, 7168 -> 2048, E = 3 and a general expert, rank 16, router width 64, batch 1, float32, inference.
"""

import torch
from timing import medians, report

from leo_core.config import MMoEConfig
from leo_core.mmoe import MMoELinear
from leo_core.routing import RoutingContext, routing_context


def naive(layer: MMoELinear, x: torch.Tensor, context: RoutingContext) -> torch.Tensor:
    """One expert after the other, same router."""
    hidden = x @ layer.lora_a.weight[layer.groups * layer.rank :].T
    routing = layer.router(hidden, context, x.shape[:-1])
    y = torch.nn.functional.linear(x, layer.weight)
    for group in range(layer.groups):
        a, b = layer.expert(group)
        coefficient = 1.0 if group == 0 else routing.coefficient[..., group - 1, None]
        y = y + coefficient * layer.scale * (x @ a.T @ b.T)
    return y


def main() -> None:
    torch.manual_seed(0)
    layer = MMoELinear(7168, 2048, False, 2048, MMoEConfig()).eval()
    torch.nn.init.normal_(layer.lora_b.weight, std=0.02)
    x = torch.randn(1, 128, 7168)
    context = RoutingContext(torch.randn(1, 2048), torch.randn(1, 2048), torch.ones(1, dtype=torch.bool))

    def fast():
        with routing_context(context):
            return layer(x)

    with torch.inference_mode():
        difference = (fast() - naive(layer, x, context)).abs().max().item()
        variants = {"plain linear": lambda: torch.nn.functional.linear(x, layer.weight), "MMoE": fast, "naive loop": lambda: naive(layer, x, context)}
        report(f"MMoE layer (largest difference {difference:.1e})", medians(variants, rounds=40), "plain linear")


if __name__ == "__main__":
    main()
