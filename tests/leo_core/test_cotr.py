"""CoTR: the fast path, the explaining path and a transcription of the paper's equations are one computation."""

import itertools

import pytest
import torch
from torch.testing import assert_close

from leo_core.config import ReducerConfig
from leo_core.cotr import CoTR, without_terms
from leo_core.position import position_code

POOLS, SCALES, INITS, POSITIONS = ("mean", "sum"), ("sqrt_d", "sqrt_proj", "d_shared"), ("random", "grid"), ("none", "similarity", "token")
DOT = list(itertools.product(POOLS, SCALES, ("dot",), INITS, POSITIONS))
COSINE = list(itertools.product(POOLS, ("sqrt_d",), ("cosine",), INITS, POSITIONS))
FIELDS = ("pool", "scale", "similarity", "query_init", "position")
WIDTH = 14  # d_LLM
WIDTHS = (12, 20, 33)


def build(options, dtype=torch.float64, tokens=5) -> CoTR:
    torch.manual_seed(1)
    return CoTR(WIDTHS, WIDTH, ReducerConfig(tokens=tokens, projection=10, **dict(zip(FIELDS, options, strict=True)))).to(dtype)


def question(pictures=3, length=6, dtype=torch.float64):
    mask = torch.zeros(pictures, length, dtype=torch.bool)
    for index in range(pictures):
        mask[index, index : index + 3] = True
    return torch.randn(pictures, length, WIDTH, dtype=dtype), mask


def by_the_book(cotr: CoTR, pictures, text, text_mask, present):
    """papers.md 1.2 with dot similarity, one picture, one output token and one source token at a time: (terms, tokens)."""
    config, results = cotr.config, []
    for index, _ in enumerate(WIDTHS):
        width, (p, n) = WIDTHS[index], pictures.masks[index].shape
        terms, tokens = torch.zeros(4, p, cotr.tokens, n, dtype=torch.float64), torch.zeros(p, cotr.tokens, width, dtype=torch.float64)
        for picture in range(p):
            located = [
                pictures.features[j][picture]
                + (0 if config.position == "none" else config.position_amplitude * position_code(pictures.boxes[j][picture], WIDTHS[j]))
                for j in range(len(WIDTHS))
            ]
            rows = [located[j] @ cotr.token_proj[j].weight.T for j in range(len(WIDTHS))]
            words = text[picture] @ cotr.text_proj.weight.T
            queries = cotr.query[index] @ cotr.query_proj[index].weight.T
            valid = [torch.nonzero(pictures.masks[j][picture]).flatten().tolist() for j in range(len(WIDTHS))]
            asked = torch.nonzero(text_mask[picture]).flatten().tolist()
            share = lambda many: 1 / len(many) if config.pool == "mean" else 1.0  # noqa: E731
            a = {"sqrt_d": width**-0.5, "sqrt_proj": config.projection**-0.5, "d_shared": 1.0}[config.scale]
            b = {"sqrt_d": width**-0.5, "sqrt_proj": config.projection**-0.5, "d_shared": 1 / width}[config.scale]
            for token in range(n):
                key = rows[index][token]
                terms[0, picture, :, token] = torch.stack([a * query.dot(key) for query in queries])
                terms[1, picture, :, token] = b * share(valid[index]) * sum(rows[index][other].dot(key) for other in valid[index])
                for j in range(len(WIDTHS)):
                    if j != index and present[picture, j]:
                        terms[2, picture, :, token] += b * share(valid[j]) * sum(rows[j][other].dot(key) for other in valid[j])
                terms[3, picture, :, token] = b * share(asked) * sum(words[word].dot(key) for word in asked)
            values = located[index] if config.position == "token" else pictures.features[index][picture]
            for v in range(cotr.tokens):
                alpha = terms[:, picture, v, valid[index]].sum(0).softmax(0)
                tokens[picture, v] = sum(weight * values[token] for weight, token in zip(alpha, valid[index], strict=True))
        results.append((terms, tokens))
    return results


