"""AutoRec's gradients on a CPU: only the ratings that are there cost anything.

One thread: a step is too little work to share out, and who fits many models shares out the models. Sums are added in
the order written here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from recaudit.arrays import BoolArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.models.factor.least_squares import IN_ORDER
from recaudit.models.rows import Indices, Singles


class AutoRecWeights(NamedTuple):
    """The network `h(r) = W g(V^T r + mu) + b`, in single precision."""

    V: Singles
    """(users, units): what each user's rating sends into the hidden layer."""
    mu: Singles
    """(units,)"""
    W: Singles
    """(users, units): what the hidden layer sends into each user's prediction."""
    b: Singles
    """(users,)"""

    @classmethod
    def draw(cls, users: int, units: int, level: float, draw: np.random.Generator) -> AutoRecWeights:
        """A random start that predicts about `level` for everybody; variances as Glorot and Bengio (2010) have them."""
        std = (2 / (users + units)) ** 0.5
        V, W = (std * draw.standard_normal((2, users, units))).astype(np.float32)
        return cls(V, np.zeros(units, np.float32), W, np.full(users, level, np.float32))

    def averaged(self, counts: IntArray) -> AutoRecWeights:
        """With the average user's output for users without ratings (`counts` (users,)), of whom nothing is learned."""
        W, b = self.W.copy(), self.b.copy()
        W[counts == 0], b[counts == 0] = W[counts > 0].mean(axis=0), b[counts > 0].mean()
        return AutoRecWeights(self.V, self.mu, W, b)


class Columns(NamedTuple):
    """The ratings of each item less a level, which is what the network reads and what it must give back."""

    indptr: IntArray
    """(items + 1,): `users` and `ratings` (ratings,) of item i are `indptr[i]:indptr[i + 1]`."""
    users: Indices
    ratings: Singles
    user_indptr: IntArray
    """(users + 1,): `items` and `places` (ratings,) of user u are `user_indptr[u]:user_indptr[u + 1]`."""
    items: Indices
    places: IntArray
    """Where a rating by user stands by item."""

    @classmethod
    def of(cls, data: Interactions, level: float) -> Columns:
        """The columns of a log, with `level` taken off its ratings."""
        csc, places = data.csc, np.argsort(np.argsort(data.items, kind="stable"))
        ratings = (csc.data - level).astype(np.float32)
        return cls(csc.indptr.astype(np.int64), csc.indices, ratings, data.indptr, data.items, places)


@njit(fastmath=IN_ORDER, cache=True)
def pass_items(
    batch: IntArray,
    columns: Columns,
    weights: AutoRecWeights,
    dropout: float,
    seed: int,
    hidden: Singles,
    slopes: Singles,
    errors: Singles,
) -> None:
    """Read the columns of the items in `batch` and trace their errors back to the hidden layer.

    Writes, for these items and no others, `hidden` (items, units), the loss's `slopes` (items, units) in what enters
    the hidden layer, and `errors` (ratings,): predicted less given.
    """
    indptr, users, ratings = columns.indptr, columns.users, columns.ratings
    V, mu, W, b = weights
    units = len(mu)
    for n in range(len(batch)):
        item = batch[n]
        start, end = indptr[item], indptr[item + 1]
        h, d = hidden[item], slopes[item]
        rise, products = np.empty(units, np.float32), np.empty(units, np.float32)
        for k in range(units):
            h[k] = mu[k]
        for at in range(start, end):
            r, v = ratings[at], V[users[at]]
            for k in range(units):
                h[k] += r * v[k]
        for k in range(units):
            g = np.float32(1 / (1 + np.exp(-h[k])))
            kept = np.float32(keep(item * units + k, seed, dropout))
            h[k] = kept * g
            rise[k] = kept * g * (1 - g)
            d[k] = 0
        for at in range(start, end):
            w = W[users[at]]
            for k in range(units):
                products[k] = w[k] * h[k]
            error = b[users[at]] - ratings[at] + vector_sum(products)
            errors[at] = error
            for k in range(units):
                d[k] += error * w[k]
        for k in range(units):
            d[k] *= 2 * rise[k]


@njit(fastmath=IN_ORDER, cache=True)
def step_users(
    inside: BoolArray,
    columns: Columns,
    hidden: Singles,
    hidden_slopes: Singles,
    errors: Singles,
    weights: AutoRecWeights,
    slopes: AutoRecWeights,
    averages: AutoRecWeights,
    penalty: float,
    rate: float,
    steps: int,
) -> None:
    """Sum the loss's slopes in V, W and b over the items that are `inside` (items,), and take a step of Adam down them.

    `slopes` are shaped as the weights, `averages` with a 2 before it; those in mu are given.
    """
    units = hidden.shape[1]
    indptr, items, places = columns.user_indptr, columns.items, columns.places
    for u in range(len(weights.b)):
        v, w = slopes.V[u], slopes.W[u]
        total = np.float32(0)
        for k in range(units):
            v[k] = 0
            w[k] = 0
        for at in range(indptr[u], indptr[u + 1]):
            item = items[at]
            if not inside[item]:
                continue
            r, slope = columns.ratings[places[at]], np.float32(2 * errors[places[at]])
            h, d = hidden[item], hidden_slopes[item]
            total += slope
            for k in range(units):
                v[k] += r * d[k]
                w[k] += slope * h[k]
        slopes.b[u] = total
        _adam(weights.V[u], v, averages.V[:, u], penalty, rate, steps)
        _adam(weights.W[u], w, averages.W[:, u], penalty, rate, steps)
    _adam(weights.b, slopes.b, averages.b, 0.0, rate, steps)
    _adam(weights.mu, slopes.mu, averages.mu, 0.0, rate, steps)


@njit(fastmath=IN_ORDER, cache=True)
def _adam(values: Singles, slopes: Singles, averages: Singles, penalty: float, rate: float, steps: int) -> None:
    """One step of Adam in place, down `slopes + penalty * values`, (n,) both.

    `averages` (2, n) are the running averages of slopes and of their squares, 0 before the first of the `steps`
    (Kingma and Ba 2015, Algorithm 1, with its constants).
    """
    means, squares = averages[0], averages[1]
    new, new_square, tiny = np.float32(0.1), np.float32(0.001), np.float32(1e-8)
    step = np.float32(rate / (1 - 0.9**steps))
    correction = np.float32(1 / np.sqrt(1 - 0.999**steps))
    pull = np.float32(penalty)
    for k in range(len(values)):
        slope = slopes[k] + pull * values[k]
        means[k] += new * (slope - means[k])
        squares[k] += new_square * (slope * slope - squares[k])
        values[k] -= step * means[k] / (correction * np.sqrt(squares[k]) + tiny)


@njit(fastmath=IN_ORDER, cache=True)
def vector_sum(values: Singles) -> np.float32:
    """The sum of `values` (n,), which are lost: one half added to the other, an order that vectors can follow."""
    count = len(values)
    while count > 16:
        half = (count + 1) // 2
        # A slice, because an index `k + half` that might be negative keeps the compiler from using vectors.
        rest = values[half:count]
        for k in range(len(rest)):
            values[k] += rest[k]
        count = half
    total = np.float32(0)
    for k in range(count):
        total += values[k]
    return total


@njit(cache=True)
def keep(counter: int, seed: int, dropout: float) -> float:
    """0 with probability `dropout`, otherwise what makes the mean 1: MurmurHash3's finaliser of counter and seed."""
    x = (counter + seed) & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    x ^= x >> 16
    return 0.0 if x < dropout * 4294967296.0 else 1 / (1 - dropout)
