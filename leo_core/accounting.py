"""Arithmetic on the configuration: parameters, multiply-adds and cache bytes, with and without token reduction.

FLOPs count a multiply-add as two. Decoder, per layer and position: 2 (d d_q + 2 d d_kv + d_q d) for attention's linear
maps, 2 * 3 d m for the gated MLP, 4 s d_q for scores and mixing over s positions (the full square, as papers count it).
The head is counted once per prompt: only the last position's logits are needed.
"""

from dataclasses import dataclass

from leo_core.config import LeoConfig
from leo_core.model import LeoMini


@dataclass(frozen=True)
class Cost:
    """Of one prompt. flops: decoder prefill, MMoE included. cache_bytes: keys and values of all positions."""

    positions: int
    flops: float
    cache_bytes: int


def decoder_flops(config, positions: int) -> float:
    """Prefill of a Llama-like decoder; config: its transformers config."""
    d, m, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    head = getattr(config, "head_dim", None) or d // config.num_attention_heads
    query, key = head * config.num_attention_heads, head * config.num_key_value_heads
    linear = 2 * (d * query + 2 * d * key + query * d + 3 * d * m)
    return layers * positions * (linear + 4 * positions * query) + 2 * d * config.vocab_size


def mmoe_flops(config: LeoConfig, positions: int) -> float:
    """Added by the LoRA experts and routers: all A matrices and the router's hidden part, then the stacked B."""
    mmoe, text = config.mmoe_config, config.text_config
    if not mmoe.installed:
        return 0.0
    middle = (mmoe.num_experts + int(mmoe.general)) * mmoe.rank
    hidden = mmoe.router_width if mmoe.num_experts and "hidden" in mmoe.router_inputs else 0
    router = mmoe.router_width * mmoe.num_experts if mmoe.num_experts else 0
    return text.num_hidden_layers * positions * 2.0 * (text.intermediate_size * (middle + hidden) + middle * text.hidden_size + router)


def cache_bytes(config, positions: int, bytes_per_value: int = 4) -> int:
    """Keys and values of all layers."""
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * config.num_hidden_layers * config.num_key_value_heads * head * positions * bytes_per_value


def cost(config: LeoConfig, visual_tokens: int, text_tokens: int, bytes_per_value: int = 4) -> Cost:
    """Cost of a prompt with this many visual and other tokens."""
    positions = visual_tokens + text_tokens
    flops = decoder_flops(config.text_config, positions) + mmoe_flops(config, positions)
    return Cost(positions, flops, cache_bytes(config.text_config, positions, bytes_per_value))


def parameters(model: LeoMini) -> dict[str, int]:
    """Parameters of each part, adding up to the whole; experts run as graphs outside torch and are not in it."""
    parts = {"decoder": 0, "MMoE": 0, "reducer": 0, "projector": 0, "vision experts (torch)": 0}
    for name, parameter in model.named_parameters():
        if name.startswith("decoder."):
            part = "MMoE" if any(mark in name for mark in (".lora_a.", ".lora_b.", ".router.")) else "decoder"
        else:
            part = {"reducer": "reducer", "projector": "projector"}.get(name.split(".")[0], "vision experts (torch)")
        parts[part] += parameter.numel()
    return parts
