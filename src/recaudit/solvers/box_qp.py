"""Box-constrained quadratics: the step of a projected Newton method.

minimise r.s + s^T (H + d I) s / 2 subject to -1 <= u + s <= 1, one small problem a target. Two sweeps of
coordinate descent find most of the active bounds; Newton steps on the free coordinates do the rest. On a CPU each
problem is a short sequential loop with its own active set, hence numba; on an accelerator the same steps are taken
by all problems at once.
"""

from __future__ import annotations

import math

import numba
import numpy as np
import torch
from numpy.typing import NDArray

Tensor = torch.Tensor
Floats = NDArray[np.float64]

_TINY = 1e-300
_BATCHED_ROUNDS = 6


def minimize_box_quadratics(
    hessian: Tensor, gradient: Tensor, points: Tensor, damping: Tensor, tol: Tensor
) -> Tensor:
    """(rows, K): the points u + s, with a duality gap of at most `tol` unless the rounds run out.

    `hessian` (rows, K, K), `gradient` r (rows, K), `points` u (rows, K), `damping` d > 0 and `tol` (rows,).
    """
    if points.device.type != "cpu":
        return _minimize_batched(hessian, gradient, points, damping, tol)
    result = torch.empty_like(points)
    _minimize_each(
        hessian.contiguous().numpy(),
        gradient.contiguous().numpy(),
        points.contiguous().numpy(),
        damping.contiguous().numpy(),
        tol.contiguous().numpy(),
        result.numpy(),
    )
    return result


@numba.njit(nogil=True, cache=True)
def _minimize_each(
    hessian: Floats, gradient: Floats, points: Floats, damping: Floats, tol: Floats, result: Floats
) -> None:
    rows, size = points.shape
    x, r = np.empty(size), np.empty(size)
    new_x, new_r, direction = np.empty(size), np.empty(size), np.empty(size)
    factor, free = np.empty((size, size)), np.empty(size, np.int64)
    for row in range(rows):
        H, d = hessian[row], damping[row]
        x[:], r[:] = points[row], gradient[row]
        _sweep(H, d, x, r)
        _sweep(H, d, x, r)
        for _ in range(3 * size):
            gap, count = 0.0, 0
            for k in range(size):
                gap += r[k] * x[k] + abs(r[k])
                if not ((x[k] <= -1.0 and r[k] >= 0.0) or (x[k] >= 1.0 and r[k] <= 0.0)):
                    free[count] = k
                    count += 1
            if gap <= tol[row] or count == 0:
                break
            _newton_direction(H, d, r, free[:count], factor, direction)
            if _move(H, d, x, r, free[:count], direction, 1.0, new_x, new_r) > 0.0:
                # The projected full step climbs: stop at the first bound instead, which always descends.
                length = 1.0
                for i in range(count):
                    if direction[i] != 0.0:
                        bound = 1.0 if direction[i] > 0.0 else -1.0
                        length = min(length, (bound - x[free[i]]) / direction[i])
                _move(H, d, x, r, free[:count], direction, length, new_x, new_r)
            x[:], r[:] = new_x, new_r
            _sweep(H, d, x, r)
        result[row] = x


@numba.njit(nogil=True, cache=True)
def _sweep(H: Floats, d: float, x: Floats, r: Floats) -> None:
    """One pass of exact coordinate minimisation; `r` stays the gradient at `x`."""
    for k in range(len(x)):
        h = H[k, k] + d
        if h > _TINY:
            new = min(max(x[k] - r[k] / h, -1.0), 1.0)
        elif r[k] != 0.0:
            new = -1.0 if r[k] > 0.0 else 1.0
        else:
            continue
        step = new - x[k]
        if step != 0.0:
            x[k] = new
            for l in range(len(x)):
                r[l] += step * H[k, l]
            r[k] += step * d


