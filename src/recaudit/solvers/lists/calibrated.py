"""Lists that trade relevance for calibration: the greedy of paper 004, Equation 6, and how far it is from the best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final, get_args

import numpy as np
from numpy.typing import ArrayLike

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.errors import did_you_mean
from recaudit.solvers.batches import split_on_cores
from recaudit.solvers.checks import check_finite, require
from recaudit.solvers.lists.kernel import NOT_FINITE
from recaudit.solvers.lists.objective import (
    SMOOTHING,
    CategoryVectors,
    ListObjective,
    ListUsers,
    Scores,
    divergence,
    upper_bound,
)
from recaudit.solvers.lists.swaps import make_lists
from recaudit.solvers.solution import Solution, status_of
from recaudit.ties import TieKeys

Horizon = Literal["prefix", "list"]
NO_CAP = np.iinfo(np.int64).max
_ROUNDING = 1e-12
_NEGLIGIBLE = 1e-200


@final
@dataclass(frozen=True, eq=False)
class ListCertificate(Solution):
    """How far lists may be from the best lists of the same length, by Equation 6: `value` (users,) is
    (1 - lambda) s(I) - lambda C_KL of the list, and no list has more than `upper`. The lists stand in for `actions`."""

    plain: FloatArray  # (users,): the objective of the list by score alone, under the same constraints

    @property
    def gap(self) -> FloatArray:
        """(users,): how much more the best list may have, 0 or more, in units of the objective: lambda times nats."""
        return self.upper - self.value


@final
@dataclass(frozen=True, eq=False)
class CalibratedLists:
    """A list for each user, and what it is worth."""

    lists: IntArray  # (users, n): item positions in order; -1 where no item was left
    relevance: FloatArray  # (users,): the sum of the scores, s(I)
    divergence: FloatArray
    """(users,): C_KL of the list, category systems summed by their importance; 0 for a user without interests."""
    evaluations: IntArray  # (users,): how often a category vector's gain was computed
    certificate: ListCertificate | None  # None if it was not asked for


def calibrated_lists(
    scores: Scores,
    allowed: BoolArray,
    vectors: CategoryVectors,
    interests: FloatArray,
    *,
    weight: float | ArrayLike,
    size: int,
    rank_weights: ArrayLike | None = None,
    smoothing: float = SMOOTHING,
    importance: ArrayLike | None = None,
    caps: ArrayLike | None = None,
    must: BoolArray | None = None,
    horizon: Horizon,
    ties: TieKeys | None = None,
    certify: bool = False,
    tol: float = 1e-6,
) -> CalibratedLists:
    """Lists of `size` items, each item in turn the best next one for (1 - lambda) s(I) - lambda C_KL(p, q(I)).

    Over all allowed items, not a pool of candidates. Of tied values the higher score wins, of tied scores the item with
    the lowest tie key (`recaudit.ties`), so that no rounding decides; the first item where no `ties` (users, items) are
    given.

    `scores` (users, items), finite where allowed, `allowed` (users, items); `interests` (users, genres): p(g|u), each
    category system summing to one, or to zero without any history: then calibration is left out of the sum.
    `weight`: lambda from 0 to 1, or one for each rank (n,). `rank_weights` (n,): w, not rising; see `rank_weights()`.
    `importance` (genres,): the weight of the genre's category system, for several of them side by side. `caps`
    (genres,): how many items of a genre a list may have. `must` (users, items): what has to be in the list, whatever
    the caps: it comes when it is the best, at the latest when only its places are left.

    With the `horizon` "prefix", the paper's greedy, each choice is the best for the list that ends with it: a shorter
    list is the beginning of a longer one, and the list as a whole may be worse than the list by score alone. With
    "list" the objective is that of the list of full size: the greedy for it (W_n in every term), or the list by score
    where that one is better, and then up to 20 exchanges of items or places, each of which helps; none where the weight
    differs from rank to rank. Only this one has the guarantee of 1 - 1/e: Equation 9, which the paper claims it for, is
    minus infinity for the empty list.

    `certify` asks for an upper bound on what any list could have as a whole, whatever the horizon, for a single
    `weight`; some milliseconds a user. It leaves `caps` out: it holds with them too, but is wider.
    """
    items = vectors.n_items
    fits = scores.ndim == 2 and scores.shape[1] == items and scores.dtype in (np.float32, np.float64)
    expected = f"floats of shape (users, {items}), one number an item"
    require(fits, "scores", f"{scores.dtype} of shape {scores.shape}", expected)
    _check_mask("allowed", allowed, scores.shape)
    require(items > 0, "vectors", "a catalogue without items", "at least one item")
    objective = _objective(weight, size, rank_weights, smoothing, importance, caps, vectors.n_genres, horizon)
    shape, p = (len(scores), vectors.n_genres), np.ascontiguousarray(interests, dtype=np.float64)
    require(p.shape == shape, "interests", f"shape {p.shape}", f"shape {shape}: users, genres")
    proper = np.isfinite(p).all() and (p >= 0).all()
    require(proper, "interests", "a number below 0, NaN or infinite", "probabilities")
    if must is not None:
        _check_mask("must", must, allowed.shape)
        require(not (must & ~allowed).any(), "must", "an item that is not allowed", "allowed items")
        most = int(must.sum(axis=1).max(initial=0))
        require(most <= size, "must", f"{most} items for one list", f"at most {size}, the list's length")
    one_weight = bool((objective.weights == objective.weights[0]).all())
    received = "True beside weights that differ from rank to rank"
    expected = "one weight: Equation 6 has one lambda, and the bound is on it"
    require(one_weight or not certify, "certify", received, expected)
    scores = scores if scores.flags.c_contiguous else scores.copy()
    due = np.zeros((1, scores.shape[1]), dtype=np.bool_) if must is None else np.ascontiguousarray(must)
    # A share of the history so small that its terms underflow is none.
    keys = TieKeys.in_order(items) if ties is None else ties
    expected = f"keys of {len(scores)} users and {items} items"
    shape = len(keys.users), len(keys.items)
    require(shape in ((0, items), (len(scores), items)), "ties", f"keys of shape {shape}", expected)
    users = ListUsers(scores, np.ascontiguousarray(allowed), due, np.where(p < _NEGLIGIBLE, 0.0, p), keys)
    # By score alone, without caps, no exchange helps.
    exchange = horizon == "list" and one_weight and bool(objective.weights[0] > 0 or (objective.caps < size).any())
    lists, evaluations = _lists(users, vectors, objective, exchange=exchange)
    relevance, apart, value = _worth(users, vectors, objective, lists)
    certificate = None
    if certify:
        by_score, _ = _lists(users, vectors, objective._replace(weights=np.zeros(size)), exchange=False)
        plain = _worth(users, vectors, objective, by_score)[2]
        bound = upper_bound(users, vectors, objective, lists)
        upper = np.maximum(value, bound + _ROUNDING * np.maximum(1.0, np.abs(bound)))
        status = status_of(value, upper, tol)
        certificate = ListCertificate(value, value, upper, status, np.empty((0, size)), evaluations, plain)
    return CalibratedLists(lists, relevance, apart, evaluations, certificate)


def _lists(
    users: ListUsers, vectors: CategoryVectors, objective: ListObjective, *, exchange: bool
) -> tuple[IntArray, IntArray]:
    """The lists (users, n) and evaluations (users,)."""
    count = len(users.scores)
    lists, evaluations = np.full((count, len(objective.weights)), -1), np.zeros(count, dtype=np.int64)

    def solve(rows: slice) -> None:
        make_lists(users.take(rows), vectors, objective, exchange, lists[rows], evaluations[rows])

    split_on_cores(solve, count)
    if (evaluations == NOT_FINITE).any():
        check_finite("scores", np.nan)
    return lists, evaluations


def _worth(
    users: ListUsers, vectors: CategoryVectors, objective: ListObjective, lists: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(users,) each: s(I), C_KL and Equation 6 of the lists, the latter with the first rank's lambda."""
    taken = np.take_along_axis(users.scores, np.maximum(lists, 0), axis=1).astype(np.float64)
    relevance = np.where(lists >= 0, taken, 0.0).sum(axis=1)
    q = vectors.distribution(lists, objective.rank_weights)
    apart = divergence(users.interests, q, objective.alpha, objective.importance)
    return relevance, apart, (1 - objective.weights[0]) * relevance - objective.weights[0] * apart


