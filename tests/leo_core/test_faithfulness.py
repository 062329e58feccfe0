"""The test of a map against values computed another way, its ends, its ties, and its way through a trace file."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from leo_core.analysis.contributions import subset_masks, values_of
from leo_core.analysis.faithfulness import SHARES, VISUAL, Progress, even_order, source_map, test_map, visual_map
from leo_core.analysis.maptest import MapTest, area
from leo_core.checkpoint import Sources
from leo_core.config import ExpertSource
from leo_core.errors import InputError
from leo_core.experts.build import build_experts
from leo_core.processor import LeoImageProcessor, LeoProcessor
from leo_core.tracing.intervene import Interventions
from leo_core.tracing.run import ask, trace_run, with_analysis
from leo_core.tracing.trace_file import load_trace, save_trace


@pytest.fixture(scope="module")
def small(make_leo, make_decoder, expert_sources, tokenizer, tmp_path_factory):
    """(model, asked, trace, answer ids) of a run with two pictures and four experts."""
    torch.manual_seed(0)
    experts = build_experts([ExpertSource(**one) for one in expert_sources], Sources(tmp_path_factory.mktemp("sources")))
    place = tokenizer.convert_tokens_to_ids("<file_sep>")
    model = make_leo(decoder=make_decoder(vocab_size=len(tokenizer) + 3), vision_experts=experts, experts=expert_sources, image_token_id=place)
    for index, buffer in enumerate(model.reducer.absent):
        torch.nn.init.normal_(buffer, std=0.1 + index)
    processor = LeoProcessor(LeoImageProcessor(expert_sources).attach(experts), tokenizer, visual_tokens=model.reducer.tokens)
    rng = np.random.default_rng(0)
    pictures = [Image.fromarray(rng.integers(0, 255, (*size, 3), dtype=np.uint8)) for size in ((50, 90), (64, 48))]
    asked = ask(model, processor, pictures, "What is in the picture?")
    trace = trace_run(model, processor, asked, max_new_tokens=3)
    return model, asked, trace, torch.from_numpy(trace.token_ids[trace.prompt_length :])


def outcome(*arguments, **options) -> MapTest:
    *steps, result = test_map(*arguments, **options)
    assert all(isinstance(step, Progress) for step in steps) and steps[0].done == 0 and steps[-1].done == steps[-1].total
    return result


def by_one_pass(model, asked, ids, change: Interventions, **other) -> float:
    """Log-probability of the answer under one intervention, in a forward pass of its own."""
    full = torch.cat([asked.inputs["input_ids"], ids[None]], dim=1)
    grow = lambda name: torch.nn.functional.pad(asked.inputs[name], (0, len(ids)), value=name == "attention_mask")  # noqa: E731
    inputs = {**change.model_inputs(model, asked.features), **other}
    with torch.no_grad():
        logits = model(
            input_ids=full, attention_mask=grow("attention_mask"), question_mask=grow("question_mask"),
            picture_owner=asked.inputs["picture_owner"], **inputs,
        ).logits.log_softmax(-1)  # fmt: skip
    return float(logits[0, -len(ids) - 1 : -1].gather(-1, ids[:, None]).sum())


@pytest.mark.parametrize("picture", [0, 1])
def test_curves_equal_single_passes_and_end_at_absent_and_full(small, picture):
    model, asked, trace, ids = small
    scores = source_map(trace, "clip", picture)
    result = outcome(model, asked, ids, "clip", scores, picture, batch=5)
    expert_mask = torch.ones(2, 4, dtype=torch.bool)
    expert_mask[picture, 0] = False
    assert result.absent == pytest.approx(by_one_pass(model, asked, ids, Interventions(), expert_mask=expert_mask), abs=1e-4)
    assert result.full == pytest.approx(float(np.log(trace.probability).sum()), abs=1e-4)
    assert result.shares.tolist() == [0.0, *SHARES, 1.0] and result.tokens == len(scores)
    for curves in ("deletion", "equal_deletion", "random_deletion"):
        assert np.allclose(getattr(result, curves)[..., [0, -1]], [result.full, result.absent], atol=0)
    for curves in ("insertion", "equal_insertion", "random_insertion"):
        assert np.allclose(getattr(result, curves)[..., [0, -1]], [result.absent, result.full], atol=0)
    masks = list(asked.features.masks)
    heaviest = np.argsort(-scores)[: int(0.5 * len(scores) + 0.5)]
    masks[0] = masks[0].clone()
    masks[0][picture, heaviest] = False
    half = by_one_pass(model, asked, ids, Interventions(), pictures=replace(asked.features, masks=tuple(masks)))
    assert len(set(scores.tolist())) == len(scores) and result.deletion[3] == pytest.approx(half, abs=1e-4)
    assert result.deletion[3] != pytest.approx(result.full, abs=1e-4)


def test_pictures_are_tested_each_on_its_own(small):
    model, asked, trace, ids = small
    both = [outcome(model, asked, ids, "last", source_map(trace, "last", picture), picture) for picture in (0, 1)]
    values = values_of(model, asked, ids, subset_masks(4))
    assert both[0].full == pytest.approx(float(values[-1]), abs=1e-4)  # all experts
    assert both[0].absent != pytest.approx(both[1].absent, abs=1e-5)  # each picture on its own
    assert by_one_pass(model, asked, ids, Interventions(drop_experts=("last",))) == pytest.approx(float(values[0b1011]), abs=1e-4)


def test_a_map_of_equal_weights_is_its_own_control(small):
    model, asked, trace, ids = small
    result = outcome(model, asked, ids, "convnext", np.full(len(trace.of_expert("convnext").geometry), 0.25))
    assert result.deletion.tolist() == result.equal_deletion.tolist() and result.insertion.tolist() == result.equal_insertion.tolist()
    assert result.gain_over_equal == (0.0, 0.0)


def test_visual_tokens_against_interventions(small):
    model, asked, _, ids = small
    scores = visual_map(model, asked, ids, picture=0)
    assert scores.shape == (model.reducer.tokens,) and np.isfinite(scores).all()
    both = outcome(model, asked, ids, VISUAL, scores, picture=0, shares=(0.34, 0.67))
    first = int(np.argmax(scores))
    mask = torch.ones(2, model.reducer.tokens, dtype=torch.bool)
    mask[0, first] = False
    assert both.deletion[1] == pytest.approx(by_one_pass(model, asked, ids, Interventions(), visual_mask=mask), abs=1e-4)
    mask[0] = False
    assert both.absent == pytest.approx(by_one_pass(model, asked, ids, Interventions(), visual_mask=mask), abs=1e-4)


def test_a_test_can_be_stopped_and_leaves_the_model_alone(small):
    import threading

    model, asked, trace, ids = small
    before, stop = by_one_pass(model, asked, ids, Interventions()), threading.Event()
    steps = []
    for step in test_map(model, asked, ids, "clip", source_map(trace, "clip"), batch=4, stop=stop):
        steps.append(step)
        if len(steps) == 2:
            stop.set()
    assert [type(step) for step in steps] == [Progress, Progress] and steps[1].done == 4
    assert by_one_pass(model, asked, ids, Interventions()) == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "nobody"}, "no vision expert 'nobody'"), ({"picture": 2}, "no picture 2"), ({"seeds": 4}, "at least 5 seeds"),
        ({"shares": (0.5, 0.2)}, "increasing shares"), ({"scores": np.ones(3)}, "score for each"), ({"scores": np.full(500, np.nan)}, "finite score"),
    ],
)  # fmt: skip
def test_wrong_wishes_are_refused_in_words(small, change, words):
    model, asked, trace, ids = small
    wish = {"name": "clip", "scores": source_map(trace, "clip"), **change}
    with pytest.raises(InputError, match=words):
        next(test_map(model, asked, ids, **wish))


def test_the_result_goes_through_a_trace_file(small, tmp_path):
    model, asked, trace, ids = small
    result = outcome(model, asked, ids, "both", source_map(trace, "both", 1), 1)
    save_trace(with_analysis(trace, result.key, result.as_dict()), tmp_path / "run.safetensors")
    words = load_trace(tmp_path / "run.safetensors").analyses["faithfulness/both/1"]
    again = MapTest.from_dict(words)
    assert again.as_dict() == result.as_dict() == words and again.verdict == words["verdict"]
    for spoiled in ({**words, "deletion": [1.0]}, {**words, "random_deletion": "x"}, {}, {**words, "map": 3}):
        with pytest.raises(InputError, match="no result of a map's test"):
            MapTest.from_dict(spoiled)


def made(deletion: float, insertion: float, noise: float = 0.1) -> MapTest:
    """A test whose curves fall and rise in straight lines but for the map's own middle."""
    shares, straight = np.array([0, 0.5, 1.0]), np.array([0.0, -2.0, -4.0])
    rows = straight + noise * np.array([[0, k, 0] for k in (-1.0, -0.5, 0.0, 0.5, 1.0)])
    up = straight[::-1]
    return MapTest(
        "m", 0, 9, shares, straight + [0, -deletion, 0], up + [0, insertion, 0], rows, rows[:, ::-1], straight, up,
    )  # fmt: skip


