"""Box-constrained quadratics: the step of a projected Newton method.

minimise r.s + s^T (H + d I) s / 2 subject to -1 <= u + s <= 1, one small problem a target. Two sweeps of
coordinate descent find most of the active bounds; Newton steps on the free coordinates do the rest. Each problem is a
short sequential loop with its own active set, hence numba on a CPU and a kernel (`gpu/box.cu`) on a GPU; where there is
no kernel, the same steps are taken by all problems at once.
"""

from __future__ import annotations

import math

import numba
import numpy as np
import torch
from torch import Tensor

from recaudit.arithmetic import copy_into
from recaudit.arrays import FloatArray, IntArray
from recaudit.solvers.gpu.kernels import kernel

# Newton steps on the free coordinates; what is still inexact then, the outer method corrects.
_ROUNDS = 5


def minimize_box_quadratics(hessian: Tensor, gradient: Tensor, points: Tensor, damping: Tensor, tol: Tensor) -> Tensor:
    """(rows, K): the points u + s, with a duality gap of at most `tol` (rows,) unless the rounds run out; `hessian`
    (rows, K, K), `gradient` r (rows, K), `points` u (rows, K), `damping` d > 0 (rows,)."""
    rows, size = points.shape
    result = points.new_empty(rows, size)
    given = (hessian, gradient, points, damping, tol)
    if points.device.type == "cpu":
        H, r, u, d, gap = (part.contiguous().numpy() for part in given)
        _minimize_each(H, r, u, d, gap, result.numpy())
    elif on_device := kernel("box", points.device, size):
        on_device(*given, result, rows)
    else:
        return minimize_together(*given)
    return result


@numba.njit(nogil=True, cache=True)
def _minimize_each(
    hessian: FloatArray, gradient: FloatArray, points: FloatArray, damping: FloatArray, tol: FloatArray, out: FloatArray
) -> None:
    rows, size = points.shape
    x, r = np.empty(size), np.empty(size)
    new_x, new_r, direction = np.empty(size), np.empty(size), np.empty(size)
    factor, free = np.empty((size, size)), np.empty(size, np.int64)
    for row in range(rows):
        H, d = hessian[row], damping[row]
        copy_into(x, points[row])
        copy_into(r, gradient[row])
        _sweep(H, d, x, r)
        _sweep(H, d, x, r)
        for _ in range(_ROUNDS):
            gap, count = 0.0, 0
            for k in range(size):
                gap += r[k] * x[k] + abs(r[k])
                if not ((x[k] <= -1.0 and r[k] >= 0.0) or (x[k] >= 1.0 and r[k] <= 0.0)):
                    free[count] = k
                    count += 1
            if gap <= tol[row] or count == 0:
                break
            _newton_direction(H, d, r, free[:count], factor, direction)
            length = 1.0
            for _ in range(2):
                copy_into(new_x, x)
                copy_into(new_r, r)
                for i in range(count):
                    k = free[i]
                    move_coordinate(H, d, new_x, new_r, k, min(max(x[k] + length * direction[i], -1.0), 1.0))
                change = 0.0
                for k in range(size):
                    change += 0.5 * (new_x[k] - x[k]) * (r[k] + new_r[k])
                if not change > 0.0:
                    break
                # The projected full step climbs: stop at the first bound instead, which always descends.
                for i in range(count):
                    if direction[i] != 0.0:
                        bound = 1.0 if direction[i] > 0.0 else -1.0
                        length = min(length, (bound - x[free[i]]) / direction[i])
            copy_into(x, new_x)
            copy_into(r, new_r)
            _sweep(H, d, x, r)
        copy_into(out[row], x)


@numba.njit(nogil=True, cache=True)
def move_coordinate(H: FloatArray, d: float, x: FloatArray, r: FloatArray, k: int, new: float) -> None:
    """Move coordinate k of `x` to `new`; `r` stays the gradient there, of the quadratic with the Hessian H + d I."""
    step = new - x[k]
    if step != 0.0:
        x[k] = new
        for m in range(len(x)):
            r[m] += step * H[k, m]
        r[k] += step * d


@numba.njit(nogil=True, cache=True)
def _sweep(H: FloatArray, d: float, x: FloatArray, r: FloatArray) -> None:
    """One pass of exact coordinate minimisation; `r` stays the gradient at `x`."""
    for k in range(len(x)):
        h = H[k, k] + d  # H[k, k] may be negative by rounding; d is above that
        move_coordinate(H, d, x, r, k, min(max(x[k] - r[k] / h, -1.0), 1.0))


