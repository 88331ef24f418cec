from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recaudit.errors import InputError
from recaudit.solvers import maximize_power


def on_grid(slope: np.ndarray, intercept: np.ndarray, power: float, low: float, high: float) -> np.ndarray:
    """The best probability of every item over a fine grid of the box."""
    axes = np.meshgrid(*[np.linspace(low, high, 41)] * slope.shape[1])
    scores = np.maximum(np.stack([axis.ravel() for axis in axes], axis=1) @ slope.T + intercept, 0) ** power
    total = scores.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, scores / np.where(total > 0, total, 1), 1 / len(intercept)).max(axis=0))


@pytest.mark.parametrize("power", [1.5, 2.0, 20.0])  # at 1 the norm has kinks, where it is only bounded
def test_values_agree_with_a_grid_and_are_certified(power: float) -> None:
    draw = np.random.default_rng(0)
    slope, intercept = 0.3 * draw.standard_normal((12, 2)), draw.uniform(1, 4, 12)
    found = maximize_power(slope, intercept, np.arange(12), power, 1.0, 5.0)
    grid = on_grid(slope, intercept, power, 1.0, 5.0)
    assert (np.exp(found.value) >= grid - 1e-9).all()
    assert set(found.status) == {"solved"}
    np.testing.assert_allclose(np.exp(found.value), grid, rtol=0.05)


def test_two_items_closed_form() -> None:
    # s = (a, 1) over [1, 5]: the first is best at 5, the second at 1.
    found = maximize_power([[1.0], [0.0]], [0.0, 1.0], [0, 1], 3.0, 1.0, 5.0)
    assert np.exp(found.value) == pytest.approx([125 / 126, 0.5])
    assert found.actions[:, 0] == pytest.approx([5, 1])


def test_an_item_that_is_never_positive_has_no_chance() -> None:
    found = maximize_power([[0.0], [0.0]], [-1.0, 2.0], [0, 1], 2.0, 0.0, 1.0)
    assert np.exp(found.value) == pytest.approx([0, 1])
    assert np.exp(found.upper) == pytest.approx([0, 1])


def test_a_small_power_is_only_bounded_but_rightly() -> None:
    draw = np.random.default_rng(3)
    slope, intercept = draw.standard_normal((8, 2)), draw.uniform(2, 9, 8)
    found = maximize_power(slope, intercept, np.arange(8), 0.5, -1.0, 1.0)
    grid = on_grid(slope, intercept, 0.5, -1.0, 1.0)
    assert (np.exp(found.upper) >= grid - 1e-12).all()


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.floats(0.3, 12), st.integers(1, 2))
def test_bounds_hold_on_random_instances(seed: int, power: float, actions: int) -> None:
    draw = np.random.default_rng(seed)
    slope, intercept = draw.standard_normal((6, actions)), 2 * draw.standard_normal(6)
    found = maximize_power(slope, intercept, np.arange(6), power, -1.0, 2.0)
    grid = on_grid(slope, intercept, power, -1.0, 2.0)
    assert (np.exp(found.upper) >= grid * (1 - 1e-9)).all()
    assert (found.value <= found.upper).all()


def test_bad_power() -> None:
    with pytest.raises(InputError, match="power"):
        maximize_power([[1.0]], [0.0], [0], 0.0, 0.0, 1.0)
