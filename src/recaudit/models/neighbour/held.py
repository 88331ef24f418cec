"""Neighbourhoods that another library found: its similarities, and the ratings in its order, held as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, final

import numpy as np

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.models.base import FittedModel, check_own_edits
from recaudit.models.checks import check_actions
from recaudit.models.response import AffineResponse, Response
from recaudit.models.rows import SparseRows


class NearestRated(NamedTuple):
    """`s_xy = b_xy + scale_x sum_n w_xn (r_ny - b_ny) / scale_n / sum_n w_xn` over the k nearest n that have rated y.

    x is an item and y a user, or the other way round. Of those as similar as the last one, the first in the library's
    order count; none whose similarity is 0 or less does.
    """

    similarity: FloatArray
    """(x, x): w_xn in row n and column x, since rows are read faster; zeros for what the library does not know."""
    k: int
    min_k: int
    """With fewer neighbours a pair has none."""
    base: FloatArray
    """(x,): what b_xy has of x."""
    other_base: FloatArray
    """(y,): what b_xy has of y."""
    scale: FloatArray
    """(x,)"""
    alone: float | None
    """The score without neighbours; None for b_xy."""
    unknown: float | None
    """The score of a pair of which the library does not know one side; None for b_xy."""

    def shares(self, similarity: FloatArray) -> FloatArray:
        """(rows, rated): what each rating counts for, 1 together in a row, from similarities (rows, rated)."""
        count, kept = similarity.shape[1], similarity > 0
        if count > self.k:
            last = np.partition(similarity, count - self.k, axis=1)[:, count - self.k, None]
            kept &= similarity >= last
            many = np.flatnonzero(kept.sum(axis=1) > self.k)
            above, tied = similarity[many] > last[many], similarity[many] == last[many]
            kept[many] = above | (tied & (np.cumsum(tied, axis=1) <= self.k - above.sum(axis=1, keepdims=True)))
        kept &= kept.sum(axis=1, keepdims=True) >= self.min_k
        weights = np.where(kept, similarity, 0.0)
        totals = weights.sum(axis=1, keepdims=True)
        return weights / np.where(totals > 0, totals, 1.0)

    def levels(self, rows: IntArray | slice, y: int, shares: FloatArray) -> FloatArray:
        """(rows,): the part of the scores that does not come from neighbours."""
        base: FloatArray = self.base[rows] + self.other_base[y]
        return base if self.alone is None else np.where(shares.any(axis=1), base, self.alone)

    def averages(self, rows: IntArray | slice, y: int, rated: IntArray, ratings: FloatArray) -> FloatArray:
        """(rows,): the scores of y for the x in `rows`, when the x in `rated` (n,) have rated y `ratings` (n,)."""
        shares = self.shares(self.similarity[rated][:, rows].T)
        deviations = (ratings - self.base[rated] - self.other_base[y]) / self.scale[rated]
        found: FloatArray = self.levels(rows, y, shares) + self.scale[rows] * (shares @ deviations)
        return found


@final
@dataclass(frozen=True, eq=False, repr=False)
class HeldItemNeighbours(FittedModel):
    """Similarities of items: a user's ratings are averaged over the nearest of the items that they rated."""

    data: Interactions
    near: NearestRated
    """x are items, y users."""
    rated: SparseRows
    """(users, items): the ratings, a user's in the library's order."""
    known_items: BoolArray
    """(items,)"""
    library: str
    """Whose they are."""

    response: ClassVar[type[Response]] = AffineResponse

    @property
    def rule(self) -> str:
        """See `FittedModel`."""
        return (
            f"{self.library} averages the user's ratings anew, over the {self.near.k} most similar rated items; "
            "similarities, means and baselines are held until the next training"
        )

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items): predicted ratings, not clipped."""
        rows = [self._scores(int(user), *self._history(int(user))) for user in users]
        return np.stack(rows) if rows else np.empty((0, self.data.n_items))

    def respond(self, viewer: int, editor: int, items: IntArray) -> AffineResponse:
        """The user's scores as a function of their own ratings of `items`: which items count follows from the set."""
        items = check_actions(items, self.data.n_items)
        check_own_edits(self, viewer, editor, "another user's ratings move the similarities, by the next training only")
        seen, ratings = self._history(viewer)
        # What is rated anew keeps its place in the library's list; what was not rated comes last.
        listed = np.concatenate([seen, items[~np.isin(items, seen)]])
        place = {item: at for at, item in enumerate(listed.tolist())}
        acted = np.array([place[item] for item in items.tolist()], dtype=np.int64)
        given = np.concatenate([ratings, np.zeros(len(listed) - len(seen))])
        given[acted] = 0.0
        shares = self.near.shares(self.near.similarity[listed].T)
        slope = self.near.scale[:, None] * shares[:, acted] / self.near.scale[items]
        if self.near.unknown is not None:
            slope[~self.known_items] = 0.0
        intercept = self._scores(viewer, listed, given)
        return AffineResponse(items, slope, intercept)

    def _history(self, user: int) -> tuple[IntArray, FloatArray]:
        rows = slice(int(self.rated.indptr[user]), int(self.rated.indptr[user + 1]))
        return self.rated.indices[rows].astype(np.int64), self.rated.values[rows]

    def _scores(self, user: int, rated: IntArray, ratings: FloatArray) -> FloatArray:
        """(items,): with these ratings (n,) of the items in `rated` (n,)."""
        scores = self.near.averages(slice(None), user, rated, ratings)
        if self.near.unknown is not None:
            scores[~self.known_items if len(rated) else slice(None)] = self.near.unknown
        return scores


@final
@dataclass(frozen=True, eq=False, repr=False)
class HeldUserNeighbours(FittedModel):
    """Similarities of users: the ratings of an item are averaged over the nearest of the users who rated it."""

    data: Interactions
    near: NearestRated
    """x are users, y items."""
    raters: SparseRows
    """(items, users): the ratings, an item's in the library's order."""
    known_users: BoolArray
    """(users,)"""

    no_rule: ClassVar = (
        "a user's own ratings move only how similar other users are to them, which its library works out by training "
        "again"
    )

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items): predicted ratings, not clipped."""
        found = np.empty((len(users), self.data.n_items))
        ends, unknown = self.raters.indptr.astype(np.int64), self.near.unknown
        for item in range(self.data.n_items):
            rows = slice(ends[item], ends[item + 1])
            raters, ratings = self.raters.indices[rows].astype(np.int64), self.raters.values[rows]
            found[:, item] = self.near.averages(users, item, raters, ratings)
            if unknown is not None:
                found[~self.known_users[users] if len(raters) else slice(None), item] = unknown
        return found
