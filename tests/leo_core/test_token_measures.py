"""Measures of reduction weights against cases that can be worked out on paper."""

import math

import pytest
import torch
from torch.testing import assert_close

from leo_core.analysis.tokens import area_holding, effective_tokens, likeness, mass, tokens_holding


def test_effective_tokens_is_the_perplexity_of_a_row():
    weights = torch.tensor([[0.25, 0.25, 0.25, 0.25], [1, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0, 0], [0.5, 0.25, 0.25, 0]])
    assert_close(effective_tokens(weights), torch.tensor([4.0, 1.0, 2.0, 0.0, math.exp(1.5 * math.log(2))]))
    assert effective_tokens(weights.expand(2, 3, 5, 4)).shape == (2, 3, 5)


def test_likeness_is_the_mean_cosine_over_pairs():
    weights = torch.rand(2, 4, 7)
    cosine = torch.nn.functional.cosine_similarity
    pairs = [cosine(weights[:, i], weights[:, j], dim=-1) for i in range(4) for j in range(i)]
    assert_close(likeness(weights), torch.stack(pairs).mean(0))
    assert likeness(torch.eye(3)).item() == 0 and likeness(torch.ones(3, 5)).item() == pytest.approx(1)
    assert likeness(torch.rand(2, 1, 5)).tolist() == [1, 1] and likeness(torch.zeros(3, 5)).item() == 0


def test_mass_is_the_share_of_each_source_token():
    weights = torch.tensor([[0.5, 0.5, 0], [0, 0, 1.0]])
    assert mass(weights).tolist() == [0.25, 0.25, 0.5]


def test_tokens_holding_are_the_fewest():
    share = torch.tensor([0.1, 0.4, 0.2, 0.3])
    assert tokens_holding(share, 0.4).tolist() == [1]
    assert tokens_holding(share, 0.41).tolist() == [1, 3]
    assert tokens_holding(share, 0.7).tolist() == [1, 3]
    assert tokens_holding(share, 1.0).tolist() == [1, 3, 2, 0]
    assert tokens_holding(share * 7, 0.7).tolist() == [1, 3], "shares need not sum to 1"
    assert len(tokens_holding(torch.full((10,), 0.1), 0.7)) == 7, "rounding of the running sum asks for no further token"
    assert len(tokens_holding(torch.zeros(4), 0.5)) == 0 and len(tokens_holding(torch.zeros(0), 0.5)) == 0


def test_area_holding_is_the_share_of_the_picture_and_capped():
    share, areas = torch.tensor([0.1, 0.4, 0.2, 0.3]), torch.tensor([5.0, 10.0, 20.0, 40.0])
    assert area_holding(share, areas, 100.0, 0.4) == pytest.approx(0.1)
    assert area_holding(share, areas, 100.0, 0.6) == pytest.approx(0.5)
    assert area_holding(share, areas, 60.0, 1.0) == 1.0
    assert area_holding(torch.zeros(4), areas, 60.0, 0.5) == 0
