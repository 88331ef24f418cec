"""BayesMF: matrix factorisation whose every parameter is sampled, as libFM's MCMC does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self, final

import numpy as np
from numba import njit, prange
from pydantic import Field, model_validator

from recaudit.data import Interactions
from recaudit.engines import track
from recaudit.errors import InputError
from recaudit.models import FittedModel, Recommender
from recaudit.plugins import FloatArray, IntArray, check_fit, check_own_model, generator, parallel_njit
from recaudit_papers.models.numerics import IN_ORDER, Singles, SparseRows, product

_LANES = 32
"""Rows whose equations are factorised side by side, one in each lane of the processor's vectors."""
_WIDTH = 256
"""Columns of one product: few enough that libraries add them in the same order for any number of rows and threads."""


@final
class BayesMF(Recommender):
    """`r_ui ~ N(mean + f_u + g_i + p_u . q_i, sd^2 / alpha)`: the posterior mean, by Gibbs sampling (Rendle 2012).

    The mean and sd are the log's. User biases, item biases, and every dimension of the user and the item vectors have
    normal distributions of their own, whose means and precisions are sampled too: there is no regularization to tune.
    Priors, as in libFM: `alpha ~ Gamma(1/2, rate 1/2)`, and for each group `precision ~ Gamma(1/2, rate 1/2)`,
    `mean ~ N(0, 1 / precision)`. A vector and its bias are drawn together (Salakhutdinov and Mnih 2008).
    """

    learns_from_clicks: ClassVar[bool] = False

    factors: int = Field(default=20, ge=1)
    """Length of the user and item vectors."""
    iterations: int = Field(default=200, ge=1)
    """How often everything is drawn."""
    burn_in: int = Field(default=20, ge=0)
    """Draws at the start that are not kept: they still show where the chain began."""
    thinning: int = Field(default=2, ge=1)
    """Every how many of the draws that follow one is kept, the last one always: neighbouring draws are alike."""
    init_std: float = Field(default=1.0, gt=0, le=100)
    """Standard deviation of the random start; beyond 100 the first equations would be too badly conditioned."""
    update_iterations: int = Field(default=50, ge=1)
    """How often everything is drawn in `warm_fit`, from a chain that has settled: none is left out but for thinning."""

    @model_validator(mode="after")
    def _something_is_kept(self) -> Self:
        if self.burn_in >= self.iterations:
            raise InputError(
                "burn_in",
                received=f"{self.burn_in}, which leaves nothing of iterations = {self.iterations}",
                expected="fewer than iterations",
                remedy="Make it smaller, or draw more often.",
            )
        return self

    def fit(self, data: Interactions, rng: int = 0) -> BayesMFModel:
        """Sample from a random start."""
        self.check_log(data)
        draw = generator(rng, "bayes-mf")
        users, items = (GibbsGroup.start(n, self.factors, self.init_std, draw) for n in (data.n_users, data.n_items))
        # Ratings that are all the same keep their scale; all variance is noise.
        units = Units(float(data.ratings.mean()), float(data.ratings.std()) or 1.0)
        return self._sample(data, units, GibbsChain(users, items, 1.0), self.iterations, self.burn_in, draw)

    def warm_fit(self, model: FittedModel, data: Interactions, rng: int = 0) -> BayesMFModel:
        """Continue the chain from the model's last draw, now with this log, and average anew."""
        self.check_log(data)
        own = [f"{self.factors} factors"]
        start = check_own_model(model, BayesMFModel, data, lambda other: [f"{other.factors} factors"], own)
        draw = generator(rng, "bayes-mf", "update")
        return self._sample(data, start.units, start.chain, self.update_iterations, 0, draw)

    def _sample(
        self,
        data: Interactions,
        units: Units,
        chain: GibbsChain,
        iterations: int,
        burn_in: int,
        draw: np.random.Generator,
    ) -> BayesMFModel:
        by_user, by_item = SparseRows.of(data.csr, *units), SparseRows.of(data.csc, *units)
        kept = range(iterations - 1, burn_in - 1, -self.thinning)[::-1]
        users = np.empty((data.n_users, len(kept), self.factors + 2), dtype=np.float32)
        items = np.empty((data.n_items, len(kept), self.factors + 2), dtype=np.float32)
        noise = np.empty(len(kept))
        for turn in track(range(iterations), "BayesMF", iterations):
            chain = chain.sweep(by_user, by_item, draw)
            if turn in kept:
                place = kept.index(turn)
                users[:, place] = chain.users.rows
                # The item's bias meets the user's one, and its one the user's bias.
                items[:, place] = chain.items.rows
                items[:, place, -2:] = chain.items.rows[:, :-3:-1]
                noise[place] = units.sd / np.sqrt(chain.noise_precision)
        check_fit("init_std", self.init_std, "Make it smaller.", users, items, noise)
        return BayesMFModel(data, users, items, units, float(noise.mean()), chain)