@numba.njit(nogil=True, cache=True)
def _newton_direction(
    H: FloatArray, d: float, r: FloatArray, free: IntArray, factor: FloatArray, direction: FloatArray
) -> None:
    """direction[: len(free)] = -(H + d I)^-1 r on the free coordinates, by a Cholesky factor."""
    count = len(free)
    for i in range(count):
        for j in range(i + 1):
            total = H[free[i], free[j]]
            for m in range(j):
                total -= factor[i, m] * factor[j, m]
            if i == j:
                # H is positive semidefinite, so no exact pivot is below d; what is, is rounding.
                factor[i, i] = math.sqrt(max(total, 0.0) + d)
            else:
                factor[i, j] = total / factor[j, j]
    for i in range(count):
        total = -r[free[i]]
        for m in range(i):
            total -= factor[i, m] * direction[m]
        direction[i] = total / factor[i, i]
    for i in range(count - 1, -1, -1):
        total = direction[i]
        for m in range(i + 1, count):
            total -= factor[m, i] * direction[m]
        direction[i] = total / factor[i, i]


def minimize_together(hessian: Tensor, gradient: Tensor, points: Tensor, damping: Tensor, tol: Tensor) -> Tensor:
    """The same steps for all rows at once; rows come last, (K, K, rows): each step is then one contiguous pass."""
    H, x, r = (
        part.clone(memory_format=torch.contiguous_format) for part in (hessian.permute(1, 2, 0), points.T, gradient.T)
    )
    H.diagonal().add_(damping[:, None])
    _sweep_batched(H, x, r, 2)
    for _ in range(_ROUNDS):
        rows = ((r * x + r.abs()).sum(dim=0) > tol).nonzero().squeeze(1)
        if not len(rows):
            break
        part_H, part_x, part_r = H[:, :, rows], x[:, rows], r[:, rows]
        direction = _newton_direction_batched(part_H, part_x, part_r, damping[rows])
        step = (part_x + direction).clamp_(-1, 1).sub_(part_x)
        climbs = (step * (part_r + (part_H * step).sum(dim=1) / 2)).sum(dim=0) > 0
        room = torch.where(direction == 0, torch.inf, (direction.sign() - part_x) / direction)
        length = room.amin(dim=0).clamp_(max=1.0)
        step = torch.where(climbs, (part_x + length * direction).clamp_(-1, 1).sub_(part_x), step)
        part_x += step
        part_r += (part_H * step).sum(dim=1)
        _sweep_batched(part_H, part_x, part_r, 1)
        x[:, rows], r[:, rows] = part_x, part_r
    return x.T.contiguous()


def _sweep_batched(H: Tensor, x: Tensor, r: Tensor, times: int) -> None:
    """As `_sweep`, so many times, with the damping in the diagonal of `H`. The views are made once: each costs the
    host as much as an operation."""
    coordinates = list(zip(x.unbind(), r.unbind(), H.diagonal().T.unbind(), H.unbind(), strict=True))
    for at, slope, own, row in coordinates * times:
        new = torch.addcdiv(at, slope, own, value=-1).clamp_(-1, 1)
        r.addcmul_(row, new - at)
        at.copy_(new)


def _newton_direction_batched(H: Tensor, x: Tensor, r: Tensor, damping: Tensor) -> Tensor:
    """(K, rows): -H^-1 r on the free coordinates and 0 on the bound ones, by a Cholesky factor."""
    free = ~(((x <= -1) & (r >= 0)) | ((x >= 1) & (r <= 0)))
    system = torch.where(free[:, None] & free[None, :], H, 0.0)
    system.diagonal().add_((~free).T)
    wanted = torch.where(free, -r, 0.0)
    factor, failed = torch.linalg.cholesky_ex(system.permute(2, 0, 1))
    solution = torch.cholesky_solve(wanted.T.unsqueeze(2), factor).squeeze(2).T.contiguous()
    rows = failed.nonzero().squeeze(1)
    if len(rows):
        solution[:, rows] = _solved_by_hand(system[:, :, rows], wanted[:, rows], damping[rows])
    return solution


def _solved_by_hand(factor: Tensor, solution: Tensor, damping: Tensor) -> Tensor:
    """As a Cholesky solve, with no pivot below `damping` (rows,): what is, is rounding. `factor` is overwritten."""
    size = len(solution)
    for k in range(size):
        factor[k, k] = torch.maximum(factor[k, k], damping).sqrt()
        factor[k + 1 :, k] /= factor[k, k]
        factor[k + 1 :, k + 1 :].addcmul_(factor[k + 1 :, None, k], factor[None, k + 1 :, k], value=-1)
        solution[k] /= factor[k, k]
        solution[k + 1 :].addcmul_(factor[k + 1 :, k], solution[k], value=-1)
    for k in range(size - 1, -1, -1):
        solution[k] = (solution[k] - (factor[k + 1 :, k] * solution[k + 1 :]).sum(dim=0)) / factor[k, k]
    return solution
