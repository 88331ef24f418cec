"""Damped projected Newton for all targets of a batch of problems: minimise g(u) - b_i.u over [-1, 1]^K.

Four things keep the number of evaluations of g low:

- g does not depend on the target. A few targets, spread evenly over the list, are solved first; the points found,
  with the derivatives of g there, are where later targets start, and certify those that they already solve.
- A Hessian costs as much as two evaluations. It is computed after a long step (in the norm of the old one) or a
  poor one; after a short step the secant (BFGS) update is enough.
- Where g is nearly piecewise linear (a large beta), the same problem with smaller scores gives the start.
- A target is done when the curvature (`curvature`) says so, mostly a step before the tangent does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple, final

import torch
from torch import Tensor

from recaudit.solvers.softmax.box_qp import minimize_box_quadratics
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
# How well a step is solved for, beside what is asked: so well that it is the same step on every machine.
_INNER = 1e-4
# The curvature's bound is tried where the model expects at most this many times the gap that is asked for.
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
    """What was found for each target."""

    points: Tensor  # (rows, K)
    value: Tensor  # (rows,): g(u) - b_i.u at `points`
    gap: Tensor  # (rows,): how much lower the minimum can be at most
    evaluations: Tensor  # (rows,): evaluations of g made for this target alone


def minimize(family: LogSumExp, slopes: Tensor, owner: Tensor, tol: Tensor, rounds: int) -> BoxMinima:
    """The minimum of g(u) - b.u over the box for every row b of `slopes` (rows, K) of the problems `owner` (rows,),
    ascending: until every gap is at most its `tol` (rows,), or `rounds` steps of a row from each of two starts."""
    warm, spent = None, torch.zeros_like(owner)
    rough_tol = torch.full_like(tol, _COOLED_TOL)
    factors = [1.0]
    while family.spread * factors[-1] > _WIDE_SPREAD and len(factors) <= _COOLINGS:
        factors.append(factors[-1] * _COOLING)
    for factor in factors[:0:-1]:
        rough = _minimize_from(family.cooled(factor), slopes * factor, owner, rough_tol, _COOLED_ROUNDS, warm)
        warm, spent = rough.points, spent + rough.evaluations
    found = _minimize_from(family, slopes, owner, tol, rounds, warm)
    found.evaluations.add_(spent)
    missed = (found.gap > tol).nonzero().squeeze(1)
    if len(missed):
        # A borrowed start can lead into a corner that damping does not leave; the centre of the box leads elsewhere.
        again = _minimize_from(family, slopes[missed], owner[missed], tol[missed], rounds, None)
        found.evaluations[missed] += again.evaluations
        better = again.gap < found.gap[missed]
        for name in ("points", "value", "gap"):
            getattr(found, name)[missed[better]] = getattr(again, name)[better]
    return found


def _minimize_from(
    family: LogSumExp, slopes: Tensor, owner: Tensor, tol: Tensor, rounds: int, warm: Tensor | None
) -> BoxMinima:
    """As `minimize`, from the points `warm` (rows, K) or known points of the same problem, whichever is better."""
    rows = len(slopes)
    found = BoxMinima(torch.empty_like(slopes), slopes.new_empty(rows), slopes.new_empty(rows), torch.zeros_like(owner))
    each, centre = torch.arange(family.problems, device=owner.device), slopes.new_zeros(family.problems, family.actions)
    middle = family.evaluate(centre, each, hessian=True)
    pool = _Pool(each, centre, middle.value, middle.gradient, middle.hessian, *_anchored(family, each, centre, middle))
    solved: list[_OpenTargets] = []
    for wave in _waves(owner, family.problems):
        pool = pool.joined(solved)
        solved = []
        nearest = pool.best_for(slopes[wave], owner[wave], family)
        targets = _OpenTargets.starting(wave, slopes[wave], tol[wave], pool, nearest)
        if warm is not None:
            targets.try_points(family, warm[wave])
        targets = targets.without_done(found, solved)
        for _ in range(rounds):
            if len(targets.row):
                targets.aim(family)
                targets = targets.without_done(found, solved)
            if not len(targets.row):
                break
            targets.step(family)
        _record(found, targets)
    return found


class _Pool(NamedTuple):
    """Points of each problem at which g and its derivatives are known, sorted by problem."""

    owner: Tensor
    u: Tensor
    value: Tensor
    gradient: Tensor
    hessian: Tensor
    anchor: Tensor
    curvature: Tensor
    stretch: Tensor

    def joined(self, solved: list[_OpenTargets]) -> _Pool:
        """With the points that were computed for these targets."""
        columns = [torch.cat([getattr(part, name) for part in (self, *solved)]) for name in self._fields]
        order = columns[0].argsort(stable=True)
        return _Pool(*(column[order] for column in columns))

    def best_for(self, slopes: Tensor, owner: Tensor, family: LogSumExp) -> Tensor:
        """(rows,): the position of the known point with the lowest g(u) - b.u, for each row b of `slopes`."""
        known, rows = Ragged(self.owner, family.problems), Ragged(owner, family.problems)
        # Several targets end in the same corner, with Hessians of their own: the first counts, not what rounding says.
        value, points = known.pad(self.value + _LATER * known.slot, torch.inf).unsqueeze(1), known.pad(self.u)
        wanted = rows.pad(slopes)
        best = torch.empty(wanted.shape[:2], dtype=torch.long, device=wanted.device)
        height = max(1, family.block // (family.problems * known.width))
        for start in range(0, rows.width, height):
            part = slice(start, start + height)
            best[:, part] = torch.baddbmm(value, wanted[:, part], points.mT, alpha=-1).argmin(dim=2)
        return rows.unpad(best) + known.starts[owner]


def _anchored(family: LogSumExp, owner: Tensor, points: Tensor, known: Evaluation) -> tuple[Tensor, Tensor, Tensor]:
    """`anchor`, `curvature` and `stretch` of `_OpenTargets`, from what is `known` at `points` (rows, K)."""
    least = known.hessian.clone()
    least.diagonal(dim1=1, dim2=2).sub_(known.doubt)
    return points, least, family.curvature.stretch(least, owner)


@final
@dataclass(eq=False)
class _OpenTargets:
    """Targets under way: where each stands, what is known of g there, and how the last step went."""

    row: Tensor
    owner: Tensor
    slopes: Tensor
    tol: Tensor  # the gap at which a target is done
    u: Tensor
    value: Tensor
    gradient: Tensor
    hessian: Tensor  # what steps go by: of `anchor`, corrected by the secants since
    anchor: Tensor  # the last point whose Hessian was computed
    curvature: Tensor  # the Hessian there is at least this
    stretch: Tensor  # see `Curvature`
    objective: Tensor  # g(u) - b.u
    floor: Tensor  # the best lower bound of the minimum so far; every evaluated point gives one
    damping: Tensor
    stalled: Tensor
    evaluations: Tensor
    aimed: Tensor  # where the next step leads

    @classmethod
    def starting(cls, row: Tensor, slopes: Tensor, tol: Tensor, pool: _Pool, at: Tensor) -> _OpenTargets:
        """Targets that stand at the pool's points `at` (rows,)."""
        owner, u, value, gradient, hessian, anchor, curvature, stretch = (part.index_select(0, at) for part in pool)
        objective = value - (slopes * u).sum(dim=1)
        floor = objective - _gap(gradient - slopes, u)
        none = torch.zeros_like(at)
        known = (owner, slopes, tol, u, value, gradient, hessian, anchor, curvature, stretch, objective, floor)
        return cls(row, *known, torch.zeros_like(value), none.bool(), none, u)

    @property
    def gap(self) -> Tensor:
        """(rows,): how much lower the minimum can be at most."""
        return self.objective - self.floor

    def take(self, index: Tensor) -> _OpenTargets:
        """The targets at these positions."""
        return _OpenTargets(*(getattr(self, field.name).index_select(0, index) for field in fields(self)))

    def without_done(self, found: BoxMinima, solved: list[_OpenTargets]) -> _OpenTargets:
        """Those that are not done. The others are recorded in `found`, and points that were computed for them kept in
        `solved`."""
        done = self.gap <= self.tol
        places = done.nonzero().squeeze(1)
        if not len(places):
            return self
        _record(found, self, places)
        solved.append(self.take((done & (self.evaluations > 0)).nonzero().squeeze(1)))
        return self.take((~done).nonzero().squeeze(1))

    def try_points(self, family: LogSumExp, points: Tensor) -> None:
        """Move to `points` (rows, K) where they are better."""
        known, objective, _ = self._evaluate(family, points, torch.ones_like(self.stalled))
        better = objective < self.objective
        self._move(better, points, known, objective)
        self._renew(family, better.nonzero().squeeze(1), better, points, known)

    def aim(self, family: LogSumExp) -> None:
        """Where a damped Newton step leads; where it promises next to nothing, what the curvature says of that."""
        residual = self.gradient - self.slopes
        damping = ridge(self.damping, self.hessian, self.gradient, residual)
        self.aimed = minimize_box_quadratics(self.hessian, residual, self.u, damping, _INNER * self.tol)
        step = self.aimed - self.u
        product = torch.bmm(self.hessian, step.unsqueeze(2)).squeeze(2)
        promised = -(step * (residual + product / 2)).sum(dim=1)
        near = ((promised <= _HOPE * self.tol) & (self.gap > self.tol)).nonzero().squeeze(1)
        if len(near):
            stand = (self.owner[near], self.u[near], residual[near])
            curved = (self.anchor[near], self.curvature[near], self.stretch[near])
            gap = family.curvature.gap(*stand, *curved, self.tol[near])
            self.floor[near] = torch.maximum(self.floor[near], self.objective[near] - gap)

    def step(self, family: LogSumExp) -> None:
        """One damped Newton step of every target: kept where the objective falls as the model says."""
        residual, open_gap, points = self.gradient - self.slopes, self.gap, self.aimed
        step = points - self.u
        product = torch.bmm(self.hessian, step.unsqueeze(2)).squeeze(2)
        length = (step * product).sum(dim=1)
        renew = (length > _LONG_STEP) | (self.damping > 0) | self.stalled
        known, objective, gap = self._evaluate(family, points, renew)

        predicted = -(step * residual).sum(dim=1) - length / 2
        fall = self.objective - objective
        ratio = fall / predicted.clamp(min=TINY)
        in_rounding = (fall.abs() <= family.rounding[self.owner]) & (gap <= open_gap)
        accepted = (ratio > ACCEPTED) | in_rounding
        self.stalled = gap > _STALLED * open_gap
        self.damping = next_damping(self.damping, accepted, ratio)

        change = known.gradient - self.gradient
        self._move(accepted, points, known, objective)
        self._renew(family, (accepted & renew).nonzero().squeeze(1), accepted[renew], points, known)
        self._update_hessian(accepted & ~renew & (self.gap > self.tol), change, step, product, length)

    def _evaluate(self, family: LogSumExp, points: Tensor, renew: Tensor) -> tuple[Evaluation, Tensor, Tensor]:
        """g and its gradient at `points` (rows, K), the Hessian of those rows that `renew` (rows,) names, the objective
        there and its gap; what they say of the minimum is kept."""
        self.evaluations += 1
        value, gradient = torch.empty_like(self.value), torch.empty_like(points)
        hessian, doubt = self.hessian[:0], points[:0]
        for chosen, whole in ((~renew, False), (renew, True)):
            rows = chosen.nonzero().squeeze(1)
            if len(rows):
                known = family.evaluate(points[rows], self.owner[rows], hessian=whole)
                value[rows], gradient[rows], hessian, doubt = known
        objective, gap = value - (self.slopes * points).sum(dim=1), _gap(gradient - self.slopes, points)
        self.floor = torch.maximum(self.floor, objective - gap)
        return Evaluation(value, gradient, hessian, doubt), objective, gap

    def _renew(self, family: LogSumExp, rows: Tensor, among: Tensor, points: Tensor, known: Evaluation) -> None:
        """The Hessian at `rows` is the one at `points`: those of the `known` ones that `among` says."""
        new = known._replace(hessian=known.hessian[among], doubt=known.doubt[among])
        self.hessian[rows] = new.hessian
        curved = _anchored(family, self.owner[rows], points[rows], new)
        self.anchor[rows], self.curvature[rows], self.stretch[rows] = curved

    def _update_hessian(self, chosen: Tensor, change: Tensor, step: Tensor, product: Tensor, length: Tensor) -> None:
        """BFGS of the rows `chosen` (rows,): H + y y^T / s.y - H s (H s)^T / s.H s, with y `change` and s `step`
        (rows, K), H s `product` (rows, K), s.H s `length` (rows,)."""
        along = (step * change).sum(dim=1)
        rows = (chosen & (along > _SECANT) & (length > _SECANT)).nonzero().squeeze(1)
        change, product = change[rows], product[rows]
        hessian = self.hessian.index_select(0, rows)
        hessian.addcmul_(change[:, :, None], (change / along[rows, None])[:, None, :])
        hessian.addcmul_(product[:, :, None], (product / length[rows, None])[:, None, :], value=-1)
        self.hessian[rows] = hessian

    def _move(self, accepted: Tensor, points: Tensor, known: Evaluation, objective: Tensor) -> None:
        self.u = torch.where(accepted[:, None], points, self.u)
        self.value = torch.where(accepted, known.value, self.value)
        self.gradient = torch.where(accepted[:, None], known.gradient, self.gradient)
        self.objective = torch.where(accepted, objective, self.objective)


