from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from contracts.solver_contract import Problem, random_problem, trained_like
from recaudit.arrays import FloatArray
from recaudit.errors import InputError
from recaudit.solvers import Solution, maximize_softmax
from recaudit.solvers.discrete.maximize import maximize_softmax_discrete

STARS = np.arange(1.0, 6.0)
LISTING, SEARCH = 1_000_000, 0
"""How many actions are listed: all there are, or none, which leaves them to branch and bound."""


def solve(
    problem: Problem,
    values: FloatArray = STARS,
    tol: float = 1e-6,
    *,
    start: FloatArray | None = None,
    changes: float | None = None,
    cost: FloatArray | None = None,
    node_limit: int = 1000,
    enumerate_up_to: int | None = SEARCH,
) -> Solution:
    return maximize_softmax_discrete(
        problem.slope,
        problem.intercept,
        problem.targets,
        problem.beta,
        values,
        tol,
        start=start,
        changes=changes,
        cost=cost,
        node_limit=node_limit,
        enumerate_up_to=enumerate_up_to,
    )


def allowed(
    actions: int, values: FloatArray, start: FloatArray | None, changes: float, cost: FloatArray | None
) -> FloatArray:
    """(n, K): the readable twin of the limit on effort."""
    before = np.full(actions, np.nan) if start is None else start
    options = [values if start is None else np.union1d(values, own) for own in before]
    grid = np.array(list(itertools.product(*options)))
    spent = ((grid != before) * (1.0 if cost is None else cost)).sum(axis=1)
    return grid if start is None else grid[spent <= changes + 1e-9]


def brute_force(
    problem: Problem,
    values: FloatArray = STARS,
    *,
    start: FloatArray | None = None,
    changes: float = 0.0,
    cost: FloatArray | None = None,
) -> FloatArray:
    """(targets,): the largest log-probability of each target, by trying everything."""
    grid = allowed(problem.slope.shape[1], values, start, changes, cost)
    scores = problem.beta * (grid @ problem.slope.T + problem.intercept)
    best: FloatArray = (scores - logsumexp(scores, axis=1, keepdims=True)).max(axis=0)[problem.targets]
    return best


both_ways = pytest.mark.parametrize("enumerate_up_to", [LISTING, SEARCH], ids=["listing", "search"])


@both_ways
class TestKnownAnswers:
    def test_two_items_and_one_action_are_a_sigmoid(self, enumerate_up_to: int) -> None:
        problem = Problem(np.array([[1.0], [0.0]]), np.array([0.0, 0.5]), [0, 1], beta=2.0)

        solution = solve(problem, enumerate_up_to=enumerate_up_to)

        highest, lowest = 1 / (1 + np.exp(-2 * (5 - 0.5))), 1 / (1 + np.exp(-2 * (0.5 - 1)))
        np.testing.assert_allclose(np.exp(solution.value), [highest, lowest], rtol=2e-6)
        assert solution.actions.tolist() == [[5.0], [1.0]]
        assert solution.status.tolist() == ["solved", "solved"]

    def test_the_best_rating_lies_between_the_stars(self, enumerate_up_to: int) -> None:
        # exp(1) / (exp(1) + exp(a) + exp(-a)) is largest at a = 0, which cannot be given.
        problem = Problem(np.array([[-1.0], [0.0], [1.0]]), np.array([0.0, 1.0, 0.0]), [1])

        solution = solve(problem, np.array([-2.0, 0.5, 3.0]), enumerate_up_to=enumerate_up_to)

        np.testing.assert_allclose(np.exp(solution.value), np.e / (np.e + 2 * np.cosh(0.5)), rtol=1e-6)
        assert solution.actions.tolist() == [[0.5]]

    def test_a_single_item_is_certain(self, enumerate_up_to: int) -> None:
        problem = Problem(np.array([[0.3, -2.0]]), np.array([1.0]), [0], beta=3.0)

        solution = solve(problem, enumerate_up_to=enumerate_up_to)

        assert np.exp(solution.value).tolist() == [1.0]
        assert solution.lower[0] <= 0 <= solution.upper[0]

    def test_actions_without_effect_leave_the_softmax(self, enumerate_up_to: int) -> None:
        intercept = np.array([0.0, 1.0, -2.0])

        solution = solve(Problem(np.zeros((3, 2)), intercept, [0, 1, 2], beta=2.0), enumerate_up_to=enumerate_up_to)

        np.testing.assert_allclose(
            np.exp(solution.value), np.exp(2 * intercept) / np.exp(2 * intercept).sum(), rtol=1e-12
        )

    def test_only_what_is_worth_its_cost_is_changed(self, enumerate_up_to: int) -> None:
        """Against an item of score 0 each rating counts for itself: 4 up in the first, 3 times 4 in the second."""
        problem = Problem(np.array([[1.0, 3.0], [0.0, 0.0]]), np.zeros(2), [0], beta=0.1)
        start, cost = np.array([1.0, 1.0]), np.array([1.0, 4.0])

        spent = {
            budget: solve(
                problem, start=start, changes=budget, cost=cost, enumerate_up_to=enumerate_up_to
            ).actions.tolist()
            for budget in (0.5, 1.0, 3.9, 4.0, 5.0)
        }

        assert spent == {0.5: [[1, 1]], 1.0: [[5, 1]], 3.9: [[5, 1]], 4.0: [[1, 5]], 5.0: [[5, 5]]}

    def test_a_start_between_the_stars_stays_where_it_is(self, enumerate_up_to: int) -> None:
        problem = Problem(np.array([[1.0, 2.0], [0.0, 0.0]]), np.zeros(2), [0, 1], beta=0.1)

        solution = solve(problem, start=np.array([3.3, 0.2]), changes=1, enumerate_up_to=enumerate_up_to)

        assert solution.actions.tolist() == [[3.3, 5.0], [1.0, 0.2]]


