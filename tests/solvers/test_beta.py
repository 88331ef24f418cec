from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from recaudit.errors import InputError
from recaudit.solvers import maximize_softmax
from recaudit.solvers.softmax.beta import best_beta


def largest(slope: np.ndarray, intercept: np.ndarray, target: int, beta: float) -> float:
    return float(maximize_softmax(slope, intercept, [target], beta, 1, 5, tol=1e-9).value[0])


def test_an_item_that_can_be_on_top_wants_no_randomness() -> None:
    found = best_beta([[1.0], [0.0]], [0.0, 2.0], 0, 1, 5)
    assert (found.beta[0], found.value[0], found.reachable[0], found.status[0]) == (math.inf, 0.0, True, "solved")


def test_an_item_below_the_mean_is_best_served_by_chance() -> None:
    """Scores 0 for the target, 1 and 2 for the others, whatever the rating."""
    found = best_beta(np.zeros((3, 1)), [0.0, 1.0, 2.0], 0, 1, 5)
    assert found.beta == 0
    assert np.exp([found.value, found.lower, found.upper]) == pytest.approx(1 / 3)
    assert not found.reachable


def test_a_hair_above_the_mean_is_as_good_as_chance() -> None:
    found = best_beta(np.zeros((3, 1)), [1e-15, 1.0, -1.0], 0, 1, 5)
    assert found.beta < 1e-3
    assert np.exp(found.value) == pytest.approx(1 / 3, abs=1e-9)
    assert found.status == "solved"


def test_three_items_worked_by_hand() -> None:
    """Scores 0, 1 and -2 that no rating moves: p = 1 / (1 + e^b + e^-2b) is largest where e^b = 2 e^-2b."""
    beta = math.log(2) / 3
    found = best_beta(np.zeros((3, 1)), [0.0, 1.0, -2.0], 0, 1, 5)
    assert found.beta == pytest.approx(beta, rel=1e-3)
    assert found.bracket[0, 0] <= beta <= found.bracket[0, 1]
    assert np.exp(found.value) == pytest.approx(1 / (1 + math.exp(beta) + math.exp(-2 * beta)), abs=1e-8)
    assert found.status == "solved"


def test_a_twin_leaves_half_at_most() -> None:
    found = best_beta([[1.0], [1.0], [0.0]], [0.0, 0.0, -1.0], 0, 1, 5)
    assert (found.beta[0], found.reachable[0], found.status[0]) == (math.inf, True, "solved")
    assert np.exp(found.value) == pytest.approx(0.5)


def test_a_tie_of_three_is_bounded_honestly() -> None:
    found = best_beta(np.zeros((3, 1)), np.zeros(3), 1, 1, 5)
    assert np.exp(found.value) == pytest.approx(1 / 3)
    assert np.exp(found.upper) == pytest.approx(1 / 2)
    assert found.status == "bounded"


def test_the_only_item_is_certain() -> None:
    assert best_beta([[1.0]], [0.0], 0, 1, 5).value == 0


def test_what_still_rises_at_the_largest_beta_is_bounded() -> None:
    """1 / (1 + e^(1e-6 b) + e^(-1e-5 b)) is largest where 11e-6 b = log 10: far beyond 10^4."""
    best = math.log(10) / 11e-6
    value = 1 / (1 + math.exp(1e-6 * best) + math.exp(-1e-5 * best))
    found = best_beta(np.zeros((3, 1)), [0.0, 1e-6, -1e-5], 0, 1, 5)
    assert (found.beta[0], found.status[0], found.reachable[0]) == (1e4, "bounded", False)
    assert np.exp(found.value) == pytest.approx(1 / (1 + math.exp(1e-2) + math.exp(-1e-1)))
    assert found.lower < math.log(value) < found.upper
    assert found.bracket[0, 0] <= best <= found.bracket[0, 1]


def random_scores(seed: int, items: int, actions: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    return 0.2 * draw.standard_normal((items, actions)), draw.standard_normal(items)


@pytest.mark.parametrize("seed", range(8))
def test_it_finds_what_a_search_over_beta_finds(seed: int) -> None:
    slope, intercept = random_scores(seed, 20, 3)
    target = int(np.argsort(intercept)[12])
    found = best_beta(slope, intercept, target, 1, 5)
    if found.reachable:
        assert largest(slope, intercept, target, 1e3) > math.log(0.5) - 1e-6
        return
    twin = minimize_scalar(
        lambda x: -largest(slope, intercept, target, math.exp(x)),
        bounds=(-7, 7),
        method="bounded",
        options={"xatol": 1e-6},
    )
    assert found.status == "solved"
    assert found.value == pytest.approx(max(-twin.fun, -math.log(20)), abs=1e-6)
    if found.beta > 1e-2:
        assert found.beta == pytest.approx(math.exp(twin.x), rel=1e-2)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.floats(1e-3, 1e3))
def test_no_beta_gives_more_than_the_upper_bound(seed: int, beta: float) -> None:
    slope, intercept = random_scores(seed, 8, 2)
    found = best_beta(slope, intercept, 0, 1, 5)
    assert found.lower <= found.value <= found.upper
    assert largest(slope, intercept, 0, beta) <= found.upper + 1e-9


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.floats(0.01, 20), st.floats(0.01, 20), st.floats(0, 1))
def test_the_log_of_the_largest_probability_is_concave_in_beta(seed: int, a: float, b: float, share: float) -> None:
    """What the search stands on; the paper only says that some best beta exists."""
    slope, intercept = random_scores(seed, 8, 2)
    ends = share * largest(slope, intercept, 0, a) + (1 - share) * largest(slope, intercept, 0, b)
    assert largest(slope, intercept, 0, share * a + (1 - share) * b) >= ends - 1e-7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": 3}, "target"),
        ({"tol": -1.0}, "tol: received -1.0"),
        ({"lower": 6}, "lower: received a bound above"),
        ({"slope": np.full((2, 1), np.inf)}, "slope: received NaN or infinite"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"slope": np.ones((2, 1)), "intercept": [0.0, 1.0], "target": 0, "lower": 1, "upper": 5}
    with pytest.raises(InputError, match=message):
        best_beta(**{**good, **change})


@pytest.mark.parametrize("shift", [1e6, -1e9])
def test_a_constant_added_to_all_scores_leaves_the_bounds_around_the_same_value(shift: float) -> None:
    slope, intercept = random_scores(3, 20, 3)
    intercept = np.round(intercept * 2**10) / 2**10  # so that the shifted scores are the same, to the last bit
    target = int(np.argsort(intercept)[8])
    plain, moved = (best_beta(slope, intercept + constant, target, 1, 5) for constant in (0.0, shift))
    assert (plain.status[0], moved.status[0]) == ("solved", "solved")
    assert 0 < plain.beta < math.inf
    assert moved.lower <= plain.upper
    assert plain.lower <= moved.upper
    assert moved.upper - moved.lower <= 1e-6


def test_scores_beyond_double_precision_are_refused() -> None:
    with pytest.raises(InputError, match="scores that differ from the target's by up to"):
        best_beta([[1e200], [0.0]], [0.0, 0.0], 1, 1, 5)
