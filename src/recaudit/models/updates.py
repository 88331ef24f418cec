"""What a factor model does with a new rating: gradient steps, or an exact re-solve (paper 000, Examples 3 and 4).

All hold everything but one vector, and perhaps its bias, fixed: the user's, or that of an item which another user
edited.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from recaudit.arrays import FloatArray, IntArray
from recaudit.specification import Specification


class RatedVector(NamedTuple):
    """One vector that ratings move, a user's or an item's; what it is multiplied with, on the other side, stays."""

    side: Literal["user", "item"]
    position: int
    vector: FloatArray
    """(factors,): as it is before."""
    bias: float
    """As it is before."""
    others: FloatArray
    """(others, factors): the vectors of all items for a user, of all users for an item."""
    offset: FloatArray
    """(others,): what a rating is above `vector . other`: the mean and both biases, its own as it is before."""
    kept: NDArray[np.int32] | IntArray
    """(kept,): positions of the others whose `ratings` (kept,) stay as they are."""
    ratings: FloatArray
    acted: IntArray
    """(actions,): positions of the others whose ratings are free."""


class UpdateRule(ABC):
    """How a factor model takes in new ratings."""

    @abstractmethod
    def affine(self, row: RatedVector) -> tuple[FloatArray, FloatArray]:
        """(M, m), shapes (factors, actions) and (factors,): after ratings `a` the vector is `M @ a + m`.

        With a row more where the bias moves too: the last one is the bias.
        """

    @property
    @abstractmethod
    def words(self) -> str:
        """What it does, for a person who reads a number that rests on it."""

    @property
    def users_only(self) -> bool:
        """Whether items stay as they are until the next training, whatever is rated."""
        return False


class LeastSquares(UpdateRule):
    """An exact solve: `(behind + X^T X + penalty I) v = pull + X^T y`, X over all ratings, kept and acted on.

    What a rating r counts as is affine in it: `y = slope r + level`.
    """

    @abstractmethod
    def penalty(self, count: int) -> float:
        """With so many ratings."""

    @abstractmethod
    def counts_as(self, row: RatedVector, others: IntArray | NDArray[np.int32]) -> tuple[FloatArray, FloatArray]:
        """(others,) each: slope and level of a rating of each of them."""

    def behind(self, row: RatedVector) -> tuple[FloatArray, FloatArray]:
        """(factors, factors) and (factors,): what counts without any rating, and where it pulls; here nothing."""
        factors = len(row.vector)
        return np.zeros((factors, factors)), np.zeros(factors)

    def kept(self, row: RatedVector) -> tuple[FloatArray, FloatArray]:
        """`behind + X^T X` and `pull + X^T y` of the ratings that are kept."""
        X, (gram, pull), (slope, level) = row.others[row.kept], self.behind(row), self.counts_as(row, row.kept)
        return gram + X.T @ X, pull + X.T @ (slope * row.ratings + level)

    def affine(self, row: RatedVector) -> tuple[FloatArray, FloatArray]:
        """See `UpdateRule`."""
        acted, (slope, level), (gram, moment) = row.others[row.acted], self.counts_as(row, row.acted), self.kept(row)
        gram = gram + acted.T @ acted + self.penalty(len(row.kept) + len(row.acted)) * np.eye(len(row.vector))
        return solved(gram, acted.T * slope, moment + acted.T @ level)


def solved(gram: FloatArray, matrix: FloatArray, constant: FloatArray) -> tuple[FloatArray, FloatArray]:
    """`gram^-1 matrix` and `gram^-1 constant`."""
    found: FloatArray = np.linalg.solve(gram, np.column_stack([matrix, constant])).astype(np.float64)
    return found[:, :-1], found[:, -1]


def error_step(
    matrix: FloatArray,
    level: FloatArray,
    action: int,
    x: FloatArray,
    known: float,
    held: FloatArray,
    direction: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """What `w = matrix @ a + level` (n,) is after `w+ = held * w + direction * (a[action] - known - x . w)`."""
    moved = held[:, None] * matrix - direction[:, None] * (x @ matrix)
    moved[:, action] += direction
    return moved, held * level - direction * (known + x @ level)


@final
class SgdStep(Specification, UpdateRule):
    """One full-batch gradient step on the acted-on ratings alone.

    `v+ = (1 - step * regularization) v + step * X_A^T (a - offset_A - X_A v)`: rows of X_A are the fixed vectors
    on the other side. An edited rating of the history adds a step and does not undo the step once taken for
    the old rating. The paper's audit uses step 0.1 without regularisation.
    """

    rule: Literal["sgd-step"] = "sgd-step"
    step: float = Field(default=0.1, gt=0, allow_inf_nan=False)
    """The step size alpha."""
    regularization: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """The weight of the squared norm in the objective whose gradient is taken."""
    bias_step: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """The step size of the bias; at 0 it stays."""
    bias_regularization: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """The weight of the squared bias."""
    in_turn: bool = False
    """Whether each rating is a step of its own, in the order given, or all are one step."""

    @property
    def words(self) -> str:
        """See `UpdateRule`."""
        bias = f", and {self.bias_step:g} for its bias" if self.bias_step else ""
        steps = "a gradient step for each rating in turn" if self.in_turn else "one gradient step on the new ratings"
        return f"{steps}, of size {self.step:g}{bias}; everything else is held"

    def affine(self, row: RatedVector) -> tuple[FloatArray, FloatArray]:
        """See `UpdateRule`."""
        vectors, known = row.others[row.acted], row.offset[row.acted]
        X, w = vectors, row.vector
        step, shrink = np.full(len(w), self.step), np.full(len(w), self.regularization)
        if self.bias_step:
            X, w, known = np.column_stack([X, np.ones(len(X))]), np.append(w, row.bias), known - row.bias
            step, shrink = np.append(step, self.bias_step), np.append(shrink, self.bias_regularization)
        held = 1 - step * shrink
        if not self.in_turn:
            matrix = step[:, None] * X.T
            return matrix, held * w - matrix @ (known + X @ w)
        matrix, level = np.zeros((len(w), len(X))), w.copy()
        for action, x in enumerate(X):
            matrix, level = error_step(matrix, level, action, x, known[action], held, step * x)
        return matrix, level


@final
class AlsSolve(Specification, LeastSquares):
    """The vector that minimises the regularised squared error over all its ratings, old and acted on.

    `v+ = (X^T X + penalty I)^-1 X^T (r - offset)` with X over the union of kept and acted-on ratings; an edited
    rating of the history replaces the old one.
    """

    rule: Literal["als"] = "als"
    regularization: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """The weight of the squared norm."""
    per_rating: bool = False
    """Whether the penalty counts once for each rating of the union, or once."""
    bias_damping: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Where given, a user's bias is estimated anew as well, first, as the sum of what the ratings are above the mean
    and the items' biases over their number and this; items then stay until the next training. Else biases stay."""

    @property
    def users_only(self) -> bool:
        """See `UpdateRule`."""
        return self.bias_damping is not None

    @property
    def words(self) -> str:
        """See `UpdateRule`."""
        bias = "biases" if self.bias_damping is None else "the items"
        what = "the vector is" if self.bias_damping is None else "the user's bias and vector are"
        return f"{what} solved for anew by least squares over all its ratings; {bias} and everything else are held"

    def penalty(self, count: int) -> float:
        """See `LeastSquares`."""
        return self.regularization * (max(1, count) if self.per_rating else 1)

    def counts_as(self, row: RatedVector, others: IntArray | NDArray[np.int32]) -> tuple[FloatArray, FloatArray]:
        """See `LeastSquares`: what it is above the offset."""
        return np.ones(len(others)), -row.offset[others]

    def affine(self, row: RatedVector) -> tuple[FloatArray, FloatArray]:
        """See `UpdateRule`."""
        if self.bias_damping is None:
            return super().affine(row)
        kept, acted = row.others[row.kept], row.others[row.acted]
        count = len(kept) + len(acted)
        gram, moment = self.kept(row)
        gram = gram + acted.T @ acted + self.penalty(count) * np.eye(len(row.vector))
        constant = moment - acted.T @ row.offset[row.acted]
        # With o = offset - bias: bias+ = (sum a + sum r - sum o) / (n + damping), and r - o - bias+ is fitted.
        above = (row.ratings - row.offset[row.kept]).sum() - row.offset[row.acted].sum() + count * row.bias
        share = 1 / (count + self.bias_damping) if count + self.bias_damping else 0.0
        bias, level = np.full((1, len(acted)), share), share * above
        total = kept.sum(axis=0) + acted.sum(axis=0)
        matrix, vector = solved(gram, acted.T - total[:, None] * bias, constant + total * (row.bias - level))
        return np.vstack([matrix, bias]), np.append(vector, level)