@both_ways
class TestAgainstBruteForce:
    @pytest.mark.parametrize("actions", [1, 2, 3, 4])
    @pytest.mark.parametrize("beta", [0.1, 1.0, 10.0, 100.0])
    def test_all_stars(self, actions: int, beta: float, enumerate_up_to: int) -> None:
        problem = random_problem(actions, items=30, actions=actions, targets=8, beta=beta)

        solution = solve(problem, enumerate_up_to=enumerate_up_to)

        best = brute_force(problem)
        assert solution.solved.all()
        np.testing.assert_allclose(solution.value, best, rtol=0, atol=1.1e-6)
        assert (solution.lower <= best + 1e-10).all()
        assert (best <= solution.upper + 1e-10).all()

    @pytest.mark.parametrize("changes", [0, 1, 2, 3])
    @pytest.mark.parametrize("beta", [0.3, 3.0, 30.0])
    def test_a_limit_on_changes(self, changes: int, beta: float, enumerate_up_to: int) -> None:
        problem = random_problem(20, items=30, actions=4, targets=8, beta=beta)
        start = np.array([3.0, 4.2, 1.0, 0.5])

        solution = solve(problem, start=start, changes=changes, enumerate_up_to=enumerate_up_to)

        assert solution.solved.all()
        assert ((solution.actions != start).sum(axis=1) <= changes).all()
        np.testing.assert_allclose(
            solution.value, brute_force(problem, start=start, changes=changes), rtol=0, atol=1.1e-6
        )

    def test_a_cost_for_each_change(self, enumerate_up_to: int) -> None:
        problem = random_problem(21, items=30, actions=4, targets=8, beta=5.0)
        start, cost = np.full(4, 3.0), np.array([0.1, 0.2, 0.3, 0.0])

        for budget in (0.0, 0.3, 0.4):
            solution = solve(problem, start=start, changes=budget, cost=cost, enumerate_up_to=enumerate_up_to)

            best = brute_force(problem, start=start, changes=budget, cost=cost)
            np.testing.assert_allclose(solution.value, best, rtol=0, atol=1.1e-6)

    def test_ratings_that_are_not_evenly_spaced(self, enumerate_up_to: int) -> None:
        problem, values = random_problem(22, actions=3, beta=8.0), np.array([-4.0, 0.0, 0.1, 7.5])

        solution = solve(problem, values, enumerate_up_to=enumerate_up_to)

        np.testing.assert_allclose(solution.value, brute_force(problem, values), rtol=0, atol=1.1e-6)

    def test_equal_items_and_targets_asked_for_twice(self, enumerate_up_to: int) -> None:
        rng = np.random.default_rng(3)
        problem = Problem(np.repeat(rng.normal(size=(10, 3)), 2, axis=0), np.repeat(rng.normal(size=10), 2), [4, 5, 4])

        solution = solve(problem, enumerate_up_to=enumerate_up_to)

        np.testing.assert_allclose(solution.value, brute_force(problem), rtol=0, atol=1.1e-6)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    actions=st.integers(1, 4),
    items=st.integers(1, 12),
    ratings=st.integers(1, 5),
    beta=st.sampled_from([0.1, 1.0, 5.0, 40.0]),
    limit=st.none() | st.integers(0, 4),
    constant=st.floats(-100, 100),
)
def test_any_problem_is_solved(
    seed: int, actions: int, items: int, ratings: int, beta: float, limit: int | None, constant: float
) -> None:
    rng = np.random.default_rng(seed)
    slope = rng.normal(size=(items, actions)) * (rng.random(actions) < 0.8)
    problem = Problem(slope, rng.normal(size=items) + constant, list(range(items)), beta)
    values = np.sort(rng.choice(np.arange(-2.0, 6.0), ratings, replace=False))
    start = None if limit is None else np.where(rng.random(actions) < 0.5, rng.choice(values, actions), rng.normal())

    solution = solve(problem, values, start=start, changes=limit)

    best = brute_force(problem, values, start=start, changes=limit or 0)
    assert solution.solved.all()
    np.testing.assert_allclose(solution.value, best, rtol=0, atol=1.1e-6)
    assert (best <= solution.upper + 1e-9).all()
    reached = [problem.log_probability(t, a) for t, a in zip(problem.targets, solution.actions, strict=True)]
    np.testing.assert_allclose(solution.value, reached, rtol=0, atol=1e-9)
    grid = allowed(actions, values, start, limit or 0, None)
    assert all((grid == action).all(axis=1).any() for action in solution.actions)


