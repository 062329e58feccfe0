"""Activation checkpointing changes memory, never the loss or a gradient: recomputation must see the routers' context."""

import pytest
import torch
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

from leo_core.config import MMoEConfig
from leo_core.errors import InputError
from leo_core.routing import RoutingContext, current_context, reentering, routing_context


def gradients(model, batch) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    model.zero_grad()
    output = model(**batch)
    output.loss.backward()
    return output.loss.detach(), output.balance.detach(), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
@pytest.mark.parametrize("gate", ["straight_through", "probability"])
@pytest.mark.parametrize("options", [None, {"use_reentrant": False}])
def test_same_loss_balance_and_gradients(kind, gate, options, make_leo, make_prompts, make_features):
    model = make_leo(kind, mmoe=MMoEConfig(rank=4, gate=gate, balance_weight=0.5, router_width=8)).train()
    batch = {**make_prompts((1, 0, 2), (4, 7, 3), answer=4), "pictures": make_features()}
    loss, balance, plain = gradients(model, batch)
    assert any("router.out" in name for name in plain)
    model.activation_checkpointing_enable(activation_checkpointing_kwargs=options)
    assert model.is_gradient_checkpointing
    loss_too, balance_too, checkpointed = gradients(model, batch)
    assert_close(loss_too, loss)
    assert_close(balance_too, balance)
    assert plain.keys() == checkpointed.keys()
    for name, gradient in plain.items():
        assert_close(checkpointed[name], gradient, atol=1e-5, rtol=1e-4, msg=lambda text, name=name: f"{name}: {text}")
    assert current_context() is None


def test_reentrant_checkpointing_is_refused(make_leo):
    with pytest.raises(InputError):
        make_leo().train().activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": True})


def test_recomputation_really_happens_and_sees_the_context():
    seen, context = [], RoutingContext(torch.zeros(1, 2), torch.zeros(1, 2), torch.ones(1, dtype=torch.bool))

    def layer(x):
        seen.append(current_context())
        return (x * x).sin()

    x = torch.randn(3, requires_grad=True)
    with routing_context(context):
        y = reentering(checkpoint)(layer, x, use_reentrant=False)
    y.sum().backward()
    assert seen == [context, context]


def test_only_frozen_decoder_weights_stay_without_gradient(make_leo, make_prompts, make_features):
    model = make_leo().train()
    for name, parameter in model.named_parameters():
        if name.startswith("decoder.") and not any(part in name for part in ("lora_", "router")):
            parameter.requires_grad_(False)
    model.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
    batch = {**make_prompts((1, 1), (4, 6), answer=4), "pictures": make_features(pictures=2)}
    _, _, grads = gradients(model, batch)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert grads.keys() == trained
    assert all(gradient.isfinite().all() and gradient.abs().max() > 0 for gradient in grads.values())
