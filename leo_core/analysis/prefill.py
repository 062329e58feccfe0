"""What a prompt of some length costs this model on this machine: counted by arithmetic, counted by torch, and timed."""

import time
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from leo_core.accounting import cost
from leo_core.analysis.live_memory import LiveMemory
from leo_core.errors import InputError
from leo_core.model import LeoMini


@dataclass(frozen=True)
class Prefill:
    """One prompt. flops, cache_bytes: leo_core.accounting's; counted_flops, counted_cache: of a real pass, by torch's counter and from
    the tensors in the cache. seconds: median of the repeats, fastest and slowest beside it. peak_bytes: most memory in tensors
    that the pass made, weights not counted.
    """

    visual_tokens: int
    positions: int
    flops: float
    counted_flops: float
    cache_bytes: int
    counted_cache: int
    seconds: float
    fastest: float
    slowest: float
    peak_bytes: int


@torch.no_grad()
def prefill(model: LeoMini, visual_tokens: int, text_tokens: int, repeats: int = 5, seed: int = 0) -> Prefill:
    """Measure the decoder, MMoE included, on random embeddings: its cost depends on the number of positions, not on what they say."""
    if visual_tokens < 0 or text_tokens < 1:
        raise InputError(f"A prompt needs at least one text token and no negative number of visual ones; got {text_tokens} and {visual_tokens}.")
    positions, width = visual_tokens + text_tokens, model.config.text_config.hidden_size
    random = torch.Generator().manual_seed(seed)
    embeds = (torch.randn(1, positions, width, generator=random) * model.get_input_embeddings().weight.std().cpu()).to(model.device, model.dtype)
    context = embeds.mean(dim=1)
    inputs = dict(
        inputs_embeds=embeds, attention_mask=torch.ones(1, positions, dtype=torch.long, device=model.device), routing_visual=context,
        routing_text=context, routing_picture=torch.ones(1, dtype=torch.bool, device=model.device), use_cache=True, logits_to_keep=1,
    )  # fmt: skip
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):  # fused attention is not counted on a CPU
        output = model(**inputs)
    held = sum(tensor.numel() * tensor.element_size() for layer in output.past_key_values.layers for tensor in (layer.keys, layer.values))
    with LiveMemory() as memory:
        output = model(**inputs)
    del output
    seconds = [_timed(model, inputs) for _ in range(repeats)]
    expected = cost(model.config, visual_tokens, text_tokens, model.dtype.itemsize)
    return Prefill(
        visual_tokens, positions, expected.flops, float(counter.get_total_flops()), expected.cache_bytes, held,
        float(np.median(seconds)), min(seconds), max(seconds), memory.peak,
    )  # fmt: skip


def _timed(model: LeoMini, inputs: dict) -> float:
    started = time.perf_counter()
    model(**inputs)
    return time.perf_counter() - started
