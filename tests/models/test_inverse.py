"""The inverse of a Gram matrix, however many of its entries are 0."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from recaudit.errors import InputError
from recaudit.models.linear.inverse import inverted


def gram_of(n: int, rows: int, each: int, seed: int) -> NDArray[np.float64]:
    """X^T X, of `rows` users who rate `each` of n items, half of them among the first tenth."""
    rng = np.random.default_rng(seed)
    X = np.zeros((rows, n))
    for row in X:
        often, seldom = rng.integers(0, max(1, n // 10), each // 2), rng.integers(0, n, each - each // 2)
        row[np.concatenate([often, seldom])] = rng.integers(1, 11, each)
    found: NDArray[np.float64] = X.T @ X
    return found


@pytest.mark.parametrize(
    ("rows", "each"),
    [(0, 2), (10, 1), (60, 2), (150, 3), (400, 4), (300, 30)],
    ids=["no ratings", "no pairs", "trees", "sparse", "half sparse", "dense"],
)
@pytest.mark.parametrize("penalty", [1e-3, 10.0, 5000.0])
def test_it_is_the_inverse(rows: int, each: int, penalty: float) -> None:
    gram = gram_of(180, rows, each, rows)
    expected = np.linalg.inv(gram + penalty * np.eye(len(gram)))
    found = inverted(gram.copy(), penalty)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11 * expected.max())


def test_it_takes_the_place_of_the_matrix() -> None:
    gram = gram_of(120, 60, 2, 0)
    assert np.shares_memory(inverted(gram, 3.0), gram)


def test_an_item_of_which_nothing_else_says_anything_stands_by_itself() -> None:
    """Two items that meet, and one that does not: the inverse of two by two, and of one."""
    gram = np.array([[4.0, 0.0, 2.0], [0.0, 9.0, 0.0], [2.0, 0.0, 4.0]])
    expected = np.array([[5 / 21, 0, -2 / 21], [0, 1 / 10, 0], [-2 / 21, 0, 5 / 21]])
    np.testing.assert_allclose(inverted(gram, 1.0), expected, rtol=1e-14)


@pytest.mark.parametrize("n", [3, 200])
@pytest.mark.parametrize("alike", [1, 80])
def test_a_penalty_that_rounding_loses_is_refused(n: int, alike: int) -> None:
    """Pairs of columns that are alike, beside others that are alone: without a penalty there is no inverse."""
    gram = np.diag(np.full(n, 1e20))
    for first in range(0, min(2 * alike, n - 1), 2):
        gram[first, first + 1] = gram[first + 1, first] = 1e20
    with pytest.raises(InputError, match="regularization"):
        inverted(gram, 1e-3)
