"""Roll-outs in which what is shown on the way is drawn."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from recaudit.models.rollouts import RollOut
from recaudit.policies import EpsilonGreedy, Policy, Softmax
from recaudit.solvers.trajectories import (
    Ascent,
    Drawn,
    Sampling,
    ascend_after_draws,
    maximize_after_top1,
    maximize_one_draw,
)

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
LOW, HIGH = 1.0, 5.0
BETA = 1.5


class Line(RollOut):
    """Scores that follow each rating by a fixed direction of the item: `s = base + sum_t (a_t - 3) D[item_t]`."""

    def __init__(self, base: FloatArray, directions: FloatArray, items: tuple[int, ...] = ()) -> None:
        self.base, self.directions, self.items = base, directions, items

    def then(self, item: int) -> Line:
        return Line(self.base, self.directions, (*self.items, item))

    def affine(self) -> tuple[FloatArray, FloatArray]:
        slope = self.directions[list(self.items)].T.reshape(len(self.base), len(self.items))
        return slope, self.base - 3 * slope.sum(axis=1)


def system(items: int, follows: Policy, rng: int = 0) -> Drawn:
    draw = np.random.default_rng(rng)
    start = Line(0.7 * draw.normal(size=items), 0.3 * draw.normal(size=(items, items)))
    everything = np.ones(items, dtype=bool)
    return Drawn(start, everything, everything, follows, Softmax(beta=BETA), LOW, HIGH)


def probabilities(drawn: Drawn, policy: Policy, items: tuple[int, ...], ratings: FloatArray) -> FloatArray:
    state = drawn.start
    for item in items:
        state = state.then(item)
    slope, intercept = state.affine()
    allowed = np.ones(len(intercept), dtype=bool)
    allowed[list(items)] = False
    scores = torch.from_numpy(slope @ ratings + intercept)[None]
    return policy.log_probabilities(scores, torch.from_numpy(allowed)[None])[0].exp().numpy()


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
    found = maximize_one_draw(drawn, np.arange(6), BETA, 1e-7, Sampling())
    first = probabilities(drawn, follows, (), np.zeros(0))
    for target in range(6):
        best = 0.0
        for item in set(range(6)) - {target}:

            def miss(o: float, item: int = item, target: int = target) -> float:
                return -float(probabilities(drawn, drawn.policy, (item,), np.array([o]))[target])

            inside = minimize_scalar(miss, bounds=(LOW, HIGH), method="bounded", options={"xatol": 1e-10}).fun
            best -= first[item] * min(inside, miss(LOW), miss(HIGH))
        assert np.exp(found.log_value[target]) == pytest.approx(best, rel=1e-6)
    assert (found.status == "solved").all()
    assert (found.log_lower <= found.log_value).all()
    assert (found.log_value <= found.log_upper + 1e-12).all()


def test_first_items_that_are_not_solved_for_are_bounded() -> None:
    drawn = system(8, Softmax(beta=1.0))
    exact = maximize_one_draw(drawn, np.arange(8), BETA, 1e-7, Sampling())
    rough = maximize_one_draw(drawn, np.arange(8), BETA, 1e-7, Sampling(first_items=0))
    assert (rough.log_lower <= exact.log_value + 1e-9).all()
    assert (rough.log_upper >= exact.log_value - 1e-9).all()
    assert (rough.log_upper - rough.log_lower < 0.05).all()
    assert (rough.log_upper - rough.log_lower > 2e-7).any()
    assert "bounded" in rough.status


def test_where_the_draw_is_the_top_item_the_answer_is_the_exact_one() -> None:
    drawn = system(6, EpsilonGreedy(epsilon=0.0))
    chance = maximize_one_draw(drawn, np.arange(6), BETA, 1e-7, Sampling())
    sure = maximize_after_top1(drawn.start, drawn.shown, drawn.candidates, np.arange(6), BETA, 1, LOW, HIGH, 1e-7)
    applies = sure.status == "solved"
    np.testing.assert_allclose(chance.log_value[applies], sure.log_value[applies], atol=1e-6)
    np.testing.assert_array_equal(chance.status, sure.status)


def test_two_steps_of_a_small_tree_reach_what_trying_everything_reaches() -> None:
    drawn = system(4, Softmax(beta=1.0), rng=1)
    found = ascend_after_draws(drawn, np.arange(4), 2, Ascent(epochs=80, learning_rate=0.3), Sampling())
    first = probabilities(drawn, drawn.follows, (), np.zeros(0))
    corners = [np.array(f).reshape(2, 4) for f in itertools.product((LOW, HIGH), repeat=8)]
    for target in range(4):
        # The rating of the target itself matters to no trajectory that ends with it.
        tried = max(expected(drawn, f, target) for f in corners if (f[:, target] == LOW).all())
        value = np.exp(found.log_value[target])
        assert value >= tried * 0.98
        assert value <= np.exp(found.log_upper[target])
    np.testing.assert_allclose(np.exp(found.log_upper), 1 - first)
    assert (found.status == "bounded").all()


def test_the_expectation_of_the_tree_is_that_of_all_sequences() -> None:
    """Without a single epoch the value is the expectation at the random start, which a scale of one point fixes."""
    drawn = system(4, Softmax(beta=1.0), rng=2)
    fixed = Drawn(drawn.start, drawn.shown, drawn.candidates, drawn.follows, drawn.policy, 4.0, 4.0)
    found = ascend_after_draws(fixed, np.arange(4), 3, Ascent(epochs=1), Sampling())
    by_hand = [expected(fixed, np.full((3, 4), 4.0), target) for target in range(4)]
    np.testing.assert_allclose(np.exp(found.log_value), by_hand, rtol=1e-10)


def test_drawn_trajectories_estimate_the_expectation() -> None:
    drawn = system(5, Softmax(beta=1.0), rng=3)
    fixed = Drawn(drawn.start, drawn.shown, drawn.candidates, drawn.follows, drawn.policy, 2.0, 2.0)
    few = Sampling(max_sequences=1, samples=400)
    found = ascend_after_draws(fixed, np.arange(5), 2, Ascent(epochs=1), few)
    truth = np.array([expected(fixed, np.full((2, 5), 2.0), target) for target in range(5)])
    np.testing.assert_allclose(np.exp(found.log_value), truth, atol=0.05)
    assert (found.log_lower < found.log_value).all()
    # Five lower limits of 97.5%: a seed at which one of them fails is possible, this one is none.
    assert (np.exp(found.log_lower) <= truth).all()


def test_ascent_on_drawn_trajectories_improves() -> None:
    drawn = system(5, Softmax(beta=1.0), rng=3)
    few = Sampling(max_sequences=1, samples=40)
    start, end = (
        ascend_after_draws(drawn, np.array([1]), 2, Ascent(epochs=epochs, learning_rate=0.3), few) for epochs in (1, 25)
    )
    assert end.log_value[0] > start.log_value[0] + 0.05
    assert end.log_value[0] <= end.log_upper[0]


def test_the_same_seed_draws_the_same() -> None:
    drawn = system(5, Softmax(beta=1.0))
    few = Sampling(max_sequences=1, samples=20)
    one, same, other = (
        ascend_after_draws(drawn, np.array([0, 2]), 2, Ascent(epochs=2, rng=rng), few).log_value for rng in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def shifted(drawn: Drawn, by: float) -> Drawn:
    """The same system, all scores moved by a constant; the base has few digits, so that they move exactly."""
    assert isinstance(drawn.start, Line)
    base, directions = (np.round(part * 2**10) / 2**10 for part in (drawn.start.base, drawn.start.directions))
    return replace(drawn, start=Line(base + by, directions))


def test_one_draw_of_scores_with_a_large_constant_keeps_its_bounds() -> None:
    drawn = system(8, Softmax(beta=1.0))
    for sampling in (Sampling(), Sampling(first_items=2)):
        plain, moved = (
            maximize_one_draw(shifted(drawn, by), np.arange(8), 300.0, 1e-6, sampling) for by in (0.0, 2.0**33)
        )
        assert (np.maximum(plain.log_lower, moved.log_lower) <= np.minimum(plain.log_upper, moved.log_upper)).all()
        np.testing.assert_array_equal(moved.status == "solved", moved.log_upper - moved.log_lower <= 1e-6)


def test_a_small_tree_of_scores_with_a_large_constant_has_the_same_lower_bounds() -> None:
    drawn = system(4, Softmax(beta=1.0))
    drawn = replace(drawn, policy=Softmax(beta=100.0), low=2.0, high=2.0)
    plain, moved = (
        ascend_after_draws(shifted(drawn, by), np.arange(4), 2, Ascent(epochs=1), Sampling()) for by in (0.0, 2.0**33)
    )
    assert (moved.log_lower <= plain.log_value).all()
    np.testing.assert_allclose(moved.log_value, plain.log_value, rtol=1e-9)


def test_a_target_that_is_nearly_surely_shown_first_is_still_a_target() -> None:
    base = np.array([2000.0, 0.0, 1.0])
    everything = np.ones(3, dtype=bool)
    drawn = Drawn(Line(base, np.eye(3)), everything, everything, Softmax(beta=1.0), Softmax(beta=BETA), LOW, HIGH)
    found = maximize_one_draw(drawn, np.arange(3), BETA, 1e-6, Sampling())
    ascended = ascend_after_draws(drawn, np.arange(3), 1, Ascent(epochs=1), Sampling())
    assert found.status[0] == "bounded"
    assert -2000 < found.log_upper[0] < -1990
    assert ascended.status[0] == "bounded"
    assert ascended.log_upper[0] == pytest.approx(found.log_upper[0])
