from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, minimize
from scipy.special import softmax

from contracts.solver_contract import Problem, SoftmaxContract, random_problem, trained_like
from recaudit.arrays import FloatArray
from recaudit.solvers import Solution, batches, maximize_softmax, maximize_softmax_batch


def solve(problem: Problem, tol: float = 1e-6, max_steps: int = 500) -> Solution:
    p = problem
    return maximize_softmax(p.slope, p.intercept, p.targets, p.beta, p.lower, p.upper, tol, max_steps=max_steps)


class TestOneProblem(SoftmaxContract):
    def solve(self, problem: Problem) -> Solution:
        return solve(problem)


class TestOneProblemOfABatch(SoftmaxContract):
    """The problem shares its batch with another one that has more candidates."""

    def solve(self, problem: Problem) -> Solution:
        items, actions = problem.slope.shape
        slope, intercept = np.zeros((2, items + 5, actions)), np.full((2, items + 5), -np.inf)
        slope[0] = np.random.default_rng(0).normal(0, 0.1, slope[0].shape)
        intercept[0] = 0.0
        # Candidates of the problem at hand do not come first: positions must survive the padding.
        slope[1, 5:], intercept[1, 5:] = problem.slope, problem.intercept
        targets = np.zeros((2, items + 5), dtype=bool)
        targets[0, 3] = True
        targets[1, [5 + target for target in problem.targets]] = True
        found = maximize_softmax_batch(
            slope, intercept, targets, problem.beta, problem.lower, problem.upper, actions=True
        )
        assert len(found.value) == 1 + len(problem.targets)
        order = 1 + np.searchsorted(np.sort(problem.targets), problem.targets)
        return Solution(*(getattr(found, name)[order] for name in Solution.__dataclass_fields__))


class TestLittleMemory(SoftmaxContract):
    """So little that items and targets are worked off piece by piece."""

    betas = (2.0, 100.0)

    @pytest.fixture(autouse=True)
    def little_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(batches, "CPU_MEMORY", 40_000)

    def solve(self, problem: Problem) -> Solution:
        return solve(problem)


def test_agrees_with_an_interior_point_method() -> None:
    problem = random_problem(3, items=30, actions=3, targets=1)
    slope, intercept, target = problem.slope, problem.intercept, problem.targets[0]

    def loss(action: FloatArray) -> float:
        return -problem.log_probability(target, action)

    def hessian(action: FloatArray) -> FloatArray:
        chances = softmax(problem.beta * (slope @ action + intercept))
        mean = chances @ slope
        return problem.beta**2 * ((slope.T * chances) @ slope - np.outer(mean, mean))

    answer = minimize(
        loss,
        np.full(3, 3.0),
        method="trust-constr",
        hess=hessian,
        bounds=Bounds(np.full(3, 1.0), np.full(3, 5.0)),
        options={"gtol": 1e-9, "xtol": 1e-10},
    )
    assert solve(problem).value[0] == pytest.approx(-answer.fun, abs=5e-6)


def test_no_point_of_a_fine_grid_is_better() -> None:
    problem = random_problem(11, items=25, actions=2, targets=5, beta=3.0)
    axis = np.linspace(1, 5, 161)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    scores = problem.beta * (grid @ problem.slope.T + problem.intercept)
    best = (scores - np.logaddexp.reduce(scores, axis=1)[:, None]).max(axis=0)[problem.targets]

    solution = solve(problem)

    assert (best <= solution.upper).all()
    assert (solution.value - best < 0.02).all()


def test_what_is_not_finished_is_bounded_and_the_bounds_hold() -> None:
    problem = trained_like(10, 1.0, 10.0, targets=4)

    solution = solve(problem, max_steps=1)

    twin = np.array([problem.largest(target) for target in problem.targets])
    assert (solution.status == "bounded").any()
    assert (solution.lower <= twin + 1e-9).all()
    assert (twin <= solution.upper + 1e-9).all()
    assert (solution.upper[~solution.solved] - solution.value[~solution.solved] > 1e-6).all()


def test_a_tolerance_that_double_precision_cannot_meet_is_bounded() -> None:
    problem = random_problem(4, beta=5.0)

    solution = solve(problem, tol=1e-300, max_steps=30)

    assert set(solution.status) <= {"solved", "bounded"}
    assert (solution.upper - solution.value < 1e-9).all()


def test_scores_too_large_for_double_precision_have_failed_and_are_no_number() -> None:
    slope = np.array([[1e200], [-1e200], [0.0]])

    solution = solve(Problem(slope, np.zeros(3), [1, 2]), max_steps=3)

    assert solution.status.tolist() == ["failed", "failed"]
    assert np.isnan(solution.value).all()
    assert (solution.lower.tolist(), solution.upper.tolist()) == ([-np.inf, -np.inf], [0.0, 0.0])