@pytest.mark.parametrize("options", DOT + COSINE)
@torch.no_grad()
def test_the_fast_path_equals_the_explaining_path_in_float64(options, make_features):
    cotr, pictures, (text, mask) = build(options), make_features(dtype=torch.float64), question()
    experts = torch.tensor([[True, True, True], [True, False, True], [False, True, True]])
    for present in (None, experts):
        fast, explained = cotr(pictures, text, mask, present), cotr.explain(pictures, text, mask, present)
        for one, other in zip(fast, explained.tokens, strict=True):
            assert_close(one, other, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("options", [options for options in DOT + COSINE if options[0] == "mean"])
@torch.no_grad()
def test_the_fast_path_equals_the_explaining_path_in_float32_with_mean_pooling(options, make_features):
    cotr, pictures, (text, mask) = build(options, torch.float32), make_features(), question(dtype=torch.float32)
    for one, other in zip(cotr(pictures, text, mask), cotr.explain(pictures, text, mask).tokens, strict=True):
        assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("options", [o for o in DOT if o[3] == "random"])
@torch.no_grad()
def test_the_four_terms_are_those_of_the_paper(options, make_features):
    cotr, pictures, (text, mask) = build(options, tokens=2), make_features(pictures=2, dtype=torch.float64), question(pictures=2)
    present = torch.tensor([[True, True, True], [True, True, False]])
    reduction = cotr.explain(pictures, text, mask, present)
    for index, (terms, tokens) in enumerate(by_the_book(cotr, pictures, text, mask, present)):
        scores = reduction.scores[index]
        for term, expected in zip((scores.query, scores.self_, scores.cross, scores.text), terms, strict=True):
            assert_close(term.expand_as(expected), expected, atol=1e-10, rtol=1e-9)
        here = present[:, index]
        assert_close(reduction.tokens[index][here], tokens[here], atol=1e-10, rtol=1e-9)


@pytest.mark.parametrize("pool", POOLS)
@torch.no_grad()
def test_cosine_terms_are_temperature_times_cosine(pool, make_features):
    cotr, pictures, (text, mask) = build((pool, "sqrt_d", "cosine", "random", "none")), make_features(dtype=torch.float64), question()
    cotr.temperature.copy_(torch.tensor([3.0, 5.0, 7.0, 11.0]))
    scores = cotr.explain(pictures, text, mask).scores
    cosine = torch.nn.functional.cosine_similarity
    rows = [features @ proj.weight.T for features, proj in zip(pictures.features, cotr.token_proj, strict=True)]
    pools = [(r * m[..., None]).sum(1) / (m.sum(1, keepdim=True) if pool == "mean" else 1) for r, m in zip(rows, pictures.masks, strict=True)]
    words = text @ cotr.text_proj.weight.T
    asked = (words * mask[..., None]).sum(1)  # cosine: the mean's direction is the sum's
    for i, one in enumerate(scores):
        queries = cotr.query[i] @ cotr.query_proj[i].weight.T
        others = sum(pools[j] for j in range(3) if j != i)
        assert_close(one.query, 3 * cosine(queries[None, :, None], rows[i][:, None], dim=-1))
        for term, factor, vector in ((one.self_, 5, pools[i]), (one.cross, 7, others), (one.text, 11, asked)):
            assert_close(term[:, 0], factor * cosine(vector[:, None], rows[i], dim=-1))


@torch.no_grad()
def test_terms_can_be_left_out(make_features):
    cotr, pictures, (text, mask) = build(("mean", "sqrt_d", "dot", "random", "none")), make_features(dtype=torch.float64), question()
    scores = cotr.explain(pictures, text, mask).scores[0]
    assert_close(without_terms(scores, "self_", "cross", "text").total, scores.query)
    assert_close(without_terms(scores, "query").total.expand_as(scores.query), scores.total - scores.query)


@pytest.mark.parametrize("options", [o for o in DOT if o[3] == "random" and o[4] == "none" and o[0] == "mean"])
@pytest.mark.parametrize(
    "projection",
    [
        16,
        200,
    ],
)
@torch.no_grad()
def test_random_queries_start_with_a_scaled_query_term_of_std_one(options, projection, make_features):
    widths = (48, 96, 160)
    config = ReducerConfig(tokens=64, projection=projection, **dict(zip(FIELDS, options, strict=True)))
    cotr = CoTR(widths, WIDTH, config)
    pictures = make_features(pictures=2, widths=widths, lengths=(60, 80, 70))
    text, mask = question(pictures=2, dtype=torch.float32)
    for scores in cotr.explain(pictures, text, mask).scores:
        assert 0.75 < scores.query.std().item() < 1.3
