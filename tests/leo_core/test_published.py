"""Costs of published architectures against numbers that their authors print, and against another way of counting."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM, CLIPVisionConfig, CLIPVisionModel, ConvNextConfig, ConvNextModel

from leo_core.analysis.published import (
    CLIP_336, CONVNEXT_1024, LLAMA3_8B, VICUNA_7B, ConvNext, TransformerEncoder, leo_mini, llava_next, plain_system, saving, text_for,
)  # fmt: skip
from leo_core.errors import InputError


def counted(call) -> float:
    with FlopCounterMode(display=False) as counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        call()
    return counter.get_total_flops()


@pytest.mark.parametrize(("config", "billions"), [(LLAMA3_8B, 8.03), (VICUNA_7B, 6.74)])
def test_the_decoders_have_their_published_number_of_parameters(config, billions):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    assert sum(one.numel() for one in model.parameters()) / 1e9 == pytest.approx(billions, rel=2e-3)


def test_a_clip_tower_costs_what_torch_counts():
    config = CLIPVisionConfig(hidden_size=32, intermediate_size=96, num_hidden_layers=3, num_attention_heads=2, image_size=32, patch_size=8)
    model = CLIPVisionModel(config).eval()
    whole = counted(lambda: model(torch.zeros(1, 3, 32, 32)))
    patches = 2 * 16 * 3 * 64 * 32
    assert TransformerEncoder("tiny", 17, 32, 96, 3).flops == pytest.approx(whole - patches, rel=1e-6)


def test_a_convnext_costs_what_torch_counts():
    model = ConvNextModel(ConvNextConfig(hidden_sizes=[8, 16, 24], depths=[2, 1, 3], num_stages=3, image_size=64)).eval()
    whole = counted(lambda: model(torch.zeros(1, 3, 64, 64)))
    assert ConvNext("tiny", 64, (8, 16, 24), (2, 1, 3)).flops == pytest.approx(whole, rel=1e-6)


def test_windows_see_less():
    wide, narrow = (TransformerEncoder("a", 64, 8, 32, 4, window=window, global_layers=1) for window in (None, 16))
    assert wide.flops - narrow.flops == 64 * 3 * 4 * (64 - 16) * 8


def test_the_large_encoders_cost_what_is_printed_for_them():
    # timm's list of ConvNeXt-XXL: 198.09 billion multiply-adds at 256 pixels; the cost grows with the area
    assert CONVNEXT_1024.flops / 2 / 16 == pytest.approx(198.09e9, rel=0.01)
    # CLIP ViT-L/14 at 336: 191 billion multiply-adds in timm's list
    assert CLIP_336.flops / 2 == pytest.approx(191.1e9, rel=0.02)


def test_an_official_count_of_a_decoder_is_met():
    # LLaVA-Mini's README: LLaVA-1.5-7B takes 8.55 T for 576 visual tokens; with a short prompt and CLIP
    full = plain_system("LLaVA-1.5", VICUNA_7B, 576, ((CLIP_336, 1),))
    assert (full.decoder(40) + full.vision) / 1e12 == pytest.approx(8.55, rel=0.05)


def test_the_saving_falls_with_the_text_and_is_found_again():
    small, large = leo_mini(), llava_next()
    savings = [saving(small, large, text) for text in (10, 100, 1000)]
    assert savings == sorted(savings, reverse=True) and all(0 < one < 1 for one in savings)
    assert saving(small, large, 100, vision=False) > savings[1]
    for vision in (True, False):
        text = text_for(small, large, 0.6383, vision)
        assert saving(small, large, text, vision) <= 0.6383 < saving(small, large, text - 1, vision)
    assert text_for(small, large, 0.999999) == 0 and text_for(small, large, 1e-6, most=10) is None
    with pytest.raises(InputError, match="between 0 and 1"):
        text_for(small, large, 1.0)


def test_more_visual_tokens_and_more_tiles_cost_more():
    assert leo_mini(256).decoder(30) > leo_mini(64).decoder(30) > plain_system("plain", LLAMA3_8B, 64).decoder(30)
    assert llava_next(tiles=5).vision == 5 * llava_next(tiles=1).vision
