"""Who rates what, as far as people's activity and items' popularity say it: fitted to a log, and drawn."""

from __future__ import annotations

import numpy as np

from recaudit.arrays import FloatArray, IntArray

_BLOCK = 2**21
"""How many pairs are drawn at once."""


def drawn_pairs(
    draw: np.random.Generator,
    shape: tuple[int, int],
    count: int,
    activity: FloatArray | None,
    popularity: FloatArray | None,
) -> tuple[IntArray, IntArray]:
    """(count,) and (count,): distinct pairs of the first `shape` users and items, in the order they come.

    Each is as likely as any other, or pair (u, i) comes at rate `activity_u popularity_i`: the same law as drawing one
    pair after the other in proportion to the rates of those that are left.
    """
    users, items = shape
    if activity is None and popularity is None:
        who, what = np.divmod(draw.choice(users * items, count, replace=False), items)
        return who, what
    rows = np.ones(users) if activity is None else activity[:users]
    columns = np.ones(items) if popularity is None else popularity[:items]
    step = max(1, _BLOCK // items)
    pairs, keys, limit = np.zeros(0, dtype=np.int64), np.zeros(0), np.inf
    for start in range(0, users, step):
        rates = rows[start : start + step, None] * columns
        # A race: the first of independent exponential times, and then the next, is a draw in proportion to the rates.
        times = (draw.standard_exponential(rates.shape) / rates).ravel()
        early = np.flatnonzero(times < limit)
        pairs, keys = np.concatenate([pairs, start * items + early]), np.concatenate([keys, times[early]])
        if len(keys) > count:
            kept = np.argpartition(keys, count - 1)[:count]
            pairs, keys = pairs[kept], keys[kept]
            limit = keys.max()
    who, what = np.divmod(pairs[np.argsort(keys, kind="stable")], items)
    return who, what


def drawn_users(draw: np.random.Generator, activity: FloatArray, count: int) -> IntArray:
    """(count,): distinct users, drawn one after the other in proportion to the activity (users,) of those left."""
    return np.argsort(draw.standard_exponential(len(activity)) / activity, kind="stable")[:count].astype(np.int64)


def rates_of(user_counts: IntArray, item_counts: IntArray) -> tuple[FloatArray, FloatArray]:
    """(users,) activity a and (items,) popularity b at which everybody and everything has its count.

    A pair is in the log with probability `1 - exp(-a_u b_i)`, as if ratings came at that rate and only the first
    counted; expected counts are those given, which products of the counts themselves would miss: who has rated most of
    the catalogue cannot rate the popular items twice. Only the products mean something. A count of 0 is taken as
    half a rating, and a full one as half a rating less, so that every rate is positive and finite.
    """
    n_users, n_items = len(user_counts), len(item_counts)
    # Equal counts have equal rates: what is solved for is a rate for each distinct count.
    u, user_row, u_many = _distinct(user_counts, n_items)
    i, item_row, i_many = _distinct(item_counts, n_users)
    a: FloatArray = u / np.sqrt(u @ u_many)
    b: FloatArray = i / np.sqrt(i @ i_many)
    for _ in range(500):
        before = a
        a = _solved(u, b, i_many)
        b = _solved(i, a, u_many)
        if np.abs(np.log(a / before) - np.log(a / before).mean()).max() < 1e-6:
            break
    return a[user_row], b[item_row]


def _distinct(counts: IntArray, most: int) -> tuple[FloatArray, IntArray, IntArray]:
    """The distinct counts, which of them each is, and how many there are of each."""
    bounded = np.clip(counts.astype(np.float64), 0.5, most - 0.5)
    return np.unique(bounded, return_inverse=True, return_counts=True)


def _solved(counts: FloatArray, others: FloatArray, many: IntArray) -> FloatArray:
    """(n,): x with `sum over j of many_j (1 - exp(-x others_j)) = counts` (n,).

    The sum is concave in x and its tangent at 0 is above it, so that Newton's steps climb to the root from the left.
    """
    x: FloatArray = counts / (others @ many)
    for _ in range(60):
        left = np.exp(-np.outer(x, others))
        step = (counts - (1 - left) @ many) / (left @ (many * others))
        x = x + step
        if (step <= 1e-10 * x).all():
            break
    return x
