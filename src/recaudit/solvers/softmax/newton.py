"""Damped projected Newton for all targets of a batch of problems: minimize g(u) - b_i.u over [-1, 1]^K.

Four things keep the number of evaluations of g low:

- g does not depend on the target. A few targets, spread evenly over the list, are solved first; the points found,
  with the derivatives of g there, are where later targets start, and certify those that they already solve.
- A Hessian costs as much as two evaluations. It is computed after a long step (in the norm of the old one) or a
  poor one; after a short step the secant (BFGS) update is enough.
- Where g is nearly piecewise linear (a large beta), the same problem with smaller scores gives the start.
- A target is done when the curvature (`curvature`) says so, mostly a step before the tangent does.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple, final

import numpy as np

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.solvers.softmax.box_qp import minimize_box_quadratics
from recaudit.solvers.softmax.curvature import diagonal
from recaudit.solvers.softmax.logsumexp import Evaluation, LogSumExp, Ragged

# Targets of a problem that are solved before the next wave starts from them.
_WAVES = (64, 512)
_GOLDEN = 0.6180339887498949
# s^T H s of a step after which the old Hessian, corrected by the secant, no longer serves.
_LONG_STEP = 0.1
# A step that leaves more than this part of the gap calls for a new Hessian.
_STALLED = 0.2
# Above this spread of g the problem is first solved, roughly, with every score multiplied by `_COOLING`.
_WIDE_SPREAD = 300.0
_COOLING, _COOLINGS = 0.25, 12
_COOLED_TOL = 0.1
_COOLED_ROUNDS = 40
# By how much each known point counts as worse than the one before it.
_LATER = 1e-11
# How well a step is solved for, next to what is wanted: so well that it is the same step on every machine.
_INNER = 1e-4
# The curvature's bound is tried where the model expects at most this many times the gap that is wanted.
_HOPE = 2.0
# Levenberg-Marquardt: the first damping after a rejected step, how it grows and falls, when it is dropped.
_FIRST_DAMPING, _GROWTH, _DECAY, _LAST_DAMPING = 1e-2, 8.0, 0.1, 1e-5
# A step is kept when the objective falls by at least this part of what the model predicts.
ACCEPTED = 1e-3
# Ridge, relative to the second moments, that keeps a singular Hessian factorisable.
_RIDGE = 1e-13
_SECANT = 1e-16
TINY = 1e-200


class BoxMinima(NamedTuple):
    """Minima of the targets, as far as they are known."""

    points: FloatArray  # (rows, K)
    value: FloatArray  # (rows,): g(u) - b_i.u at `points`
    gap: FloatArray  # (rows,): how much lower the minimum can be at most
    evaluations: IntArray  # (rows,): evaluations of g made for this target alone


def minimize(family: LogSumExp, slopes: FloatArray, owner: IntArray, tol: FloatArray, rounds: int) -> BoxMinima:
    """Minimize g(u) - b.u over the box for every row b of `slopes`, shape (rows, K).

    Until every gap is at most its `tol`, shape (rows,), or `rounds` steps of a row from each of two starts.
    """
    warm, spent = None, np.zeros_like(owner)
    rough_tol = np.full_like(tol, _COOLED_TOL)
    factors = [1.0]
    while family.spread * factors[-1] > _WIDE_SPREAD and len(factors) <= _COOLINGS:
        factors.append(factors[-1] * _COOLING)
    for factor in factors[:0:-1]:
        rough = _minimize_from(family.cooled(factor), slopes * factor, owner, rough_tol, _COOLED_ROUNDS, warm)
        warm, spent = rough.points, spent + rough.evaluations
    minima = _minimize_from(family, slopes, owner, tol, rounds, warm)
    minima.evaluations[:] += spent
    missed = np.flatnonzero(minima.gap > tol)
    if len(missed):
        # A borrowed start can lead into a corner that damping does not leave; the centre of the box leads elsewhere.
        again = _minimize_from(family, slopes[missed], owner[missed], tol[missed], rounds, None)
        minima.evaluations[missed] += again.evaluations
        better = again.gap < minima.gap[missed]
        for name in ("points", "value", "gap"):
            getattr(minima, name)[missed[better]] = getattr(again, name)[better]
    return minima


def _minimize_from(
    family: LogSumExp, slopes: FloatArray, owner: IntArray, tol: FloatArray, rounds: int, warm: FloatArray | None
) -> BoxMinima:
    """As `minimize`, from the points `warm` (rows, K) or known points of the same problem, whichever is better."""
    rows = len(slopes)
    minima = BoxMinima(np.empty_like(slopes), np.empty(rows), np.empty(rows), np.zeros_like(owner))
    each, centre = np.arange(family.problems), np.zeros((family.problems, family.actions))
    middle = family.evaluate(centre, each, hessian=True)
    pool = _Pool(each, centre, middle.value, middle.gradient, middle.hessian, *_anchored(family, each, centre, middle))
    solved: list[_Pool] | None = []
    waves = _waves(owner, family.problems)
    for wave in waves:
        pool = pool.joined(solved or [])
        solved = None if wave is waves[-1] else []
        nearest = pool.best_for(slopes[wave], owner[wave], family)
        targets = _OpenTargets.starting(wave, slopes[wave], tol[wave], pool, nearest)
        if warm is not None:
            targets.try_points(family, warm[wave])
        targets = targets.without_done(minima, solved)
        for _ in range(rounds):
            if len(targets.row):
                targets.aim(family)
                targets = targets.without_done(minima, solved)
            if not len(targets.row):
                break
            targets.step(family)
        _record(minima, targets)
    return minima


class _Pool(NamedTuple):
    """Points of each problem at which g and its derivatives are known, sorted by problem."""

    owner: IntArray
    u: FloatArray
    value: FloatArray
    gradient: FloatArray
    hessian: FloatArray
    anchor: FloatArray
    curvature: FloatArray
    stretch: FloatArray

    def joined(self, solved: list[_Pool]) -> _Pool:
        """Return the pool with more points."""
        columns = [np.concatenate(column) for column in zip(self, *solved, strict=True)]
        order = columns[0].argsort(kind="stable")
        return _Pool(*(column[order] for column in columns))

    def best_for(self, slopes: FloatArray, owner: IntArray, family: LogSumExp) -> IntArray:
        """Return the position of the known point with the lowest g(u) - b.u, for each row b of `slopes`."""
        known, rows = Ragged(self.owner, family.problems), Ragged(owner, family.problems)
        # Several targets end in the same corner, with Hessians of their own: the first counts, not what rounding says.
        value, points = known.pad(self.value + _LATER * known.slot, np.inf)[:, None], known.pad(self.u)
        wanted = rows.pad(slopes)
        best = np.empty(wanted.shape[:2], dtype=np.int64)
        height = max(1, family.block // (family.problems * known.width))
        for start in range(0, rows.width, height):
            part = slice(start, start + height)
            best[:, part] = (value - wanted[:, part] @ points.mT).argmin(axis=2)
        return rows.unpad(best) + known.starts[owner]


def _anchored(
    family: LogSumExp, owner: IntArray, points: FloatArray, known: Evaluation
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return `anchor`, `curvature` and `stretch` of `_OpenTargets`, from what is `known` at `points` (rows, K)."""
    least = known.hessian.copy()
    diagonal(least)[:] -= known.doubt
    return points, least, family.curvature.stretch(least, owner)


