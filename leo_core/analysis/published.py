"""Published architectures as arithmetic: what a prompt costs LLaVA-NeXT and LEO-Mini at their real sizes, under stated assumptions.

A multiply-add is two operations, as in leo_core.accounting, which counts the decoders. Norms, activations, patch embeddings,
resizing, CoTR and projectors are left out: together they are below 1 % of any system here.
"""

from collections.abc import Callable
from dataclasses import dataclass

from transformers import LlamaConfig, PreTrainedConfig

from leo_core.accounting import cost, decoder_flops
from leo_core.config import LeoConfig, MMoEConfig, ReducerConfig
from leo_core.errors import InputError


@dataclass(frozen=True)
class TransformerEncoder:
    """Self-attention and an MLP per layer. tokens: positions per picture. gated: three matrices in the MLP in place of two.

    window: tokens that attend to each other, in all but `global_layers` layers; None = all layers see all tokens.
    """

    name: str
    tokens: int
    width: int
    mlp: int
    layers: int
    gated: bool = False
    window: int | None = None
    global_layers: int = 0

    @property
    def flops(self) -> float:
        linear = 2 * (4 * self.width**2 + (3 if self.gated else 2) * self.width * self.mlp)
        wide = self.layers if self.window is None else self.global_layers
        seen = wide * self.tokens + (self.layers - wide) * (self.window or 0)
        return self.tokens * (self.layers * linear + 4.0 * seen * self.width)


@dataclass(frozen=True)
class ConvNext:
    """Stages of blocks: a depthwise 7 x 7 convolution and two pointwise ones of four times the width. pixels: side of the picture."""

    name: str
    pixels: int
    widths: tuple[int, ...]
    depths: tuple[int, ...]

    @property
    def flops(self) -> float:
        total, before = 0.0, 3
        for stage, (width, depth) in enumerate(zip(self.widths, self.depths, strict=True)):
            places = (self.pixels // (4 * 2**stage)) ** 2
            patch = 16 if stage == 0 else 4  # the stem takes 4 x 4 pixels, later stages 2 x 2 places
            total += 2.0 * places * (patch * before * width + depth * (49 * width + 8 * width**2))
            before = width
        return total


@dataclass(frozen=True)
class System:
    """A multimodal model. prompt: operations of the decoder for (visual tokens, text tokens). encoders: (encoder, runs per picture)."""

    name: str
    visual_tokens: int
    prompt: Callable[[int, int], float]
    encoders: tuple[tuple[TransformerEncoder | ConvNext, int], ...]

    def decoder(self, text: int) -> float:
        """Operations of the decoder's prefill with `text` tokens beside the visual ones."""
        return self.prompt(self.visual_tokens, text)

    @property
    def vision(self) -> float:
        """Operations of all vision encoders on one picture."""
        return sum(times * encoder.flops for encoder, times in self.encoders)


LLAMA3_8B = LlamaConfig(
    hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, vocab_size=128256
)
VICUNA_7B = LlamaConfig(
    hidden_size=4096, intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=32, vocab_size=32000
)

CLIP_336 = TransformerEncoder("CLIP ViT-L/14 at 336", 577, 1024, 4096, 24)
CONVNEXT_1024 = ConvNext("ConvNeXt-XXL at 1024", 1024, (384, 768, 1536, 3072), (3, 4, 30, 3))
EVA_1024 = TransformerEncoder("EVA-02-L/16 detector at 1024", 4096, 1024, 2730, 24, gated=True, window=256, global_layers=8)
PIX2STRUCT = TransformerEncoder("Pix2Struct-large, 2025 patches", 2025, 1536, 3968, 18, gated=True)
EAGLE_X4 = ((CLIP_336, 1), (CONVNEXT_1024, 1), (EVA_1024, 1), (PIX2STRUCT, 1))
"""The four experts of Eagle-X4, which LEO-Mini's list names, at the sizes of Eagle's code."""

EXPERTS_576 = (
    (CLIP_336, 1), (ConvNext("ConvNeXt-XXL at 768", 768, (384, 768, 1536, 3072), (3, 4, 30, 3)), 1),
    (TransformerEncoder("EVA-02-L/14 at 336", 577, 1024, 2730, 24, gated=True), 1),
    (TransformerEncoder("Pix2Struct-large, 576 patches", 576, 1536, 3968, 18, gated=True), 1),
)  # fmt: skip
"""The same four at the smallest sizes that give 576 tokens each, as second-hand notes on LEO-Mini have it."""


def plain_system(name: str, decoder: PreTrainedConfig, visual_tokens: int, encoders=()) -> System:
    """A model whose decoder has no experts."""
    return System(name, visual_tokens, lambda visual, text: decoder_flops(decoder, visual + text), tuple(encoders))


def leo_mini(visual_tokens: int = 64, encoders=EAGLE_X4, decoder: PreTrainedConfig = LLAMA3_8B) -> System:
    """LEO-Mini with its LoRA experts and routers."""
    config = LeoConfig(text_config=decoder, reducer=ReducerConfig(tokens=visual_tokens), mmoe=MMoEConfig())
    return System(f"LEO-Mini, {visual_tokens} tokens", visual_tokens, lambda visual, text: cost(config, visual, text).flops, tuple(encoders))


def llava_next(decoder: PreTrainedConfig = LLAMA3_8B, tiles: int = 5) -> System:
    """LLaVA-NeXT: four tiles and an overview, each 576 tokens of CLIP."""
    return plain_system("LLaVA-NeXT, 2880 tokens", decoder, 576 * tiles, ((CLIP_336, tiles),))


def saving(small: System, large: System, text: int, vision: bool = True) -> float:
    """Share of the operations of `large` that `small` does without, for one picture and `text` tokens. vision: encoders counted."""
    parts = [system.decoder(text) + (system.vision if vision else 0.0) for system in (small, large)]
    return 1 - parts[0] / parts[1]


def text_for(small: System, large: System, wanted: float, vision: bool = True, most: int = 100_000) -> int | None:
    """The fewest text tokens at which the saving is no more than `wanted` (it falls with the text); None where it is not, up to `most`."""
    if not 0 < wanted < 1:
        raise InputError(f"wanted is {wanted}; a saving is a share between 0 and 1.")
    if saving(small, large, most, vision) > wanted:
        return None
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if saving(small, large, middle, vision) > wanted else (low, middle)
    return low
