"""MMoELinear: two stacked products equal the experts one by one, and peft where peft has the same thing."""

import pytest
import torch
from torch.testing import assert_close

from leo_core.config import MMoEConfig
from leo_core.errors import InputError
from leo_core.mmoe import MMoELinear, install_mmoe, mmoe_layers
from leo_core.routing import RoutingContext, current_context, routing_context

WIDTH, IN, OUT = 14, 9, 7


def build(awake=True, **options) -> MMoELinear:
    torch.manual_seed(2)
    config = MMoEConfig(**{"num_experts": 3, "rank": 4, "alpha": 6.0, "router_width": 6, **options})
    layer = MMoELinear.around(torch.nn.Linear(IN, OUT), WIDTH, config)
    if awake:
        torch.nn.init.normal_(layer.lora_b.weight)
        if layer.router is not None:
            torch.nn.init.normal_(layer.router.out.weight, std=2.0)
    return layer


def context(has_picture=(True, True)) -> RoutingContext:
    return RoutingContext(torch.randn(2, WIDTH), torch.randn(2, WIDTH), torch.tensor(has_picture))


def one_by_one(layer: MMoELinear, x, seen: RoutingContext | None):
    """Eq. 8: f_ORI + f_GEN + sum of coefficient times f_i, each expert run alone."""
    lora = lambda index: layer.scale * (x @ layer.expert(index)[0].T) @ layer.expert(index)[1].T  # noqa: E731
    y = torch.nn.functional.linear(x, layer.weight, layer.bias)
    if layer.general:
        y = y + lora(0)
    if seen is None or layer.router is None:
        return y
    hidden = layer.lora_a.weight[layer.groups * layer.rank :]
    routing = layer.router(x @ hidden.T if len(hidden) else None, seen, x.shape[:-1])
    for expert in range(layer.num_experts):
        y = y + routing.coefficient[..., expert, None] * lora(expert + int(layer.general))
    return y


@pytest.mark.parametrize("general", [True, False])
@pytest.mark.parametrize("gate", ["straight_through", "probability"])
@pytest.mark.parametrize("top_k", [1, 2])
@pytest.mark.parametrize("inputs", [("hidden",), ("visual",), ("visual", "text"), ("visual", "text", "hidden")])
def test_stacked_equals_one_by_one_in_value_and_gradient(general, gate, top_k, inputs):
    layer, seen, x = build(general=general, gate=gate, top_k=top_k, router_inputs=inputs), context(), torch.randn(2, 5, IN)
    with routing_context(seen):
        fast = layer(x)
    slow = one_by_one(layer, x, seen)
    assert_close(fast, slow, atol=1e-5, rtol=1e-5)
    aim = torch.randn_like(fast)
    parameters = dict(layer.named_parameters())
    grads = [torch.autograd.grad((y * aim).sum(), list(parameters.values())) for y in (fast, slow)]
    for name, one, two in zip(parameters, *grads, strict=True):
        assert_close(one, two, atol=1e-4, rtol=1e-4)
        if name.startswith("router") and (gate, len(inputs)) != ("probability", 0):
            assert one.abs().max() > 0, name
    with torch.no_grad(), routing_context(seen):
        assert_close(layer(x), fast.detach())


@pytest.mark.parametrize("general", [True, False])
@torch.no_grad()
def test_a_new_layer_equals_the_plain_one_and_shares_its_weight(general):
    linear = torch.nn.Linear(IN, OUT)
    layer, x = MMoELinear.around(linear, WIDTH, MMoEConfig(rank=4, general=general)), torch.randn(2, 5, IN)
    assert layer.weight is linear.weight and layer.bias is linear.bias
    with routing_context(context()):
        assert torch.equal(layer(x), linear(x))
    assert MMoELinear.around(torch.nn.Linear(IN, OUT, bias=False), WIDTH, MMoEConfig()).bias is None


@pytest.mark.parametrize("general", [True, False])
@torch.no_grad()
def test_without_context_or_picture_only_the_general_expert_works(general):
    layer, x = build(general=general), torch.randn(2, 5, IN)
    plain = one_by_one(layer, x, None)
    assert_close(layer(x), plain)
    assert torch.equal(plain, torch.nn.functional.linear(x, layer.weight, layer.bias)) != general
    seen = context(has_picture=(True, False))
    with routing_context(seen):
        mixed = layer(x)
    assert_close(mixed[1], plain[1])
    assert (mixed[0] - plain[0]).abs().max() > 1e-3
    assert current_context() is None


@torch.no_grad()
def test_only_general_and_only_routed_layers():
    x = torch.randn(2, 5, IN)
    for options in ({"num_experts": 0}, {"general": False}):
        layer, seen = build(**options), context()
        with routing_context(seen):
            assert_close(layer(x), one_by_one(layer, x, seen))
    assert build(num_experts=0).router is None


@torch.no_grad()
def test_decisions_are_collected_only_where_somebody_asks():
    layer, x = build(), torch.randn(2, 5, IN)
    asking = RoutingContext(torch.randn(2, WIDTH), torch.randn(2, WIDTH), torch.ones(2, dtype=torch.bool), decisions=[])
    with routing_context(asking):
        layer(x)
    assert len(asking.decisions) == 1 and asking.decisions[0].probability.shape == (2, 5, 3)


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_install_replaces_every_down_projection_and_keeps_keys(kind, make_decoder):
    decoder = make_decoder(kind)
    before = {name: value.clone() for name, value in decoder.state_dict().items()}
    install_mmoe(decoder, 32, MMoEConfig(num_experts=0, general=False))
    assert not mmoe_layers(decoder)
    install_mmoe(decoder, 32, MMoEConfig(rank=2))
    assert list(mmoe_layers(decoder)) == [f"model.layers.{i}.mlp.down_proj" for i in range(3)]
    after = decoder.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    with pytest.raises(InputError):
        install_mmoe(torch.nn.Sequential(torch.nn.Linear(3, 3)), 32, MMoEConfig())


@torch.no_grad()
def test_the_general_expert_is_a_peft_lora(make_decoder):
    from peft import LoraConfig, get_peft_model

    plain, ours, ids = make_decoder(), make_decoder(), torch.randint(0, 200, (2, 11))
    install_mmoe(ours, 32, MMoEConfig(num_experts=0, rank=4, alpha=6.0, balance="none"))
    theirs = get_peft_model(make_decoder(), LoraConfig(r=4, lora_alpha=6, target_modules=["down_proj"]))
    for name, layer in mmoe_layers(ours).items():
        a, b = layer.expert(0)
        twin = theirs.get_submodule(f"base_model.model.{name}")
        torch.nn.init.normal_(b, std=0.3)
        twin.lora_A["default"].weight.copy_(a)
        twin.lora_B["default"].weight.copy_(b)
    logits = ours(ids).logits
    assert_close(logits, theirs(ids).logits, atol=1e-4, rtol=1e-4)
    assert (logits - plain(ids).logits).abs().max() > 1e-2