class Background(NamedTuple):
    """What pairs count for whether or not they are rated, seen from one side: x is a row of it, y one of the other.

    The pair (x, y) is fitted to `target[x] * other_target[y]` with weight `weight[x] * other_weight[y]`, (rows,) and
    (others,) each. All y together then enter x's equations through two sums that every x shares.
    """

    weight: FloatArray
    target: FloatArray
    other_weight: FloatArray
    other_target: FloatArray
    gram: FloatArray
    """(factors, factors): sum of other_weight y y^T."""
    pull: FloatArray
    """(factors,): sum of other_weight other_target y."""


@final
@dataclass(frozen=True, eq=False)
class WalsSolve(LeastSquares):
    """The vector that minimises the weighted squared error over all its pairs, rated or not: the solve of `WALS`.

    `v+ = (w_x gram + X^T X + regularization I)^-1 (w_x t_x pull + X^T ((1 + w) r - w t))`, with X over the union of
    kept and acted-on ratings r (less the mean), and w, t the background's weight and target of the rated pairs
    (notes on the mathematics, section 6). The background is held as fitted, and so is how much a user or an item
    counts in it: a rating more does not change that.
    """

    regularization: float
    users: Background
    """Seen from users: items are the others."""
    items: Background
    ones: bool
    """Whether every rating counts as a 1: that there is one moves the vector, whatever it is."""

    @property
    def words(self) -> str:
        """See `UpdateRule`."""
        return "the vector is solved for anew by weighted least squares over all pairs; everything else is held"

    def penalty(self, count: int) -> float:
        """See `LeastSquares`."""
        return self.regularization

    def counts_as(self, row: RatedVector, others: IntArray | NDArray[np.int32]) -> tuple[FloatArray, FloatArray]:
        """See `LeastSquares`: `(1 + w) value - w t`, where the value is a 1 or the rating less the mean."""
        seen = self._seen_from(row)
        weight = seen.weight[row.position] * seen.other_weight[others]
        target = seen.target[row.position] * seen.other_target[others]
        slope, level = (0.0, np.ones(len(others))) if self.ones else (1.0, -row.offset[others])
        return slope * (1 + weight), (1 + weight) * level - weight * target

    def behind(self, row: RatedVector) -> tuple[FloatArray, FloatArray]:
        """See `LeastSquares`: all pairs, rated or not."""
        seen = self._seen_from(row)
        own = seen.weight[row.position]
        return own * seen.gram, own * seen.target[row.position] * seen.pull

    def _seen_from(self, row: RatedVector) -> Background:
        return self.users if row.side == "user" else self.items


Update = Annotated[SgdStep | AlsSolve, Field(discriminator="rule")]
"""The rules that a configuration can name."""
