"""What a log says about its people and items: worth, noise, rating levels, activity and popularity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy import optimize
from scipy.special import ndtr
from scipy.stats import norm

from recaudit.arrays import FloatArray, IntArray
from recaudit.data import splits
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError, NotSupportedError
from recaudit.machine import check_memory
from recaudit.models import ALS, BiasedMF, FactorModel, FittedModel, Recommender

LEAST_RATINGS = 500
"""A tenth of them is held out; from fewer the noise would be off by more than a tenth."""
MOST_LEVELS = 20
"""Logs with more distinct ratings are taken as rated on a continuous scale."""


Factors = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
"""Worth as `level_u + bias_i + p_u . q_i`: p (users, factors), q (items, factors), level (users,), bias (items,)."""


@final
@dataclass(frozen=True, eq=False)
class Learned:
    """What was learnt from a log."""

    recommender: Recommender
    """Whose fitted model says what items are worth to people: the one given, or the one with the least error."""
    worth: Factors | FloatArray
    """What items are worth to users: factors, or (users, items) where the model has none."""
    error: float
    """Root mean square error on held-out ratings, in rating points."""
    noise: float
    """Standard deviation of the noise with which made ratings miss the model by as much as held-out ones do."""
    levels: FloatArray | None
    activity: FloatArray
    """(users,): see `rates_of`."""
    popularity: FloatArray
    """(items,)"""


def learn(data: Interactions, factors: int, recommender: Recommender | None, rng: int) -> Learned:
    """Fit to nine tenths of the log, measure on the rest, fit to all; without a `recommender` the best candidate."""
    if len(data) < LEAST_RATINGS:
        expected = f"at least {LEAST_RATINGS:,}: some are held out to measure the noise"
        remedy = "Use simulate.Latent or simulate.Topics, whose people are drawn."
        raise InputError("data", received=f"a log of {len(data):,} ratings", expected=expected, remedy=remedy)
    if data.ratings.min() == data.ratings.max():
        raise InputError(
            "data",
            received=f"a log in which every rating is {data.ratings[0]:g}",
            expected="ratings that differ, so that they say what people like",
            remedy="An implicit log does not; give counts or times of use as ratings if you have them.",
        )
    split = splits.random(data, 0.1, rng)
    tried = [recommender] if recommender is not None else candidates(factors)
    test = split.test
    pairs = test.users.astype(np.int64), test.items.astype(np.int64)
    missed = [_finite(one, _rating_model(one, split.train, rng).pair_scores(*pairs)) for one in tried]
    errors = [float(np.sqrt(np.mean((np.clip(one, *data.scale) - test.ratings) ** 2))) for one in missed]
    best = int(np.argmin(errors))
    levels, model = levels_of(data), _rating_model(tried[best], data, rng)
    if isinstance(model, FactorModel):
        worth: Factors | FloatArray = balanced(model)
    else:
        name = type(tried[best]).__name__
        check_memory(
            16 * data.n_users * data.n_items,
            f"What each of {data.n_items:,} items is worth to each of {data.n_users:,} users by {name}",
            "Use a recommender with factors (ALS, BiasedMF), whose scores are computed when they are needed, or take a "
            "part of the log.",
        )
        blocks = np.split(np.arange(data.n_users), range(256, data.n_users, 256))
        worth = _read_only(_finite(tried[best], np.concatenate([model.scores(block) for block in blocks])))
    activity, popularity = rates_of(data.user_counts, data.item_counts)
    return Learned(
        recommender=tried[best],
        worth=worth,
        error=errors[best],
        noise=noise_of(missed[best], test.ratings, data.scale, levels),
        levels=levels,
        activity=_read_only(activity),
        popularity=_read_only(popularity),
    )


def balanced(model: FactorModel) -> Factors:
    """The same worth as the model's scores, in the one basis in which both sides are alike.

    A product of factors stays the same when a matrix moves from one side to the other; how far a user is from an
    item, and which items are alike, does not. Here axes are orthogonal, ordered by what they explain, and users'
    and items' vectors have the same mean square length.
    """
    left, r_left = np.linalg.qr(model.user_factors)
    right, r_right = np.linalg.qr(model.item_factors)
    u, sizes, v = np.linalg.svd(r_left @ r_right.T, full_matrices=False)
    ratio = (len(left) / len(right)) ** 0.25
    users = _read_only(left @ (u * np.sqrt(sizes)) * ratio)
    items = _read_only(right @ (v.T * np.sqrt(sizes)) / ratio)
    return users, items, _read_only(model.mean + model.user_bias), _read_only(model.item_bias)


def levels_of(data: Interactions) -> FloatArray | None:
    """(levels,): the ratings that the log knows, ascending; None where it is continuous."""
    levels = np.unique(data.ratings)
    return _read_only(levels) if len(levels) <= MOST_LEVELS else None


def candidates(factors: int) -> list[Recommender]:
    """What is tried where no recommender is given: from hardly any noise to a great deal of it."""
    steps = [BiasedMF(factors=factors, epochs=40, regularization=weight) for weight in (0.02, 0.05, 0.08, 0.12, 0.2)]
    return [*steps, *(ALS(factors=factors, regularization=weight) for weight in (0.03, 0.12))]


def noise_of(
    predicted: FloatArray, ratings: FloatArray, scale: tuple[float, float], levels: FloatArray | None
) -> float:
    """The sd of the noise with which ratings made from `predicted` (n,) miss it by as much as `ratings` (n,) do.

    Not the sd of the residuals: made ratings are cut to the scale, which makes them miss by less, and rounded, which
    makes them miss by more. Rounded to six digits, so that it does not hang on the order of a sum.
    """
    target = float(np.mean((ratings - predicted) ** 2))
    width = scale[1] - scale[0]

    def surplus(noise: float) -> float:
        missed = _clipped_miss(predicted, noise, scale) if levels is None else _rounded_miss(predicted, noise, levels)
        return float(missed.mean()) - target

    if surplus(1e-6 * width) >= 0:
        return 0.0
    if surplus(10 * width) < 0:
        raise InputError(
            "recommender",
            received=f"one that misses held-out ratings by {np.sqrt(target):.3g} points on a scale from {scale[0]:g} "
            f"to {scale[1]:g}",
            expected="one that predicts them better than chance",
            remedy="Leave it out, and one is chosen by its error on held-out ratings.",
        )
    return float(f"{optimize.brentq(surplus, 1e-6 * width, 10 * width, xtol=1e-9):.6g}")


def rates_of(user_counts: IntArray, item_counts: IntArray) -> tuple[FloatArray, FloatArray]:
    """(users,) activity a and (items,) popularity b at which everybody and everything has its count.

    A pair is in the log with probability `1 - exp(-a_u b_i)`, as if ratings came at that rate and only the first
    counted; expected counts are those given. Only the products mean something. A count of 0 is taken as half a
    rating, and a full one as half a rating less, so that every rate is positive and finite.
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


