"""Sums of products for compiled loops in one order, made by vectors in double precision.

A compiler that must keep to the order of a sum does not use vectors for it, and one that need not chooses an order of
its own. So the order is written as vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_ROUNDED_ONCE = ("contract",)
_INT = ir.IntType(32)
SIDE = 8
"""Rows and columns of a block of sums in double precision: a row of it is a vector of the widest registers."""
_DOUBLES = ir.VectorType(ir.DoubleType(), SIDE)


def _vector_at(builder: ir.IRBuilder, data: ir.Value, at: ir.Value) -> ir.Value:
    """The place of the vector that begins at a number."""
    return builder.bitcast(builder.gep(data, [at]), _DOUBLES.as_pointer())


def _running(builder: ir.IRBuilder, start: ir.Value) -> ir.Value:
    """A place for a running sum: at the function's entry, whence it goes into a register."""
    return cgutils.alloca_once_value(builder, start)  # type: ignore[no-untyped-call]  # numba leaves it untyped


def _add_product(builder: ir.IRBuilder, total: ir.Value, left: ir.Value, right: ir.Value) -> None:
    product = builder.fmul(left, right, flags=_ROUNDED_ONCE)
    builder.store(builder.fadd(builder.load(total), product, flags=_ROUNDED_ONCE), total)


def _lanes_of(builder: ir.IRBuilder, vector: ir.Value, lanes: Sequence[int]) -> ir.Value:
    """The vector of these lanes."""
    return builder.shuffle_vector(vector, vector, ir.VectorType(_INT, len(lanes))([_INT(lane) for lane in lanes]))


def _typed_add_products(
    _context: object, left: Any, right: Any, total: Any, count: Any, start: Any
) -> tuple[Any, Callable[..., Any]]:
    """A block of sums stays in registers while the rows go by."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Sequence[Any]) -> Any:
        lefts, rights, sums = (
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args[:3], arguments[:3], strict=True)
        )
        rows, first = (
            context.cast(builder, value, kind, types.intp)
            for value, kind in zip(arguments[3:], signature.args[3:], strict=True)
        )
        size, side = builder.extract_value(sums.shape, 0), rows.type(SIDE)
        running = [_running(builder, _DOUBLES([0.0] * SIDE)) for _ in range(SIDE)]
        with cgutils.for_range_slice(builder, first, size, side, inc=True) as (k, _):
            own = [builder.mul(builder.add(k, rows.type(part)), size) for part in range(SIDE)]
            end = builder.add(k, side)
            with cgutils.for_range_slice(builder, first, end, side, inc=True) as (j, _):
                places = [_vector_at(builder, sums.data, builder.add(row, j)) for row in own]
                for place, held in zip(places, running, strict=True):
                    builder.store(builder.load(place, align=8), held)
                with cgutils.for_range_slice(builder, rows.type(0), rows, rows.type(1), inc=True) as (c, _):
                    begin = builder.mul(c, size)
                    other = builder.load(_vector_at(builder, rights.data, builder.add(begin, j)), align=8)
                    at = builder.add(begin, k)
                    for part, held in enumerate(running):
                        factor = builder.load(builder.gep(lefts.data, [builder.add(at, rows.type(part))]))
                        factor = builder.insert_element(_DOUBLES(ir.Undefined), factor, _INT(0))
                        _add_product(builder, held, _lanes_of(builder, factor, [0] * SIDE), other)
                for place, held in zip(places, running, strict=True):
                    builder.store(builder.load(held), place, align=8)
        return context.get_dummy_value()

    return types.void(left, right, total, count, start), generate


add_products: Any = intrinsic(_typed_add_products)
"""In compiled code: `total` (n, n) += `left[:count].T @ right[:count]` from row and column `start` on, in the order of
the rows: the lower triangle, and above it what rounds up to blocks. left, right (rows, n) in double precision; n and
start are whole blocks of SIDE, and all lie next to each other in memory."""
