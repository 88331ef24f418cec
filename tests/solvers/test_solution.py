from __future__ import annotations

import numpy as np

from recaudit.solvers import MarginSolution, Solution, top1_margin
from recaudit.solvers.solution import concatenate, lower_bounded, no_solutions, status_of


def test_solved_means_bounds_within_the_tolerance() -> None:
    lower, upper = np.array([0.0, 0.0, -1.0]), np.array([1e-7, 1e-5, 3.0])
    assert status_of(lower, upper, 1e-6).tolist() == ["solved", "bounded", "bounded"]


def test_equal_bounds_are_solved_even_where_they_are_infinite() -> None:
    infinite = np.array([np.inf, -np.inf])
    assert status_of(infinite, infinite, 0.0).tolist() == ["solved", "solved"]
    assert status_of(-infinite, infinite, 1.0).tolist() == ["bounded", "solved"]


def test_a_failure_is_a_failure_whatever_the_bounds() -> None:
    zeros = np.zeros(2)
    assert status_of(zeros, zeros, 1.0, failed=np.array([True, False])).tolist() == ["failed", "solved"]


def test_a_search_claims_a_lower_bound_and_no_more() -> None:
    found = lower_bounded(np.array([0.2, 0.4]), np.zeros((2, 3)), np.array([5, 6]), largest=1.0)
    assert found.lower is found.value
    assert (found.upper == 1).all()
    assert found.status.tolist() == ["bounded", "bounded"]
    assert not found.solved.any()


def test_parts_give_the_whole_and_keep_their_type() -> None:
    draw = np.random.default_rng(0)
    slope, intercept = draw.normal(size=(12, 2)), draw.normal(size=12)
    whole, *parts = (top1_margin(slope, intercept, targets, 1.0, 5.0) for targets in (range(6), [0, 1], [2, 3, 4, 5]))
    joined = concatenate(parts)
    assert isinstance(joined, MarginSolution)
    np.testing.assert_array_equal(joined.reachable, whole.reachable)
    np.testing.assert_allclose(joined.value, whole.value, atol=1e-6)
    assert joined.actions.shape == (6, 2)


def test_nothing_joined_to_something_is_that_thing() -> None:
    ones, status = np.ones(2), np.full(2, "not_applicable")
    something = Solution(ones, ones, ones, status, np.ones((2, 4)), np.ones(2, dtype=np.int64))
    joined = concatenate([no_solutions(4), something])
    assert joined.status.tolist() == ["not_applicable"] * 2
    assert joined.actions.shape == (2, 4)
    assert joined.evaluations.dtype == np.int64
