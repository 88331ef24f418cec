"""Sums for compiled loops in one order, made by vectors in single precision.

A compiler that must keep to the order of a sum does not use vectors for it, and one that need not chooses an order of
its own. So the order is written as vectors: 16 running sums, then their halves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from recaudit_papers.models.numerics import Singles

LANES = 16
"""Numbers in a vector: a cache line, and the widest registers."""
_LARGE_PAGE = 2**21
_ROUNDED_ONCE = ("contract",)
_INT = ir.IntType(32)
_VECTOR = ir.VectorType(ir.FloatType(), LANES)


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


def _vector_at(builder: ir.IRBuilder, data: ir.Value, at: ir.Value) -> ir.Value:
    """The place of the vector that begins at a number."""
    return builder.bitcast(builder.gep(data, [at]), _VECTOR.as_pointer())


def _running(builder: ir.IRBuilder, start: ir.Value) -> ir.Value:
    """A place for a running sum: at the function's entry, whence it goes into a register."""
    return cgutils.alloca_once_value(builder, start)  # type: ignore[no-untyped-call]  # numba leaves it untyped


def _add_product(builder: ir.IRBuilder, total: ir.Value, left: ir.Value, right: ir.Value) -> None:
    product = builder.fmul(left, right, flags=_ROUNDED_ONCE)
    builder.store(builder.fadd(builder.load(total), product, flags=_ROUNDED_ONCE), total)


def _lanes_of(builder: ir.IRBuilder, vector: ir.Value, lanes: Sequence[int]) -> ir.Value:
    """The vector of these lanes."""
    return builder.shuffle_vector(vector, vector, ir.VectorType(_INT, len(lanes))([_INT(lane) for lane in lanes]))


def _typed_dot(_context: object, left: Any, right: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the signature for these types of arrays, and what writes the code."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Sequence[Any]) -> Any:
        arrays = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args, arguments, strict=True)
        ]
        count = builder.extract_value(arrays[0].shape, 0)
        total = _running(builder, _VECTOR([0.0] * LANES))
        builder.store(_VECTOR([0.0] * LANES), total)
        with cgutils.for_range_slice(builder, count.type(0), count, count.type(LANES), inc=True) as (at, _):
            places = (_vector_at(builder, array.data, at) for array in arrays)
            _add_product(builder, total, *(builder.load(place, align=4) for place in places))
        found, half = builder.load(total), LANES // 2
        while half:
            halves = (range(half), range(half, 2 * half))
            found = builder.fadd(*(_lanes_of(builder, found, lanes) for lanes in halves))
            half //= 2
        return builder.extract_element(found, _INT(0))

    return types.float32(left, right), generate


dot: Any = intrinsic(_typed_dot)
"""In compiled code: the sum of the products of two arrays (n,) of whole vectors, next to each other in memory."""


def _typed_add_rows(
    _context: object, total: Any, rows: Any, places: Any, factors: Any
) -> tuple[Any, Callable[..., Any]]:
    """Eight vectors of the sum at a time stay in registers while the rows go by; what is left, four, two and one."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Sequence[Any]) -> Any:
        sums, others, at_rows, by = (
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args, arguments, strict=True)
        )
        length, count = builder.extract_value(sums.shape, 0), builder.extract_value(at_rows.shape, 0)
        stride, zero, one = builder.extract_value(others.shape, 1), length.type(0), length.type(1)
        begin: ir.Value = zero
        for vectors in (8, 4, 2, 1):
            width = length.type(vectors * LANES)
            end = builder.sub(length, builder.urem(builder.sub(length, begin), width))
            running = [_running(builder, _VECTOR([0.0] * LANES)) for _ in range(vectors)]
            with cgutils.for_range_slice(builder, begin, end, width, inc=True) as (first, _):
                offsets = [builder.add(first, length.type(part * LANES)) for part in range(vectors)]
                own = [_vector_at(builder, sums.data, offset) for offset in offsets]
                for place, held in zip(own, running, strict=True):
                    builder.store(builder.load(place, align=4), held)
                with cgutils.for_range_slice(builder, zero, count, one, inc=True) as (j, _):
                    row = builder.load(builder.gep(at_rows.data, [j]))
                    start = builder.mul(context.cast(builder, row, signature.args[2].dtype, types.intp), stride)
                    factor = builder.insert_element(
                        _VECTOR(ir.Undefined), builder.load(builder.gep(by.data, [j])), _INT(0)
                    )
                    factor = _lanes_of(builder, factor, [0] * LANES)
                    for offset, held in zip(offsets, running, strict=True):
                        other = builder.load(_vector_at(builder, others.data, builder.add(start, offset)), align=4)
                        _add_product(builder, held, other, factor)
                for place, held in zip(own, running, strict=True):
                    builder.store(builder.load(held), place, align=4)
            begin = end
        return context.get_dummy_value()

    return types.void(total, rows, places, factors), generate


add_rows: Any = intrinsic(_typed_add_rows)
"""In compiled code: `total` (n,) += the sum of `rows[places[j]]` (n,) times `factors[j]`, in the order of j; n is whole
vectors, and all lie next to each other in memory."""
