"""The same work gives the same bits: sums are made in one order, whoever makes them.

Matrix libraries choose the order of a sum by the shape of the arrays, by the number of threads and by where in memory
an array begins. So work is cut into the same blocks whoever computes them, torch has one thread within a block (cores
work on different blocks, or in kernels that sum each number in one thread), and arrays begin on a boundary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import numba
import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]] | torch.Tensor

_BOUNDARY = 64
"""Bytes: the widest registers and a cache line. Where torch puts its own arrays."""
_LANES, _REGISTERS = 8, 4
"""Of `summed`: numbers in a register, as wide as they come, and how many registers are added to in turn."""


def aligned(array: Floats) -> torch.Tensor:
    """The array as a tensor, copied where it does not begin on a boundary."""
    tensor = torch.from_numpy(array) if isinstance(array, np.ndarray) else array
    return tensor.clone() if tensor.data_ptr() % _BOUNDARY else tensor


def product(rows: Floats, columns: Floats) -> torch.Tensor:
    """`rows @ columns.T`: of (n, terms) and (m, terms), (n, m)."""
    return aligned(rows) @ aligned(columns).T


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread, in this thread, until the end of the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@numba.njit(nogil=True, cache=True)
def copy_into(target: NDArray[Any], values: NDArray[Any]) -> None:
    """In compiled code `target[:] = values`, both (n,): numba takes seconds to compile that, and its message of unequal
    lengths, in each kernel that has other options."""
    for at in range(len(target)):
        target[at] = values[at]


@numba.njit(nogil=True, cache=True)
def copy_rows(target: NDArray[Any], values: NDArray[Any]) -> None:
    """`copy_into` for (n, m)."""
    for row in range(len(target)):
        copy_into(target[row], values[row])


@intrinsic
def _summed(_typing: Any, a: Any) -> Any:
    _check_doubles(a)
    return types.float64(a), _sum_in_order


@intrinsic
def _summed_products(_typing: Any, a: Any, b: Any) -> Any:
    _check_doubles(a, b)
    return types.float64(a, b), _sum_in_order


summed = cast("Callable[[NDArray[np.float64]], float]", _summed)
"""In compiled code `a.sum()` of contiguous doubles (n,), in one order.

A plain loop is fast only if the compiler may choose the order, and then it may take another one for the same function
in each place that calls it.
"""
summed_products = cast("Callable[[NDArray[np.float64], NDArray[np.float64]], float]", _summed_products)
"""`(a * b).sum()`; see `summed`."""


def _check_doubles(*arrays: Any) -> None:
    for array in arrays:
        if not isinstance(array, types.Array) or (array.dtype, array.ndim, array.layout) != (types.float64, 1, "C"):
            raise TypingError(f"a sum in one order is of contiguous doubles (n,), not of {array}")


def _sum_in_order(context: Any, builder: Any, signature: Any, given: Any) -> Any:
    """Code for as many sums side by side as registers hold, added up by halves, and then what was left at the end."""
    pairs = zip(signature.args, given, strict=True)
    arrays = [context.make_array(kind)(context, builder, value) for kind, value in pairs]
    double, vector = ir.DoubleType(), ir.VectorType(ir.DoubleType(), _LANES)
    length = builder.extract_value(arrays[0].shape, 0)
    size, step = length.type, _LANES * _REGISTERS
    whole = builder.and_(length, size(-step))

    def begun(zero: Any) -> Any:
        return cgutils.alloca_once_value(builder, zero)  # type: ignore[no-untyped-call]

    def add(held: Any, kind: Any, at: Any) -> None:
        places = [builder.bitcast(builder.gep(array.data, [at]), kind.as_pointer()) for array in arrays]
        values = [builder.load(place, align=8) for place in places]
        term = builder.fmul(*values, flags=["contract"]) if len(values) > 1 else values[0]
        builder.store(builder.fadd(builder.load(held), term, flags=["contract"]), held)

    held = [begun(vector([0.0] * _LANES)) for _ in range(_REGISTERS)]
    with cgutils.for_range_slice(builder, size(0), whole, size(step), size) as (at, _):
        for register, own in enumerate(held):
            add(own, vector, builder.add(at, size(register * _LANES)))
    rest = begun(double(0.0))
    with cgutils.for_range_slice(builder, whole, length, size(1), size) as (at, _):
        add(rest, double, at)

    sums = [builder.load(own) for own in held]
    while len(sums) > 1:
        sums = [builder.fadd(x, y) for x, y in zip(sums[::2], sums[1::2], strict=True)]
    (total,) = sums
    index, count = ir.IntType(32), _LANES
    while count > 1:
        count //= 2
        halves = (ir.VectorType(index, count)(list(range(start, start + count))) for start in (0, count))
        total = builder.fadd(*(builder.shuffle_vector(total, total, half) for half in halves))
    return builder.fadd(builder.extract_element(total, index(0)), builder.load(rest))


def core_count() -> int:
    """How many cores work in this thread may use: numba's number, which an engine sets in its workers."""
    count: int = numba.get_num_threads()
    return count
