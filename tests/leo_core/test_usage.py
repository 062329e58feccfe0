"""Counts, balance, information and agreement on cases small enough for paper, and against the definitions."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "studio"))
import figures_trace as made  # noqa: E402
from leo_core.analysis.agreement import rank_agreement, same_leader, same_sign  # noqa: E402
from leo_core.analysis.usage import by_label, effective_experts, information, mutual_information, shares, used  # noqa: E402
from leo_core.errors import InputError  # noqa: E402
from leo_core.tracing.trace import ROLES  # noqa: E402


def test_used_counts_positions_of_the_roles():
    trace = made.make_trace()
    everything, answer = used(trace), used(trace, ["answer"])
    assert everything.shape == (made.L, made.E) and (everything.sum(axis=1) == len(trace.roles) - 1).all()
    assert (answer.sum(axis=1) == len(made.ANSWER) - 1).all()  # the last one was never read
    assert np.array_equal(sum(used(trace, [role]) for role in ROLES), everything)
    with pytest.raises(InputError, match="'image'"):
        used(trace, ["image"])


def test_balance_by_hand():
    assert effective_experts(np.array([[4, 0, 0], [2, 2, 0], [5, 5, 5], [0, 0, 0]])).tolist() == pytest.approx([1, 2, 3, 1])
    assert shares(np.array([1, 3])).tolist() == [0.25, 0.75] and np.isnan(shares(np.array([0, 0]))).all()


def test_information_by_hand_and_by_entropies():
    assert mutual_information(np.array([[4, 0], [0, 4]])) == pytest.approx(1)  # the expert tells the label
    assert mutual_information(np.array([[3, 6], [1, 2]])) == pytest.approx(0, abs=1e-12)  # the same shares everywhere
    assert mutual_information(np.zeros((2, 3), int)) == 0
    counts = np.random.default_rng(0).integers(0, 20, (4, 5, 3))
    entropy = lambda p: -(p[p > 0] * np.log2(p[p > 0])).sum()  # noqa: E731
    for layer, bits in enumerate(mutual_information(counts)):
        joint = counts[:, layer] / counts[:, layer].sum()
        assert bits == pytest.approx(entropy(joint.sum(0)) + entropy(joint.sum(1)) - entropy(joint))


def test_labels_sum_their_runs():
    counts = np.arange(24).reshape(4, 2, 3)
    names, summed = by_label(counts, ["b", "a", "b", "a"])
    assert names == ("b", "a") and np.array_equal(summed, [counts[0] + counts[2], counts[1] + counts[3]])


def test_a_real_link_exceeds_the_null_and_none_does_not():
    rng = np.random.default_rng(1)
    labels = ["x", "y"] * 10
    noise = rng.multinomial(30, [1 / 3] * 3, size=(20, 4))
    linked = noise.copy()
    linked[::2, 1] = [28, 1, 1]
    found, none = information(linked, labels, draws=200), information(noise, labels, draws=200)
    assert found.p_value == pytest.approx(1 / 201) and found.excess.argmax() == 1
    assert none.p_value > 0.05 and found.null.shape == (200, 4)
    again = information(linked, labels, draws=200)
    assert np.array_equal(found.null, again.null)


def test_what_a_group_has_in_common_does_not_count():
    # every picture has its own expert, and its own label: shuffled within pictures the information stays what it is
    counts = np.zeros((6, 1, 3), int)
    for run in range(6):
        counts[run, 0, run // 2] = 9
    labels = [str(run // 2) for run in range(6)]
    inside = information(counts, labels, groups=labels, draws=50)
    assert np.allclose(inside.null, inside.bits) and inside.p_value == 1
    assert information(counts, labels, draws=50).null.mean() < inside.bits[0]
    with pytest.raises(InputError, match="6 runs and 5 labels"):
        information(counts, labels[:5])


def test_agreement_by_hand():
    one = np.array([[3.0, 1.0, -2.0], [0.5, 4.0, -1.0]])
    assert rank_agreement(one, one**3) == pytest.approx(1) and rank_agreement(one, -one) == pytest.approx(-1)
    assert np.isnan(rank_agreement(one, np.zeros_like(one)))
    other = np.array([[1.0, -1.0, -1.0], [2.0, 1.0, 0.01]])
    assert same_sign(one, other) == (4, 6) and same_sign(one, other, least=0.1) == (4, 5)
    assert same_leader(one, other) == 1
