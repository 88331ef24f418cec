"""Vectors fitted to every pair, where a rating says how much its pair counts: the fold-in of implicit's ALS."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.engines.steady import one_blas_thread
from recaudit.errors import InputError
from recaudit.models.checks import check_action_rows, check_actions
from recaudit.models.factor.model import FactorVectors
from recaudit.models.response import AffineResponse, DifferentiableResponse, EditedItems, Response
from recaudit.torch_extra import require_torch

if TYPE_CHECKING:
    from torch import Tensor

Numbers = TypeVar("Numbers", FloatArray, "Tensor")


class Confidence(NamedTuple):
    """What a rating makes of its pair: a weight and a pull. A pair without a rating has weight 1 and no pull.

    The confidence is `alpha r`. A pair with positive confidence c is fitted to 1 with weight c, so that its pull is c;
    one with negative confidence to 0 with weight |c|.
    """

    alpha: float
    click: float | None
    """The one rating of a log of clicks, where 0 is no click: a pair like any other without a rating. What lies
    between 0 and a click counts in proportion. None where ratings are graded."""

    @classmethod
    def of(cls, alpha: float, data: Interactions) -> Confidence:
        """For the ratings of this log."""
        low, high = data.scale
        return cls(alpha, low if low == high and low != 0 else None)

    @property
    def even(self) -> bool:
        """Whether every pair has weight 1, whatever it is rated: vectors are then affine in the ratings."""
        return self.click is not None and abs(self.alpha * self.click) == 1

    def of_pairs(self, ratings: Numbers) -> tuple[Numbers, Numbers]:
        """Weight and pull of pairs with these ratings, all of one shape."""
        if self.click is None:
            confidence = self.alpha * ratings
            return abs(confidence), confidence.clip(min=0)
        share, confidence_of_one = ratings / self.click, self.alpha * self.click
        return 1 + (abs(confidence_of_one) - 1) * share, max(confidence_of_one, 0.0) * share

    def of_ratings(self, ratings: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The same of pairs some of which have no rating, NaN."""
        unrated = np.isnan(ratings)
        weight, pull = self.of_pairs(ratings)
        return np.where(unrated, 1.0, weight), np.where(unrated, 0.0, pull)


