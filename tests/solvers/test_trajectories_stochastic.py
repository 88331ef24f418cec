"""Roll-outs in which what is shown on the way is drawn."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from recaudit.models.rollouts import RollOut
from recaudit.policies import EpsilonGreedy, Policy, Softmax
from recaudit.solvers.trajectories import (
    AscentSettings,
    DrawSettings,
    RollOutProblem,
    TrajectorySolution,
    maximize_after_top1,
    maximize_one_draw,
)
from recaudit.solvers.trajectories.ascent import ascend_after_draws
from recaudit.ties import TieKeys

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
LOW, HIGH = 1.0, 5.0
BETA = 1.5
LAST = Softmax(beta=BETA)


class Line(RollOut):
    """Scores that follow each rating by a fixed direction of the item: `s = base + sum_t (a_t - 3) D[item_t]`."""

    def __init__(self, base: FloatArray, directions: FloatArray, items: tuple[int, ...] = ()) -> None:
        self.base, self.directions, self.items = base, directions, items

    def then(self, item: int) -> Line:
        return Line(self.base, self.directions, (*self.items, item))

    def affine(self) -> tuple[FloatArray, FloatArray]:
        slope = self.directions[list(self.items)].T.reshape(len(self.base), len(self.items))
        return slope, self.base - 3 * slope.sum(axis=1)


@dataclass(frozen=True, eq=False)
class Drawn:
    """A system that shows and recommends any of its items."""

    start: Line
    follows: Policy
    policy: Policy = LAST
    low: float = LOW
    high: float = HIGH

    def problem(self, steps: int, targets: list[int] | None = None) -> RollOutProblem:
        items = len(self.start.base)
        everything, own = np.ones(items, dtype=bool), np.arange(items) if targets is None else np.array(targets)
        return RollOutProblem(self.start, everything, everything, own, steps, self.low, self.high)

    def one_draw(self, sampling: DrawSettings, tol: float = 1e-7, beta: float = BETA) -> TrajectorySolution:
        return maximize_one_draw(self.problem(1), self.follows, beta, tol, sampling)

    def ascend(
        self, steps: int, ascent: AscentSettings, sampling: DrawSettings, targets: list[int] | None = None
    ) -> TrajectorySolution:
        return ascend_after_draws(self.problem(steps, targets), self.follows, self.policy, ascent, sampling)


def system(items: int, follows: Policy, rng: int = 0) -> Drawn:
    draw = np.random.default_rng(rng)
    return Drawn(Line(0.7 * draw.normal(size=items), 0.3 * draw.normal(size=(items, items))), follows)


def probabilities(drawn: Drawn, policy: Policy, items: tuple[int, ...], ratings: FloatArray) -> FloatArray:
    state: RollOut = drawn.start
    for item in items:
        state = state.then(item)
    slope, intercept = state.affine()
    allowed = np.ones(len(intercept), dtype=bool)
    allowed[list(items)] = False
    scores = (slope @ ratings + intercept)[None]
    ties = TieKeys.in_order(len(allowed))
    probabilities: FloatArray = np.exp(policy.log_probabilities(scores, allowed[None], ties)[0])
    return probabilities


def expected(drawn: Drawn, f: FloatArray, target: int) -> float:
    """The readable twin: every sequence of items, one by one; f (steps, items)."""
    total = 0.0
    for items in itertools.permutations(range(f.shape[1]), len(f)):
        chance = 1.0
        ratings = np.array([f[t, item] for t, item in enumerate(items)])
        for t, item in enumerate(items):
            chance *= probabilities(drawn, drawn.follows, items[:t], ratings[:t])[item]
        total += chance * probabilities(drawn, drawn.policy, items, ratings)[target]
    return total


@pytest.mark.parametrize("follows", [Softmax(beta=1.0), EpsilonGreedy(epsilon=0.3)])
def test_one_step_has_the_best_rating_of_every_first_item(follows: Policy) -> None:
    drawn = system(6, follows)
    found = drawn.one_draw(DrawSettings())
    first = probabilities(drawn, follows, (), np.zeros(0))
    for target in range(6):
        best = 0.0
        for item in set(range(6)) - {target}:

            def miss(o: float, item: int = item, target: int = target) -> float:
                return -float(probabilities(drawn, drawn.policy, (item,), np.array([o]))[target])

            inside = minimize_scalar(miss, bounds=(LOW, HIGH), method="bounded", options={"xatol": 1e-10}).fun
            best -= first[item] * min(inside, miss(LOW), miss(HIGH))
        assert np.exp(found.value[target]) == pytest.approx(best, rel=1e-6)
    assert (found.status == "solved").all()
    assert (found.lower <= found.value).all()
    assert (found.value <= found.upper + 1e-12).all()


def test_first_items_that_are_not_solved_for_are_bounded() -> None:
    drawn = system(8, Softmax(beta=1.0))
    exact = drawn.one_draw(DrawSettings())
    rough = drawn.one_draw(DrawSettings(first_items=0))
    assert (rough.lower <= exact.value + 1e-9).all()
    assert (rough.upper >= exact.value - 1e-9).all()
    assert (rough.upper - rough.lower < 0.05).all()
    assert (rough.upper - rough.lower > 2e-7).any()
    assert "bounded" in rough.status


def test_where_the_draw_is_the_top_item_the_answer_is_the_exact_one() -> None:
    drawn = system(6, EpsilonGreedy(epsilon=0.0))
    chance = drawn.one_draw(DrawSettings())
    sure = maximize_after_top1(drawn.problem(1), BETA, 1e-7)
    applies = sure.status == "solved"
    np.testing.assert_allclose(chance.value[applies], sure.value[applies], atol=1e-6)
    np.testing.assert_array_equal(chance.status, sure.status)


def test_two_steps_of_a_small_tree_reach_what_trying_everything_reaches() -> None:
    drawn = system(4, Softmax(beta=1.0), rng=1)
    found = drawn.ascend(2, AscentSettings(epochs=80, learning_rate=0.3), DrawSettings())
    first = probabilities(drawn, drawn.follows, (), np.zeros(0))
    corners = [np.array(f).reshape(2, 4) for f in itertools.product((LOW, HIGH), repeat=8)]
    for target in range(4):
        # The rating of the target itself matters to no trajectory that ends with it.
        tried = max(expected(drawn, f, target) for f in corners if (f[:, target] == LOW).all())
        value = np.exp(found.value[target])
        assert value >= tried * 0.98
        assert value <= np.exp(found.upper[target])
    np.testing.assert_allclose(np.exp(found.upper), 1 - first)
    assert (found.status == "bounded").all()


def test_the_expectation_of_the_tree_is_that_of_all_sequences() -> None:
    """Without a single epoch the value is the expectation at the random start, which a scale of one point fixes."""
    drawn = system(4, Softmax(beta=1.0), rng=2)
    fixed = replace(drawn, low=4.0, high=4.0)
    found = fixed.ascend(3, AscentSettings(epochs=1), DrawSettings())
    by_hand = [expected(fixed, np.full((3, 4), 4.0), target) for target in range(4)]
    np.testing.assert_allclose(np.exp(found.value), by_hand, rtol=1e-10)


def test_drawn_trajectories_estimate_the_expectation() -> None:
    drawn = system(5, Softmax(beta=1.0), rng=3)
    fixed = replace(drawn, low=2.0, high=2.0)
    few = DrawSettings(max_sequences=1, samples=400)
    found = fixed.ascend(2, AscentSettings(epochs=1), few)
    truth = np.array([expected(fixed, np.full((2, 5), 2.0), target) for target in range(5)])
    np.testing.assert_allclose(np.exp(found.value), truth, atol=0.05)
    assert (found.lower < found.value).all()
    # Five lower limits of 97.5%: a seed at which one of them fails is possible, this one is none.
    assert (np.exp(found.lower) <= truth).all()


def test_ascent_on_drawn_trajectories_improves() -> None:
    drawn = system(5, Softmax(beta=1.0), rng=3)
    few = DrawSettings(max_sequences=1, samples=40)
    start, end = (drawn.ascend(2, AscentSettings(epochs=epochs, learning_rate=0.3), few, [1]) for epochs in (1, 25))
    assert end.value[0] > start.value[0] + 0.05
    assert end.value[0] <= end.upper[0]


def test_the_same_seed_draws_the_same() -> None:
    drawn = system(5, Softmax(beta=1.0))
    few = DrawSettings(max_sequences=1, samples=20)
    one, same, other = (drawn.ascend(2, AscentSettings(epochs=2, rng=rng), few, [0, 2]).value for rng in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def shifted(drawn: Drawn, by: float) -> Drawn:
    """The same system, all scores moved by a constant; the base has few digits, so that they move exactly."""
    base, directions = (np.round(part * 2**10) / 2**10 for part in (drawn.start.base, drawn.start.directions))
    return replace(drawn, start=Line(base + by, directions))


def test_one_draw_of_scores_with_a_large_constant_keeps_its_bounds() -> None:
    drawn = system(8, Softmax(beta=1.0))
    for sampling in (DrawSettings(), DrawSettings(first_items=2)):
        plain, moved = (shifted(drawn, by).one_draw(sampling, 1e-6, 300.0) for by in (0.0, 2.0**33))
        assert (np.maximum(plain.lower, moved.lower) <= np.minimum(plain.upper, moved.upper)).all()
        np.testing.assert_array_equal(moved.status == "solved", moved.upper - moved.lower <= 1e-6)


def test_a_small_tree_of_scores_with_a_large_constant_has_the_same_lower_bounds() -> None:
    drawn = system(4, Softmax(beta=1.0))
    drawn = replace(drawn, policy=Softmax(beta=100.0), low=2.0, high=2.0)
    plain, moved = (shifted(drawn, by).ascend(2, AscentSettings(epochs=1), DrawSettings()) for by in (0.0, 2.0**33))
    assert (moved.lower <= plain.value).all()
    np.testing.assert_allclose(moved.value, plain.value, rtol=1e-9)


def test_a_target_that_is_nearly_surely_shown_first_is_still_a_target() -> None:
    base = np.array([2000.0, 0.0, 1.0])
    drawn = Drawn(Line(base, np.eye(3)), Softmax(beta=1.0))
    found = drawn.one_draw(DrawSettings(), 1e-6)
    ascended = drawn.ascend(1, AscentSettings(epochs=1), DrawSettings())
    assert found.status[0] == "bounded"
    assert -2000 < found.upper[0] < -1990
    assert ascended.status[0] == "bounded"
    assert ascended.upper[0] == pytest.approx(found.upper[0])
