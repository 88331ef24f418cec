"""ALS: explicit, biased matrix factorisation by alternating exact least-squares solves."""

from __future__ import annotations

from typing import final

import numpy as np
from numba import prange
from numpy.typing import NDArray
from pydantic import Field

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.engines.parallel import parallel_njit
from recaudit.engines.progress import track
from recaudit.models.arrays import check_fit
from recaudit.models.base import FittedModel, Recommender, check_data
from recaudit.models.factor.least_squares import IN_ORDER, add_ratings, cholesky_solve, padded
from recaudit.models.factor.model import FactorModel
from recaudit.models.updates import AlsSolve
from recaudit.models.warm_start import Parameters, fitted_factors
from recaudit.seeding import generator


@final
class ALS(Recommender):
    """Minimises `sum (r_ui - mean - f_u - g_i - p_u . q_i)^2 + regularization (|P|^2 + |Q|^2 + |f|^2 + |g|^2)`.

    With `per_rating` (Zhou et al. 2008) the penalty of each vector and bias is multiplied by how many ratings it
    has, which is the objective of `BiasedMF`: one value then suits logs of any size. Each half-step solves its
    block exactly, so the objective never rises. The last one solves the users' vectors: a user who rates again
    what they have rated gets the scores they have (`AlsSolve`).
    """

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
        check_data(data)
        draw = generator(rng, "als")
        P = self.init_std * draw.standard_normal((data.n_users, self.factors))
        start = (P, np.zeros((data.n_items, self.factors)), np.zeros(data.n_users), np.zeros(data.n_items))
        return self._solved(start, data, self.iterations)

    def warm_fit(self, model: FittedModel, data: Interactions, rng: int = 0) -> FactorModel:
        """Go on from the fitted vectors for `update_iterations` over the log that has grown."""
        check_data(data)
        draw = generator(rng, "als", "update", len(data))
        start = fitted_factors(
            model, data, float(data.ratings.mean()), factors=self.factors, init_std=self.init_std, draw=draw
        )
        return self._solved(start, data, self.update_iterations)

    def _solved(self, start: Parameters, data: Interactions, iterations: int) -> FactorModel:
        """The model after so many rounds; the arrays of `start` are used up."""
        P, Q, f, g = start
        mean = float(data.ratings.mean())
        csr, csc = data.csr, data.csc
        by_user = (csr.indptr.astype(np.int64), csr.indices, csr.data - mean)
        by_item = (csc.indptr.astype(np.int64), csc.indices, csc.data - mean)
        for _ in track(range(iterations), "ALS", iterations):
            _solve_biases(*by_item, Q, P, g, f, self.regularization, self.per_rating)
            _solve_vectors(*by_item, Q, P, g, f, self.regularization, self.per_rating)
            _solve_biases(*by_user, P, Q, f, g, self.regularization, self.per_rating)
            _solve_vectors(*by_user, P, Q, f, g, self.regularization, self.per_rating)
        check_fit("regularization", self.regularization, "Make it larger, or init_std smaller.", P, Q, f, g)
        update = AlsSolve(regularization=self.regularization, per_rating=self.per_rating)
        return FactorModel(data, P, Q, f, g, mean, update)


@parallel_njit(fastmath=True)
def _solve_biases(
    indptr: IntArray,
    others: NDArray[np.int32] | IntArray,
    residual: FloatArray,
    X: FloatArray,
    Y: FloatArray,
    bias: FloatArray,
    other_bias: FloatArray,
    regularization: float,
    per_rating: bool,
) -> None:
    """bias_x = sum over its ratings of (r - mean - other bias - x . y) / (count + penalty)."""
    for x in prange(len(bias)):
        total = 0.0
        for at in range(indptr[x], indptr[x + 1]):
            y = others[at]
            product = 0.0
            for k in range(X.shape[1]):
                product += X[x, k] * Y[y, k]
            total += residual[at] - other_bias[y] - product
        count = indptr[x + 1] - indptr[x]
        penalty = regularization * count if per_rating else regularization
        bias[x] = total / (count + penalty) if count else 0.0


@parallel_njit(fastmath=IN_ORDER)
def _solve_vectors(
    indptr: IntArray,
    others: NDArray[np.int32] | IntArray,
    residual: FloatArray,
    X: FloatArray,
    Y: FloatArray,
    bias: FloatArray,
    other_bias: FloatArray,
    regularization: float,
    per_rating: bool,
) -> None:
    """x = (sum y y^T + penalty I)^-1 sum y (r - mean - biases), over the ratings of x; zero without any."""
    size = padded(X.shape[1])
    for x in prange(X.shape[0]):
        start, end = indptr[x], indptr[x + 1]
        if start == end:
            X[x] = 0.0
            continue
        rated = others[start:end]
        G = np.zeros((size, size))
        b = np.zeros(size)
        add_ratings(rated, residual[start:end] - bias[x] - other_bias[rated], Y, G, b)
        penalty = regularization * (end - start) if per_rating else regularization
        for k in range(size):
            G[k, k] += penalty
        cholesky_solve(G, b)
        X[x] = b[: X.shape[1]]
