from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from recaudit.arrays import FloatArray
from recaudit.errors import InputError
from recaudit.solvers import top1_margin


def largest_margin(slope: FloatArray, intercept: FloatArray, target: int) -> float:
    """The readable twin: one linear program with all rivals, over [1, 5]."""
    others = np.delete(np.arange(len(slope)), target)
    answer = linprog(
        np.append(np.zeros(slope.shape[1]), -1.0),
        np.column_stack([slope[others] - slope[target], np.ones(len(others))]),
        intercept[target] - intercept[others],
        bounds=[(1.0, 5.0)] * slope.shape[1] + [(None, None)],
        method="highs",
    )
    assert answer.fun is not None
    return -answer.fun


def scores(seed: int, items: int = 60, actions: int = 4) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    return rng.normal(0, 0.4, (items, actions)), rng.normal(3, 0.6, items)


@pytest.mark.parametrize("seed", range(3))
def test_exact_margins_are_those_of_the_full_linear_program(seed: int) -> None:
    slope, intercept = scores(seed)
    targets = np.arange(60)

    found = top1_margin(slope, intercept, targets, 1, 5, exact=True)

    twin = [largest_margin(slope, intercept, target) for target in range(60)]
    np.testing.assert_allclose(found.value, twin, atol=1e-6)
    assert (found.status == "solved").all()


@pytest.mark.parametrize("seed", range(3))
def test_reachable_is_exact_and_bounds_hold_without_solving_everything(seed: int) -> None:
    slope, intercept = scores(seed)
    targets = np.arange(60)

    found = top1_margin(slope, intercept, targets, 1, 5)

    twin = np.array([largest_margin(slope, intercept, target) for target in range(60)])
    np.testing.assert_array_equal(found.reachable, twin >= 0)
    assert found.settled.all()
    assert (found.value <= twin + 1e-7).all()
    assert (twin <= found.upper + 1e-7).all()
    assert (found.status[found.reachable] == "solved").all()
    assert found.reachable.any()
    assert not found.reachable.all()


def test_the_margin_is_reached_by_the_action() -> None:
    slope, intercept = scores(4)

    found = top1_margin(slope, intercept, np.arange(60), 1, 5)

    for target, action, margin in zip(range(60), found.actions, found.value, strict=True):
        reached = slope @ action + intercept
        assert reached[target] - np.delete(reached, target).max() == pytest.approx(margin)
    assert ((found.actions >= 1) & (found.actions <= 5)).all()


def test_an_item_that_one_rival_always_beats_is_unreachable() -> None:
    slope, intercept = np.array([[1.0], [1.0], [-1.0]]), np.array([0.0, 0.5, 3.0])

    found = top1_margin(slope, intercept, [0, 1, 2], 1, 5)

    assert found.reachable.tolist() == [False, True, True]
    assert found.upper[0] == pytest.approx(-0.5)
    # Item 1 leads item 0 by 0.5 whatever is done; item 2 leads item 1 by 2 - 1.5 at a = 1.
    np.testing.assert_allclose(found.value[1:], [0.5, 0.5], atol=1e-9)


def test_of_two_equal_items_the_first_is_on_top() -> None:
    found = top1_margin(np.array([[1.0], [1.0]]), np.array([2.0, 2.0]), [0, 1], 1, 5)

    assert found.reachable.tolist() == [True, False]
    assert found.settled.tolist() == [True, True]
    np.testing.assert_allclose(found.value, 0.0, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_rounding_does_not_put_the_second_of_two_equal_items_on_top(seed: int) -> None:
    slope, intercept = scores(seed)
    best = int(top1_margin(slope, intercept, np.arange(60), 1, 5, exact=True).value.argmax())
    # The same item once more, in front and behind, its numbers off by rounding.
    rounding = 1 + 4e-16 * np.random.default_rng(seed).integers(-2, 3, (3, 5))
    slopes = np.vstack([slope[best] * rounding[0, :4], slope * 1.0, slope[best] * rounding[1, :4]])
    intercepts = np.concatenate([[intercept[best] * rounding[0, 4]], intercept, [intercept[best] * rounding[1, 4]]])

    found = top1_margin(slopes, intercepts, [0, best + 1, 61], 1, 5)

    assert found.reachable.tolist() == [True, False, False]
    assert found.settled.all()


def test_the_only_item_is_reachable_by_any_margin() -> None:
    found = top1_margin(np.array([[1.0]]), np.array([2.0]), [0], 1, 5)

    assert found.reachable.tolist() == [True]
    assert found.value.tolist() == [np.inf]
    assert found.status.tolist() == ["solved"]


def test_actions_without_effect_leave_the_ranking() -> None:
    found = top1_margin(np.zeros((3, 2)), np.array([1.0, 3.0, 2.5]), [0, 1, 2], 1, 5)

    assert found.reachable.tolist() == [False, True, False]
    np.testing.assert_allclose(found.value, [-2.0, 0.5, -0.5])


def test_no_targets_give_an_empty_answer() -> None:
    slope, intercept = scores(0)

    found = top1_margin(slope, intercept, [], 1, 5)

    assert found.value.shape == (0,)
    assert found.actions.shape == (0, 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slope": np.full((2, 1), np.nan)}, "slope: received NaN"),
        ({"intercept": np.array([0.0, np.inf])}, "intercept: received NaN"),
        ({"targets": [2]}, "targets: received positions from 2"),
        ({"lower": 6.0}, "lower: received a bound above `upper`"),
        ({"tol": -1.0}, "tol: received -1.0"),
    ],
)
def test_bad_input_is_named(changes: dict[str, object], message: str) -> None:
    good: dict[str, object] = {
        "slope": np.ones((2, 1)),
        "intercept": np.zeros(2),
        "targets": [0],
        "lower": 1.0,
        "upper": 5.0,
    }
    with pytest.raises(InputError, match=message):
        top1_margin(**{**good, **changes})  # type: ignore[arg-type]  # wrong on purpose
