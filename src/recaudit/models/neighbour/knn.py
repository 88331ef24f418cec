"""Neighbourhood models: a score is a weighted average over similar items, or over similar users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, final

import numpy as np
from pydantic import Field
from scipy import sparse

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.models.base import FittedModel, Recommender, check_own_edits
from recaudit.models.baseline.popularity import item_means
from recaudit.models.checks import check_actions
from recaudit.models.neighbour.similarity import Similarity, nearest, weighted_averages
from recaudit.models.response import AffineResponse, Response
from recaudit.models.rows import SparseRows

Center = Literal["biases", "item", "user", "none"]
Compared = Literal["deviations", "ratings"]


class _Neighbourhood(Recommender):
    """What ItemKNN and UserKNN have in common; x and y are the ratings of the two compared, centred or not."""

    learns_from_clicks: ClassVar[bool] = False

    neighbours: int = Field(default=100, ge=1)
    """How many of the most similar count: fixed when fitted, whoever asks."""
    similarity: Similarity = "cosine"
    """"cosine": `sum x y / (|x| |y| + shrinkage)`, the sum over shared ratings, each norm over all ratings.
    "pearson": the correlation over the n shared ratings, with their own means, times `n / (n + shrinkage)`."""
    shrinkage: float = Field(default=100.0, ge=0, allow_inf_nan=False)
    """Pulls similarities that rest on few shared ratings towards 0."""
    minimum_similarity: float = Field(default=0.0, ge=-1, le=1)
    """Only what is more similar than this counts; at -1 opposites count too, with a negative weight."""
    center: Center = "biases"
    """The baseline b_ui, taken off every rating before comparing and averaging, and added again at the end.
    "biases": `mu + g_i + f_u`; "item": the item's mean; "user": the user's mean; "none": 0, and then an item
    without a rated neighbour scores its mean."""
    damping: float = Field(default=5.0, ge=0, allow_inf_nan=False)
    """So many pseudo-ratings at the mean are added to each mean or bias of the baseline."""
    compared: Compared = "deviations"
    """What similarities compare: "deviations" from the baseline, or "ratings" as they are, so that only the average is
    centred (paper 003). Where all ratings are positive, all who share one are then alike, more or less."""

    def _compare(self, data: Interactions, compare_items: bool) -> tuple[Baseline, sparse.csr_array, sparse.csr_array]:
        """The baseline, the deviations from it (users, items), and the neighbours of each row, with similarities."""
        self.check_log(data)
        baseline = Baseline.of(data, self.center, self.damping)
        deviations = baseline.deviations(data)
        compared = deviations if self.compared == "deviations" else data.csr
        rows = compared.T.tocsr() if compare_items else compared
        rule = (self.neighbours, self.similarity, self.shrinkage, self.minimum_similarity)
        return baseline, deviations, nearest(rows, *rule, label=type(self).__name__)


@final
class ItemKNN(_Neighbourhood):
    """`s_ui = b_ui + sum_j w_ij (r_uj - b_uj) / sum_j |w_ij|` over the neighbours j of i that u has rated.

    Without one, `s_ui = b_ui`. An item is never its own neighbour. Paper 000, Examples 2 and 5.
    """

    def fit(self, data: Interactions, rng: int = 0) -> ItemKNNModel:
        """Compare all pairs of items. Nothing is drawn: `rng` has no effect."""
        baseline, deviations, weights = self._compare(data, compare_items=True)
        return ItemKNNModel(data, baseline, SparseRows.of(deviations), SparseRows.of(weights.tocsc()))


@final
class UserKNN(_Neighbourhood):
    """`s_ui = b_ui + sum_v w_uv (r_vi - b_vi) / sum_v |w_uv|` over the neighbours v of u who have rated i.

    Without one, `s_ui = b_ui`. A user is never their own neighbour.
    """

    def fit(self, data: Interactions, rng: int = 0) -> UserKNNModel:
        """Compare all pairs of users. Nothing is drawn: `rng` has no effect."""
        baseline, deviations, weights = self._compare(data, compare_items=False)
        return UserKNNModel(data, baseline, SparseRows.of(deviations), SparseRows.of(weights))


class Baseline(NamedTuple):
    """What is expected before neighbours are asked: `b_ui = user[u] + item[i]`."""

    user: FloatArray
    """(users,)"""
    item: FloatArray
    """(items,): with the global mean in it, where there are biases."""
    alone: FloatArray
    """(items,): added to b_ui where no neighbour was rated."""

    @classmethod
    def of(cls, data: Interactions, center: Center, damping: float) -> Baseline:
        """Damped means, first of items, then of what is left for users; the global mean without ratings."""
        means = item_means(data, damping)
        nothing = np.zeros(data.n_items)
        if center == "none":
            return cls(np.zeros(data.n_users), nothing, means)
        if center == "item":
            return cls(np.zeros(data.n_users), means, nothing)
        item = means if center == "biases" else nothing
        expected = 0.0 if center == "biases" else data.ratings.mean()
        left = data.ratings - item[data.items] - expected
        totals = np.bincount(data.users, weights=left, minlength=data.n_users)
        counts = data.user_counts + damping
        return cls(expected + totals / np.where(counts > 0, counts, 1), item, nothing)

    def levels(self, users: IntArray) -> FloatArray:
        """(len(users), items): b_ui."""
        return self.user[users][:, None] + self.item

    def deviations(self, data: Interactions) -> sparse.csr_array:
        """(users, items): `r_ui - b_ui` where there is a rating."""
        values = data.ratings - (self.user[data.users] + self.item[data.items])
        # What is left of a rating at its baseline is rounding, and must not pass for a taste.
        values[np.abs(values) < 1e-12 * max(map(abs, data.scale))] = 0.0
        return sparse.csr_array((values, data.csr.indices, data.csr.indptr), shape=data.csr.shape)


@final
@dataclass(frozen=True, eq=False, repr=False)
class ItemKNNModel(FittedModel):
    """Fitted neighbourhoods of items."""

    data: Interactions
    baseline: Baseline
    deviations: SparseRows
    """(users, items): `r_uj - b_uj`."""
    counted_by: SparseRows
    """(items, items): row j holds w_ij for the items i that have j as a neighbour."""

    response: ClassVar[type[Response]] = AffineResponse

    @property
    def rule(self) -> str:
        """See `FittedModel`."""
        return "the user's ratings are averaged anew over neighbours; similarities and baselines are held"

    @property
    def weights(self) -> sparse.csc_array:
        """(items, items): w_ij where j is a neighbour of i."""
        indptr, indices, values = self.counted_by
        return sparse.csc_array((values, indices, indptr), shape=(self.data.n_items, self.data.n_items))

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items): predicted ratings, not clipped."""
        level, alone = self.baseline.levels(users), self.baseline.alone
        return level + weighted_averages(users, self.deviations, self.counted_by, False, alone)

    def respond(self, viewer: int, editor: int, items: IntArray) -> AffineResponse:
        """The user's scores as a function of their own ratings of `items`, similarities and baseline held.

        With K the rated items that are not acted on, A those acted on, and `D_i = sum |w_ij|` over both:
        `s_i = b_i + (sum_K w_ij (r_j - b_j) + sum_A w_ij (a_j - b_j)) / D_i`. An acted-on item counts as
        rated, whether it was or not, and its old rating no longer counts (paper 000, Example 5, corrected).
        """
        items = check_actions(items, self.data.n_items)
        why = "another user's ratings move the similarities, and no affine function says how"
        check_own_edits(self, viewer, editor, why)
        seen, ratings = self.data.history(viewer)
        kept = ~np.isin(seen, items)
        weights, level = self.weights, self.baseline.levels(np.array([viewer]))[0]
        old, new = weights[:, seen[kept]], weights[:, items]
        totals = abs(old).sum(axis=1) + abs(new).sum(axis=1)
        counted = totals > 0
        share = np.where(counted, 1 / np.where(counted, totals, 1), 0)
        constant = share * (old @ (ratings - level[seen])[kept] - new @ level[items])
        return AffineResponse(
            items,
            slope=share[:, None] * new.toarray(),
            intercept=level + np.where(counted, constant, self.baseline.alone),
        )


@final
@dataclass(frozen=True, eq=False, repr=False)
class UserKNNModel(FittedModel):
    """Fitted neighbourhoods of users."""

    data: Interactions
    baseline: Baseline
    deviations: SparseRows
    """(users, items): `r_vi - b_vi`."""
    neighbours: SparseRows
    """(users, users): row u holds w_uv for the neighbours v of u."""

    @property
    def weights(self) -> sparse.csr_array:
        """(users, users): w_uv where v is a neighbour of u."""
        indptr, indices, values = self.neighbours
        return sparse.csr_array((values, indices, indptr), shape=(self.data.n_users, self.data.n_users))

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items): predicted ratings, not clipped."""
        level, alone = self.baseline.levels(users), self.baseline.alone
        return level + weighted_averages(users, self.neighbours, self.deviations, True, alone)
