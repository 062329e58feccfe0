"""What changes do to an answer: against plain forward passes, and against what the changes mean."""

import numpy as np
import pytest
import torch
from PIL import Image

from leo_core.analysis.contributions import contributions
from leo_core.analysis.effects import absences, effects, reroutings, value_under
from leo_core.analysis.router_inputs import RouterView, moved, routed_answer, router_context, router_sees
from leo_core.analysis.token_attributions import METHODS, token_attributions
from leo_core.analysis.contributions import attributions
from leo_core.checkpoint import Sources
from leo_core.config import ExpertSource
from leo_core.errors import InputError
from leo_core.experts.build import build_experts
from leo_core.mmoe import mmoe_layers
from leo_core.processor import LeoImageProcessor, LeoProcessor
from leo_core.tracing.intervene import Interventions, intervene
from leo_core.tracing.run import ask, trace_run


@pytest.fixture
def small(make_leo, make_decoder, expert_sources, tokenizer, tmp_path):
    """(model, processor, a prepared question, its answer) on four experts and a small tokenizer."""
    experts = build_experts([ExpertSource(**one) for one in expert_sources], Sources(tmp_path))
    decoder = make_decoder(vocab_size=len(tokenizer) + 3)
    place = tokenizer.convert_tokens_to_ids("<file_sep>")
    model = make_leo(decoder=decoder, vision_experts=experts, experts=expert_sources, image_token_id=place)
    for index, buffer in enumerate(model.reducer.absent):
        torch.nn.init.normal_(buffer, std=0.1 + index)
    processor = LeoProcessor(LeoImageProcessor(expert_sources).attach(experts), tokenizer, visual_tokens=model.reducer.tokens)
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (50, 90, 3), dtype=np.uint8))
    asked = ask(model, processor, [picture], "What is in the picture?")
    trace = trace_run(model, processor, asked, max_new_tokens=3)
    return model, processor, asked, trace


def ids_of(trace):
    return torch.from_numpy(trace.token_ids[trace.prompt_length :])


def test_nothing_changed_is_the_run_itself_and_absences_are_leave_one_out(small):
    model, processor, asked, trace = small
    ids = ids_of(trace)
    assert value_under(model, processor, asked, ids) == pytest.approx(float(np.log(trace.probability).sum()), abs=1e-4)
    shares = contributions(model, asked, ids)
    found = effects(model, processor, asked, ids, absences(model))
    assert list(found) == [f"without {name}" for name in model.vision_experts]
    assert list(found.values()) == pytest.approx((-shares.leave_one_out).tolist(), abs=1e-4)
    nobody = Interventions(drop_experts=tuple(model.vision_experts))
    assert value_under(model, processor, asked, ids, nobody) == pytest.approx(shares.v_none, abs=1e-4)


def test_reroutings_hold_what_their_names_say(small):
    model, processor, asked, trace = small
    changes = reroutings(model)
    assert list(changes) == ["only 1", "only 2", "only 3", "never 1", "never 2", "never 3", "none"]
    for name, wanted in (("only 2", [0, 1, 0]), ("none", [0, 0, 0])):
        run = trace_run(model, processor, asked, changes[name], max_new_tokens=2)
        assert np.array_equal(run.routing.coefficient, np.broadcast_to(wanted, run.routing.coefficient.shape))
    assert not trace_run(model, processor, asked, changes["never 3"], max_new_tokens=2).routing.coefficient[..., 2].any()


def test_all_forbidden_is_a_model_without_routed_experts(small):
    model, processor, asked, trace = small
    value = value_under(model, processor, asked, ids_of(trace), reroutings(model)["none"])
    for layer in mmoe_layers(model.decoder).values():
        layer.lora_b.weight.data[:, layer.rank :] = 0  # the general expert comes first
    assert value_under(model, processor, asked, ids_of(trace)) == pytest.approx(value, abs=1e-4)


# --- the routers' inputs ---


def test_a_router_that_sees_all_decides_as_before(small):
    model, processor, asked, trace = small
    own = routed_answer(model, asked, ids_of(trace))
    assert own.value == pytest.approx(value_under(model, processor, asked, ids_of(trace)), abs=1e-5)
    prompt = trace.prompt_length
    assert np.allclose(own.probability[:, :prompt], trace.routing.probability[:, :prompt], atol=1e-5)
    visual, text = router_context(model, asked)
    same = routed_answer(model, asked, ids_of(trace), RouterView(visual=visual, text=text))
    assert np.allclose(same.probability, own.probability, atol=1e-6) and moved(own, same).max() == 0