@final
@dataclass(eq=False)
class _OpenTargets:
    """Targets under way: where each stands, what is known of g there, and how the last step went."""

    row: IntArray
    owner: IntArray
    slopes: FloatArray
    tol: FloatArray  # the gap at which a target is done
    u: FloatArray
    value: FloatArray
    gradient: FloatArray
    hessian: FloatArray  # what steps go by: of `anchor`, corrected by the secants since
    anchor: FloatArray  # the last point whose Hessian was computed
    curvature: FloatArray  # the Hessian there is at least this
    stretch: FloatArray  # see `Curvature`
    objective: FloatArray  # g(u) - b.u
    floor: FloatArray  # the best lower bound of the minimum so far; every evaluated point gives one
    damping: FloatArray
    stalled: BoolArray
    evaluations: IntArray
    aimed: FloatArray  # where the next step leads

    @classmethod
    def starting(cls, row: IntArray, slopes: FloatArray, tol: FloatArray, pool: _Pool, at: IntArray) -> _OpenTargets:
        """Return targets that stand at the pool's points `at` (rows,)."""
        start = _Pool._make(part[at] for part in pool)
        objective = start.value - (slopes * start.u).sum(axis=1)
        return cls(
            row,
            start.owner,
            slopes,
            tol,
            start.u,
            start.value,
            start.gradient,
            start.hessian,
            start.anchor,
            start.curvature,
            start.stretch,
            objective,
            floor=objective - _gap(start.gradient - slopes, start.u),
            damping=np.zeros(len(at)),
            stalled=np.zeros(len(at), dtype=np.bool_),
            evaluations=np.zeros_like(at),
            aimed=start.u,
        )

    @property
    def gap(self) -> FloatArray:
        """How much lower the minimum can be at most, shape (rows,)."""
        return self.objective - self.floor

    def take(self, index: IntArray) -> _OpenTargets:
        """Return the targets at these positions."""
        return _OpenTargets(*(getattr(self, field.name)[index] for field in fields(self)))

    def without_done(self, minima: BoxMinima, solved: list[_Pool] | None) -> _OpenTargets:
        """Return those that are not done.

        The others are recorded in `minima`, and points that were computed for them kept in `solved`, unless nothing
        starts from them any more (None).
        """
        done = self.gap <= self.tol
        places = np.flatnonzero(done)
        if not len(places):
            return self
        _record(minima, self, places)
        if solved is not None:
            computed = np.flatnonzero(done & (self.evaluations > 0))
            solved.append(_Pool(*(getattr(self, name)[computed] for name in _Pool._fields)))
        return self.take(np.flatnonzero(~done))

    def try_points(self, family: LogSumExp, points: FloatArray) -> None:
        """Move to `points` (rows, K) where they are better."""
        known, objective, _ = self._evaluate(family, points, np.ones_like(self.stalled))
        better = objective < self.objective
        self._move(better, points, known, objective)
        self._renew(family, np.flatnonzero(better), better, points, known)

    def aim(self, family: LogSumExp) -> None:
        """Find where a damped Newton step leads; where it promises next to nothing, what the curvature says of that."""
        residual = self.gradient - self.slopes
        damping = ridge(self.damping, self.hessian, self.gradient, residual)
        self.aimed = minimize_box_quadratics(self.hessian, residual, self.u, damping, _INNER * self.tol)
        step = self.aimed - self.u
        promised = -(step * (residual + _products(self.hessian, step) / 2)).sum(axis=1)
        near = np.flatnonzero((promised <= _HOPE * self.tol) & (self.gap > self.tol))
        if len(near):
            stand = (self.owner[near], self.u[near], residual[near])
            curved = (self.anchor[near], self.curvature[near], self.stretch[near])
            gap = family.curvature.gap(*stand, *curved, self.tol[near])
            self.floor[near] = np.maximum(self.floor[near], self.objective[near] - gap)

    def step(self, family: LogSumExp) -> None:
        """Take one damped Newton step of every target: kept where the objective falls as the model says."""
        residual, open_gap, points = self.gradient - self.slopes, self.gap, self.aimed
        step = points - self.u
        product = _products(self.hessian, step)
        length = (step * product).sum(axis=1)
        renew = (length > _LONG_STEP) | (self.damping > 0) | self.stalled
        known, objective, gap = self._evaluate(family, points, renew)

        predicted = -(step * residual).sum(axis=1) - length / 2
        fall = self.objective - objective
        ratio = fall / np.maximum(predicted, TINY)
        in_rounding = (np.abs(fall) <= family.rounding[self.owner]) & (gap <= open_gap)
        accepted = (ratio > ACCEPTED) | in_rounding
        self.stalled = gap > _STALLED * open_gap
        self.damping = next_damping(self.damping, accepted, ratio)

        change = known.gradient - self.gradient
        self._move(accepted, points, known, objective)
        self._renew(family, np.flatnonzero(accepted & renew), accepted[renew], points, known)
        self._update_hessian(accepted & ~renew & (self.gap > self.tol), change, step, product, length)

    def _evaluate(
        self, family: LogSumExp, points: FloatArray, renew: BoolArray
    ) -> tuple[Evaluation, FloatArray, FloatArray]:
        """Return g and its gradient at `points` (rows, K), the objective there and its gap.

        The Hessian is that of the rows that `renew` (rows,) names. What the points say of the minimum is kept.
        """
        self.evaluations += 1
        value, gradient = np.empty_like(self.value), np.empty_like(points)
        hessian, doubt = self.hessian[:0], points[:0]
        for chosen, whole in ((~renew, False), (renew, True)):
            rows = np.flatnonzero(chosen)
            if len(rows):
                known = family.evaluate(points[rows], self.owner[rows], hessian=whole)
                value[rows], gradient[rows], hessian, doubt = known
        objective, gap = value - (self.slopes * points).sum(axis=1), _gap(gradient - self.slopes, points)
        self.floor = np.maximum(self.floor, objective - gap)
        return Evaluation(value, gradient, hessian, doubt), objective, gap

    def _renew(
        self, family: LogSumExp, rows: IntArray, among: BoolArray, points: FloatArray, known: Evaluation
    ) -> None:
        """Set the Hessian at `rows` to the one at `points`: those of the `known` ones that `among` says."""
        new = known._replace(hessian=known.hessian[among], doubt=known.doubt[among])
        self.hessian[rows] = new.hessian
        curved = _anchored(family, self.owner[rows], points[rows], new)
        self.anchor[rows], self.curvature[rows], self.stretch[rows] = curved

    def _update_hessian(
        self, chosen: BoolArray, change: FloatArray, step: FloatArray, product: FloatArray, length: FloatArray
    ) -> None:
        """Update the rows `chosen` (rows,) by BFGS: H + y y^T / s.y - H s (H s)^T / s.H s.

        y is `change` and s `step`, both (rows, K); H s is `product` (rows, K), s.H s `length` (rows,).
        """
        along = (step * change).sum(axis=1)
        rows = np.flatnonzero(chosen & (along > _SECANT) & (length > _SECANT))
        change, product = change[rows], product[rows]
        hessian = self.hessian[rows]
        hessian += change[:, :, None] * (change / along[rows, None])[:, None, :]
        hessian -= product[:, :, None] * (product / length[rows, None])[:, None, :]
        self.hessian[rows] = hessian

    def _move(self, accepted: BoolArray, points: FloatArray, known: Evaluation, objective: FloatArray) -> None:
        self.u = np.where(accepted[:, None], points, self.u)
        self.value = np.where(accepted, known.value, self.value)
        self.gradient = np.where(accepted[:, None], known.gradient, self.gradient)
        self.objective = np.where(accepted, objective, self.objective)


