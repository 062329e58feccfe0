"""Interventions equal the same change made by hand, and leave nothing behind."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from leo_core.config import MMoEConfig
from leo_core.errors import InputError
from leo_core.mmoe import mmoe_layers
from leo_core.routing import Routing
from leo_core.tracing.intervene import Interventions, intervene
from leo_core.tracing.record import record

STEPS = 5
GREEDY = {"max_new_tokens": STEPS, "min_new_tokens": STEPS, "do_sample": False, "pad_token_id": 0}
NAMES = ("one", "two", "three")


class Fixed(nn.Module):
    """A router that always gives this coefficient where there is a picture."""

    def __init__(self, coefficient):
        super().__init__()
        self.coefficient = torch.tensor(coefficient)

    def forward(self, hidden, context, shape):
        coefficient = self.coefficient.expand(*shape, -1) * context.has_picture[:, None, None]
        return Routing(coefficient, coefficient, coefficient)


@pytest.fixture
def batch(make_prompts, make_features) -> dict:
    return {**make_prompts((1, 0, 2), (4, 7, 3)), "pictures": make_features()}


def with_router(model, *layers_and_coefficients):
    layers = list(mmoe_layers(model.decoder).values())
    for index, coefficient in layers_and_coefficients:
        layers[index].router = Fixed(coefficient)
    return model


@pytest.mark.parametrize("top_k", [1, 2])
@pytest.mark.parametrize(("route", "layers"), [({1: 2}, [1]), ({-1: 0}, [0, 1, 2]), ({-1: 0, 2: 1}, [0, 1, 2])])
@torch.no_grad()
def test_a_forced_route_equals_a_model_whose_router_is_replaced(top_k, route, layers, make_leo, batch):
    mmoe = MMoEConfig(rank=4, top_k=top_k, router_width=8)
    model = make_leo(mmoe=mmoe)
    before = model(**batch).logits
    chosen = [(layer, [float(expert == route.get(layer, route.get(-1))) for expert in range(3)]) for layer in layers]
    replaced = with_router(make_leo(mmoe=mmoe), *chosen)
    with intervene(model, Interventions(force_route=route)):
        logits, answer = model(**batch).logits, model.generate(**batch, **GREEDY)
    assert_close(logits, replaced(**batch).logits)
    assert torch.equal(answer, replaced.generate(**batch, **GREEDY))
    assert (logits - before)[[0, 2]].abs().max() > 1e-3
    assert_close(logits[1], before[1])  # no picture, no route to force
    assert torch.equal(model(**batch).logits, before)


@pytest.mark.parametrize("gate", ["straight_through", "probability"])
@pytest.mark.parametrize("top_k", [1, 2])
@torch.no_grad()
def test_forbidding_all_experts_leaves_the_general_one(gate, top_k, make_leo, batch):
    model = make_leo(mmoe=MMoEConfig(rank=4, top_k=top_k, gate=gate, router_width=8))
    general = with_router(make_leo(mmoe=MMoEConfig(rank=4, router_width=8)), *((layer, [0.0] * 3) for layer in range(3)))
    with intervene(model, Interventions(forbid_route={-1: (0, 1, 2)})):
        logits = model(**batch).logits
    assert_close(logits, general(**batch).logits)
    assert (logits - model(**batch).logits).abs().max() > 1e-3


@pytest.mark.parametrize("gate", ["straight_through", "probability"])
@pytest.mark.parametrize("top_k", [1, 2])
@torch.no_grad()
def test_forbidden_experts_get_nothing_and_the_next_best_take_their_place(gate, top_k, make_leo, batch):
    model = make_leo(mmoe=MMoEConfig(rank=4, top_k=top_k, gate=gate, router_width=8))
    seen = {}

    def keep(layer, inputs, output, name="first"):
        seen[name] = output

    first = next(iter(mmoe_layers(model.decoder).values()))
    handles = []
    with intervene(model, Interventions(forbid_route={0: (1,)})):
        handles.append(first.router.register_forward_hook(keep))  # after the intervention's own hook
        model(**batch)
        handles[0].remove()
    routing, pictured = seen["first"], torch.tensor([True, False, True])
    assert routing.coefficient[..., 1].abs().max() == 0
    left = routing.logits.clone()
    left[..., 1] = -torch.inf
    best = left.topk(top_k, dim=-1).indices
    used = torch.zeros_like(left).scatter(-1, best, 1.0) * pictured[:, None, None]
    assert torch.equal(routing.coefficient > 0, used > 0)
    if gate == "straight_through":
        assert_close(routing.coefficient, used / top_k)
    assert_close(routing.probability, routing.logits.softmax(-1))  # what the router said stays on record


@torch.no_grad()
def test_only_as_many_as_are_allowed_take_part(make_leo, batch):
    model = make_leo(mmoe=MMoEConfig(rank=4, top_k=2, router_width=8))
    replaced = with_router(make_leo(mmoe=MMoEConfig(rank=4, top_k=2, router_width=8)), *((layer, [0.0, 0.5, 0.0]) for layer in range(3)))
    with intervene(model, Interventions(forbid_route={-1: (0, 2)})):
        assert_close(model(**batch).logits, replaced(**batch).logits)


@torch.no_grad()
def test_recording_sees_the_forced_route(make_leo, batch):
    model = make_leo()
    with intervene(model, Interventions(force_route={1: 2})), record(model) as recording:
        model(**batch)
    name = "model.layers.1.mlp.down_proj"
    assert recording.coefficient[name][0][[0, 2]].flatten(0, 1).unique(dim=0).tolist() == [[0, 0, 1]]
    assert recording.norm[name][0][0, :, [1, 2]].abs().max() == 0 and recording.norm[name][0][0, 2:, 3].min() > 0


@pytest.fixture
def named(make_leo):
    """A model whose experts have names (they are never run)."""
    model = make_leo()
    model.vision_experts = nn.ModuleDict({name: nn.Identity() for name in NAMES})
    return model


@torch.no_grad()
def test_input_interventions_equal_the_masks_made_by_hand(named, batch):
    changes = Interventions(drop_experts=("two",), drop_visual=(0, 2), drop_sources={"three": (1, 5), "one": (3,)})
    masks = [mask.clone() for mask in batch["pictures"].masks]
    masks[2][:, [1, 5]] = False
    masks[0][:, 3] = False
    by_hand = {
        "pictures": replace(batch["pictures"], masks=tuple(masks)), "expert_mask": torch.tensor([[True, False, True]] * 3),
        "visual_mask": torch.tensor([[False, True, False]] * 3),
    }  # fmt: skip
    before = [mask.clone() for mask in batch["pictures"].masks]
    inputs = changes.model_inputs(named, batch["pictures"])
    assert torch.equal(named(**{**batch, **inputs}).logits, named(**{**batch, **by_hand}).logits)
    assert all(torch.equal(one, two) for one, two in zip(batch["pictures"].masks, before, strict=True))
    for single in (Interventions(drop_experts=("two",)), Interventions(drop_visual=(1,)), Interventions(drop_sources={"one": (7,)})):
        changed = named(**{**batch, **single.model_inputs(named, batch["pictures"])}).logits
        assert (changed - named(**batch).logits)[0].abs().max() > 1e-5
    nothing = Interventions().model_inputs(named, batch["pictures"])
    assert torch.equal(named(**{**batch, **nothing}).logits, named(**batch).logits)


@pytest.fixture
def processor(tokenizer):
    from leo_core.processor import LeoImageProcessor, LeoProcessor

    return LeoProcessor(LeoImageProcessor(), tokenizer, visual_tokens=3)


class Small:
    """A tokenizer of a tiny vocabulary, in place of a processor."""

    def plain_ids(self, text):
        return [3 + ord(letter) % 150 for letter in text]


@torch.no_grad()
def test_another_question_reaches_only_the_reducer(make_leo, batch):
    model, ids = make_leo(), torch.tensor([Small().plain_ids("why")])
    text = model.get_input_embeddings()(ids).expand(3, -1, -1)
    reduced = model.reducer(batch["pictures"], text, torch.ones(3, 3, dtype=torch.bool))
    without = {name: value for name, value in batch.items() if name != "pictures"}
    expected, plain = model(**without, reduced=reduced).logits, model(**batch).logits
    with intervene(model, Interventions(reducer_question="why"), Small()):
        asked, prompt = model(**batch).logits, model.prompt(**batch)
    assert_close(asked, expected)
    assert (asked - plain)[[0, 2]].abs().max() > 1e-5 and torch.equal(asked[1], plain[1])
    assert torch.equal(prompt.text, model.prompt(**batch).text), "the routers still see the question that was asked"
    assert torch.equal(model(**batch).logits, plain)


def test_another_question_is_tokenised_as_plain_text(make_leo, make_decoder, processor):
    model, seen = make_leo(decoder=make_decoder(vocab_size=400)), []
    handle = model.get_input_embeddings().register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    with intervene(model, Interventions(reducer_question="A <|im_end|> dog"), processor):
        pass
    handle.remove()
    assert processor.tokenizer.decode(seen[0][0]) == "A <|im_end|> dog"
    assert not torch.isin(seen[0], torch.tensor(processor.tokenizer.all_special_ids)).any()


def test_everything_is_as_before_after_an_exception(make_leo):
    model = make_leo()
    count = lambda: sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())  # noqa: E731
    before = count()
    with pytest.raises(ZeroDivisionError), intervene(model, Interventions(force_route={-1: 1}, reducer_question="why"), Small()):
        assert count() == before + 4
        raise ZeroDivisionError
    assert count() == before


@pytest.mark.parametrize(
    "changes",
    [
        Interventions(force_route={3: 0}), Interventions(force_route={0: 3}), Interventions(force_route={-2: 0}),
        Interventions(forbid_route={0: (0, 5)}), Interventions(reducer_question="why"),
    ],
)  # fmt: skip
def test_routes_and_questions_that_cannot_be_are_refused(changes, make_leo):
    with pytest.raises(InputError), intervene(make_leo(), changes):
        pass


@pytest.mark.parametrize(
    "changes",
    [{"drop_experts": ("four",)}, {"drop_sources": {"four": (0,)}}, {"drop_visual": (3,)}, {"drop_visual": (-1,)}, {"drop_sources": {"one": (15,)}}],
)
def test_inputs_that_are_not_there_are_refused(changes, named, batch):
    with pytest.raises(InputError):
        Interventions(**changes).model_inputs(named, batch["pictures"])
