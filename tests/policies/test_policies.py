from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray
from scipy.stats import binom

from recaudit.errors import InputError
from recaudit.policies import EpsilonGreedy, Policy, Power, Softmax, Top1, top_items
from recaudit.registry import POLICIES
from recaudit.specification import as_data
from recaudit.testing.policies import PolicyContract
from recaudit.ties import TieKeys

EVERYTHING = np.ones((1, 3), dtype=bool)
THREE = TieKeys.in_order(3)


class TestTop1(PolicyContract):
    policy = Top1()


class TestSoftmax(PolicyContract):
    policy = Softmax(beta=2)


class TestSharpSoftmax(PolicyContract):
    policy = Softmax(beta=1e4)


class TestEpsilonGreedy(PolicyContract):
    policy = EpsilonGreedy(epsilon=0.2)


class TestPower(PolicyContract):
    policy = Power(power=3)


def test_top1_takes_the_one_of_equals_that_the_keys_say() -> None:
    scores = np.array([[1.0, 2.0, 2.0]])
    for keys, top in (([0, 1, 2], 1), ([0, 2, 1], 2)):
        ties = TieKeys.in_order(3).columns(np.array(keys))
        probabilities = np.exp(Top1().log_probabilities(scores, EVERYTHING, ties))
        assert probabilities.tolist() == [[float(item == top) for item in range(3)]]


@pytest.mark.parametrize("policy", [Top1(), EpsilonGreedy()])
def test_policies_that_prefer_one_of_equals_need_tie_keys(policy: Policy) -> None:
    with pytest.raises(InputError, match=r"ties: received None.*data\.tie_keys"):
        policy.log_probabilities(np.ones((1, 3)), EVERYTHING)


def test_softmax_of_two_items_is_a_sigmoid() -> None:
    logs = Softmax(beta=3).log_probabilities(np.array([[1.0, 1.5]]), np.ones((1, 2), dtype=bool))
    assert np.exp(logs)[0, 1] == pytest.approx(1 / (1 + np.exp(-1.5)))


def test_softmax_keeps_log_probabilities_that_underflow() -> None:
    logs = Softmax(beta=1e4).log_probabilities(np.array([[0.0, 1.0, -1.0]]), EVERYTHING)
    assert logs[0].tolist() == pytest.approx([-1e4, 0, -2e4])


@pytest.mark.parametrize(("epsilon", "expected"), [(0.2, [0.1, 0.8, 0.1]), (0, [0, 1, 0]), (1, [0.5, 0, 0.5])])
def test_epsilon_greedy_shares_epsilon_among_the_others(epsilon: float, expected: list[float]) -> None:
    logs = EpsilonGreedy(epsilon=epsilon).log_probabilities(np.array([[1.0, 3.0, 2.0]]), EVERYTHING, THREE)
    assert np.exp(logs)[0].tolist() == pytest.approx(expected, rel=1e-15)


def test_power_is_proportional_and_gives_nothing_to_negative_scores() -> None:
    logs = Power(power=2).log_probabilities(np.array([[1.0, 3.0, -5.0]]), EVERYTHING)
    assert np.exp(logs)[0].tolist() == pytest.approx([0.1, 0.9, 0])


def test_power_without_a_positive_score_is_uniform() -> None:
    logs = Power(power=2).log_probabilities(np.array([[0.0, -3.0, -5.0]]), EVERYTHING)
    assert np.exp(logs)[0].tolist() == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize("beta", [0, -1, float("nan"), 1e5])
def test_beta_is_checked(beta: float) -> None:
    with pytest.raises(InputError, match="beta"):
        Softmax(beta=beta)


def test_a_slate_is_drawn_without_replacement_in_proportion() -> None:
    # Plackett-Luce: P(first = i, second = j) = p_i p_j / (1 - p_i).
    n, p = 40_000, np.array([0.5, 0.3, 0.2])
    scores = np.broadcast_to(np.log(p), (n, 3))
    keys = np.arange(n).astype(np.uint64)
    slates = Softmax(beta=1).sample(
        scores, np.ones_like(scores, dtype=bool), 2, 5, keys, np.arange(3).astype(np.uint64)
    )
    share = (slates == [1, 0]).all(axis=1).mean()
    assert share == pytest.approx(0.3 * 0.5 / 0.7, abs=0.01)


