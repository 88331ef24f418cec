"""Sums are made in one order, wherever arrays lie and whoever makes them."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from recaudit.arithmetic import aligned, core_count, one_thread, product, summed, summed_products
from recaudit.engines import Engine, Processes, Serial, Threads


def elsewhere(array: NDArray[np.float64], place: int) -> NDArray[np.float64]:
    """The same numbers, beginning `place` doubles after a boundary."""
    room = np.empty(array.size + 16)
    first = (-(room.ctypes.data // 8) + place) % 8
    moved = room[first : first + array.size].reshape(array.shape)
    moved[:] = array
    assert moved.ctypes.data % 64 == 8 * place
    return moved


@pytest.mark.parametrize(("rows", "terms", "columns"), [(1, 10, 20), (5, 64, 131), (100, 20, 1000)])
def test_a_product_has_the_same_bits_wherever_its_arrays_lie(rows: int, terms: int, columns: int) -> None:
    draw = np.random.default_rng(0)
    A, B = draw.standard_normal((rows, terms)), draw.standard_normal((columns, terms))
    first = product(elsewhere(A, 0), elsewhere(B, 0))
    np.testing.assert_allclose(first, A @ B.T, rtol=1e-10, atol=1e-10)
    for place in range(1, 8):
        assert torch.equal(product(elsewhere(A, place), elsewhere(B, 8 - place)), first)


def test_what_is_aligned_is_not_copied() -> None:
    array = elsewhere(np.arange(6.0).reshape(2, 3), 0)
    assert aligned(array).data_ptr() == array.ctypes.data
    assert aligned(elsewhere(array, 3)).tolist() == array.tolist()


@numba.njit(nogil=True)
def sums(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[float, float]:
    return summed(a), summed_products(a, b)


@pytest.mark.parametrize("n", [0, 1, 8, 31, 32, 33, 256, 1000])
def test_sums_in_compiled_code(n: int) -> None:
    draw = np.random.default_rng(n)
    a, whole = draw.standard_normal(n), draw.integers(-100, 100, (2, n)).astype(float)
    assert sums(a, a)[0] == pytest.approx(math.fsum(a), rel=1e-12, abs=1e-12)
    assert sums(*whole) == (whole[0].sum(), whole[0] @ whole[1])  # exact
    assert sums(a, whole[0])[1] == pytest.approx(a @ whole[0], rel=1e-12, abs=1e-10)


def threads(_: int) -> int:
    return torch.get_num_threads()


@pytest.mark.parametrize("engine", [Serial(), Threads(2), Processes(1)], ids=repr)
def test_torch_has_one_thread_within_a_piece_of_any_engine(engine: Engine) -> None:
    before = torch.get_num_threads()
    assert list(engine.map(threads, range(4))) == [1] * 4
    assert torch.get_num_threads() == before


def test_the_threads_are_given_back_after_a_mistake() -> None:
    before = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError), one_thread():
        raise ZeroDivisionError
    assert torch.get_num_threads() == before
    assert core_count() == numba.get_num_threads()