@final
@dataclass(frozen=True, eq=False, repr=False)
class BayesMFModel(FittedModel):
    """Draws from the posterior; a score is the mean over all of them."""

    data: Interactions
    user_draws: Singles
    """(users, draws, factors + 2): p_u, 1, f_u."""
    item_draws: Singles
    """(items, draws, factors + 2): q_i, g_i, 1."""
    units: Units
    noise: float
    """Standard deviation of a rating around its score, on the scale of the ratings: the posterior mean."""
    chain: GibbsChain
    """The last draw, from which `warm_fit` continues."""

    @property
    def factors(self) -> int:
        """Length of the user and item vectors."""
        return int(self.user_draws.shape[2]) - 2

    @property
    def n_draws(self) -> int:
        """How many draws were kept."""
        return int(self.user_draws.shape[1])

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items): posterior means, not clipped; the products of many draws are one product."""
        total = np.zeros((len(users), self.data.n_items))
        together = max(1, _WIDTH // (self.factors + 2))
        for first in range(0, self.n_draws, together):
            total += self._products(users, slice(first, first + together))
        return self.units.mean + self.units.sd * (total / self.n_draws)

    def draw_scores(self, users: IntArray, draw: int) -> FloatArray:
        """(len(users), items): the scores if draw number `draw`, of `n_draws`, were the truth (Thompson sampling)."""
        if not 0 <= draw < self.n_draws:
            raise InputError("draw", received=draw, expected=f"a whole number from 0 to {self.n_draws - 1}")
        return self.units.mean + self.units.sd * self._products(users, slice(draw, draw + 1))

    def uncertainty(self, users: IntArray) -> FloatArray:
        """(len(users), items): the posterior standard deviation of the scores; ratings vary by `noise` around them."""
        mean = np.zeros((len(users), self.data.n_items))
        squares = np.zeros_like(mean)
        for draw in range(self.n_draws):
            # Welford: the sum of squares around the mean of the draws so far.
            drawn = self._products(users, slice(draw, draw + 1))
            step = drawn - mean
            mean += step / (draw + 1)
            squares += step * (drawn - mean)
        uncertainty: FloatArray = self.units.sd * np.sqrt(squares / max(1, self.n_draws - 1))
        return uncertainty

    def _products(self, users: IntArray, draws: slice) -> FloatArray:
        """(len(users), items): the products of users and items, summed over these draws."""
        rows, columns = (held.astype(np.float64) for held in (self.user_draws[users, draws], self.item_draws[:, draws]))
        width = rows.shape[1] * rows.shape[2]
        products: FloatArray = product(rows.reshape(len(rows), width), columns.reshape(len(columns), width)).numpy()
        return products


class Units(NamedTuple):
    """The units in which ratings are sampled: `(rating - mean) / sd`."""

    mean: float
    sd: float


class GibbsGroup(NamedTuple):
    """The rows of one side, users or items, and the distribution that each of their dimensions comes from."""

    rows: FloatArray
    """(rows, factors + 2): a row's vector, a one, and its bias. The one meets the bias of the other side."""
    means: FloatArray
    """(factors + 1,): of each dimension of the vectors, and of the biases."""
    precisions: FloatArray
    """(factors + 1,): one over the variance of each."""

    @staticmethod
    def start(count: int, factors: int, std: float, draw: np.random.Generator) -> GibbsGroup:
        """Random vectors, no biases."""
        rows = np.zeros((count, factors + 2))
        rows[:, :factors] = std * draw.standard_normal((count, factors))
        rows[:, factors] = 1.0
        return GibbsGroup(rows, np.zeros(factors + 1), np.ones(factors + 1))

    def redraw(
        self, ratings: SparseRows, others: GibbsGroup, noise_precision: float, draw: np.random.Generator
    ) -> tuple[GibbsGroup, float]:
        """New distributions given the rows, then new rows given those and the others; and the squared error left."""
        values = np.delete(self.rows, -2, axis=1)
        means, precisions = draw_distributions(values, self.means, draw)
        normals = draw.standard_normal(values.shape)
        rows, squares = draw_rows(ratings, others.rows, means, precisions, noise_precision, normals)
        return GibbsGroup(rows, means, precisions), max(float(squares.sum()), 0.0)


