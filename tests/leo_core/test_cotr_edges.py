"""CoTR where something is missing: masks, absent experts, no question, nothing at all; and what trains."""

import itertools
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from leo_core.config import ReducerConfig
from leo_core.cotr import CoTR
from leo_core.experts.expert import PictureFeatures

WIDTH, WIDTHS = 14, (12, 20, 33)
OPTIONS = [
    dict(zip(("pool", "similarity", "query_init", "position"), values, strict=True))
    for values in itertools.product(("mean", "sum"), ("dot", "cosine"), ("random", "grid"), ("none", "similarity", "token"))
]


def build(options) -> CoTR:
    torch.manual_seed(1)
    cotr = CoTR(WIDTHS, WIDTH, ReducerConfig(tokens=5, projection=10, **options)).double()
    cotr.set_absent(tuple(torch.randn(5, width) for width in WIDTHS))
    return cotr


@pytest.fixture
def pictures(make_features) -> PictureFeatures:
    return make_features(pictures=2, dtype=torch.float64)


@pytest.fixture
def question():
    return torch.randn(2, 7, WIDTH, dtype=torch.float64), torch.tensor([[False, True, True, True, True, False, False]] * 2)


def changed(pictures: PictureFeatures, expert: int, **parts) -> PictureFeatures:
    fields = {name: list(getattr(pictures, name)) for name in parts}
    for name, value in parts.items():
        fields[name][expert] = value
    return replace(pictures, **{name: tuple(values) for name, values in fields.items()})


@pytest.mark.parametrize("options", OPTIONS)
@torch.no_grad()
def test_masked_source_tokens_weigh_nothing_and_their_content_does_not_matter(options, pictures, question):
    cotr = build(options)
    reduction = cotr.explain(pictures, *question)
    for index, (weights, mask) in enumerate(zip(reduction.weights, pictures.masks, strict=True)):
        assert (weights * ~mask[:, None]).abs().max() == 0
        assert_close(weights.sum(-1), torch.ones(2, 5, dtype=torch.float64))
        other = pictures.features[index] + 100.0 * ~mask[..., None]
        for one, two in zip(cotr(changed(pictures, index, features=other), *question), reduction.tokens, strict=True):
            assert_close(one, two)
    assert not pictures.masks[0][1].all(), "the fixture must mask something"


@pytest.mark.parametrize("options", OPTIONS)
@torch.no_grad()
def test_permuting_source_tokens_permutes_weights_and_nothing_else(options, pictures, question):
    cotr, order = build(options), torch.randperm(pictures.features[1].shape[1])
    before = cotr.explain(pictures, *question)
    parts = {name: getattr(pictures, name)[1][:, order] for name in ("features", "masks", "boxes")}
    after = cotr.explain(changed(pictures, 1, **parts), *question)
    assert_close(after.weights[1], before.weights[1][..., order])
    assert_close(after.scores[1].cross, before.scores[1].cross[..., order])
    for one, two in zip(after.tokens, before.tokens, strict=True):
        assert_close(one, two)


@pytest.mark.parametrize("options", OPTIONS)
@torch.no_grad()
def test_text_outside_the_mask_is_ignored_and_text_inside_is_not(options, pictures, question):
    cotr, (text, mask) = build(options), question
    before = cotr(pictures, text, mask)
    for one, two in zip(cotr(pictures, text + 50.0 * ~mask[..., None], mask), before, strict=True):
        assert_close(one, two)
    for one, two in zip(cotr(pictures, text + torch.randn_like(text) * mask[..., None], mask), before, strict=True):
        assert (one - two).abs().max() > 1e-6


@pytest.mark.parametrize("options", OPTIONS)
@torch.no_grad()
def test_an_absent_expert_delivers_its_mean_and_leaves_cross(options, pictures, question):
    cotr, here = build(options), torch.tensor([[True, False, True], [True, True, True]])
    reduction, everything = cotr.explain(pictures, *question, here), cotr.explain(pictures, *question)
    assert torch.equal(reduction.tokens[1][0], cotr.absent[1])
    assert reduction.weights[1][0].abs().max() == 0
    assert_close(reduction.tokens[1][1], everything.tokens[1][1])
    noise = changed(pictures, 1, features=torch.randn_like(pictures.features[1]))
    without = cotr(noise, *question, here)  # nothing of the absent expert reaches the others
    for index in (0, 2):
        assert_close(without[index][0], reduction.tokens[index][0])
        assert (reduction.tokens[index][0] - everything.tokens[index][0]).abs().max() > 1e-9
    alone = cotr.explain(pictures, *question, torch.tensor([[False, True, False]] * 2))
    assert alone.scores[1].cross.abs().max() == 0


