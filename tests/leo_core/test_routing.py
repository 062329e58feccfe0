"""The router, its gates, the balance losses and the context that carries what routers see."""

import threading

import pytest
import torch
from torch.testing import assert_close

from leo_core.config import MMoEConfig
from leo_core.errors import InputError
from leo_core.routing import Router, Routing, RoutingContext, balance_loss, by_probability, chosen, current_context, routing_context, straight_through

WIDTH = 14
INPUTS = [("visual",), ("text",), ("hidden",), ("visual", "text"), ("visual", "hidden"), ("text", "hidden"), ("visual", "text", "hidden")]


def context(batch=2, has_picture=None) -> RoutingContext:
    return RoutingContext(torch.randn(batch, WIDTH), torch.randn(batch, WIDTH), torch.ones(batch, dtype=torch.bool) if has_picture is None else has_picture)


@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("top_k", [1, 2, 4])
@torch.no_grad()
def test_the_router_is_a_two_layer_mlp_over_the_inputs_joined(inputs, top_k):
    router = Router(WIDTH, MMoEConfig(num_experts=4, top_k=top_k, router_inputs=inputs, router_width=6))
    seen, x, first = context(), torch.randn(2, 5, 9), torch.randn(6, 9)
    torch.nn.init.normal_(router.bias)
    routing = router(x @ first.T if "hidden" in inputs else None, seen, (2, 5))
    for sample in range(2):
        for position in range(5):
            joined, weight = [], []
            for name, value, matrix in (("visual", seen.visual[sample], router.visual), ("text", seen.text[sample], router.text)):
                if name in inputs:
                    joined.append(value), weight.append(matrix.weight)
            if "hidden" in inputs:
                joined.append(x[sample, position]), weight.append(first)
            inner = torch.nn.functional.gelu(torch.cat(weight, 1) @ torch.cat(joined) + router.bias)
            probability = (router.out.weight @ inner + router.out.bias).softmax(0)
            assert_close(routing.probability[sample, position], probability, atol=1e-5, rtol=1e-5)
            best = sorted(range(4), key=lambda e: -probability[e])[:top_k]
            expected = torch.tensor([1 / top_k if e in best else 0.0 for e in range(4)])
            assert_close(routing.coefficient[sample, position], expected)


@torch.no_grad()
def test_each_part_of_the_context_changes_the_decision():
    router, hidden = Router(WIDTH, MMoEConfig(router_width=6)), torch.randn(2, 5, 6)
    seen = context()
    before = router(hidden, seen, (2, 5)).logits
    for changed in (RoutingContext(seen.visual + 1, seen.text, seen.has_picture), RoutingContext(seen.visual, seen.text + 1, seen.has_picture)):
        assert (router(hidden, changed, (2, 5)).logits - before).abs().max() > 1e-4
    assert (router(hidden + 1, seen, (2, 5)).logits - before).abs().max() > 1e-4


def test_straight_through_has_the_value_of_the_choice_and_the_gradient_of_the_probability():
    logits, upstream = torch.randn(3, 5, 4, dtype=torch.float64), torch.randn(3, 5, 4, dtype=torch.float64)
    for top_k in (1, 2):
        one, two = logits.clone().requires_grad_(), logits.clone().requires_grad_()
        value = straight_through(one.softmax(-1), top_k)
        assert torch.equal(value, chosen(logits, top_k) / top_k)
        (value * upstream).sum().backward()
        (two.softmax(-1) / top_k * upstream).sum().backward()
        assert_close(one.grad, two.grad)


def test_probability_gate_scales_the_chosen_by_their_probability():
    probability = torch.tensor([0.1, 0.5, 0.15, 0.25])
    assert_close(by_probability(probability, 1), torch.tensor([0, 0.5, 0, 0]))
    assert_close(by_probability(probability, 2), torch.tensor([0, 0.25, 0, 0.125]))


@pytest.mark.parametrize("balance", ["switch", "squared"])
@pytest.mark.parametrize("top_k", [1, 2])
def test_balance_losses_are_their_formulas_over_valid_positions_and_train_the_router(balance, top_k):
    config = MMoEConfig(num_experts=4, top_k=top_k, balance=balance, router_width=6)
    router, valid = Router(WIDTH, config), torch.tensor([[False, False, True, True, True], [True, True, True, True, False]])
    torch.nn.init.normal_(router.out.weight)
    hidden = torch.randn(2, 5, 6)
    decisions = [router(hidden, context(), (2, 5)), router(hidden * 2, context(), (2, 5))]
    expected, places = 0.0, [(b, s) for b in range(2) for s in range(5) if valid[b, s]]
    for decision in decisions:
        rows = [decision.probability[b, s].detach() for b, s in places]
        for expert in range(4):
            mean = sum(row[expert].item() for row in rows) / len(rows)
            share = sum(expert in row.topk(top_k).indices for row in rows) / top_k / len(rows)
            expected += 4 * share * mean if balance == "switch" else (mean - 0.25) ** 2
    loss = balance_loss(decisions, valid, config)
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    loss.backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in router.parameters())
    noise = [Routing(d.logits, torch.where(valid[..., None], d.probability, 1.0), d.coefficient) for d in decisions]
    assert_close(balance_loss(noise, valid, config), loss)


def test_balanced_choices_have_the_least_loss():
    uniform = Routing(torch.zeros(1, 4, 4), torch.full((1, 4, 4), 0.25), torch.zeros(1, 4, 4))
    peaked = Routing(torch.zeros(1, 4, 4), torch.tensor([1.0, 0, 0, 0]).expand(1, 4, 4), torch.zeros(1, 4, 4))
    valid = torch.ones(1, 4, dtype=torch.bool)
    for balance, least, most in (("switch", 1.0, 4.0), ("squared", 0.0, 0.75)):
        config = MMoEConfig(num_experts=4, balance=balance)
        assert balance_loss([uniform], valid, config).item() == pytest.approx(least)
        assert balance_loss([peaked], valid, config).item() == pytest.approx(most)
        assert balance_loss([peaked], ~valid, config).isfinite()
    with pytest.raises(InputError):
        balance_loss([uniform], valid, MMoEConfig(num_experts=4, balance="none"))


def test_the_context_is_reset_after_an_exception_and_nests():
    outer, inner = context(), context()
    with routing_context(outer):
        with pytest.raises(ZeroDivisionError), routing_context(inner):
            assert current_context() is inner
            raise ZeroDivisionError
        assert current_context() is outer
    assert current_context() is None


def test_threads_do_not_see_each_others_context():
    seen, started, go = {}, threading.Barrier(3), threading.Barrier(3)

    def work(name, own):
        with routing_context(own):
            started.wait(10)
            seen[name] = current_context()
            go.wait(10)

    contexts = {name: context() for name in ("a", "b")}
    threads = [threading.Thread(target=work, args=item) for item in contexts.items()]
    for thread in threads:
        thread.start()
    started.wait(10)
    seen["main"] = current_context()
    go.wait(10)
    for thread in threads:
        thread.join(10)
    assert seen["main"] is None and all(seen[name] is contexts[name] for name in contexts)


@pytest.mark.parametrize("options", [{"top_k": 4}, {"top_k": 0}, {"router_inputs": ()}, {"router_inputs": ("audio",)}, {"gate": "hard"}, {"balance": "kl"}])
def test_what_cannot_work_is_refused_when_it_is_configured(options):
    with pytest.raises(InputError):
        MMoEConfig(num_experts=3, **options)
