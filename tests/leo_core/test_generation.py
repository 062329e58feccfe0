"""Generation: cached equals uncached, a batch equals its samples, beams carry their own routers' context."""

import pytest
import torch
from torch.testing import assert_close

from leo_core.config import MMoEConfig, ReducerConfig
from leo_core.model import LeoMini

KINDS, STEPS = ("llama", "qwen2"), 8
GREEDY = {"max_new_tokens": STEPS, "min_new_tokens": STEPS, "do_sample": False, "pad_token_id": 0}


def uncached(model: LeoMini, inputs: dict, steps=STEPS) -> torch.Tensor:
    """A full forward pass for each token, nothing kept; the end mark is suppressed as in GREEDY."""
    inputs = dict(inputs)
    for _ in range(steps):
        logits = model(**inputs).logits[:, -1].clone()
        logits[:, 2] = -torch.inf
        inputs["input_ids"] = torch.cat([inputs["input_ids"], logits.argmax(-1, keepdim=True)], dim=1)
        inputs["attention_mask"] = torch.nn.functional.pad(inputs["attention_mask"], (0, 1), value=1)
        inputs["question_mask"] = torch.nn.functional.pad(inputs["question_mask"], (0, 1), value=False)
    return inputs["input_ids"]


def alone(inputs: dict, index: int) -> dict:
    """One sample of a left-padded batch, its padding cut off."""
    keep, mine = inputs["attention_mask"][index].bool(), inputs["picture_owner"] == index
    row = {name: inputs[name][index : index + 1, keep] for name in ("input_ids", "attention_mask", "question_mask", "labels") if name in inputs}
    pictures = inputs["pictures"].pick(torch.nonzero(mine).flatten()) if mine.any() else None
    return {**row, "pictures": pictures, "picture_owner": torch.zeros(int(mine.sum()), dtype=torch.long)}


def continued(inputs: dict, ids: torch.Tensor) -> dict:
    """Inputs of a full pass over one prompt and what was generated after it."""
    asked = torch.nn.functional.pad(inputs["question_mask"], (0, ids.shape[1] - inputs["input_ids"].shape[1]))
    return {**inputs, "input_ids": ids, "attention_mask": torch.ones_like(ids), "question_mask": asked}