def _objective(
    weight: float | ArrayLike,
    size: int,
    rank_weights: ArrayLike | None,
    smoothing: float,
    importance: ArrayLike | None,
    caps: ArrayLike | None,
    genres: int,
    horizon: Horizon,
) -> ListObjective:
    """From arguments as they come, which are checked."""
    require(size >= 1, "size", size, "a list length of 1 or more")
    weights = np.asarray(weight, dtype=np.float64)
    expected = f"one number, or {size}, one a rank"
    require(weights.shape in ((), (size,)), "weight", f"shape {weights.shape}", expected)
    proper = bool(((weights >= 0) & (weights <= 1)).all())
    require(proper, "weight", weight, "lambda from 0 (the scores alone) to 1 (calibration alone)")
    w = np.ones(size) if rank_weights is None else np.ascontiguousarray(rank_weights, dtype=np.float64)
    falling = w.shape == (size,) and bool(np.isfinite(w).all() and (np.diff(w) <= 0).all())
    proper = falling and bool(w[0] > 0 and w[-1] >= 0)
    expected = f"{size} weights, the first above 0, none below 0, none above the one before"
    remedy = "A weight that rises with the rank would make an old gain no bound on a new one."
    require(proper, "rank_weights", rank_weights, expected, remedy)
    require(0 < smoothing < 1, "smoothing", smoothing, "alpha above 0 and below 1; the paper has 0.01")
    m = np.ones(genres) if importance is None else np.ascontiguousarray(importance, dtype=np.float64)
    proper = m.shape == (genres,) and bool((np.isfinite(m) & (m >= 0)).all())
    require(proper, "importance", importance, f"{genres} finite numbers of 0 or more")
    limits = np.full(genres, NO_CAP) if caps is None else np.ascontiguousarray(caps)
    proper = limits.shape == (genres,) and limits.dtype.kind in "iu" and bool((limits >= 0).all())
    require(proper, "caps", caps, f"{genres} whole numbers of 0 or more")
    horizons = get_args(Horizon)
    require(horizon in horizons, "horizon", repr(horizon), "'prefix' or 'list'", did_you_mean(horizon, horizons))
    totals = np.cumsum(w) if horizon == "prefix" else np.full(size, np.cumsum(w)[-1])
    lambdas = np.broadcast_to(weights, size).copy()
    return ListObjective(lambdas, w, totals, m, float(smoothing), limits.astype(np.int64))


def _check_mask(name: str, mask: BoolArray, shape: tuple[int, ...]) -> None:
    fits = mask.shape == shape and mask.dtype == np.bool_
    require(fits, name, f"{mask.dtype} of shape {mask.shape}", f"booleans of shape {shape}")
