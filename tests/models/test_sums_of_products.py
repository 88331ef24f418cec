"""The sums that normal equations are made of, beside numpy's."""

from __future__ import annotations

import re
from typing import Any

import numba
import numpy as np
import pytest
from numba import njit

from recaudit.arrays import FloatArray
from recaudit.models import vectors
from recaudit.models.factor.least_squares import IN_ORDER, add_ratings, cholesky_solve, padded
from recaudit.models.vectors import SIDE, add_products


@njit(fastmath=IN_ORDER)
def added(left: FloatArray, right: FloatArray, total: FloatArray, count: int, start: int) -> None:
    add_products(left, right, total, count, start)


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("start", [0, SIDE])
@pytest.mark.parametrize("size", [SIDE, 3 * SIDE])
def test_products_are_added_to_the_lower_triangle(size: int, start: int, count: int) -> None:
    draw = np.random.default_rng(size)
    left, right, total = draw.normal(0, 1, (5, size)), draw.normal(0, 1, (5, size)), draw.normal(0, 1, (size, size))
    expected = total.copy()
    expected[start:, start:] += (left[:count].T @ right[:count])[start:, start:]
    before = total.copy()
    added(left, right, total, count, start)
    lower = np.tril(np.ones((size, size), dtype=bool))
    np.testing.assert_allclose(total[lower], expected[lower], rtol=1e-13, atol=1e-13)
    blocks = np.kron(np.tril(np.ones((size // SIDE, size // SIDE))), np.ones((SIDE, SIDE))) > 0
    np.testing.assert_array_equal(total[~blocks], before[~blocks])


@pytest.mark.parametrize("ratings", [0, 3, 32, 33, 100])
@pytest.mark.parametrize("factors", [1, 4, 8, 13, 64])
def test_equations_are_numpys(factors: int, ratings: int) -> None:
    draw = np.random.default_rng(factors)
    Y, rated, targets = draw.normal(0, 1, (40, factors)), draw.integers(0, 40, ratings), draw.normal(0, 1, ratings)
    G, b = np.zeros((padded(factors), padded(factors))), np.zeros(padded(factors))
    add_ratings(rated, targets, Y, G, b)
    own = Y[rated]
    np.testing.assert_allclose(np.tril(G[:factors, :factors]), np.tril(own.T @ own), rtol=1e-12, atol=1e-12)
    G[np.diag_indices(len(G))] += 0.7
    cholesky_solve(G, b)
    expected = np.linalg.solve(own.T @ own + 0.7 * np.eye(factors), own.T @ targets)
    np.testing.assert_allclose(b[:factors], expected, rtol=1e-9, atol=1e-12)
    assert not b[factors:].any()


CONFIG: Any = numba.config


def test_sums_are_compiled_to_vector_instructions() -> None:
    """Compile again, because what numba reads from its cache has no code to inspect."""
    before = CONFIG.SLP_VECTORIZE
    with vectors._scalars_joined_into_vectors():
        compiled = njit(vectors._ARGUMENTS, fastmath=IN_ORDER)(vectors._add_products)
    assert before == CONFIG.SLP_VECTORIZE
    code = "\n".join(compiled.inspect_llvm().values())
    assert re.search(r"= (fmul|fadd) contract <\d+ x double>", code)


def test_the_numba_setting_is_restored_after_an_error() -> None:
    before = CONFIG.SLP_VECTORIZE
    with pytest.raises(ValueError, match="stop"), vectors._scalars_joined_into_vectors():
        raise ValueError("stop")
    assert before == CONFIG.SLP_VECTORIZE
