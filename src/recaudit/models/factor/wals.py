"""WALS: matrix factorisation of every pair, rated or not, by alternating exact weighted least-squares solves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, Self, final

import numpy as np
from numba import njit
from pydantic import Field, model_validator

from recaudit.arrays import FloatArray
from recaudit.data.interactions import Interactions
from recaudit.engines.progress import track
from recaudit.errors import InputError
from recaudit.models.base import Recommender
from recaudit.models.baseline.popularity import item_means
from recaudit.models.checks import check_fit
from recaudit.models.factor.least_squares import IN_ORDER, add_ratings, padded, solve_vectors
from recaudit.models.factor.model import FactorModel
from recaudit.models.rows import SparseRows
from recaudit.models.updates import Background, WalsSolve
from recaudit.seeding import generator


@final
class WALS(Recommender):
    """Minimises `sum over ALL pairs of w_ij (a_ij - u_i . v_j)^2 + regularization (|U|^2 + |V|^2)`.

    A rated pair has its rating for a_ij and weight `1 + alpha c_i d_j`, with alpha the `unobserved_weight`; any other
    pair has the `prior` for a_ij and weight `alpha c_i d_j` (paper 002, Equation 2).

    Weighted matrix factorisation for implicit feedback (Hu et al. 2008) is `values="ones"`: confidence `1 + k` for what
    was interacted with and 1 for the rest, penalty L, is here alpha = 1 / k and regularization = L / k.

    Each half-step solves its block exactly, so the objective never rises. The last one solves the users: one who rates
    again what they have rated gets the scores they have (`WalsSolve`).
    """

    factors: int = Field(default=64, ge=1)
    """Length of the user and item vectors."""
    iterations: int = Field(default=15, ge=1)
    """Rounds of item vectors, user vectors."""
    unobserved_weight: float = Field(default=0.01, ge=0, allow_inf_nan=False)
    """Alpha. At the share of pairs that are rated, the rated and the others weigh about the same in total."""
    prior: Literal["item"] | Annotated[float, Field(allow_inf_nan=False)] | None = None
    """What an unrated pair is fitted to: a number on the scale of the ratings; "item", the item's own mean; or None,
    the mean of all ratings where they are centred on it, else 0."""
    regularization: float = Field(default=10.0, gt=0, allow_inf_nan=False)
    """Lambda, the weight of the squared norms, once a vector; a log with few ratings a user wants less."""
    weighting: Literal["uniform", "rank-one"] = "uniform"
    """"uniform": c = d = 1. "rank-one": c_i is the user's number of ratings over the mean of all users, d_j the item's
    over the mean of all items, so that what an active user left out of what many rated counts most. Over all pairs
    the weights sum to the same total either way."""
    center: Literal["none", "mean"] = "mean"
    """Whether ratings are factorised as they are (paper 002, section 4.1), or less their mean, which is added again to
    the scores (section 4.2). Ones are never centred."""
    values: Literal["ratings", "ones"] = "ratings"
    """"ratings", or "ones": what is factorised is whether there is a rating, 1 or 0, and scores only rank."""
    init_std: float = Field(default=0.1, gt=0, allow_inf_nan=False)
    """Standard deviation of the random start."""

    @model_validator(mode="after")
    def _ones_have_no_item_means(self) -> Self:
        if self.values == "ones" and self.prior == "item":
            raise InputError(
                "prior",
                received="'item' with values = 'ones'",
                expected="a number: every item's mean is 1, so rated and unrated pairs would be fitted to the same",
                remedy="Leave prior out (0), or give a number.",
            )
        return self

    @property
    def learns_from_clicks(self) -> bool:
        """See `Recommender`: what is not rated must be fitted to something else than what is."""
        return self.values == "ones" or isinstance(self.prior, float) or (self.prior is None and self.center == "none")

    def fit(self, data: Interactions, rng: int = 0) -> FactorModel:
        """Fit by alternating exact solves."""
        users, items, mean = self.problem(data)
        U = self.init_std * generator(rng, "wals").standard_normal((data.n_users, self.factors))
        for _ in track(range(self.iterations), "WALS", self.iterations):
            V = items.solve(U, self.regularization)
            U = users.solve(V, self.regularization)
        check_fit("regularization", self.regularization, "Make it larger, or init_std smaller.", U, V)
        f, g, ones = np.zeros(data.n_users), np.zeros(data.n_items), self.values == "ones"
        update = WalsSolve(self.regularization, users.background(V), items.background(U), ones)
        return FactorModel(data, U, V, f, g, mean, update, predicts_ratings=not ones)

    def problem(self, data: Interactions) -> tuple[WeightedRows, WeightedRows, float]:
        """What `fit` minimises for this log: the users' problems, the items', and the mean taken off the ratings."""
        self.check_log(data)
        ones = self.values == "ones"
        mean = float(data.ratings.mean()) if self.center == "mean" and not ones else 0.0
        if self.prior == "item":
            prior = item_means(data) - mean
        else:
            prior = np.full(data.n_items, 0.0 if self.prior is None else self.prior - mean)
        c, d = np.ones(data.n_users), np.ones(data.n_items)
        if self.weighting == "rank-one":
            c, d = (counts / counts.mean() for counts in (data.user_counts, data.item_counts))
        alpha, one = self.unobserved_weight, np.ones(data.n_users)
        by_user, by_item = SparseRows.of(data.csr, less=mean), SparseRows.of(data.csc, less=mean)
        if ones:
            by_user, by_item = (rows._replace(values=np.ones(len(data))) for rows in (by_user, by_item))
        users = WeightedRows(by_user, weight=alpha * c, target=one, other_weight=d, other_target=prior)
        items = WeightedRows(by_item, weight=alpha * d, target=prior, other_weight=c, other_target=one)
        return users, items, mean


@final
@dataclass(frozen=True, eq=False)
class WeightedRows:
    """The least-squares problems of all users, or of all items; a pair is a row x and one of the others, y.

    `rated` holds what the rated pairs are fitted to; the other fields are as in `Background`.
    """

    rated: SparseRows
    weight: FloatArray
    target: FloatArray
    other_weight: FloatArray
    other_target: FloatArray

    @cached_property
    def right(self) -> SparseRows:
        """What multiplies y on the right of x's equations for a rated pair fitted to a: `(1 + w) a - w t`."""
        values, others = self.rated.values, self.rated.indices
        x = np.repeat(np.arange(len(self.weight)), self.rated.counts)
        weight, target = self.weight[x] * self.other_weight[others], self.target[x] * self.other_target[others]
        return self.rated._replace(values=values + weight * (values - target))

    def background(self, Y: FloatArray) -> Background:
        """The background with the others' vectors Y (others, factors)."""
        root = np.sqrt(self.other_weight)
        gram, pull = _sums(root[:, None] * Y, root * self.other_target)
        return Background(self.weight, self.target, self.other_weight, self.other_target, gram, pull)

    def solve(self, Y: FloatArray, regularization: float | FloatArray) -> FloatArray:
        """(rows, factors): the vectors that minimise the objective beside the others' Y (others, factors).

        The penalty is one number, or one a row (rows,).
        """
        behind, penalty = self.background(Y), np.full(len(self.weight), regularization)
        pull = np.outer(self.weight * self.target, behind.pull)
        return solve_vectors(self.right, Y, penalty, self.weight, behind.gram, pull)


@njit(fastmath=IN_ORDER, cache=True)
def _sums(Y: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sum of y y^T and of target * y over all rows of Y, added in the same order on any machine."""
    d = Y.shape[1]
    gram = np.zeros((padded(d), padded(d)))
    pull = np.zeros(padded(d))
    add_ratings(np.arange(len(Y)), targets, Y, gram, pull)
    for k in range(d):
        for j in range(k):
            gram[j, k] = gram[k, j]
    return gram[:d, :d].copy(), pull[:d].copy()
