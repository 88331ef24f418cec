"""ALS: explicit, biased matrix factorisation by alternating exact least-squares solves."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
from numba import prange
from pydantic import Field

from recaudit.arrays import FloatArray
from recaudit.data.interactions import Interactions
from recaudit.engines.parallel import parallel_njit
from recaudit.engines.progress import track
from recaudit.models.base import FittedModel, Recommender
from recaudit.models.checks import check_fit
from recaudit.models.factor.least_squares import IN_ORDER, solve_vectors
from recaudit.models.factor.model import FactorModel, Parameters, fitted_parameters
from recaudit.models.rows import SparseRows
from recaudit.models.updates import AlsSolve
from recaudit.seeding import generator


@final
class ALS(Recommender):
    """Minimises `sum (r_ui - mean - f_u - g_i - p_u . q_i)^2 + regularization (|P|^2 + |Q|^2 + |f|^2 + |g|^2)`.

    With `per_rating` (Zhou et al. 2008) the penalty of each vector and bias is multiplied by how many ratings it
    has, which is the objective of `BiasedMF`: one value then suits logs of any size. Each half-step solves its
    block exactly, so the objective never rises. The last one solves the users' vectors: a user who rates again
    what they have rated gets the scores they have (`AlsSolve`).
    """

    learns_from_clicks: ClassVar[bool] = False

    factors: int = Field(default=64, ge=1)
    """Length of the user and item vectors."""
    iterations: int = Field(default=20, ge=1)
    """Rounds of item biases, item vectors, user biases, user vectors."""
    regularization: float = Field(default=0.07, gt=0, allow_inf_nan=False)
    """Weight of the squared norms."""
    per_rating: bool = True
    """Whether a penalty counts once for each rating, or once."""
    init_std: float = Field(default=0.1, gt=0, allow_inf_nan=False)
    """Standard deviation of the random start."""
    update_iterations: int = Field(default=2, ge=1)
    """Rounds over a log that has grown, in `warm_fit`."""

    def fit(self, data: Interactions, rng: int = 0) -> FactorModel:
        """Fit by alternating exact solves."""
        self.check_log(data)
        P = self.init_std * generator(rng, "als").standard_normal((data.n_users, self.factors))
        start = (P, np.zeros((data.n_items, self.factors)), np.zeros(data.n_users), np.zeros(data.n_items))
        return self._solved(start, data, self.iterations)

    def warm_fit(self, model: FittedModel, data: Interactions, rng: int = 0) -> FactorModel:
        """Start from the fitted vectors, for `update_iterations` over the log that has grown."""
        self.check_log(data)
        start = fitted_parameters(model, data, self.factors, self.init_std, generator(rng, "als", "update", len(data)))
        return self._solved(start, data, self.update_iterations)

    def _solved(self, start: Parameters, data: Interactions, iterations: int) -> FactorModel:
        """The model after so many rounds; the arrays of `start` are used up."""
        P, Q, f, g = start
        mean = float(data.ratings.mean())
        by_user, by_item = SparseRows.of(data.csr, less=mean), SparseRows.of(data.csc, less=mean)
        for _ in track(range(iterations), "ALS", iterations):
            _solve_biases(by_item, Q, P, g, f, self.regularization, self.per_rating)
            Q = self._vectors(by_item, P, g, f)
            _solve_biases(by_user, P, Q, f, g, self.regularization, self.per_rating)
            P = self._vectors(by_user, Q, f, g)
        check_fit("regularization", self.regularization, "Make it larger, or init_std smaller.", P, Q, f, g)
        update = AlsSolve(regularization=self.regularization, per_rating=self.per_rating)
        return FactorModel(data, P, Q, f, g, mean, update)

    def _vectors(self, rows: SparseRows, Y: FloatArray, bias: FloatArray, other_bias: FloatArray) -> FloatArray:
        """(rows, factors): `x = (sum y y^T + penalty I)^-1 sum y (r - mean - biases)`; zero without ratings."""
        counts = rows.counts
        penalty = self.regularization * (np.maximum(counts, 1) if self.per_rating else np.ones(len(counts)))
        left = rows._replace(values=rows.values - np.repeat(bias, counts) - other_bias[rows.indices])
        d = Y.shape[1]
        return solve_vectors(left, Y, penalty, np.zeros(len(counts)), np.zeros((d, d)), np.zeros((len(counts), d)))


@parallel_njit(fastmath=IN_ORDER)
def _solve_biases(
    rows: SparseRows,
    X: FloatArray,
    Y: FloatArray,
    bias: FloatArray,
    other_bias: FloatArray,
    regularization: float,
    per_rating: bool,
) -> None:
    """bias_x = sum over its ratings of (r - mean - other bias - x . y) / (count + penalty)."""
    for x in prange(len(bias)):
        start, end = rows.indptr[x], rows.indptr[x + 1]
        total, sums = 0.0, np.zeros(X.shape[1])
        for at in range(start, end):
            y = rows.indices[at]
            total += rows.values[at] - other_bias[y]
            for k in range(X.shape[1]):
                sums[k] += Y[y, k]
        for k in range(X.shape[1]):
            total -= X[x, k] * sums[k]
        count = end - start
        penalty = regularization * count if per_rating else regularization
        bias[x] = total / (count + penalty) if count else 0.0
