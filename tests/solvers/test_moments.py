"""The sums of one pass are those of numpy."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from recaudit.arrays import FloatArray
from recaudit.solvers.softmax.moments import exponential, first_moments


@numba.njit(cache=False)
def each(values: FloatArray) -> FloatArray:
    return np.array([exponential(value) for value in values])


def test_exponentials_are_exact_to_two_units_in_the_last_place() -> None:
    values = np.concatenate([np.random.default_rng(0).uniform(-700, 700, 20_000), [-700.0, -1e-300, 0.0, 1.0, 700.0]])

    np.testing.assert_array_max_ulp(each(values), np.exp(values), maxulp=2)


@pytest.mark.parametrize("actions", [1, 2, 5])
@pytest.mark.parametrize("items", [1, 255, 600])
def test_sums_of_several_problems(actions: int, items: int) -> None:
    draw = np.random.default_rng(1)
    slopes, offsets = draw.normal(size=(3, actions, items)), draw.normal(size=(3, items))
    offsets[1, -1] = -1e200  # padding
    owner = np.repeat([0, 1, 2], [5, 1, 3])
    points = draw.uniform(-1, 1, (len(owner), actions))
    out, weights = np.empty((len(owner), 1 + actions)), np.empty((len(owner), items))

    first_moments(slopes, offsets, points, owner, out, weights)
    alone = np.empty((1, 1 + actions))
    first_moments(slopes, offsets, points[2:3], owner[2:3], alone, weights[:0])

    expected = np.exp(np.einsum("rk,rkj->rj", points, slopes[owner]) + offsets[owner])
    np.testing.assert_allclose(weights, expected, rtol=1e-13, atol=1e-300)
    sums = np.column_stack([expected.sum(axis=1), np.einsum("rj,rkj->rk", expected, slopes[owner])])
    np.testing.assert_allclose(out, sums, rtol=1e-12, atol=1e-12)
    assert (alone[0] == out[2]).all()  # whatever the company
