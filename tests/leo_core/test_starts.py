"""How CoTR starts, against the paper's formulas written out and against what must follow from them."""

import numpy as np
import pytest
import torch

from leo_core.analysis.starts import random_tokens, start, started
from leo_core.config import ReducerConfig
from leo_core.errors import InputError

GRID, WIDTH, EXPERTS = (5, 4), 24, 3


@pytest.fixture
def tokens():
    return random_tokens(EXPERTS, GRID, WIDTH, 0.2)


@pytest.fixture
def text():
    return torch.randn(1, 6, 10, generator=torch.Generator().manual_seed(3))


def config(**options):
    return ReducerConfig(**{"tokens": 7, "projection": 12, **options})


def test_common_variance_is_what_was_asked_for():
    rows = random_tokens(1, (40, 40), 300, 0.3, seed=5).features[0][0]
    assert float(rows.var()) == pytest.approx(1, abs=0.05)
    assert float(rows.mean(dim=0).var()) == pytest.approx(0.3, abs=0.05)
    with pytest.raises(InputError, match="0 to 1"):
        random_tokens(1, GRID, WIDTH, 1.5)


@pytest.mark.parametrize("pool", ["sum", "mean"])
@pytest.mark.parametrize("scale", ["sqrt_d", "sqrt_proj", "d_shared"])
def test_terms_are_those_of_the_formulas(tokens, text, pool, scale):
    made = config(pool=pool, scale=scale)
    reducer = started(made, (WIDTH,) * EXPERTS, 10, 0.5, seed=2)
    projected = [(rows[0] @ proj.weight.T).detach().double().numpy() for rows, proj in zip(tokens.features, reducer.token_proj, strict=True)]
    question = (text[0] @ reducer.text_proj.weight.T).detach().double().numpy()
    queries = (reducer.query[0] @ reducer.query_proj[0].weight.T).detach().double().numpy()
    together = np.sum if pool == "sum" else np.mean
    a, b = {"sqrt_d": (WIDTH**-0.5,) * 2, "sqrt_proj": (12**-0.5,) * 2, "d_shared": (1, 1 / WIDTH)}[scale]
    own = projected[0]
    rows = {
        "query": a * queries @ own.T,
        "self_": b * together(own @ own.T, axis=0),
        "cross": b * sum(together(other @ own.T, axis=0) for other in projected[1:]),
        "text": b * together(question @ own.T, axis=0),
    }
    found = start(made, tokens, text, query_std=0.5, seed=2)
    for name, row in rows.items():
        assert getattr(found, name) == pytest.approx(np.std(row, axis=-1, ddof=1).mean(), rel=1e-4)
    weights = np.exp(sum(rows.values()) - sum(rows.values()).max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    assert found.effective == pytest.approx(np.exp(-(weights * np.log(weights + 1e-300)).sum(axis=1)).mean(), rel=1e-4)
    outputs = weights @ tokens.features[0][0].double().numpy()
    unit = outputs / np.linalg.norm(outputs, axis=1, keepdims=True)
    assert found.cosine == pytest.approx((np.sum(unit @ unit.T) - 7) / 42, abs=1e-4)


def test_a_sum_is_the_mean_times_the_number_of_tokens(tokens, text):
    mean, total = (start(config(pool=pool), tokens, text, query_std=1.0) for pool in ("mean", "sum"))
    count = GRID[0] * GRID[1]
    assert total.self_ == pytest.approx(count * mean.self_, rel=1e-4) and total.text == pytest.approx(6 * mean.text, rel=1e-4)
    assert total.query == mean.query and total.effective < mean.effective


def test_small_queries_start_as_one_and_the_projects_own_do_not(tokens, text):
    small, own = start(config(), tokens, text, query_std=1e-4), start(config(), tokens, text)
    assert small.cosine == pytest.approx(1, abs=1e-4) and small.weights_likeness == pytest.approx(1, abs=1e-4)
    assert 0.4 < own.query < 2.5 and own.cosine < 0.999