def nearest(values: FloatArray, levels: FloatArray) -> FloatArray:
    """Each of `values` (n,) as the nearest of the ascending `levels`."""
    return levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, values, side="right")]


def _clipped_miss(worth: FloatArray, noise: float, scale: tuple[float, float]) -> FloatArray:
    """(n,): the mean of `(clip(w + noise z) - w)^2` over standard normal z."""
    low, high = ((end - worth) / noise for end in scale)
    inside = ndtr(high) - ndtr(low) - high * norm.pdf(high) + low * norm.pdf(low)
    return noise**2 * (inside + low**2 * ndtr(low) + high**2 * ndtr(-high))


def _rounded_miss(worth: FloatArray, noise: float, levels: FloatArray) -> FloatArray:
    """(n,): the mean of `(nearest level of (w + noise z) - w)^2` over standard normal z."""
    below = ndtr(((levels[1:] + levels[:-1]) / 2 - worth[:, None]) / noise)
    share = np.diff(below, axis=1, prepend=0.0, append=1.0)
    missed: FloatArray = (share * (levels - worth[:, None]) ** 2).sum(axis=1)
    return missed


def _rating_model(recommender: Recommender, data: Interactions, rng: int) -> FittedModel:
    """The fitted model, if its scores are ratings."""
    model = recommender.fit(data, rng)
    if not model.predicts_ratings:
        raise NotSupportedError(
            f"{type(recommender).__name__}: its scores rank items and are no ratings, so that they cannot say what "
            "people would rate. Recommenders that predict ratings: ALS, BiasedMF, ItemKNN, UserKNN, EASE and SLIM with "
            "center='item', TopPop by mean rating."
        )
    return model


def _finite(recommender: Recommender, scores: FloatArray) -> FloatArray:
    if not np.isfinite(scores).all():
        received = f"{type(recommender).__name__}, with scores that are not numbers for some pairs"
        expected = "a finite score for every pair of a user and an item"
        raise InputError("recommender", received=received, expected=expected)
    return scores


def _read_only(values: FloatArray) -> FloatArray:
    out = np.array(values, dtype=np.float64)
    out.flags.writeable = False
    return out
