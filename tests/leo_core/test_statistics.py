"""Intervals and mutual information, each computed a second way."""

import numpy as np
import pytest

from leo_core.experiments.routes import mutual_information, route_information
from leo_core.statistics import bootstrap, difference


def test_mutual_information_is_that_of_entropies():
    table = np.random.default_rng(0).random((5, 4, 3)) * (np.random.default_rng(1).random((5, 4, 3)) > 0.2)

    def entropy(p):
        p = p[p > 0]
        return -(p * np.log2(p)).sum()

    for one, found in zip(table, mutual_information(table), strict=True):
        p = one / one.sum()
        assert found == pytest.approx(entropy(p.sum(1)) + entropy(p.sum(0)) - entropy(p.ravel()), abs=1e-12)


def test_mutual_information_of_clear_cases():
    assert mutual_information(np.eye(4)) == pytest.approx(2.0)
    assert mutual_information(np.outer([1, 2, 3], [4, 5])) == pytest.approx(0.0, abs=1e-12)


def test_routes_that_follow_the_domain_stand_out_and_random_ones_do_not():
    domains = ["a", "b"] * 60
    follows = np.array([[[1.0, 0.0]] if domain == "a" else [[0.0, 1.0]] for domain in domains])
    found = route_information(follows, domains, shuffles=100)
    assert found.information == pytest.approx(1.0) and found.information > found.null_95 and found.p == 0
    random = np.random.default_rng(0).dirichlet([1, 1], size=(120, 1))
    chance = route_information(random, domains, shuffles=200)
    assert chance.p > 0.01 and chance.null == pytest.approx(chance.information, abs=0.02)


def test_the_cluster_bootstrap_is_the_plain_one_when_pictures_have_one_question():
    values = np.random.default_rng(3).random(200)
    found = bootstrap(values, np.arange(200))
    rng = np.random.default_rng(9)
    means = [values[rng.integers(200, size=200)].mean() for _ in range(4000)]
    low, high = np.quantile(means, [0.025, 0.975])
    assert found.value == pytest.approx(values.mean())
    assert found.low == pytest.approx(low, abs=0.008) and found.high == pytest.approx(high, abs=0.008)


def test_questions_about_one_picture_count_as_one_where_they_agree():
    once = np.random.default_rng(0).random(50) > 0.5
    copied = bootstrap(np.repeat(once, 4), np.repeat(np.arange(50), 4))
    plain = bootstrap(once, np.arange(50))
    assert (copied.high - copied.low) == pytest.approx(plain.high - plain.low, rel=0.1)
    naive = bootstrap(np.repeat(once, 4), np.arange(200))
    assert (naive.high - naive.low) < 0.7 * (copied.high - copied.low)


def test_the_paired_difference_is_the_bootstrap_of_differences_with_one_seed():
    rng = np.random.default_rng(1)
    first, second, pictures = rng.random(300) > 0.3, rng.random(300) > 0.5, rng.integers(90, size=300)
    paired, plain = difference([first], [second], pictures), bootstrap(first.astype(float) - second, pictures)
    assert paired.value == pytest.approx(plain.value)
    assert paired.low == pytest.approx(plain.low, abs=0.015) and paired.high == pytest.approx(plain.high, abs=0.015)
    assert difference([second], [first], pictures).value == pytest.approx(-paired.value)


def test_equal_answers_differ_by_nothing():
    answers = np.random.default_rng(1).random((3, 80)) > 0.4
    same = difference(answers, answers, np.arange(80))
    assert (same.value, same.low, same.high, same.sign) == (0, 0, 0, 0)
