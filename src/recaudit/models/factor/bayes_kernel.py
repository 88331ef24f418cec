"""Gibbs sampling for matrix factorisation with biases: every quantity drawn from its conditional distribution.

A row's numbers depend on its own ratings and normals only, and are added in the order written here, so that they are
the same on any number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numba import njit, prange

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.engines.parallel import parallel_njit
from recaudit.models.factor.least_squares import IN_ORDER, Indices

_LANES = 32
"""Rows whose equations are factorised side by side, one in each lane of the processor's vectors."""


@final
@dataclass(frozen=True, eq=False)
class Ratings:
    """The ratings of one side's rows: those of row x are `indptr[x]:indptr[x + 1]`."""

    indptr: IntArray
    """(rows + 1,)"""
    others: Indices
    """(ratings,): the row of the other side."""
    values: FloatArray
    """(ratings,): in the units of the chain."""


@final
@dataclass(frozen=True)
class Units:
    """The units in which ratings are sampled: `(rating - mean) / sd`."""

    mean: float
    sd: float

    @staticmethod
    def of(data: Interactions) -> Units:
        """Those of the log; ratings that are all the same keep their scale."""
        return Units(float(data.ratings.mean()), float(data.ratings.std()) or 1.0)

    def ratings(self, data: Interactions) -> tuple[Ratings, Ratings]:
        """The log by user and by item."""
        by_user, by_item = (
            Ratings(matrix.indptr.astype(np.int64), matrix.indices, (matrix.data - self.mean) / self.sd)
            for matrix in (data.csr, data.csc)
        )
        return by_user, by_item


@final
@dataclass(frozen=True, eq=False)
class Group:
    """The rows of one side, users or items, and the distribution that each of their dimensions comes from."""

    rows: FloatArray
    """(rows, factors + 2): a row's vector, a one, and its bias. The one meets the bias of the other side."""
    means: FloatArray
    """(factors + 1,): of each dimension of the vectors, and of the biases."""
    precisions: FloatArray
    """(factors + 1,): one over the variance of each."""

    @staticmethod
    def start(count: int, factors: int, std: float, draw: np.random.Generator) -> Group:
        """Random vectors, no biases."""
        rows = np.zeros((count, factors + 2))
        rows[:, :factors] = std * draw.standard_normal((count, factors))
        rows[:, factors] = 1.0
        return Group(rows, np.zeros(factors + 1), np.ones(factors + 1))

    def redraw(
        self, ratings: Ratings, others: Group, noise_precision: float, draw: np.random.Generator
    ) -> tuple[Group, float]:
        """New distributions given the rows, then new rows given those and the others; and the squared error left."""
        values = np.delete(self.rows, -2, axis=1)
        means, precisions = draw_distributions(values, self.means, draw)
        normals = draw.standard_normal(values.shape)
        parts = (ratings.indptr, ratings.others, ratings.values, others.rows)
        rows, squares = draw_rows(*parts, means, precisions, noise_precision, normals)
        return Group(rows, means, precisions), max(float(squares.sum()), 0.0)


@final
@dataclass(frozen=True, eq=False)
class Chain:
    """One draw of everything; the next one follows from it."""

    users: Group
    items: Group
    noise_precision: float
    """Alpha: one over the variance of the ratings around the model."""

    @staticmethod
    def start(users: int, items: int, factors: int, std: float, draw: np.random.Generator) -> Chain:
        """Random vectors of this standard deviation, no biases, and all variance is noise."""
        return Chain(Group.start(users, factors, std, draw), Group.start(items, factors, std, draw), 1.0)

    def sweep(self, by_user: Ratings, by_item: Ratings, draw: np.random.Generator) -> Chain:
        """Draw everything once: users given items, items given users, the noise given both."""
        users, _ = self.users.redraw(by_user, self.items, self.noise_precision, draw)
        items, squared_error = self.items.redraw(by_item, users, self.noise_precision, draw)
        return Chain(users, items, draw_noise_precision(squared_error, len(by_item.values), draw))


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
    indptr: IntArray,
    others: Indices,
    values: FloatArray,
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
            _sum_products(first + lane, indptr, others, values, other_rows, Z, products)
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
def _sum_products(
    row: int,
    indptr: IntArray,
    others: Indices,
    values: FloatArray,
    other_rows: FloatArray,
    Z: FloatArray,
    products: FloatArray,
) -> None:
    """products (d + 1, d + 1) = sum of z z^T with z = (y, t) over the ratings of the row, len(Z) of them at a time."""
    begin, end = indptr[row], indptr[row + 1]
    last = len(products) - 1
    if begin == end:
        products[:] = 0.0
    for start in range(begin, end, len(Z)):
        n = min(len(Z), end - start)
        for at in range(n):
            other = others[start + at]
            for k in range(last):
                Z[at, k] = other_rows[other, k]
            Z[at, last] = values[start + at] - other_rows[other, last]
        if start == begin:
            np.dot(Z[:n].T, Z[:n], products)
        else:
            products += np.dot(Z[:n].T, Z[:n])


@njit(fastmath=IN_ORDER, cache=True)
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


@njit(fastmath=IN_ORDER, cache=True)
def _solve_transposed(A: FloatArray, x: FloatArray) -> None:
    """x (d, lanes) becomes L^-T x, in place, with L the lower triangle of A (d + 1, d + 1, lanes) but its last row."""
    for i in range(len(x) - 1, -1, -1):
        for lane in range(x.shape[1]):
            x[i, lane] /= A[i, i, lane]
        for k in range(i):
            for lane in range(x.shape[1]):
                x[k, lane] -= A[i, k, lane] * x[i, lane]