def test_bounds_hold_when_the_nodes_run_out() -> None:
    problem = trained_like(actions=6, step=1.0, beta=20.0, items=40, targets=20)

    rough, exact = solve(problem, node_limit=1), brute_force(problem)

    assert set(rough.status) == {"solved", "bounded"}
    assert (rough.lower <= exact + 1e-10).all()
    assert (exact <= rough.upper + 1e-10).all()
    assert (rough.upper - rough.value > 1e-6)[rough.status == "bounded"].all()
    assert (rough.evaluations == 1).all()
    better = solve(problem)
    assert better.solved.all()
    np.testing.assert_allclose(better.value, exact, rtol=0, atol=1.1e-6)


def test_rounding_the_answer_of_the_interval_is_not_enough() -> None:
    problem = trained_like(actions=5, step=1.0, beta=10.0, targets=20)
    relaxed = maximize_softmax(problem.slope, problem.intercept, problem.targets, problem.beta, 1.0, 5.0)

    stars = solve(problem)

    pairs = zip(problem.targets, np.rint(relaxed.actions), strict=True)
    rounded = np.array([problem.log_probability(target, action) for target, action in pairs])
    assert (stars.value >= rounded - 1.1e-6).all()
    assert (stars.value > rounded + 0.1).any()


@pytest.mark.parametrize("actions", [5, 10, 20])
@pytest.mark.parametrize(("step", "beta"), [(0.1, 2.0), (0.1, 10.0), (1.0, 2.0)])
def test_stars_never_reach_more_than_the_interval(actions: int, step: float, beta: float) -> None:
    problem = trained_like(actions, step, beta, targets=30)
    relaxed = maximize_softmax(problem.slope, problem.intercept, problem.targets, beta, 1.0, 5.0)

    stars = solve(problem)

    assert stars.solved.all()
    assert (stars.value <= relaxed.upper).all()
    vertex = np.isin(relaxed.actions, [1.0, 5.0]).all(axis=1)
    np.testing.assert_allclose(stars.value[vertex], relaxed.value[vertex], rtol=0, atol=2e-6)
    np.testing.assert_array_equal(np.isin(stars.actions, STARS), True)


def test_some_answers_of_the_interval_are_stars_already() -> None:
    """So that the comparison above is not about nothing."""
    problem = trained_like(5, 0.1, 2.0, targets=30)
    relaxed = maximize_softmax(problem.slope, problem.intercept, problem.targets, problem.beta, 1.0, 5.0)

    assert np.isin(relaxed.actions, [1.0, 5.0]).all(axis=1).any()


def test_no_pair_of_ratings_can_be_bettered_where_nothing_can_be_listed() -> None:
    problem = trained_like(actions=12, step=1.0, beta=4.0, targets=4)

    solution = solve(problem)

    assert solution.solved.all()
    for target, action, value in zip(problem.targets, solution.actions, solution.value, strict=True):
        for first, second in itertools.combinations(range(12), 2):
            for ratings in itertools.product(STARS, STARS):
                moved = action.copy()
                moved[[first, second]] = ratings
                assert problem.log_probability(target, moved) <= value + 1.1e-6