@numba.njit(nogil=True, cache=True)
def _newton_direction(
    H: Floats, d: float, r: Floats, free: NDArray[np.int64], factor: Floats, direction: Floats
) -> None:
    """direction[: len(free)] = -(H + d I)^-1 r on the free coordinates, by a Cholesky factor."""
    count = len(free)
    for i in range(count):
        for j in range(i + 1):
            total = H[free[i], free[j]]
            for l in range(j):
                total -= factor[i, l] * factor[j, l]
            if i == j:
                # H is positive semidefinite, so no exact pivot is below d; what is, is rounding.
                factor[i, i] = math.sqrt(max(total, 0.0) + d)
            else:
                factor[i, j] = total / factor[j, j]
    for i in range(count):
        total = -r[free[i]]
        for l in range(i):
            total -= factor[i, l] * direction[l]
        direction[i] = total / factor[i, i]
    for i in range(count - 1, -1, -1):
        total = direction[i]
        for l in range(i + 1, count):
            total -= factor[l, i] * direction[l]
        direction[i] = total / factor[i, i]


@numba.njit(nogil=True, cache=True)
def _move(
    H: Floats,
    d: float,
    x: Floats,
    r: Floats,
    free: NDArray[np.int64],
    direction: Floats,
    length: float,
    new_x: Floats,
    new_r: Floats,
) -> float:
    """A projected step into `new_x`, `new_r`; returns the change of the objective."""
    new_x[:], new_r[:] = x, r
    for i in range(len(free)):
        k = free[i]
        new_x[k] = min(max(x[k] + length * direction[i], -1.0), 1.0)
        step = new_x[k] - x[k]
        if step != 0.0:
            for l in range(len(x)):
                new_r[l] += step * H[k, l]
            new_r[k] += step * d
    change = 0.0
    for k in range(len(x)):
        change += 0.5 * (new_x[k] - x[k]) * (r[k] + new_r[k])
    return change


def _minimize_batched(
    hessian: Tensor, gradient: Tensor, points: Tensor, damping: Tensor, tol: Tensor
) -> Tensor:
    """The same steps for all rows at once, with a fixed number of rounds."""
    identity = torch.eye(points.shape[1], dtype=points.dtype, device=points.device)
    H = hessian + damping[:, None, None] * identity
    x, r = _sweep_batched(H, *_sweep_batched(H, points, gradient))
    for _ in range(_BATCHED_ROUNDS):
        open_rows = ((r * x + r.abs()).sum(dim=1) > tol).nonzero().squeeze(1)
        if not len(open_rows):
            break
        part_H, part_x, part_r = H[open_rows], x[open_rows], r[open_rows]
        free = ~(((part_x <= -1) & (part_r >= 0)) | ((part_x >= 1) & (part_r <= 0)))
        block = torch.where(free[:, :, None] & free[:, None, :], part_H, identity)
        factor = torch.linalg.cholesky_ex(block).L
        right = torch.where(free, -part_r, 0.0).unsqueeze(2)
        direction = torch.cholesky_solve(right, factor).squeeze(2)
        # A factor that broke down gives no direction: coordinate descent alone moves that row.
        direction = torch.where(direction.isfinite().all(dim=1, keepdim=True), direction, 0.0)
        full = (part_x + direction).clamp(-1, 1) - part_x
        climb = (full * (part_r + _times(part_H, full) / 2)).sum(dim=1, keepdim=True) > 0
        room = torch.where(direction == 0, torch.inf, (direction.sign() - part_x) / direction)
        length = room.amin(dim=1, keepdim=True).clamp(max=1.0)
        step = torch.where(climb, (part_x + length * direction).clamp(-1, 1) - part_x, full)
        part_x, part_r = _sweep_batched(part_H, part_x + step, part_r + _times(part_H, step))
        x[open_rows], r[open_rows] = part_x, part_r
    return x


def _sweep_batched(H: Tensor, points: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    # Coordinates first: each step then reads and writes contiguous memory.
    columns = H.permute(1, 2, 0).contiguous()
    x, r = points.T.contiguous(), gradient.T.contiguous()
    for k in range(len(x)):
        h = columns[k, k]
        new = torch.where(h > _TINY, x[k] - r[k] / h.clamp(min=_TINY), torch.where(r[k] == 0, x[k], -r[k].sign()))
        new = new.clamp(-1, 1)
        r.addcmul_(columns[k], (new - x[k])[None, :])
        x[k] = new
    return x.T.contiguous(), r.T.contiguous()


def _times(H: Tensor, s: Tensor) -> Tensor:
    return torch.bmm(H, s.unsqueeze(2)).squeeze(2)