class Solves(NamedTuple):
    """The least-squares problems of all users, or of all items, beside the vectors Y of the other side, held.

    `x = (gram + regularization I + sum of (weight - 1) y y^T)^-1 (sum of pull y)`, sums over the pairs with a rating.
    """

    others: FloatArray
    """(others, factors): Y."""
    gram: FloatArray
    """(factors, factors): the sum of y y^T over all others that the model knows, those without a rating too."""
    regularization: float
    confidence: Confidence

    def solved(self, positions: IntArray | NDArray[np.int32], ratings: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The inverse (factors, factors) and the vector (factors,) of one row; positions and ratings are (n,)."""
        Y = self.others[positions]
        weight, pull = self.confidence.of_pairs(ratings)
        penalty = self.regularization * np.eye(Y.shape[1])
        system = self.gram + penalty + Y.T @ (Y * (weight - 1)[:, None])
        inverse: FloatArray = np.asarray(np.linalg.inv(system), dtype=np.float64)
        return inverse, inverse @ (Y.T @ pull)

    def vectors(self, data: Interactions) -> FloatArray:
        """(users, factors): the vector of every user of this log, where `others` are the items."""
        with one_blas_thread():  # the products are small
            return np.stack([self.solved(*data.history(user))[1] for user in range(data.n_users)])


@final
@dataclass(frozen=True, eq=False)
class Resolved:
    """How far the vector of a solved problem, or of many, moves when some of its pairs are rated anew.

    With B the inverse before, Y_A the others that are rated anew, dw and dp the changes of their weight and pull, the
    vector moves by `B Y_A^T y`, where `y = dp - dw z` and `z = (I + K dw)^-1 (Y_A x + K dp)`, `K = Y_A B Y_A^T`: z is
    what the new vector gives for the acted-on (Woodbury's identity). Ratings as before move nothing.
    """

    confidence: Confidence
    weight: FloatArray
    """(..., actions): as it is before."""
    pull: FloatArray
    """(..., actions): as it is before."""
    common: FloatArray
    """(..., actions, actions): K."""
    given: FloatArray
    """(..., actions): Y_A x."""

    def moved(self, ratings: FloatArray) -> FloatArray:
        """(..., actions): y, of ratings of this shape."""
        moved: FloatArray = self._moved(ratings, np)
        return moved

    def moved_tensor(self, ratings: Tensor) -> Tensor:
        """Return `moved` as a tensor, through which gradients flow back to the ratings."""
        torch = require_torch("gradients")
        fields = {name: torch.from_numpy(getattr(self, name)) for name in ("weight", "pull", "common", "given")}
        moved: Tensor = replace(self, **fields)._moved(ratings, torch)
        return moved

    def _moved(self, ratings: Any, library: Any) -> Any:
        """Compute `moved` with the functions of numpy or of torch."""
        weight, pull = self.confidence.of_pairs(ratings)
        more, pulled = weight - self.weight, pull - self.pull
        system = self.common * more[..., None, :] + library.eye(more.shape[-1], dtype=library.float64)
        right = self.given[..., None] + self.common @ pulled[..., None]
        z = library.linalg.solve(system, right)[..., 0]
        return pulled - more * z


@final
@dataclass(frozen=True, eq=False)
class MovedScores:
    """A viewer's scores of all items after the acted-on are rated: `level + slope @ y`, see `Resolved`."""

    level: FloatArray
    """(items,): with every rating as it is before."""
    slope: FloatArray
    """(items, actions)"""
    resolved: Resolved

    def __call__(self, ratings: Tensor) -> Tensor:
        """(batch, items), of ratings (batch, actions); gradients flow."""
        torch = require_torch("gradients")
        level, slope = torch.from_numpy(self.level), torch.from_numpy(self.slope)
        scores: Tensor = level + self.resolved.moved_tensor(ratings) @ slope.T
        return scores


@dataclass(frozen=True, eq=False, repr=False)
class ConfidenceModel(FactorVectors):
    """Vectors, and the weighted solve by which own ratings move a user's, and another's that of the rated item."""

    by_user: Solves
    """The users' problems, by which own edits are taken in; the others are the items."""
    by_item: Solves
    """The items' problems, by which another user's edits are; the others are the users, with the vectors that the
    items were fitted to, which need not be those that users are scored with."""
    words: str
    """The rule, for a person who reads a number that rests on it."""
    jumps: bool
    """Whether a vector becomes the solution as soon as something is rated anew, if it was none before (training stops
    before everything is solved); else ratings move vectors, from where they are, by as much as the solution moves, and
    ratings as before move nothing."""

    response: ClassVar[type[Response]] = DifferentiableResponse
    others_move: ClassVar = "rated items"

    def __post_init__(self) -> None:
        own, solves = self.item_factors.shape[1], self.by_user.others.shape[1]
        if own != solves:
            raise InputError(
                "item_factors", received=f"{own} factors", expected=f"{solves}, as in the solves that take in ratings"
            )

    @property
    def rule(self) -> str:
        """See `FittedModel`."""
        return self.words

    def respond(self, viewer: int, editor: int, items: IntArray) -> Response:
        """The response to own edits (the viewer's vector moves) or another's (the edited items' vectors move)."""
        items = check_actions(items, self.data.n_items)
        return DifferentiableResponse(items, self._moved(viewer, editor, items))

    def edited_items(self, editors: IntArray, items: IntArray, ratings: FloatArray) -> EditedItems:
        """See `FittedModel`; one inverse for each item, whoever rates it."""
        items = check_action_rows(items, self.data.n_items)
        row, action = np.nonzero(items >= 0)
        level, slope, resolved = self._solved_items(editors[row], items[row, action])
        moved = resolved.moved(ratings[row, action][..., None])
        vectors = np.zeros((*ratings.shape, level.shape[1]))
        vectors[row, action] = level[:, None] + slope[:, None] * moved
        return EditedItems(vectors, np.zeros(ratings.shape), self.user_factors, np.zeros(self.data.n_users))

    def _moved(self, viewer: int, editor: int, items: IntArray) -> MovedScores:
        return self._own(viewer, items) if viewer == editor else self._others(viewer, editor, items)

    def _own(self, user: int, items: IntArray) -> MovedScores:
        seen, ratings = self.data.history(user)
        inverse, vector = self.by_user.solved(seen, ratings)
        acted, Q = self.item_factors[items], self.item_factors
        toward = acted @ inverse
        before = self.by_user.confidence.of_ratings(_ratings_of(items, seen, ratings))
        resolved = Resolved(self.by_user.confidence, *before, toward @ acted.T, acted @ vector)
        level = Q @ vector if self.jumps else self.scores(np.array([user]))[0]
        return MovedScores(level, Q @ toward.T, resolved)

    def _others(self, viewer: int, editor: int, items: IntArray) -> MovedScores:
        level, slope, alone = self._solved_items(np.full(len(items), editor), items)
        p = self.user_factors[viewer]
        scores = self.scores(np.array([viewer]))[0]
        scores[items] = level @ p
        slopes = np.zeros((self.data.n_items, len(items)))
        slopes[items, np.arange(len(items))] = slope @ p
        before, K = (alone.weight[:, 0, 0], alone.pull[:, 0, 0]), np.diag(alone.common[:, 0, 0, 0])
        return MovedScores(scores, slopes, Resolved(alone.confidence, *before, K, alone.given[:, 0, 0]))

    def _solved_items(self, editors: IntArray, items: IntArray) -> tuple[FloatArray, FloatArray, Resolved]:
        """Level and slope (pairs, factors): rated anew by its editor, a pair's item has `level + y slope`.

        y is (pairs, ratings, 1), as ratings are: each pair is a problem of one action.
        """
        users = self.by_item.others
        solution, slope = np.zeros((2, len(items), users.shape[1]))
        before = np.full(len(items), np.nan)
        order = np.argsort(items, kind="stable")
        distinct, first = np.unique(items[order], return_index=True)
        for item, pairs in zip(distinct, np.split(order, first[1:]), strict=True):
            raters, ratings = raters_of(self.data, item)
            inverse, solution[pairs] = self.by_item.solved(raters, ratings)
            slope[pairs] = users[editors[pairs]] @ inverse
            before[pairs] = _ratings_of(editors[pairs], raters, ratings)
        own = users[editors]
        common, given = (slope * own).sum(axis=1), (solution * own).sum(axis=1)
        weight, pull = (part[:, None, None] for part in self.by_item.confidence.of_ratings(before))
        confidence, level = self.by_item.confidence, solution if self.jumps else self.item_factors[items]
        return level, slope, Resolved(confidence, weight, pull, common[:, None, None, None], given[:, None, None])


@final
@dataclass(frozen=True, eq=False, repr=False)
class EvenModel(ConfidenceModel):
    """A `ConfidenceModel` of clicks in which a click weighs as much as none: scores are affine in the ratings."""

    response: ClassVar[type[Response]] = AffineResponse

    def respond(self, viewer: int, editor: int, items: IntArray) -> AffineResponse:
        """See `ConfidenceModel`: no weight changes, so that y is the change of the pull."""
        items = check_actions(items, self.data.n_items)
        moved = self._moved(viewer, editor, items)
        _, pull = moved.resolved.confidence.of_pairs(np.ones(len(items)))
        return AffineResponse(items, moved.slope * pull, moved.level - moved.slope @ moved.resolved.pull)


def raters_of(data: Interactions, item: int) -> tuple[IntArray, FloatArray]:
    """Who rated the item, positions ascending, and how, (n,) each."""
    csc = data.csc
    rows = slice(csc.indptr[item], csc.indptr[item + 1])
    return csc.indices[rows].astype(np.int64), csc.data[rows]


def _ratings_of(asked: IntArray, known: IntArray | NDArray[np.int32], ratings: FloatArray) -> FloatArray:
    """(asked,): the ratings of these positions, where `known` (n,), ascending, have `ratings` (n,); NaN elsewhere."""
    at = np.searchsorted(known, asked)
    there = np.append(known, -1)[at] == asked
    return np.where(there, np.append(ratings, np.nan)[at], np.nan)