@pytest.mark.parametrize("name", ["visual", "text", "hidden"])
def test_an_input_that_is_off_is_a_zero_weight(small, name):
    model, processor, asked, trace = small
    off = routed_answer(model, asked, ids_of(trace), RouterView(off=(name,)))
    for layer in mmoe_layers(model.decoder).values():
        if name == "hidden":
            layer.lora_a.weight.data[layer.groups * layer.rank :] = 0
        else:
            getattr(layer.router, name).weight.data.zero_()
    assert np.allclose(off.probability, routed_answer(model, asked, ids_of(trace)).probability, atol=1e-6)


def test_with_all_inputs_off_every_position_of_a_layer_decides_alike_and_the_question_moves_text_only(small):
    model, processor, asked, trace = small
    ids = ids_of(trace)
    blind = routed_answer(model, asked, ids, RouterView(off=("visual", "text", "hidden")))
    assert np.ptp(blind.probability, axis=1).max() < 1e-6
    own = routed_answer(model, asked, ids)
    other = ask(model, processor, list(asked.images), "A red lion and a dog.")
    text = router_context(model, other)[1]
    asked_else = routed_answer(model, asked, ids, RouterView(text=text))
    assert np.abs(asked_else.probability - own.probability).max() > 1e-4
    assert np.allclose(routed_answer(model, asked, ids, RouterView(off=("text",), text=text)).probability,
                       routed_answer(model, asked, ids, RouterView(off=("text",))).probability)  # fmt: skip


def test_the_view_ends_with_its_block_and_is_refused_in_words(small):
    model, processor, asked, trace = small
    before = routed_answer(model, asked, ids_of(trace)).probability
    with pytest.raises(ZeroDivisionError), router_sees(model, RouterView(off=("hidden",))):
        raise ZeroDivisionError
    assert np.array_equal(routed_answer(model, asked, ids_of(trace)).probability, before)
    with pytest.raises(InputError, match="'sound'"):
        RouterView(off=("sound",))
    with pytest.raises(InputError, match="picture"):
        routed_answer(model, ask(model, processor, [], "What?"), ids_of(trace))


def test_moved_counts_other_leaders_at_the_chosen_positions(small):
    model, processor, asked, trace = small
    for layer in mmoe_layers(model.decoder).values():
        layer.lora_a.weight.data[layer.groups * layer.rank :] *= 20  # routers that listen to the hidden state
    own = routed_answer(model, asked, ids_of(trace))
    off = routed_answer(model, asked, ids_of(trace), RouterView(off=("hidden",)))
    by_hand = [np.mean([a.argmax() != b.argmax() for a, b in zip(*rows, strict=True)]) for rows in zip(own.probability, off.probability, strict=True)]
    assert moved(own, off).tolist() == pytest.approx(by_hand) and max(by_hand) > 0
    first = np.arange(own.probability.shape[1]) == 0
    assert set(moved(own, off, first).tolist()) <= {0.0, 1.0}


# --- attributions to visual tokens ---


@pytest.mark.parametrize("method", METHODS)
def test_token_attributions_sum_to_those_of_experts(small, method):
    model, _, asked, trace = small
    each = token_attributions(model, asked, ids_of(trace), method, steps=8)
    assert each.shape == (len(model.vision_experts), model.reducer.tokens)
    assert torch.allclose(each.sum(dim=1), attributions(model, asked, ids_of(trace), method, steps=8), atol=1e-4)


def test_along_a_smooth_path_integrated_gradients_are_complete(small):
    model, processor, asked, trace = small
    ids, change = ids_of(trace), Interventions(force_route={-1: 0})  # one route: no jumps
    with intervene(model, change):
        total = float(token_attributions(model, asked, ids, "integrated_gradients", steps=64).sum())
        shares = contributions(model, asked, ids)
    assert total == pytest.approx(shares.v_all - shares.v_none, abs=0.02 + 0.02 * abs(shares.v_all - shares.v_none))


def test_what_cannot_be_attributed_is_refused(small):
    model, processor, asked, trace = small
    with pytest.raises(InputError, match="allowed are"):
        token_attributions(model, asked, ids_of(trace), "guess")
    with pytest.raises(InputError, match="one picture"):
        token_attributions(model, ask(model, processor, [], "What?"), ids_of(trace))