def _products(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return the product of each of `matrices` (rows, K, K) with its own of `vectors` (rows, K)."""
    return np.asarray(np.einsum("rkl,rl->rk", matrices, vectors))


def _gap(residual: FloatArray, points: FloatArray) -> FloatArray:
    """Return the certificate sum_k max(r_k (u_k + 1), r_k (u_k - 1)) for the gradient r at u, shape (rows,)."""
    return np.asarray((residual * points + np.abs(residual)).sum(axis=1))


def ridge(damping: FloatArray, hessian: FloatArray, gradient: FloatArray, residual: FloatArray) -> FloatArray:
    """Return what a relative `damping` (rows,) adds to the diagonal of `hessian` (rows, K, K).

    `gradient` is of g, `residual` of the objective (rows, K).
    """
    largest = diagonal(hessian).max(axis=1)
    # Far from the minimum H can vanish (one item has all the probability) while the gradient does not.
    damped: FloatArray = damping * np.maximum(largest, np.abs(residual).max(axis=1))
    # H is a difference of second moments: what is below their rounding is no curvature.
    rounding: FloatArray = _RIDGE * (largest + np.square(gradient).max(axis=1)) + TINY
    return damped + rounding


def next_damping(damping: FloatArray, accepted: BoolArray, ratio: FloatArray) -> FloatArray:
    """Return the next damping (Levenberg-Marquardt): less if the model was right (`ratio` near 1), more if wrong."""
    kept = np.where(ratio > 0.75, damping * _DECAY, np.where(ratio < 0.25, damping * _GROWTH, damping))
    kept = np.where(kept < _LAST_DAMPING, 0.0, kept)
    return np.where(accepted, kept, np.maximum(damping * _GROWTH, _FIRST_DAMPING))


def _record(minima: BoxMinima, targets: _OpenTargets, places: IntArray | slice = slice(None)) -> None:
    rows = targets.row[places]
    for known, new in zip(minima, (targets.u, targets.objective, targets.gap, targets.evaluations), strict=True):
        known[rows] = new[places]


def _waves(owner: IntArray, problems: int) -> list[IntArray]:
    """Return row positions in the order of solution: few of each problem, then more, then the rest.

    Multiples of the golden ratio spread each wave evenly over a problem's rows.
    """
    counts = np.bincount(owner, minlength=problems)
    position = np.arange(len(owner)) - (counts.cumsum() - counts)[owner]
    rank = np.modf((position + 1) * _GOLDEN)[0] * counts[owner]
    wave = np.searchsorted(np.cumsum(_WAVES), rank, side="right")
    return [rows for number in range(len(_WAVES) + 1) if len(rows := np.flatnonzero(wave == number))]
