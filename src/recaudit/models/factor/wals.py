"""WALS: matrix factorisation of every pair, rated or not, by alternating exact weighted least-squares solves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, Self, final

import numpy as np
from numba import njit, prange
from pydantic import Field, model_validator
from scipy import sparse

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.engines.parallel import parallel_njit
from recaudit.engines.progress import track
from recaudit.models.arrays import check_fit
from recaudit.models.base import Recommender, check_data
from recaudit.models.baseline.popularity import item_means
from recaudit.models.factor.least_squares import IN_ORDER, Indices, add_ratings, cholesky_solve, padded
from recaudit.models.factor.model import FactorModel
from recaudit.models.updates import Background, WalsSolve
from recaudit.seeding import generator


@final
class WALS(Recommender):
    """Minimises `sum over ALL pairs of w_ij (a_ij - u_i . v_j)^2 + regularization (|U|^2 + |V|^2)`.

    A rated pair has its rating for a_ij and weight `1 + alpha c_i d_j`, with alpha the `unobserved_weight`; any other
    pair has the `prior` for a_ij and weight `alpha c_i d_j` (paper 002, Equation 2). The weights multiply the squared
    errors, as in Hu et al. (2008) and Pan and Scholz (2009); paper 002 prints them inside the norm, where they would
    count squared. With alpha = 0 unrated pairs do not count: explicit ALS without biases, and users and items without
    a rating get zero vectors.

    Weighted matrix factorisation for implicit feedback (Hu et al.) is `values="ones"`: confidence `1 + k` for what
    was interacted with and 1 for the rest, penalty L, is here alpha = 1 / k and regularization = L / k.

    Each half-step solves its block exactly, so the objective never rises, and costs as much as the rated pairs are
    many: the others enter through one Gram matrix that all rows share. The last half-step solves the users: one who
    rates again what they have rated gets the scores they have (`WalsSolve`).
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
    """Lambda, the weight of the squared norms: once a vector, however many ratings it has. The default is the paper's
    for MovieLens; a log with few ratings a user wants less."""
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
            raise ValueError(
                'prior = "item" with values = "ones": every item\'s mean is 1, so that rated and unrated pairs would '
                "be fitted to the same. Leave prior out (0), or give a number."
            )
        return self

    def fit(self, data: Interactions, rng: int = 0) -> FactorModel:
        """Fit by alternating exact solves."""
        problem = self.problem(data)
        U = self.init_std * generator(rng, "wals").standard_normal((data.n_users, self.factors))
        for _ in track(range(self.iterations), "WALS", self.iterations):
            V = problem.solve_items(U)
            U = problem.solve_users(V)
        check_fit("regularization", self.regularization, "Make it larger, or init_std smaller.", U, V)
        return FactorModel(
            data,
            U,
            V,
            np.zeros(data.n_users),
            np.zeros(data.n_items),
            problem.mean,
            problem.update(U, V),
            predicts_ratings=self.values == "ratings",
        )

    def problem(self, data: Interactions) -> WeightedProblem:
        """What `fit` minimises for this log."""
        check_data(data)
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
        by_user, by_item = (_values(matrix, ones, mean) for matrix in (data.csr, data.csc))
        return WeightedProblem(
            users=Side(*by_user, weight=alpha * c, target=one, other_weight=d, other_target=prior),
            items=Side(*by_item, weight=alpha * d, target=prior, other_weight=c, other_target=one),
            regularization=self.regularization,
            mean=mean,
            ones=ones,
        )


def _values(
    matrix: sparse.csr_array | sparse.csc_array, ones: bool, mean: float
) -> tuple[IntArray, Indices, FloatArray]:
    """Where each row's entries start, what they are of, and what they are fitted to."""
    values = np.ones(len(matrix.data)) if ones else matrix.data - mean
    return matrix.indptr.astype(np.int64), matrix.indices, values