class GibbsChain(NamedTuple):
    """One draw of everything; the next one follows from it."""

    users: GibbsGroup
    items: GibbsGroup
    noise_precision: float
    """Alpha: one over the variance of the ratings around the model."""

    def sweep(self, by_user: SparseRows, by_item: SparseRows, draw: np.random.Generator) -> GibbsChain:
        """Draw everything once: users given items, items given users, the noise given both."""
        users, _ = self.users.redraw(by_user, self.items, self.noise_precision, draw)
        items, squared_error = self.items.redraw(by_item, users, self.noise_precision, draw)
        return GibbsChain(users, items, draw_noise_precision(squared_error, len(by_item.values), draw))


def draw_distributions(
    values: FloatArray, means: FloatArray, draw: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """(dimensions,) each: the mean and precision of every column of `values` (rows, dimensions), drawn anew.

    Under the priors `precision ~ Gamma(1/2, rate 1/2)` and `mean ~ N(0, 1 / precision)`: in Rendle's (2012) notation
    alpha_0 = beta_0 = gamma_0 = 1 and mu_0 = 0, as in libFM. The precisions come first, given the means that stand.
    """
    count = len(values)
    squares = ((values - means) ** 2).sum(axis=0) + means**2
    precisions = draw.gamma((1 + count + 1) / 2, 2 / (1 + squares))
    centres = values.sum(axis=0) / (count + 1)
    return centres + draw.standard_normal(len(means)) / np.sqrt((count + 1) * precisions), precisions


def draw_noise_precision(squared_error: float, count: int, draw: np.random.Generator) -> float:
    """The precision of the ratings around the model given its squared error on all of them; the prior is the same."""
    return float(draw.gamma((1 + count) / 2, 2 / (1 + squared_error)))


@parallel_njit(fastmath=IN_ORDER)
def draw_rows(
    ratings: SparseRows,
    other_rows: FloatArray,
    means: FloatArray,
    precisions: FloatArray,
    noise_precision: float,
    normals: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Every row of one side from its conditional distribution, vector and bias together, and its squared error.

    With y = (the other's vector, 1) and t = rating - the other's bias, over the row's ratings, x = (vector, bias) is
    normal with precision `A = noise_precision sum y y^T + diag(precisions)` and mean `A^-1 (noise_precision sum t y +
    precisions * means)`. With A = L L^T and L z = the bracket, `x = L^-T (z + normals)`, and the squared error
    `sum (t - x . y)^2` needs no second look at the ratings: with D = diag(precisions) it is
    `sum t^2 + (|normals|^2 - |z|^2 - x D x + 2 x D means) / noise_precision`.

    other_rows (others, d + 1), means and precisions (d,), normals (rows, d), d = factors + 1; gives (rows, d + 1) and
    (rows,).
    """
    count, d = normals.shape
    drawn = np.ones((count, d + 1))
    squares = np.empty(count)
    # So few ratings at a time that the matrix library starts no threads of its own.
    panel = max(1, min(256, 2**17 // (d + 1) ** 2))
    for chunk in prange((count + _LANES - 1) // _LANES):
        first = chunk * _LANES
        lanes = min(_LANES, count - first)
        A = np.empty((d + 1, d + 1, lanes))
        x = np.empty((d, lanes))
        Z = np.empty((panel, d + 1))
        products = np.empty((d + 1, d + 1))
        for lane in range(lanes):
            _sum_products(first + lane, ratings, other_rows, Z, products)
            for k in range(d + 1):
                for j in range(k + 1):
                    A[k, j, lane] = noise_precision * products[k, j]
            for k in range(d):
                x[k, lane] = normals[first + lane, k]
        for k in range(d):
            A[k, k] += precisions[k]
            A[d, k] += precisions[k] * means[k]
        _factorise(A)
        error = A[d, d]
        for k in range(d):
            error += x[k] ** 2 - A[d, k] ** 2
            x[k] += A[d, k]
        _solve_transposed(A, x)
        for k in range(d):
            error += precisions[k] * x[k] * (2 * means[k] - x[k])
        squares[first : first + lanes] = error / noise_precision
        drawn[first : first + lanes, : d - 1] = x[: d - 1].T
        drawn[first : first + lanes, d] = x[d - 1]
    return drawn, squares


@njit(fastmath=IN_ORDER, cache=True)
def _sum_products(row: int, ratings: SparseRows, other_rows: FloatArray, Z: FloatArray, products: FloatArray) -> None:
    """products (d + 1, d + 1) = sum of z z^T with z = (y, t) over the ratings of the row, len(Z) of them at a time."""
    begin, end = np.int64(ratings.indptr[row]), np.int64(ratings.indptr[row + 1])
    last = len(products) - 1
    if begin == end:
        products[:] = 0.0
    for start in range(begin, end, len(Z)):
        n = min(len(Z), int(end - start))
        for at in range(n):
            other = ratings.indices[start + at]
            for k in range(last):
                Z[at, k] = other_rows[other, k]
            Z[at, last] = ratings.values[start + at] - other_rows[other, last]
        if start == begin:
            np.dot(Z[:n].T, Z[:n], products)
        else:
            products += np.dot(Z[:n].T, Z[:n])


@njit(fastmath=IN_ORDER, error_model="numpy", cache=True)
def _factorise(A: FloatArray) -> None:
    """The lower triangle of A (d + 1, d + 1, lanes): L over z, in place, in every lane; the corner is left alone."""
    d = len(A) - 1
    for j in range(d):
        for i in range(j, d + 1):
            for k in range(j):
                for lane in range(A.shape[2]):
                    A[i, j, lane] -= A[i, k, lane] * A[j, k, lane]
        for lane in range(A.shape[2]):
            A[j, j, lane] = np.sqrt(A[j, j, lane])
        for i in range(j + 1, d + 1):
            for lane in range(A.shape[2]):
                A[i, j, lane] /= A[j, j, lane]


@njit(fastmath=IN_ORDER, error_model="numpy", cache=True)
def _solve_transposed(A: FloatArray, x: FloatArray) -> None:
    """x (d, lanes) becomes L^-T x, in place, with L the lower triangle of A (d + 1, d + 1, lanes) but its last row."""
    for i in range(len(x) - 1, -1, -1):
        for lane in range(x.shape[1]):
            x[i, lane] /= A[i, i, lane]
        for k in range(i):
            for lane in range(x.shape[1]):
                x[k, lane] -= A[i, k, lane] * x[i, lane]