def test_exploring_hardly_ever_is_hardly_exploring() -> None:
    draw = np.random.default_rng(0)
    scores = draw.normal(size=(50, 30))
    allowed = draw.random((50, 30)) < 0.6
    keys = np.arange(50).astype(np.uint64), np.arange(30).astype(np.uint64)
    ties = TieKeys(*keys)
    best = top_items(scores, allowed, 10, ties)
    for epsilon in (0.0, 1e-12):
        np.testing.assert_array_equal(EpsilonGreedy(epsilon=epsilon).sample(scores, allowed, 10, 3, *keys, ties), best)


def test_so_many_places_are_explored() -> None:
    # Descending scores: a place that is not explored shows the first item that is left.
    n, items, slate, epsilon = 4000, 200, 5, 0.3
    scores = np.broadcast_to(np.arange(items, 0.0, -1), (n, items))
    keys = np.arange(n).astype(np.uint64), np.arange(items).astype(np.uint64)
    everything, ties = np.ones_like(scores, dtype=bool), TieKeys(*keys)
    drawn = EpsilonGreedy(epsilon=epsilon).sample(scores, everything, slate, 3, *keys, ties)
    explored = np.zeros(drawn.shape, dtype=bool)
    for row, shown in enumerate(drawn):
        left = list(range(items))
        for place, item in enumerate(shown):
            explored[row, place] = item != left[0]
            left.remove(item)
    share = np.bincount(explored.sum(axis=1), minlength=slate + 1) / n
    np.testing.assert_allclose(share, binom.pmf(range(slate + 1), slate, epsilon), atol=4 * np.sqrt(0.25 / n))


@given(
    arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=12), elements=st.integers(-3, 3).map(float)),
    st.integers(1, 15),
    st.integers(0, 2**63),
)
def test_top_items_equals_a_sort_by_score_and_key(scores: NDArray[np.float64], n: int, seed: int) -> None:
    allowed = np.asarray(scores % 3 != 1)
    ties = TieKeys(*(np.arange(count, dtype=np.uint64) + np.uint64(seed) for count in scores.shape))
    found = top_items(scores, allowed, n, ties)
    for row in range(len(scores)):
        candidates = np.flatnonzero(allowed[row])
        best = candidates[np.lexsort((ties.of_row(row)[candidates], -scores[row, candidates]))][:n].tolist()
        assert found[row].tolist() == best + [-1] * (n - len(best))


class TestPerplexity:
    """`tests/audits/test_spread.py` has the beta that it means for a model."""

    def test_it_stands_in_the_place_of_beta(self) -> None:
        with pytest.raises(InputError, match="beta or perplexity"):
            Softmax(beta=1.0, perplexity=10)
        assert repr(Softmax(perplexity=10)) == "Softmax(perplexity=10.0)"
        assert repr(Softmax(beta=1.0)) == "Softmax(beta=1.0)"
        assert repr(Softmax()) == "Softmax(beta='auto')"
        assert Softmax() == Softmax(beta="auto")

    @pytest.mark.parametrize("perplexity", [1, 0, -3, float("inf"), float("nan"), "10", True])
    def test_it_is_a_number_above_1(self, perplexity: Any) -> None:
        with pytest.raises(InputError, match="perplexity"):
            Softmax(perplexity=perplexity)

    def test_it_travels_as_data(self) -> None:
        policy = Softmax(perplexity=10)
        assert as_data(policy, POLICIES) == {"kind": "softmax", "perplexity": 10.0}
        assert Softmax.model_validate(as_data(policy)) == pickle.loads(pickle.dumps(policy)) == policy

    def test_without_a_model_it_has_no_probabilities(self) -> None:
        with pytest.raises(InputError, match="depends on the model"):
            Softmax(perplexity=2).log_probabilities(np.ones((1, 3)), EVERYTHING)
