"""Bounds include the rounding of what they are computed from, for scores of any size."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from recaudit.errors import InputError
from recaudit.models.rollouts import RollOut
from recaudit.policies import EpsilonGreedy, Policy, Power, Softmax
from recaudit.solvers import (
    bound_slate,
    maximize_power,
    maximize_softmax,
    maximize_softmax_batch,
    maximize_softmax_discrete,
)
from recaudit.solvers.softmax.logsumexp import Scaled, tolerance_beside
from recaudit.solvers.trajectories import RollOutProblem, maximize_after_stars, maximize_after_top1

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


needs_long_double = pytest.mark.skipif(
    float(np.finfo(np.longdouble).eps) > 2.0**-63, reason="long double is no wider than a double here"
)


def hard_instances() -> ModuleType:
    """The tool that checks thousands of instances."""
    path = Path(__file__).parents[2] / "scripts" / "hard_instances.py"
    spec = importlib.util.spec_from_file_location("hard_instances", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hard_instances"] = module
    spec.loader.exec_module(module)
    return module


@needs_long_double
@pytest.mark.parametrize("number", [1460, 2067, 2127, 5315, 8232, 9825])
def test_curvature_along_an_axis_on_which_items_hardly_differ_proves_nothing(number: int) -> None:
    hard = hard_instances()
    rng = np.random.default_rng([0, number])
    instance = hard.Instance.drawn(rng, 150, 5)

    answer = hard.solved(instance, "softmax", rng)

    assert list(hard.violations(instance, answer, rng)) == []


@needs_long_double
def test_hard_instances_hold_in_long_double() -> None:
    tool = hard_instances()
    counts = tool.examine(200, seed=1)
    assert sum(counts[solver, "instances"] for solver in set(tool.SOLVERS)) == 200
    assert all(counts[solver, "solved"] > 0 for solver in tool.SOLVERS)
    assert not {key: count for key, count in counts.items() if key[1] in tool.VIOLATIONS}


@needs_long_double
def test_the_check_of_hard_instances_finds_bounds_that_are_wrong() -> None:
    tool = hard_instances()
    instance = tool.Instance(np.array([[1.0], [0.0]]), np.zeros(2), [0], 1.0, np.zeros(1), np.ones(1))
    best = -np.log1p(np.exp(-1.0))
    for low, high, action, wrong in (
        (best - 1e-9, best + 1e-9, 1.0, []),
        (best - 1e-9, best - 1e-10, 1.0, ["value", "beaten"]),
        (best + 1e-10, best + 1e-9, 1.0, ["value"]),
        (best - 1e-9, best - 1e-10, 1.0 - 1e-9, ["beaten"]),
        (best - 1e-5, best + 1e-5, 1.0, ["gap"]),
    ):
        answer = tool.Answer(np.array([low]), np.array([high]), ["solved"], np.array([[action]]), instance.softmax)
        assert sorted(tool.violations(instance, answer, np.random.default_rng(0))) == sorted(wrong)


def test_a_large_constant_in_all_scores_costs_nothing() -> None:
    slope, intercept = np.array([[0.1], [0.2], [0.7]]), np.array([0.0, 0.3, 1.1]) + 1e9
    found = maximize_softmax(slope, intercept, [0], 1000.0, 1.0, 5.0)
    # At a = 1 the third item is ahead of the first by 0.6 and what the doubles near 1e9 leave of 1.1.
    truth = -1000 * (0.6 + float(intercept[2] - intercept[0]))
    assert found.status[0] == "solved"
    assert found.lower[0] <= truth <= found.upper[0]
    assert found.upper[0] - found.lower[0] < 1e-9


@pytest.mark.parametrize("size", [1e3, 1e5, 1e6, 1e7])
def test_solved_means_bounds_within_the_tolerance(size: float) -> None:
    draw = np.random.default_rng(0)
    slope, intercept = size * draw.normal(size=(20, 3)), draw.normal(size=20)
    for found in (
        maximize_softmax(slope, intercept, range(20), 240.0, 1.0, 5.0, max_steps=50),
        maximize_softmax_discrete(slope, intercept, range(20), 240.0, [1.0, 3.0, 5.0]),
    ):
        np.testing.assert_array_equal(found.solved, found.upper - found.lower <= 1e-6)
        assert (size < 1e6) or not found.solved.all()


def test_items_far_below_all_others_do_not_widen_the_bounds() -> None:
    draw = np.random.default_rng(1)
    slope, intercept = draw.normal(0, 0.3, (30, 3)), draw.normal(3, 1, 30)
    far = np.where(np.arange(30) < 10, -1e12, 0.0)
    found = maximize_softmax(slope, intercept + far, range(10, 30), 2.0, 1.0, 5.0)
    alone = maximize_softmax(slope[10:], intercept[10:], range(20), 2.0, 1.0, 5.0)
    assert found.solved.all()
    np.testing.assert_allclose(found.value, alone.value, rtol=0, atol=2e-6)


def test_problems_of_a_batch_have_each_their_own_rounding() -> None:
    draw = np.random.default_rng(2)
    slope, intercept = draw.normal(0, 0.3, (2, 12, 3)), draw.normal(3, 1, (2, 12))
    slope[0] *= 1e9
    intercept[1, :4] = -np.inf
    found = maximize_softmax_batch(slope, intercept, np.isfinite(intercept), 100.0, 1.0, 5.0, max_steps=20)
    assert found.solved[12:].all()
    assert not found.solved[:12].all()


def test_what_is_left_of_a_tolerance() -> None:
    rounding = np.array([0.0, 1e-8, 4e-7, 1e-3])
    np.testing.assert_allclose(tolerance_beside(1e-6, rounding), [1e-6, 9.7e-7, 4e-7, 1e-3])


def test_scaled_scores_are_differences_to_the_leader() -> None:
    draw = np.random.default_rng(3)
    slope, intercept = draw.normal(size=(1, 6, 2)), draw.normal(size=(1, 6))
    intercept[0, 4] = -np.inf
    middle, half = np.array([[2.0, -1.0]]), np.array([[3.0, 0.5]])
    scores = Scaled.of(slope, intercept, 1.7, middle, half)
    u = np.array([0.3, -0.8])
    at = 1.7 * (slope[0] @ (middle + half * u)[0] + intercept[0])
    leader = int((slope[0] @ middle[0] + intercept[0]).argmax())
    np.testing.assert_allclose(scores.slopes[0] @ u + scores.offsets[0], at - at[leader])
    assert scores.offsets[0, leader] == 0
    assert (np.abs(scores.slopes).sum(axis=2) <= scores.sizes * (1 + 1e-12)).all()


def test_power_of_scores_that_nearly_cancel_is_bounded() -> None:
    """The second score is 1e9 a - 1e9 (1 - 1e-9) at a in [1, 1]: 1, known to 1e-7."""
    slope, intercept = np.array([[0.0], [1e9]]), np.array([1.0, -1e9 * (1 - 1e-9)])
    found = maximize_power(slope, intercept, [0, 1], 3.0, 1.0, 1.0)
    assert (found.status == "bounded").all()
    assert (found.lower < found.value).all()
    assert (found.upper - found.lower > 1e-7).all()


def test_power_of_scores_beyond_double_precision_is_refused() -> None:
    with pytest.raises(InputError, match="scores: received NaN or infinite"):
        maximize_power([[1e308], [0.0]], [1.0, 1.0], [0], 2.0, 1.0, 5.0)


def test_a_slate_that_an_item_hardly_gets_into_has_bounds_all_the_same() -> None:
    """P(in a slate of two out of three) is about 1.5 exp(-5 beta) for an item 5 below the two others."""
    found = bound_slate(np.zeros((3, 1)), [0.0, 5.0, 5.0], [0], 1000.0, 2, 0.0, 1.0)
    assert found.lower[0] <= -5000 + np.log(1.5) <= found.upper[0]
    assert found.upper[0] < -4990


class Line(RollOut):
    """`s = base + sum_t a_t D[item_t]`."""

    def __init__(self, base: FloatArray, directions: FloatArray, items: tuple[int, ...] = ()) -> None:
        self.base, self.directions, self.items = base, directions, items

    def then(self, item: int) -> Line:
        return Line(self.base, self.directions, (*self.items, item))

    def affine(self) -> tuple[FloatArray, FloatArray]:
        return self.directions[list(self.items)].T.reshape(len(self.base), len(self.items)), self.base


def two_steps(shift: float) -> RollOutProblem:
    """Six items that may all be shown, recommended and asked for; all scores moved by `shift`."""
    draw = np.random.default_rng(4)
    base, directions = (np.round(part * 2**10) / 2**10 for part in (draw.normal(size=6), draw.normal(size=(6, 6))))
    every = np.ones(6, dtype=bool)
    return RollOutProblem(Line(base + shift, 0.3 * directions), every, every, np.arange(6), 2, 1.0, 5.0)


@pytest.mark.parametrize("policy", [Softmax(beta=300.0), EpsilonGreedy(epsilon=0.2)])
def test_stars_of_scores_with_a_large_constant(policy: Policy) -> None:
    values = np.array([1.0, 2.0, 4.0])
    plain, moved = (maximize_after_stars(two_steps(shift), policy, values) for shift in (0.0, 2.0**20))
    told = plain.status == "solved"
    assert told.sum() >= 4
    np.testing.assert_array_equal(moved.status, plain.status)
    assert (moved.lower[told] <= plain.upper[told]).all()
    assert (plain.lower[told] <= moved.upper[told]).all()
    np.testing.assert_allclose(moved.value[told], plain.value[told], rtol=1e-9)


@pytest.mark.parametrize("shift", [0.0, 10.0, 2.0**40])
def test_powers_after_stars_lie_within_their_bounds(shift: float) -> None:
    policy, values = Power(power=7.0), np.array([1.0, 2.0, 4.0])
    found = maximize_after_stars(two_steps(shift), policy, values)
    told = np.isfinite(found.value)
    assert (found.lower[told] <= found.value[told]).all()
    assert (found.value[told] <= found.upper[told]).all()
    np.testing.assert_array_equal(found.status[told] == "solved", found.upper[told] - found.lower[told] <= 1e-6)


def test_cells_of_scores_with_a_large_constant() -> None:
    plain, moved = (maximize_after_top1(two_steps(shift), 300.0) for shift in (0.0, 2.0**20))
    told = plain.status == "solved"
    assert told.sum() >= 4
    np.testing.assert_array_equal(moved.status, plain.status)
    assert (np.maximum(plain.lower, moved.lower) <= np.minimum(plain.upper, moved.upper))[told].all()
    assert (moved.upper[told] - moved.lower[told] <= 1e-6).all()