def _gap(residual: Tensor, points: Tensor) -> Tensor:
    """(rows,): the certificate sum_k max(r_k (u_k + 1), r_k (u_k - 1)) for the gradient r at u."""
    return (residual * points + residual.abs()).sum(dim=1)


def ridge(damping: Tensor, hessian: Tensor, gradient: Tensor, residual: Tensor) -> Tensor:
    """(rows,): what a relative `damping` (rows,) adds to the diagonal of `hessian` (rows, K, K); `gradient` of g,
    `residual` of the objective (rows, K)."""
    largest = hessian.diagonal(dim1=1, dim2=2).amax(dim=1)
    # Far from the minimum H can vanish (one item has all the probability) while the gradient does not.
    damped = damping * torch.maximum(largest, residual.abs().amax(dim=1))
    # H is a difference of second moments: what is below their rounding is no curvature.
    return damped + (_RIDGE * (largest + gradient.square().amax(dim=1)) + TINY)


def next_damping(damping: Tensor, accepted: Tensor, ratio: Tensor) -> Tensor:
    """Levenberg-Marquardt: less where the model was right (`ratio` near 1), more where it was wrong."""
    kept = torch.where(ratio > 0.75, damping * _DECAY, torch.where(ratio < 0.25, damping * _GROWTH, damping))
    kept = torch.where(kept < _LAST_DAMPING, 0.0, kept)
    return torch.where(accepted, kept, (damping * _GROWTH).clamp(min=_FIRST_DAMPING))


def _record(found: BoxMinima, targets: _OpenTargets, places: Tensor | slice = slice(None)) -> None:
    rows = targets.row[places]
    for known, new in zip(found, (targets.u, targets.objective, targets.gap, targets.evaluations), strict=True):
        known[rows] = new[places]


def _waves(owner: Tensor, problems: int) -> Iterator[Tensor]:
    """Row positions in the order of solution: few of each problem, then more, then the rest; multiples of the golden
    ratio spread each wave evenly over a problem's rows."""
    counts = torch.bincount(owner, minlength=problems)
    position = torch.arange(len(owner), device=owner.device) - (counts.cumsum(0) - counts)[owner]
    rank = ((position + 1).double() * _GOLDEN).frac() * counts[owner]
    wave = torch.bucketize(rank, torch.tensor(_WAVES, device=owner.device).cumsum(0), right=True)
    for number in range(len(_WAVES) + 1):
        rows = (wave == number).nonzero().squeeze(1)
        if len(rows):
            yield rows