@pytest.mark.parametrize("options", OPTIONS)
@torch.no_grad()
def test_an_expert_without_valid_tokens_is_absent_and_never_nan(options, pictures, question):
    cotr, mask = build(options), pictures.masks[2].clone()
    mask[0] = False
    nothing = changed(pictures, 2, masks=mask)
    fast, explained = cotr(nothing, *question), cotr.explain(nothing, *question)
    absent = cotr(pictures, *question, torch.tensor([[True, True, False], [True, True, True]]))
    assert torch.equal(fast[2][0], cotr.absent[2])
    for one, two, three in zip(fast, explained.tokens, absent, strict=True):
        assert_close(one, two)
        assert_close(one, three)
    blind = replace(pictures, masks=tuple(torch.zeros_like(m) for m in pictures.masks))
    for tokens, mean in zip(cotr(blind, *question), cotr.absent, strict=True):
        assert torch.equal(tokens, mean.expand_as(tokens))


@pytest.mark.parametrize("options", OPTIONS)
@torch.no_grad()
def test_without_question_tokens_the_text_term_is_zero(options, pictures, question):
    cotr, (text, mask) = build(options), question
    reduction = cotr.explain(pictures, text, torch.zeros_like(mask))
    for scores, tokens, fast in zip(reduction.scores, reduction.tokens, cotr(pictures, text, torch.zeros_like(mask)), strict=True):
        assert scores.text.abs().max() == 0
        assert_close(fast, tokens)
        assert fast.isfinite().all()


@pytest.mark.parametrize("options", OPTIONS)
def test_gradients_are_finite_and_reach_every_parameter_that_trains(options, pictures, question):
    cotr, mask = build(options), pictures.masks[2].clone()
    mask[0] = False  # one picture without any token of expert 2
    loss = sum(tokens.square().sum() for tokens in cotr(changed(pictures, 2, masks=mask), *question))
    loss.backward()
    for name, parameter in cotr.named_parameters():
        trains = name != "temperature" or options["similarity"] == "cosine"
        assert parameter.requires_grad == trains
        if trains:
            assert parameter.grad.isfinite().all() and parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("options", OPTIONS)
def test_both_paths_have_the_same_gradient(options, pictures, question):
    cotr = build(options)
    aims = [torch.randn(2, 5, width, dtype=torch.float64) for width in WIDTHS]
    gradients = []
    for tokens in (cotr(pictures, *question), cotr.explain(pictures, *question).tokens):
        loss = sum((one * aim).sum() for one, aim in zip(tokens, aims, strict=True))
        gradients.append(torch.autograd.grad(loss, [p for p in cotr.parameters() if p.requires_grad]))
    for fast, explained in zip(*gradients, strict=True):
        assert_close(fast, explained, atol=1e-8, rtol=1e-7)


@torch.no_grad()
def test_boxes_matter_only_where_the_config_says_so(pictures, question):
    moved = replace(pictures, boxes=tuple(boxes.roll(1, dims=1) for boxes in pictures.boxes))
    for position, matters in (("none", False), ("similarity", True), ("token", True)):
        cotr = build({"position": position, "query_init": "random"})
        before, after = cotr(pictures, *question)[0], cotr(moved, *question)[0]
        assert (not torch.equal(before, after)) == matters


def test_grid_queries_start_as_the_tokens_of_a_grid_would(question):
    """Q = the position code of its cell and Qh's projection = Ih's: the nearest of the tokens without content wins."""
    cotr = build({"similarity": "cosine", "query_init": "grid", "position": "similarity"})
    corners = torch.tensor([[0.2 * i, 0.0, 0.2 * i + 0.2, 1.0] for i in range(5)], dtype=torch.float64)[None].expand(2, -1, -1)
    full = torch.ones(2, 5, dtype=torch.bool)
    empty = PictureFeatures(tuple(torch.zeros(2, 5, w, dtype=torch.float64) for w in WIDTHS), (full,) * 3, (corners,) * 3)
    for scores in cotr.explain(empty, *question).scores:
        assert torch.equal(scores.query.argmax(-1), torch.arange(5).expand(2, 5))
