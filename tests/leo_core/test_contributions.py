"""Shapley values on paper-size games, and v(S) against single forward passes."""

import itertools

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from leo_core.analysis.contributions import attributions, contributions, shapley_values, subset_masks
from leo_core.experts.build import build_experts
from leo_core.checkpoint import Sources
from leo_core.config import ExpertSource, MMoEConfig
from leo_core.processor import LeoImageProcessor, LeoProcessor
from leo_core.tracing.run import ask, trace_run


def by_permutations(values: torch.Tensor) -> list[float]:
    """Mean marginal gain over all orders of arrival, straight from the definition."""
    players = int(np.log2(len(values)))
    gains = np.zeros(players)
    orders = list(itertools.permutations(range(players)))
    for order in orders:
        seen = 0
        for player in order:
            gains[player] += float(values[seen | 1 << player] - values[seen])
            seen |= 1 << player
    return (gains / len(orders)).tolist()


@pytest.mark.parametrize("players", [1, 2, 3, 4])
def test_shapley_values_equal_their_definition(players):
    values = torch.randn(2**players, dtype=torch.float64)
    ours = shapley_values(values)
    assert ours.tolist() == pytest.approx(by_permutations(values))
    assert float(ours.sum()) == pytest.approx(float(values[-1] - values[0]))


def test_a_glove_game():
    # players 0 and 1 have left gloves, 2 the right one: a pair is worth 1; by hand 1/6, 1/6, 4/6
    worth = torch.tensor([float(bool(s & 4) and bool(s & 3)) for s in range(8)])
    assert shapley_values(worth).tolist() == pytest.approx([1 / 6, 1 / 6, 4 / 6])


@pytest.fixture(params=[3, 1], ids=["three LoRA experts", "one LoRA expert"])
def small(request, make_leo, make_decoder, expert_sources, tokenizer, tmp_path):
    """A whole model with four experts on a small tokenizer."""
    experts = build_experts([ExpertSource(**one) for one in expert_sources], Sources(tmp_path))
    decoder = make_decoder(vocab_size=len(tokenizer) + 3)
    place = tokenizer.convert_tokens_to_ids("<file_sep>")
    mmoe = MMoEConfig(num_experts=request.param, rank=4, alpha=8.0, router_width=8)
    model = make_leo(mmoe=mmoe, decoder=decoder, vision_experts=experts, experts=expert_sources, image_token_id=place)
    for index, buffer in enumerate(model.reducer.absent):
        torch.nn.init.normal_(buffer, std=0.1 + index)
    processor = LeoProcessor(LeoImageProcessor(expert_sources).attach(experts), tokenizer, visual_tokens=model.reducer.tokens)
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (50, 90, 3), dtype=np.uint8))
    return model, processor, picture


def test_every_subset_equals_its_own_forward_pass_and_values_are_complete(small):
    model, processor, picture = small
    asked = ask(model, processor, [picture], "What is in the picture?")
    trace = trace_run(model, processor, asked, max_new_tokens=4)
    ids = torch.from_numpy(trace.token_ids[trace.prompt_length :])
    shares = contributions(model, asked, ids)
    assert shares.completeness_error < 1e-9
    assert shares.v_all == pytest.approx(float(np.log(trace.probability).sum()), abs=1e-4)
    full = torch.cat([asked.inputs["input_ids"], ids[None]], dim=1)
    grow = lambda name: torch.nn.functional.pad(asked.inputs[name], (0, len(ids)), value=name == "attention_mask")  # noqa: E731
    for row, mask in enumerate(subset_masks(4)):
        with torch.no_grad():
            logits = model(
                input_ids=full, attention_mask=grow("attention_mask"), question_mask=grow("question_mask"), pictures=asked.features,
                picture_owner=asked.inputs["picture_owner"], expert_mask=mask[None],
            ).logits.log_softmax(-1)  # fmt: skip
        alone = logits[0, -len(ids) - 1 : -1].gather(-1, ids[:, None]).sum()
        assert float(shares.subsets[row]) == pytest.approx(float(alone), abs=1e-4)


def test_integrated_gradients_add_up_to_the_gain_from_absent_to_present(small):
    model, processor, picture = small
    asked = ask(model, processor, [picture], "What is in the picture?")
    trace = trace_run(model, processor, asked, max_new_tokens=3)
    ids = torch.from_numpy(trace.token_ids[trace.prompt_length :])
    shares = contributions(model, asked, ids)
    gradients = attributions(model, asked, ids, "integrated_gradients", steps=400)
    gain = shares.v_all - shares.v_none
    if model.config.mmoe_config.num_experts == 1:  # with a choice of routes the path jumps, and the sum cannot be exact
        assert float(gradients.sum()) == pytest.approx(gain, abs=0.02 * abs(gain) + 0.02)
    by_hand = attributions(model, asked, ids)
    assert by_hand.shape == (4,) and torch.isfinite(by_hand).all()
    assert_close(by_hand, attributions(model, asked, ids))
