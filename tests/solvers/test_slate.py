from __future__ import annotations

import itertools

import numpy as np
import pytest

from recaudit.errors import InputError
from recaudit.solvers import bound_slate


def in_slate(scores: np.ndarray, n: int) -> np.ndarray:
    """(items,): the exact probability of being among n draws without replacement, by all orders."""
    weights = np.exp(scores - scores.max())
    found = np.zeros(len(scores))
    for order in itertools.permutations(range(len(scores)), n):
        left, chance = weights.sum(), 1.0
        for item in order:
            chance *= weights[item] / left
            left -= weights[item]
        found[list(order)] += chance
    return found


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("beta", [0.5, 3.0])
def test_the_best_over_a_grid_lies_between_the_bounds(n: int, beta: float) -> None:
    draw = np.random.default_rng(n)
    slope, intercept = draw.standard_normal((6, 1)), draw.standard_normal(6)
    bounds = bound_slate(slope, intercept, np.arange(6), beta, n, -1.0, 1.0)
    grid = np.max([in_slate(beta * (slope[:, 0] * a + intercept), n) for a in np.linspace(-1, 1, 41)], axis=0)
    assert (np.exp(bounds.upper) >= grid - 1e-9).all()
    for target, (action, lower) in enumerate(zip(bounds.actions, np.exp(bounds.lower), strict=True)):
        assert in_slate(beta * (slope @ action + intercept), n)[target] >= lower - 1e-9


def test_a_slate_of_one_is_softmax_and_of_all_is_certain() -> None:
    slope, intercept = np.array([[1.0], [0.0]]), np.zeros(2)
    one = bound_slate(slope, intercept, [0], 1.0, 1, 0.0, 2.0)
    assert np.exp(one.lower[0]) == pytest.approx(1 / (1 + np.exp(-2)), rel=1e-5)
    everything = bound_slate(slope, intercept, [0, 1], 1.0, 2, 0.0, 2.0)
    assert np.exp(everything.lower) == pytest.approx([1, 1], rel=1e-5)
    assert np.exp(everything.upper) == pytest.approx([1, 1])


def test_a_longer_slate_is_never_worse() -> None:
    draw = np.random.default_rng(9)
    slope, intercept = draw.standard_normal((20, 3)), draw.standard_normal(20)
    lowers = [bound_slate(slope, intercept, np.arange(20), 2.0, n, 1.0, 5.0).lower for n in (1, 3, 8)]
    assert (lowers[1] >= lowers[0] - 1e-9).all()
    assert (lowers[2] >= lowers[0] - 1e-9).all()


@pytest.mark.parametrize("n", [0, 3])
def test_a_slate_fits_the_catalogue(n: int) -> None:
    with pytest.raises(InputError, match="a slate of 1 to 2 items"):
        bound_slate([[1.0], [0.0]], [0.0, 0.0], [0], 1.0, n, 0.0, 1.0)