def test_targets_keep_their_order_and_may_repeat() -> None:
    problem = random_problem(1)

    solution = solve(replace(problem, targets=[7, 2, 7]))

    single = [solve(replace(problem, targets=[target])).value[0] for target in (7, 2, 7)]
    np.testing.assert_allclose(solution.value, single, atol=1e-6)
    assert solution.value[0] == pytest.approx(solution.value[2], abs=1e-6)


def test_no_targets_give_an_empty_answer() -> None:
    problem = random_problem(1)

    solution = solve(replace(problem, targets=[]))

    assert solution.value.shape == (0,)
    assert solution.actions.shape == (0, 4)
    assert solution.status.shape == (0,)


def test_actions_are_left_out_on_request() -> None:
    problem = random_problem(1)

    solution = maximize_softmax(problem.slope, problem.intercept, [0, 1], 1.0, 1, 5, actions=False)

    assert solution.actions.shape == (0, 4)


def test_lists_and_arrays_give_the_same_answer() -> None:
    problem = random_problem(12)

    lists = maximize_softmax(problem.slope.tolist(), problem.intercept.tolist(), [1, 2], 1.5, 1, 5)

    assert lists.value.tolist() == solve(replace(problem, targets=[1, 2])).value.tolist()


def test_most_targets_of_a_long_list_need_few_evaluations_of_their_own() -> None:
    problem = trained_like(10, 0.1, 2.0, items=1000, targets=900)

    solution = solve(problem)

    assert solution.solved.all()
    assert solution.evaluations.mean() < 2


# Rounded, so that hypothesis does not spend its time on denormal numbers.
def numbers(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high).map(lambda x: round(x, 3))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    items, actions = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    rows = draw(st.lists(st.lists(numbers(-3, 3), min_size=actions, max_size=actions), min_size=items, max_size=items))
    intercept = draw(st.lists(numbers(-5, 5), min_size=items, max_size=items))
    lower = np.array(draw(st.lists(numbers(-4, 4), min_size=actions, max_size=actions)))
    width = np.array(draw(st.lists(numbers(0, 4), min_size=actions, max_size=actions)))
    beta = draw(numbers(0.05, 20))
    return Problem(np.array(rows), np.array(intercept), list(range(items)), beta, lower, lower + width)


@settings(max_examples=60)
@given(problem=problems(), where=st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_no_action_in_the_box_beats_the_upper_bound(problem: Problem, where: list[float]) -> None:
    solution = solve(problem)

    lower, upper = problem.ends()
    action = lower + np.array(where[: len(lower)]) * (upper - lower)
    there = np.array([problem.log_probability(target, action) for target in problem.targets])
    assert (solution.status == "solved").all()
    assert (there <= solution.upper + 1e-12).all()
    assert (solution.lower <= solution.value).all()
    assert (solution.value <= solution.upper).all()
    assert (solution.value <= 0).all()


@settings(max_examples=40)
@given(problem=problems(), constant=numbers(-50, 50))
def test_a_constant_added_to_all_scores_changes_nothing(problem: Problem, constant: float) -> None:
    moved = solve(replace(problem, intercept=problem.intercept + constant))

    np.testing.assert_allclose(moved.value, solve(problem).value, rtol=0, atol=1.1e-6)


@settings(max_examples=40)
@given(problem=problems(), more=numbers(0, 3))
def test_a_larger_box_reaches_no_less(problem: Problem, more: float) -> None:
    larger = solve(replace(problem, lower=problem.ends()[0] - more, upper=problem.ends()[1] + more))

    assert (larger.value >= solve(problem).value - 1.1e-6).all()


@settings(max_examples=40)
@given(problem=problems(), column=st.lists(numbers(-3, 3), min_size=7, max_size=7))
def test_one_more_action_that_may_be_left_at_zero_reaches_no_less(problem: Problem, column: list[float]) -> None:
    lower, upper = problem.ends()
    slope = np.column_stack([problem.slope, column[: len(problem.slope)]])
    more = solve(replace(problem, slope=slope, lower=np.append(lower, -1.0), upper=np.append(upper, 2.0)))

    assert (more.value >= solve(problem).value - 1.1e-6).all()


@settings(max_examples=40)
@given(problem=problems(), data=st.data())
def test_the_order_of_the_items_does_not_matter(problem: Problem, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(problem.slope))))
    shuffled: FloatArray = problem.slope[order]

    answer = solve(replace(problem, slope=shuffled, intercept=problem.intercept[order]))

    np.testing.assert_allclose(answer.value, solve(problem).value[order], rtol=0, atol=1.1e-6)
