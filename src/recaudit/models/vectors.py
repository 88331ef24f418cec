"""Vectors in single precision for compiled loops: rows that begin on a boundary, sums over them in one order.

A compiler that must keep to the order of a sum does not use vectors for it, and one that need not chooses an order of
its own. So the order is written as vectors: 16 running sums, then their halves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from recaudit.models.factor.least_squares import IN_ORDER
from recaudit.models.rows import Indices, Singles

LANES = 16
"""Numbers in a vector: a cache line, and the widest registers."""
_LARGE_PAGE = 2**21
_ROUNDED_ONCE = ("contract",)
_INT = ir.IntType(32)


def zeros(*shape: int) -> Singles:
    """Memory that begins on a boundary: a vector's, or a large page's where there are many numbers.

    Rows are read from all over it: with small pages the core would look up where most of them are. From 4 MB on numpy
    asks the system for large ones.
    """
    count = math.prod(shape)
    boundary = _LARGE_PAGE if 4 * count >= _LARGE_PAGE // 4 else 4 * LANES
    memory = np.zeros(4 * count + 2 * boundary, dtype=np.uint8)
    start = -memory.ctypes.data % boundary
    return memory[start : start + 4 * count].view(np.float32).reshape(shape)


def filled_up(rows: Singles) -> Singles:
    """(..., n) copied to (..., n rounded up to whole vectors), zeros behind."""
    *shape, length = rows.shape
    copied = zeros(*shape, -(-length // LANES) * LANES)
    copied[..., :length] = rows
    return copied


def _typed_dot(_context: object, left: Any, right: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the signature for these types of arrays, and what writes the code."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Sequence[Any]) -> Any:
        vector = ir.VectorType(ir.FloatType(), LANES)
        arrays = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args, arguments, strict=True)
        ]
        count = builder.extract_value(arrays[0].shape, 0)
        total = builder.alloca(vector)
        builder.store(vector([0.0] * LANES), total)
        first, step = count.type(0), count.type(LANES)
        with cgutils.for_range_slice(builder, first, count, step, inc=True) as (at, _):
            places = (builder.bitcast(builder.gep(array.data, [at]), vector.as_pointer()) for array in arrays)
            product = builder.fmul(*(builder.load(place, align=4) for place in places), flags=_ROUNDED_ONCE)
            builder.store(builder.fadd(builder.load(total), product, flags=_ROUNDED_ONCE), total)
        found = builder.load(total)
        half = LANES // 2
        while half:
            parts = (ir.VectorType(_INT, half)([_INT(first + lane) for lane in range(half)]) for first in (0, half))
            found = builder.fadd(*(builder.shuffle_vector(found, found, part) for part in parts))
            half //= 2
        return builder.extract_element(found, _INT(0))

    return types.float32(left, right), generate


dot: Any = intrinsic(_typed_dot)
"""In compiled code: the sum of the products of two arrays (n,) of whole vectors, next to each other in memory."""


@njit(fastmath=IN_ORDER, cache=True)
def add_rows(total: Singles, rows: Singles, places: Indices, factors: Singles) -> None:
    """`total` (n,) += the sum of `rows[places[j]]` (n,) times `factors[j]`, in the order of j.

    Four rows at a time: `total` is read and written once for them.
    """
    whole = len(places) - len(places) % 4
    for j in range(0, whole, 4):
        a, b, c, d = rows[places[j]], rows[places[j + 1]], rows[places[j + 2]], rows[places[j + 3]]
        of_a, of_b, of_c, of_d = factors[j], factors[j + 1], factors[j + 2], factors[j + 3]
        for k in range(len(total)):
            total[k] = total[k] + of_a * a[k] + of_b * b[k] + of_c * c[k] + of_d * d[k]
    for j in range(whole, len(places)):
        a, of_a = rows[places[j]], factors[j]
        for k in range(len(total)):
            total[k] += of_a * a[k]