@pytest.fixture
def batch(make_prompts, make_features) -> dict:
    """Three samples: one picture, none, two; questions of unequal length."""
    return {**make_prompts((1, 0, 2), (4, 7, 3)), "pictures": make_features()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gate", ["straight_through", "probability"])
@torch.no_grad()
def test_cached_generation_equals_uncached(kind, gate, make_leo, batch):
    model = make_leo(kind, mmoe=MMoEConfig(rank=4, top_k=2, gate=gate, router_width=8))
    answer = model.generate(**batch, **GREEDY)
    assert torch.equal(answer, uncached(model, batch))
    assert torch.equal(answer, model.generate(**batch, **GREEDY, use_cache=False))
    assert len({tuple(row.tolist()) for row in answer[:, -STEPS:]}) == 3, "the samples must tell something apart"


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_left_padded_batch_equals_its_samples(kind, make_leo, batch):
    model = make_leo(kind)
    answer, logits = model.generate(**batch, **GREEDY), model(**batch).logits
    for index in range(3):
        own = alone(batch, index)
        assert torch.equal(model.generate(**own, **GREEDY)[0, -STEPS:], answer[index, -STEPS:])
        assert_close(model(**own).logits[0], logits[index, batch["attention_mask"][index].bool()], atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_right_padding_equals_left_padding(kind, make_leo, make_prompts, make_features):
    model, pictures = make_leo(kind), make_features()
    left, right = (make_prompts((1, 0, 2), (4, 7, 3), side=side) for side in ("left", "right"))
    one, two = model(**left, pictures=pictures).logits, model(**right, pictures=pictures).logits
    assert not torch.equal(left["input_ids"], right["input_ids"])
    assert_close(one[left["attention_mask"].bool()], two[right["attention_mask"].bool()], atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_beams_of_a_batch_equal_beams_of_each_sample(kind, make_leo, batch):
    model, beams = make_leo(kind), {**GREEDY, "num_beams": 3}
    answer = model.generate(**batch, **beams)
    for index in range(3):
        assert torch.equal(model.generate(**alone(batch, index), **beams)[0, -STEPS:], answer[index, -STEPS:])


@torch.no_grad()
def test_a_beam_is_at_least_as_likely_as_the_greedy_answer_and_scored_as_a_full_pass(make_leo, batch):
    model, own = make_leo(), alone(batch, 0)

    def likelihood(ids):
        length = ids.shape[1] - own["input_ids"].shape[1]
        logs = model(**continued(own, ids)).logits.log_softmax(-1)[0, -length - 1 : -1]
        return logs.gather(-1, ids[0, -length:, None]).sum().item()

    beam = model.generate(**own, **GREEDY, num_beams=4, return_dict_in_generate=True, output_scores=True, length_penalty=0.0)
    assert beam.sequences_scores.item() == pytest.approx(likelihood(beam.sequences), abs=1e-3)
    wide = model.generate(**own, **{**GREEDY, "max_new_tokens": 2, "min_new_tokens": 2}, num_beams=60)
    greedy = model.generate(**own, **{**GREEDY, "max_new_tokens": 2, "min_new_tokens": 2})
    assert likelihood(wide) >= likelihood(greedy) - 1e-4


@torch.no_grad()
def test_several_returned_sequences_start_with_their_own_prompt(make_leo, batch):
    model = make_leo()
    answer = model.generate(**batch, **{**GREEDY, "do_sample": True, "top_k": 1}, num_return_sequences=2)
    assert torch.equal(answer[0::2], answer[1::2]) and torch.equal(answer[0::2], model.generate(**batch, **GREEDY))


@torch.no_grad()
def test_a_dropped_visual_token_stays_dropped_while_decoding(make_leo, batch):
    model = make_leo()
    kept = torch.tensor([[True, False, True], [False, False, True], [True, True, True]])
    answer = model.generate(**batch, visual_mask=kept, **GREEDY)
    assert torch.equal(answer, uncached(model, {**batch, "visual_mask": kept}))
    assert not torch.equal(answer, model.generate(**batch, **GREEDY))


@torch.no_grad()
def test_reduced_tokens_can_be_handed_in(make_leo, batch):
    model = make_leo(reducer=ReducerConfig(tokens=3, projection=10, similarity="cosine", position="token"))
    reduced = model.reduce(batch["pictures"], batch["input_ids"], batch["question_mask"], batch["picture_owner"])
    without = {name: value for name, value in batch.items() if name != "pictures"}
    assert torch.equal(model.generate(**without, reduced=reduced, **GREEDY), model.generate(**batch, **GREEDY))
    assert_close(model(**without, reduced=reduced).logits, model(**batch).logits)


@torch.no_grad()
def test_generate_answer_tells_what_each_step_gave(make_leo, batch, tokenizer):
    from leo_core.generation import generate_answer

    model, own = make_leo(), alone(batch, 2)
    heard = []
    answer = generate_answer(model, tokenizer, own, max_new_tokens=5, on_token=lambda text, p: heard.append(p))
    length = len(answer.token_ids)
    full = uncached(model, own, steps=0)
    ids = torch.cat([full, answer.token_ids[None]], dim=1)
    logs = model(**continued(own, ids)).logits.log_softmax(-1)[0, -length - 1 : -1]
    assert_close(answer.log_probability, logs.gather(-1, answer.token_ids[:, None])[:, 0], atol=1e-4, rtol=1e-4)
    assert_close(answer.top_probability, logs.exp().topk(8).values, atol=1e-4, rtol=1e-4)
    assert torch.equal(answer.top_ids[:, 0], answer.token_ids)
    assert heard == pytest.approx(answer.log_probability.exp().tolist(), abs=1e-5)
