"""Recording: the run stays what it was, every hook is gone afterwards, and each number equals its recomputation."""

import threading

import pytest
import torch
from torch.testing import assert_close

from leo_core.config import MMoEConfig, ReducerConfig
from leo_core.mmoe import mmoe_layers
from leo_core.tracing.record import b_gram, expert_norms, lock_of, record

STEPS = 5
GREEDY = {"max_new_tokens": STEPS, "min_new_tokens": STEPS, "do_sample": False, "pad_token_id": 0}


def hooks(model) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


@pytest.fixture
def batch(make_prompts, make_features) -> dict:
    return {**make_prompts((1, 0, 2), (4, 7, 3)), "pictures": make_features()}


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
@pytest.mark.parametrize("reducer", [ReducerConfig(tokens=3, projection=10), ReducerConfig(kind="resampler", tokens=3, projection=8, heads=2)])
@torch.no_grad()
def test_a_recorded_run_gives_the_same_tokens_and_leaves_no_hook(kind, reducer, make_leo, batch):
    model = make_leo(kind, reducer=reducer)
    before, plain, logits = hooks(model), model.generate(**batch, **GREEDY), model(**batch).logits
    with record(model) as recording:
        assert torch.equal(model.generate(**batch, **GREEDY), plain)
        assert hooks(model) > before
    assert hooks(model) == before
    with record(model):
        assert torch.equal(model(**batch).logits, logits)
    assert len(recording.reductions) == 1, "reduced once, though decoded in steps"
    length = batch["input_ids"].shape[1] + STEPS - 1
    for kind_, width in (("probability", 3), ("coefficient", 3), ("norm", 4)):
        assert recording.stacked(kind_).shape == (3, 3, length, width)


@torch.no_grad()
def test_hooks_are_gone_after_an_exception(make_leo, batch):
    model = make_leo()
    before = hooks(model)
    with pytest.raises(ZeroDivisionError), record(model):
        model(**batch)
        raise ZeroDivisionError
    assert hooks(model) == before
    with pytest.raises(IndexError), record(model):
        model(**{**batch, "picture_owner": torch.tensor([0, 1, 7])})
    assert hooks(model) == before


@torch.no_grad()
def test_a_step_by_step_record_equals_that_of_a_full_pass(make_leo, batch):
    model = make_leo(mmoe=MMoEConfig(rank=4, top_k=2, gate="probability", router_width=8))
    with record(model) as steps:
        answer = model.generate(**batch, **GREEDY)
    read = answer[:, :-1]
    longer = torch.nn.functional.pad
    with record(model) as full:
        model(**{**batch, "input_ids": read, "attention_mask": longer(batch["attention_mask"], (0, STEPS - 1), value=1),
                 "question_mask": longer(batch["question_mask"], (0, STEPS - 1))})  # fmt: skip
    for kind in ("probability", "coefficient", "norm"):
        one, two = steps.stacked(kind), full.stacked(kind)
        valid = longer(batch["attention_mask"], (0, STEPS - 1), value=1).bool()[:, None].expand(-1, 3, -1)
        assert_close(one[valid], two[valid], atol=1e-3, rtol=1e-3)
    for one, two in zip(steps.reductions[0].weights, full.reductions[0].weights, strict=True):
        assert_close(one, two)


@pytest.mark.parametrize("general", [True, False])
@pytest.mark.parametrize("gate", ["straight_through", "probability"])
@torch.no_grad()
def test_routing_and_norms_equal_running_each_expert_alone(general, gate, make_leo, batch):
    model = make_leo(mmoe=MMoEConfig(rank=4, alpha=8.0, top_k=2, gate=gate, general=general, router_width=8))
    inputs, decisions, handles = {}, {}, []
    for name, layer in mmoe_layers(model.decoder).items():
        handles.append(layer.register_forward_hook(lambda m, i, o, name=name: inputs.update({name: i[0]})))
        handles.append(layer.router.register_forward_hook(lambda m, i, o, name=name: decisions.update({name: o})))
    with record(model) as recording:
        model(**batch)
    for handle in handles:
        handle.remove()
    for name, layer in mmoe_layers(model.decoder).items():
        x, decision = inputs[name], decisions[name]
        assert_close(recording.probability[name][0], decision.probability)
        assert_close(recording.probability[name][0].sum(-1), torch.ones(x.shape[:2]))
        assert_close(recording.coefficient[name][0], decision.coefficient)
        assert recording.coefficient[name][0][1].abs().max() == 0, "sample 1 has no picture"
        original = torch.nn.functional.linear(x, layer.weight, layer.bias).norm(dim=-1).clamp(min=1e-12)  # padding is 0
        for group in range(layer.groups):
            a, b = layer.expert(group)
            coefficient = 1.0 if general and group == 0 else decision.coefficient[..., group - int(general)]
            alone = coefficient * (layer.scale * x @ a.T @ b.T).norm(dim=-1)
            assert_close(recording.norm[name][0][..., group], alone / original, atol=1e-4, rtol=1e-3)


@torch.no_grad()
def test_norms_come_from_the_scaled_middle(make_leo):
    layer = next(iter(mmoe_layers(make_leo().decoder).values()))
    middle = torch.randn(2, 5, layer.groups * layer.rank)
    for group in range(layer.groups):
        rows = slice(group * layer.rank, (group + 1) * layer.rank)
        assert_close(expert_norms(b_gram(layer), middle)[..., group], (middle[..., rows] @ layer.lora_b.weight[:, rows].T).norm(dim=-1), atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_reductions_are_recorded_as_explained_with_absent_experts(make_leo, batch):
    model, here = make_leo(), torch.tensor([[True, False, True], [True, True, True], [False, True, True]])
    with record(model) as recording:
        model(**batch, expert_mask=here)
    text, mask = model.question(batch["input_ids"], batch["question_mask"])
    owner = batch["picture_owner"]
    expected = model.reducer.explain(batch["pictures"], text[owner], mask[owner], here)
    for name in ("tokens", "weights"):
        for one, two in zip(getattr(recording.reductions[0], name), getattr(expected, name), strict=True):
            assert_close(one, two)
    assert_close(recording.reductions[0].scores[2].cross, expected.scores[2].cross)
    assert recording.reductions[0].weights[1][0].abs().max() == 0


@torch.no_grad()
def test_a_decoder_with_only_the_general_expert_has_norms_and_no_routing(make_leo, batch):
    model = make_leo(mmoe=MMoEConfig(num_experts=0, rank=4, balance="none"))
    with record(model) as recording:
        model(**batch)
    assert recording.stacked("norm").shape[-1] == 1 and not any(recording.probability.values())


def test_one_run_at_a_time_holds_the_model(make_leo):
    model, other = make_leo(), make_leo()
    taken = []
    with record(model):
        for one in (model, other):
            thread = threading.Thread(target=lambda one=one: taken.append(lock_of(one).acquire(blocking=False)))
            thread.start()
            thread.join(10)
    assert taken == [False, True]
    assert lock_of(model).acquire(blocking=False)
    lock_of(model).release()
