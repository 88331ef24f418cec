"""Ratings given one after the other: a user's scores while the system shows items and the user rates them.

The ratings stay free. After t of them every score is affine in all t, `s = slope @ a + intercept`, and one more item
changes slope and intercept by a few products that many sequences of items share: those are computed once a user.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from recaudit.arrays import FloatArray, IntArray
from recaudit.errors import InputError
from recaudit.models.response import AffineResponse
from recaudit.models.updates import LeastSquares, RatedVector, SgdStep

if TYPE_CHECKING:
    from recaudit.models.base import FittedModel


class Basis(NamedTuple):
    """Scores that are `level + weights @ columns`, where the ratings a make `weights = matrix @ a + constant`.

    What is as long as the catalogue is shared by many sequences of items, and never multiplied by what is not.
    """

    level: FloatArray  # (all items,)
    each: tuple[FloatArray, ...]  # (all items,) for each of the t ratings
    matrix: FloatArray  # (t, t)
    constant: FloatArray  # (t,)

    @property
    def columns(self) -> FloatArray:
        """(t, all items)."""
        return np.array(self.each).reshape(len(self.each), len(self.level))

    def of(self, items: IntArray) -> tuple[FloatArray, FloatArray]:
        """(items,) and (t, items): level and columns of these items alone."""
        own = np.empty((len(self.each), len(items)))
        for column, place in zip(self.each, own, strict=True):
            column.take(items, out=place, mode="clip")
        return self.level[items], own


class Beyond(NamedTuple):
    """Scores are those of `middle`, plus `vectors @ x` for some x not longer than `radius`."""

    middle: Basis
    vectors: FloatArray  # (all items, factors)
    radius: float


class RollOut(ABC):
    """A user who has rated `items` in this order since the model was fitted; a value, never changed."""

    items: tuple[int, ...]

    @abstractmethod
    def then(self, item: int) -> RollOut:
        """The same user after rating one item more, which they had not rated before."""

    @abstractmethod
    def affine(self) -> tuple[FloatArray, FloatArray]:
        """Slope (all items, t) and intercept (all items,) of the scores, in the ratings given to `items`.

        Without any rating, the intercept is the model's scores as fitted.
        """

    def basis(self) -> Basis:
        """The scores of `affine`, as combinations of columns."""
        slope, intercept = self.affine()
        t = slope.shape[1]
        return Basis(intercept, tuple(np.ascontiguousarray(slope.T)), np.eye(t), np.zeros(t))

    def beyond(self, steps: int, ratings: FloatArray, low: float, high: float) -> Beyond | None:
        """What scores so many more ratings from `low` to `high` can lead to, whatever is rated; None: anything.

        `ratings` (points, t): the ratings given so far are in the hull of these.
        """
        return None


@final
@dataclass(frozen=True, eq=False)
class ReplayedRollOut(RollOut):
    """Of any model that says how scores follow ratings given in turn: asked anew at each step."""

    model: FittedModel
    user: int
    items: tuple[int, ...] = ()
    last: dict[tuple[int, ...], tuple[FloatArray, FloatArray]] = field(default_factory=dict)
    """What the model was asked last in any roll-out of this user: who solves asks a few times in a row."""

    def then(self, item: int) -> ReplayedRollOut:
        """See `RollOut`."""
        return ReplayedRollOut(self.model, self.user, (*self.items, item), self.last)

    def affine(self) -> tuple[FloatArray, FloatArray]:
        """See `RollOut`."""
        if self.items not in self.last:
            self.last.clear()
            self.last[self.items] = self._asked()
        return self.last[self.items]

    def _asked(self) -> tuple[FloatArray, FloatArray]:
        if not self.items:
            scores = self.model.scores(np.array([self.user]))[0]
            return np.zeros((len(scores), 0)), scores
        response = self.model.respond_in_turn(self.user, np.array(self.items))
        assert isinstance(response, AffineResponse)
        return response.slope, response.intercept


@final
@dataclass(frozen=True, eq=False)
class SgdRollOut(RollOut):
    """One gradient step a rating: `v+ = (1 - step * regularization) v + step q (a - offset - q.v)`.

    So v stays in the span of p and of the rated items' vectors: `v = own p + sum_s q_s (weights_s . a + constants_s)`.
    """

    row: RatedVector
    update: SgdStep
    items: tuple[int, ...] = ()
    own: float = 1.0
    weights: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    constants: FloatArray = field(default_factory=lambda: np.zeros(0))
    products: dict[int, FloatArray] = field(default_factory=dict)
    """Q q_j of the items j rated in any roll-out of this user; -1 is Q p."""

    def then(self, item: int) -> SgdRollOut:
        """See `RollOut`."""
        t, step = len(self.items), self.update.step
        kept = 1 - step * self.update.regularization
        likeness = np.array([self._product(other)[item] for other in self.items])
        predicted = self.own * self._product(-1)[item] + likeness @ self.constants
        weights = np.zeros((t + 1, t + 1))
        weights[:t, :t] = kept * self.weights
        weights[t, :t], weights[t, t] = -step * (likeness @ self.weights), step
        constants = np.append(kept * self.constants, -step * (self.row.offset[item] + predicted))
        items, own = (*self.items, item), kept * self.own
        return SgdRollOut(self.row, self.update, items, own, weights, constants, self.products)

    def affine(self) -> tuple[FloatArray, FloatArray]:
        """See `RollOut`."""
        level = self.row.offset + self.own * self._product(-1)
        if not self.items:
            return np.zeros((len(level), 0)), level
        directions = np.column_stack([self._product(item) for item in self.items])
        return directions @ self.weights, level + directions @ self.constants

    def basis(self) -> Basis:
        """See `RollOut`."""
        if not self.items:
            return super().basis()
        level = self.row.offset + self.own * self._product(-1)
        return Basis(level, tuple(self._product(item) for item in self.items), self.weights, self.constants)

    def beyond(self, steps: int, ratings: FloatArray, low: float, high: float) -> Beyond:
        """See `RollOut`. With c = 1 - step * regularization and v the vector so far, the vector is c^s v + d after s
        steps, where `d+ = (c I - step q q^T) d + step q (a - offset - c^s q.v)`. The last bracket is between its values
        for c^s = 0 and 1, and a rating is at its largest distance from a score at one of its ends."""
        Q, offset, step = self.row.others, self.row.offset, self.update.step
        kept, sizes = 1 - step * self.update.regularization, np.linalg.norm(self.row.others, axis=1)
        now = self.basis()
        scores = (ratings @ now.matrix.T + now.constant) @ now.columns + now.level
        ends = [np.abs(end - part) for end in (low, high) for part in (offset[None], scores)]
        push = step * float((sizes * np.concatenate(ends).max(axis=0)).max())
        grows = max(abs(kept), float(np.abs(kept - step * sizes**2).max()))
        radius = 0.0
        for _ in range(steps):
            radius = grows * radius + push
        shrunk = kept**steps
        level = offset + shrunk * (now.level - offset)
        return Beyond(Basis(level, now.each, shrunk * now.matrix, shrunk * now.constant), Q, radius)

    def _product(self, item: int) -> FloatArray:
        if item not in self.products:
            Q = self.row.others
            self.products[item] = Q @ (self.row.vector if item < 0 else Q[item])
        return self.products[item]


@final
class Ridge:
    """A user's least-squares problem with room for more ratings, solved as far as all sequences of items share it."""

    def __init__(self, rule: LeastSquares, row: RatedVector) -> None:
        self.row, self._rule = row, rule
        self._gram, self._moment = rule.kept(row)
        self.slope, self.constant = rule.counts_as(row, np.arange(len(row.others)))
        self._factors: dict[float, tuple[FloatArray, bool]] = {}
        self._columns: dict[tuple[float, int], FloatArray] = {}
        self._vectors: dict[float, FloatArray] = {}
        self._levels: dict[float, FloatArray] = {}

    def column(self, t: int, item: int) -> FloatArray:
        """(items,): `Q B^-1 q` of an item, with B the history's Gram matrix plus the penalty of t more ratings.

        For -1 `Q B^-1 h`: the scores less their offsets if the t new ratings had no weight.
        """
        penalty, factor = self._factor(t)
        if (penalty, item) not in self._columns:
            Q = self.row.others
            right = self._moment if item < 0 else Q[item]
            self._columns[penalty, item] = Q @ cho_solve(factor, right)
        return self._columns[penalty, item]

    def level(self, t: int) -> FloatArray:
        """(items,): the scores if the t new ratings had no weight."""
        penalty, _ = self._factor(t)
        if penalty not in self._levels:
            self._levels[penalty] = self.column(t, -1) + self.row.offset
        return self._levels[penalty]

    def vectors(self, t: int) -> FloatArray:
        """(items, factors): the rows L^-1 q, whose products are `q B^-1 q` with the B = L L^T of t more ratings."""
        penalty, (factor, _) = self._factor(t)
        if penalty not in self._vectors:
            self._vectors[penalty] = solve_triangular(factor, self.row.others.T, lower=True).T
        return self._vectors[penalty]

    def _factor(self, t: int) -> tuple[float, tuple[FloatArray, bool]]:
        """The penalty of t more ratings, and the Cholesky factor of its B."""
        penalty = self._rule.penalty(len(self.row.kept) + t)
        if penalty not in self._factors:
            self._factors[penalty] = cho_factor(self._gram + penalty * np.eye(len(self._gram)), lower=True)
        return penalty, self._factors[penalty]


