"""AutoRec's gradients on a CPU: only the ratings that are there cost anything.

One thread: a step is too little work to share out, and who fits many models shares out the models. Sums are added in
the order written here.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recaudit.arrays import IntArray
from recaudit.models.factor.least_squares import IN_ORDER
from recaudit.models.rows import Indices, Singles


@njit(fastmath=IN_ORDER, cache=True)
def pass_items(
    batch: IntArray,
    indptr: IntArray,
    users: Indices,
    ratings: Singles,
    V: Singles,
    mu: Singles,
    W: Singles,
    b: Singles,
    dropout: float,
    seed: int,
    hidden: Singles,
    slopes: Singles,
    errors: Singles,
) -> None:
    """Read the columns of the items in `batch` and trace their errors back to the hidden layer.

    Ratings stand by item: those of item i are `indptr[i]:indptr[i + 1]`. Writes, for these items and no others,
    `hidden` (items, units), the loss's `slopes` (items, units) in what enters the hidden layer, and `errors`
    (ratings,): predicted less given.
    """
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
            error = b[users[at]] - ratings[at] + _dot(w, h, products)
            errors[at] = error
            for k in range(units):
                d[k] += error * w[k]
        for k in range(units):
            d[k] *= 2 * rise[k]


@njit(fastmath=IN_ORDER, cache=True)
def step_users(
    inside: NDArray[np.bool_],
    indptr: IntArray,
    items: Indices,
    places: IntArray,
    ratings: Singles,
    hidden: Singles,
    slopes: Singles,
    errors: Singles,
    V: Singles,
    W: Singles,
    b: Singles,
    slopes_V: Singles,
    slopes_W: Singles,
    slopes_b: Singles,
    averages_V: Singles,
    averages_W: Singles,
    averages_b: Singles,
    penalty: float,
    rate: float,
    steps: int,
) -> None:
    """Sum the loss's slopes in V, W and b over the items that are `inside` (items,), and take a step of Adam down them.

    Ratings stand by user; `places` (ratings,) says where each stands by item. Slopes are shaped as what they belong
    to, averages with a 2 before it; what the slopes held is lost.
    """
    units = hidden.shape[1]
    for u in range(len(b)):
        v, w = slopes_V[u], slopes_W[u]
        total = np.float32(0)
        for k in range(units):
            v[k] = 0
            w[k] = 0
        for at in range(indptr[u], indptr[u + 1]):
            item = items[at]
            if not inside[item]:
                continue
            r, slope = ratings[places[at]], np.float32(2 * errors[places[at]])
            h, d = hidden[item], slopes[item]
            total += slope
            for k in range(units):
                v[k] += r * d[k]
                w[k] += slope * h[k]
        slopes_b[u] = total
        adam(V[u], v, averages_V[0, u], averages_V[1, u], penalty, rate, steps)
        adam(W[u], w, averages_W[0, u], averages_W[1, u], penalty, rate, steps)
        own = slice(u, u + 1)
        adam(b[own], slopes_b[own], averages_b[0, own], averages_b[1, own], 0.0, rate, steps)


@njit(fastmath=IN_ORDER, cache=True)
def adam(
    values: Singles, slopes: Singles, means: Singles, squares: Singles, penalty: float, rate: float, steps: int
) -> None:
    """One step of Adam in place, down `slopes + penalty * values`, all arrays (n,).

    `means` and `squares` are the running averages of slopes and of their squares, 0 before the first of the `steps`
    (Kingma and Ba 2015, Algorithm 1, with its constants).
    """
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
def _dot(a: Singles, b: Singles, products: Singles) -> np.float32:
    """a . b; `products` (n,) is room for the products."""
    for k in range(len(a)):
        products[k] = a[k] * b[k]
    return vector_sum(products)


@njit(fastmath=IN_ORDER, cache=True)
def vector_sum(values: Singles) -> np.float32:
    """The sum of `values` (n,), which are lost: one half added to the other, again and again.

    An order that the processor's vectors can follow, and no compiler may change.
    """
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
    """0 with probability `dropout`, otherwise what makes the mean 1: a function of the counter and the seed alone.

    The finaliser of MurmurHash3, on whole numbers below 2^32 in a larger type: the same bits on every device.
    """
    x = (counter + seed) & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    x ^= x >> 16
    return 0.0 if x < dropout * 4294967296.0 else 1 / (1 - dropout)