def test_gains_and_sentences_by_hand():
    good = made(1.0, 0.8)
    # the middle of three equally spaced points weighs one half
    assert good.deletion_gain == pytest.approx(0.5) and good.insertion_gain == pytest.approx(0.4)
    assert good.spread == pytest.approx((0.05 * np.sqrt(0.625),) * 2) and good.gain_over_equal == pytest.approx((0.5, 0.4))
    assert area(np.array([0, 0.25, 1.0]), np.array([0.0, 4.0, 4.0])) == pytest.approx(0.5 + 3.0)
    assert good.verdict.startswith("The answer depends on what the map shows: deletion +0.500 ± 0.040, insertion +0.400")
    assert made(0, 0).verdict.startswith("The map is no better than random")
    assert made(-1, -1).verdict.startswith("The map is worse")
    assert "by insertion only" in made(0, 1).verdict and made(1, -1).verdict.startswith("Deletion and insertion disagree")
    flat = replace(good, **{name: getattr(good, name) * 0.001 for name in ("deletion", "insertion", "random_deletion", "random_insertion")})
    assert "nothing the map could show" in flat.verdict


@pytest.mark.parametrize("count", [1, 2, 16, 475])
def test_the_even_order_takes_every_token_once_and_spreads(count):
    order = even_order(count)
    assert sorted(order.tolist()) == list(range(count))
    if count > 100:  # every quarter of the tokens gets its quarter of the first fifth
        assert np.abs(np.bincount(order[: count // 5] * 4 // count, minlength=4) - count / 20).max() <= 1.5