@final
@dataclass(frozen=True, eq=False)
class SolvedRollOut(RollOut):
    """An exact re-solve after each rating, which depends on the ratings given and not on their order.

    With C the rows of Q of the t rated items, `K = Q B^-1 C^T`, prior scores m and y = slope a + constant what the
    ratings a count as (Woodbury's identity): `s = m + K (I + C B^-1 C^T)^-1 (y - m_A) + offset`.
    """

    ridge: Ridge
    items: tuple[int, ...] = ()

    def then(self, item: int) -> SolvedRollOut:
        """See `RollOut`."""
        if item in self.items or item in self.ridge.row.kept:
            raise InputError("item", received=item, expected="the position of an item that the user has not rated")
        return SolvedRollOut(self.ridge, (*self.items, item))

    def affine(self) -> tuple[FloatArray, FloatArray]:
        """See `RollOut`."""
        row = self.ridge.row
        if not self.items:
            return np.zeros((len(row.offset), 0)), row.others @ row.vector + row.offset
        basis = self._own_basis
        columns = basis.columns.T
        return columns @ basis.matrix, basis.level + columns @ basis.constant

    def basis(self) -> Basis:
        """See `RollOut`."""
        return self._own_basis if self.items else super().basis()

    @cached_property
    def _own_basis(self) -> Basis:
        return self._basis(len(self.items))

    def beyond(self, steps: int, ratings: FloatArray, low: float, high: float) -> Beyond:
        """See `RollOut`. With B the matrix of what was rated so far plus the penalty of all ratings, and w the vector
        if the new ratings, of the items C, had no weight: `v = w + B^-1 C^T (I + G)^-1 e`, G = C B^-1 C^T and e what
        the new ratings count as less their scores at w. So `(v - w)^T B (v - w) = e^T (I + G)^-1 G (I + G)^-1 e`, and
        that is at most e^T e / 4, or e^T e x / (1 + x)^2 where no eigenvalue of G exceeds x <= 1. Leaving out of B what
        was rated since the model was fitted makes the set larger."""
        t, ridge = len(self.items) + steps, self.ridge
        middle, vectors = self._basis(t), ridge.vectors(t)
        scores = (ratings @ middle.matrix.T + middle.constant) @ middle.columns + middle.level
        least, most_of = (ridge.slope * end + ridge.constant + ridge.row.offset for end in (low, high))
        away = np.maximum(most_of - scores.min(axis=0), scores.max(axis=0) - least)
        most = min(1.0, steps * float((vectors**2).sum(axis=1).max()))
        squares = float(np.sort(away**2)[-steps:].sum())
        return Beyond(middle, vectors, float(np.sqrt(squares * most)) / (1 + most))

    def _basis(self, t: int) -> Basis:
        """The scores with the penalty of t ratings, if those that are not given yet had no weight."""
        rated, level = list(self.items), self.ridge.level(t)
        each = tuple(self.ridge.column(t, item) for item in self.items)
        likeness = np.array([column[rated] for column in each]).reshape(len(rated), len(rated))
        # The bracket's eigenvalues are 1 or more: its inverse is safe.
        inverse: FloatArray = np.linalg.inv(np.eye(len(rated)) + likeness.T).astype(np.float64)
        above = self.ridge.constant[rated] - (level[rated] - self.ridge.row.offset[rated])
        return Basis(level, each, inverse * self.ridge.slope[rated], inverse @ above)
