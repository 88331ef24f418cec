"""Sums of exponentials on a CPU, in one pass: scores, exponentials and sums of a few hundred items at a time.

As three matrix operations each would go through memory; together they stay in a core's nearest cache. Every point is
summed up in one order, whatever its company.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from recaudit.arithmetic import copy_into, copy_rows
from recaudit.arrays import FloatArray, IntArray

_ITEMS = 256
"""Items of which scores and exponentials are held at once."""
_LOWEST = -700.0
"""What is smaller is no ordinary double any more when e is raised to it, and adds nothing to a sum."""

# exp(x) = 2^n exp(r): n is the whole number nearest to x / log 2, which adding `_SHIFT` rounds to and leaves in the
# last bits; r = x - n log 2, with log 2 in two parts, of which n times the first is exact. The polynomial interpolates
# exp at the Chebyshev points of |r| <= log 2 / 2, and is off by 2e-17.
_SHIFT = 1.5 * 2.0**52
_PER_LOG = 1 / math.log(2)
_LOG_HIGH, _LOG_LOW = float.fromhex("0x1.62e42fefa3800p-1"), float.fromhex("0x1.ef35793c76730p-45")
_C2, _C3, _C4, _C5, _C6 = (
    0.5000000000000019,
    0.1666666666666668,
    0.04166666666648795,
    0.008333333333319589,
    0.0013888888952352863,
)
_C7, _C8, _C9, _C10, _C11 = (
    0.00019841269890076403,
    2.4801485441561313e-05,
    2.755724088722987e-06,
    2.763265472252779e-07,
    2.5110049204818658e-08,
)


@numba.njit(nogil=True, fastmath={"contract"})
def exponential(x: float) -> float:
    """exp(x) for |x| <= 700, to within 2 units in the last place; without a branch, for loops over vectors."""
    shifted = x * _PER_LOG + _SHIFT
    whole = shifted - _SHIFT
    r = (x - whole * _LOG_HIGH) - whole * _LOG_LOW
    high = ((((_C11 * r + _C10) * r + _C9) * r + _C8) * r + _C7) * r + _C6
    power = (((((high * r + _C5) * r + _C4) * r + _C3) * r + _C2) * r + 1.0) * r + 1.0
    bits = np.float64(power).view(np.int64) + (np.float64(shifted).view(np.int64) << 52)
    return np.int64(bits).view(np.float64)


@numba.njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")
def first_moments(
    slopes: FloatArray,
    offsets: FloatArray,
    points: FloatArray,
    owner: IntArray,
    out: FloatArray,
    weights: FloatArray,
) -> None:
    """out (rows, 1 + K): the sums over items j of w_j and of w_j S_j, w_j = exp(S_j.u + t_j).

    `slopes` S (problems, K, items), `offsets` t (problems, items), `points` u (rows, K) of the problems `owner`
    (rows,), ascending. Where `weights` has rows, the w are written to it (rows, items).
    """
    rows, size = points.shape
    items, keep = offsets.shape[1], len(weights) > 0
    held, u, sums = np.empty((4, _ITEMS)), np.zeros((4, size)), np.empty((4, 1 + size))
    row = 0
    while row < rows:
        problem, count = owner[row], 1
        while count < 4 and row + count < rows and owner[row + count] == problem:
            count += 1
        for i in range(4):
            copy_into(u[i], points[row + min(i, count - 1)])
        sums[:] = 0.0
        for start in range(0, items, _ITEMS):
            part = slice(start, min(start + _ITEMS, items))
            n = part.stop - part.start
            w0, w1, w2, w3 = held[0, :n], held[1, :n], held[2, :n], held[3, :n]
            for w in (w0, w1, w2, w3):
                copy_into(w, offsets[problem, part])
            for k in range(0, size - 1, 2):
                _add_two(slopes[problem, k, part], slopes[problem, k + 1, part], u, k, w0, w1, w2, w3)
            if size % 2:
                _add_one(slopes[problem, size - 1, part], u, size - 1, w0, w1, w2, w3)
            for i in range(count):
                w, total = held[i, :n], 0.0
                for j in range(n):
                    w[j] = exponential(max(w[j], _LOWEST))
                    total += w[j]
                sums[i, 0] += total
                if keep:
                    copy_into(weights[row + i, part], w)
            for k in range(size):
                s = slopes[problem, k, part]
                t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
                for j in range(n):
                    x = s[j]
                    t0 += x * w0[j]
                    t1 += x * w1[j]
                    t2 += x * w2[j]
                    t3 += x * w3[j]
                sums[0, 1 + k] += t0
                sums[1, 1 + k] += t1
                sums[2, 1 + k] += t2
                sums[3, 1 + k] += t3
        copy_rows(out[row : row + count], sums)
        row += count


@numba.njit(nogil=True, fastmath={"contract"}, inline="always")
def _add_two(
    s: FloatArray, t: FloatArray, u: FloatArray, k: int, w0: FloatArray, w1: FloatArray, w2: FloatArray, w3: FloatArray
) -> None:
    """w_i += s u_ik + t u_i,k+1 for the four points i."""
    a0, a1, a2, a3 = u[0, k], u[1, k], u[2, k], u[3, k]
    b0, b1, b2, b3 = u[0, k + 1], u[1, k + 1], u[2, k + 1], u[3, k + 1]
    for j in range(len(s)):
        x, y = s[j], t[j]
        w0[j] += a0 * x + b0 * y
        w1[j] += a1 * x + b1 * y
        w2[j] += a2 * x + b2 * y
        w3[j] += a3 * x + b3 * y


@numba.njit(nogil=True, fastmath={"contract"}, inline="always")
def _add_one(
    s: FloatArray, u: FloatArray, k: int, w0: FloatArray, w1: FloatArray, w2: FloatArray, w3: FloatArray
) -> None:
    """w_i += s u_ik for the four points i."""
    a0, a1, a2, a3 = u[0, k], u[1, k], u[2, k], u[3, k]
    for j in range(len(s)):
        x = s[j]
        w0[j] += a0 * x
        w1[j] += a1 * x
        w2[j] += a2 * x
        w3[j] += a3 * x