@final
@dataclass(frozen=True, eq=False)
class Side:
    """The least-squares problems of all users, or of all items; a pair is a row x and one of the others, y.

    The background is as in `Background`.
    """

    indptr: IntArray
    """(rows + 1,): the rated pairs of x are `indptr[x]:indptr[x + 1]`."""
    others: Indices
    """(rated pairs,): y."""
    values: FloatArray
    """(rated pairs,): a, what the rated pair is fitted to."""
    weight: FloatArray
    """(rows,)"""
    target: FloatArray
    """(rows,)"""
    other_weight: FloatArray
    """(others,)"""
    other_target: FloatArray
    """(others,)"""

    @cached_property
    def rows(self) -> IntArray:
        """(rated pairs,): x."""
        return np.repeat(np.arange(len(self.weight)), np.diff(self.indptr))

    @cached_property
    def pairs(self) -> tuple[FloatArray, FloatArray]:
        """(rated pairs,) each: the background's weight and target of the rated pairs."""
        weight = self.weight[self.rows] * self.other_weight[self.others]
        return weight, self.target[self.rows] * self.other_target[self.others]

    @cached_property
    def right(self) -> FloatArray:
        """(rated pairs,): what multiplies y on the right of x's equations, `(1 + w) a - w t`."""
        weight, target = self.pairs
        return self.values + weight * (self.values - target)

    def background(self, Y: FloatArray) -> Background:
        """The background with the others' vectors Y (others, factors)."""
        root = np.sqrt(self.other_weight)
        gram, pull = _sums(root[:, None] * Y, root * self.other_target)
        return Background(self.weight, self.target, self.other_weight, self.other_target, gram, pull)

    def solve(self, Y: FloatArray, regularization: float) -> FloatArray:
        """(rows, factors): the vectors that minimise the objective beside the others' Y (others, factors)."""
        behind = self.background(Y)
        X = np.empty((len(self.weight), Y.shape[1]))
        shared = (self.weight, behind.gram, self.weight * self.target, behind.pull, regularization)
        _solve_vectors(self.indptr, self.others, self.right, Y, *shared, X)
        return X


@final
@dataclass(frozen=True, eq=False)
class WeightedProblem:
    """What WALS minimises for one log: `sum over all pairs of w_ij (a_ij - u_i . v_j)^2 + penalty`."""

    users: Side
    items: Side
    regularization: float
    mean: float
    """What was taken off the ratings."""
    ones: bool
    """Whether ratings count as ones."""

    def solve_users(self, item_factors: FloatArray) -> FloatArray:
        """(users, factors): the best user vectors beside these item vectors (items, factors)."""
        return self.users.solve(item_factors, self.regularization)

    def solve_items(self, user_factors: FloatArray) -> FloatArray:
        """(items, factors): the best item vectors beside these user vectors (users, factors)."""
        return self.items.solve(user_factors, self.regularization)

    def objective(self, user_factors: FloatArray, item_factors: FloatArray) -> float:
        """The value at U (users, factors) and V (items, factors), at the cost of the rated pairs.

        The background of all pairs is `sum_i w_i (sum_j d_j t_j^2 - 2 u_i . pull + u_i . gram u_i)`; a rated pair then
        adds `(1 + w) (a - u.v)^2` and takes back `w (t - u.v)^2`.
        """
        side, U = self.users, user_factors
        behind = side.background(item_factors)
        constant = side.other_weight @ side.other_target**2
        total = side.weight @ (constant - 2 * U @ behind.pull + ((U @ behind.gram) * U).sum(axis=1))
        weight, target = side.pairs
        fitted = _products(side.rows, side.others, U, item_factors)
        total += np.sum((1 + weight) * (side.values - fitted) ** 2 - weight * (target - fitted) ** 2)
        return float(total + self.regularization * (np.sum(U**2) + np.sum(item_factors**2)))

    def update(self, user_factors: FloatArray, item_factors: FloatArray) -> WalsSolve:
        """How a model with these vectors follows new ratings: by the same solve."""
        users, items = self.users.background(item_factors), self.items.background(user_factors)
        return WalsSolve(self.regularization, users, items, self.ones)


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


@parallel_njit(fastmath=IN_ORDER)
def _solve_vectors(
    indptr: IntArray,
    others: Indices,
    right: FloatArray,
    Y: FloatArray,
    weight: FloatArray,
    gram: FloatArray,
    pulled: FloatArray,
    pull: FloatArray,
    regularization: float,
    X: FloatArray,
) -> None:
    """x = (weight gram + sum y y^T + regularization I)^-1 (pulled pull + sum right y), sums over x's rated pairs."""
    d = Y.shape[1]
    size = padded(d)
    for x in prange(len(X)):
        G = np.zeros((size, size))
        b = np.zeros(size)
        for k in range(d):
            for j in range(k + 1):
                G[k, j] = weight[x] * gram[k, j]
            b[k] = pulled[x] * pull[k]
        start, end = indptr[x], indptr[x + 1]
        add_ratings(others[start:end], right[start:end], Y, G, b)
        for k in range(size):
            G[k, k] += regularization
        cholesky_solve(G, b)
        X[x] = b[:d]


@parallel_njit(fastmath=IN_ORDER)
def _products(rows: IntArray, others: Indices, X: FloatArray, Y: FloatArray) -> FloatArray:
    """(pairs,): x . y of each pair."""
    out = np.empty(len(rows))
    for at in prange(len(rows)):
        product = 0.0
        for k in range(X.shape[1]):
            product += X[rows[at], k] * Y[others[at], k]
        out[at] = product
    return out