@pytest.mark.parametrize("enumerate_up_to", [None, SEARCH])
def test_more_changes_reach_more(enumerate_up_to: int | None) -> None:
    problem, start = trained_like(actions=7, step=1.0, beta=3.0, targets=12), np.full(7, 3.5)

    values = [solve(problem, start=start, changes=n, enumerate_up_to=enumerate_up_to).value for n in range(8)]

    there = [problem.log_probability(target, start) for target in problem.targets]
    np.testing.assert_allclose(values[0], there, rtol=0, atol=1e-10)
    assert (np.diff(values, axis=0) >= -1.1e-6).all()
    assert (values[7] > values[0] + 0.1).all()


def test_a_limit_that_does_not_bind_is_none() -> None:
    problem = trained_like(actions=8, step=1.0, beta=3.0)

    free, limited = solve(problem), solve(problem, start=np.full(8, 2.0), changes=8)

    np.testing.assert_allclose(limited.value, free.value, rtol=0, atol=1.1e-6)


def test_a_target_does_not_depend_on_the_others() -> None:
    problem = trained_like(actions=9, step=1.0, beta=5.0)

    together = solve(problem)

    for row, target in enumerate(problem.targets):
        alone = solve(Problem(problem.slope, problem.intercept, [target], problem.beta))
        np.testing.assert_allclose(together.value[row], alone.value, rtol=0, atol=1.1e-6)


def test_the_same_call_gives_the_same_numbers() -> None:
    problem = trained_like(actions=8, step=1.0, beta=5.0)

    first, second = solve(problem), solve(problem)

    np.testing.assert_array_equal(first.value, second.value)
    np.testing.assert_array_equal(first.upper, second.upper)
    np.testing.assert_array_equal(first.actions, second.actions)


def test_scores_far_apart_neither_overflow_nor_vanish() -> None:
    problem = random_problem(10, actions=3, beta=1000.0)

    for enumerate_up_to in (LISTING, SEARCH):
        solution = solve(problem, enumerate_up_to=enumerate_up_to)

        np.testing.assert_allclose(solution.value, brute_force(problem), rtol=1e-12, atol=1.1e-6)


@both_ways
def test_no_targets_have_no_answers(enumerate_up_to: int) -> None:
    solution = solve(Problem(np.ones((3, 2)), np.zeros(3), []), enumerate_up_to=enumerate_up_to)

    assert len(solution.value) == len(solution.status) == 0
    assert solution.actions.shape == (0, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": []}, "values: received 0 numbers"),
        ({"values": [1.0, 3.0, 2.0]}, "values: .*ascending"),
        ({"values": [1.0, 1.0]}, "values: .*ascending"),
        ({"values": [1.0, np.nan]}, "values: received NaN"),
        ({"start": [1.0, 2.0]}, "changes: received None beside a start"),
        ({"cost": [1.0, 2.0]}, "changes: received None beside a start or a cost"),
        ({"changes": 1}, "start: received None beside a limit"),
        ({"changes": -1, "start": [1.0, 2.0]}, "changes: received -1; expected a finite number of 0 or more"),
        ({"changes": 1, "start": [1.0]}, "start: received 1 numbers; expected 2, one an action"),
        ({"changes": 1, "start": [1.0, np.inf]}, "start: received NaN or infinite"),
        ({"changes": 1, "start": [1.0, 2.0], "cost": [1.0, -1.0]}, "cost: received a negative cost"),
        ({"changes": 1, "start": [1.0, 2.0], "cost": 1.0}, r"cost: received an array of shape \(\)"),
        ({"beta": 0.0}, "beta: received 0.0"),
        ({"tol": -1.0}, "tol: received -1.0"),
        ({"node_limit": 0}, "node_limit: received 0"),
        ({"slope": [[np.nan, 1.0]]}, "slope: received NaN"),
        ({"intercept": [-np.inf]}, "intercept: received NaN or infinite"),
        ({"targets": [1]}, "targets: received positions from 1 to 1"),
    ],
)
def test_bad_input_is_named(arguments: dict[str, object], message: str) -> None:
    good: dict[str, object] = {"slope": [[0.5, 1.0]], "intercept": [1.0], "targets": [0], "beta": 1.0, "values": STARS}
    with pytest.raises(InputError, match=message):
        maximize_softmax_discrete(**good | arguments)  # type: ignore[arg-type]  # wrong on purpose
