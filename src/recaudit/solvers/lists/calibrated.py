"""Lists that trade relevance for calibration: the greedy of paper 004, Equation 6, and how far it is from the best."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, final, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from recaudit.arithmetic import core_count
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.errors import InputError, did_you_mean
from recaudit.solvers.checks import check_finite
from recaudit.solvers.lists.bound import Problem, upper_bound
from recaudit.solvers.lists.category_vectors import CategoryVectors
from recaudit.solvers.lists.kernel import NOT_FINITE, Scores, Setting, greedy_lists
from recaudit.solvers.lists.objective import SMOOTHING, divergence, list_distribution, rank_weights
from recaudit.solvers.lists.swaps import whole_lists
from recaudit.status import Status

__all__ = ["CalibratedLists", "CategoryVectors", "Certificate", "calibrated_lists", "rank_weights"]

Horizon = Literal["prefix", "list"]
NO_CAP = np.iinfo(np.int64).max
_ROUNDING = 1e-12
_NEGLIGIBLE = 1e-200


@final
@dataclass(frozen=True, eq=False)
class Certificate:
    """How far lists may be from the best lists of the same length, by the objective of Equation 6."""

    value: FloatArray
    """(users,): (1 - lambda) s(I) - lambda C_KL of the list."""
    upper: FloatArray
    """(users,): no list has more."""
    plain: FloatArray
    """(users,): the objective of the list by score alone, under the same constraints."""
    tol: float

    @property
    def gap(self) -> FloatArray:
        """(users,): how much more the best list may have, 0 or more, in units of the objective: lambda times nats."""
        return self.upper - self.value

    def within(self, gap: float) -> float:
        """The share of lists that are proved to be no further than this from the best; NaN without any list."""
        return float((self.gap <= gap).mean()) if len(self.gap) else math.nan

    @property
    def status(self) -> NDArray[np.str_]:
        """(users,): solved where the gap is within the tolerance, else bounded."""
        return np.where(self.gap <= self.tol, Status.SOLVED.value, Status.BOUNDED.value)


@final
@dataclass(frozen=True, eq=False)
class CalibratedLists:
    """A list for each user, and what it is worth."""

    lists: IntArray
    """(users, n): item positions in order; -1 where no item was left."""
    relevance: FloatArray
    """(users,): the sum of the scores, s(I)."""
    divergence: FloatArray
    """(users,): C_KL of the list, category systems summed by their importance; 0 for a user without interests."""
    evaluations: IntArray
    """(users,): how often a category vector's gain was computed."""
    certificate: Certificate | None
    """None if it was not asked for."""


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
    certify: bool = False,
    tol: float = 1e-6,
) -> CalibratedLists:
    """Lists of `size` items, each item in turn the best next one for (1 - lambda) s(I) - lambda C_KL(p, q(I)).

    Over all allowed items, not a pool of candidates. Of tied values the higher score wins, of tied scores the item that
    comes first in the catalogue (`recaudit.ties`), so that no rounding decides.

    `scores` (users, items), finite where allowed, `allowed` (users, items); `interests` (users, genres): p(g|u), each
    category system summing to one, or to zero without any history: then calibration is left out of the sum.
    `weight`: lambda from 0 (the scores alone) to 1, or one for each rank (n,). `rank_weights` (n,): w, not rising; see
    `rank_weights()`. `importance` (genres,): the weight of the genre's category system, for several of them side by
    side. `caps` (genres,): how many items of a genre a list may have. `must` (users, items): what has to be in the
    list, whatever the caps: it comes when it is the best, at the latest when only its places are left.

    `horizon` says what is optimised. With "prefix", the paper's greedy, each choice is the best for the list that ends
    with it: every beginning of the list is calibrated, and a shorter list is the beginning of a longer one. No single
    objective is behind that, and the list as a whole may have a lower one than the list by score alone. With "list"
    the objective is that of the list of full size: the greedy for it (W_n in every term), or the list by score where
    that one is better, and then up to 20 exchanges of items or places, each of which helps. The beginning keeps nearer
    to the scores. Only this one has the guarantee of 1 - 1/e: Equation 9, which the paper claims it for, is minus
    infinity for the empty list. Where the weight differs from rank to rank there is no objective of the whole, and no
    exchange.

    `certify` asks for an upper bound on what any list could have as a whole, whatever the horizon, for a single
    `weight`; it takes some milliseconds a user. It leaves `caps` out: it holds with them too, but is wider.
    """
    users = _check_scores(scores, allowed, vectors)
    weights = _check_weight(weight, size)
    problem = Problem(
        vectors,
        _check_interests(interests, (users, vectors.n_genres)),
        _check_importance(importance, vectors.n_genres),
        float(weights[0]),
        _check_rank_weights(rank_weights, size),
        _check_smoothing(smoothing),
    )
    limits = _check_caps(caps, vectors.n_genres)
    _check_must(must, allowed, size)
    one_weight = bool((weights == weights[0]).all())
    if certify and not one_weight:
        raise InputError(
            "certify",
            received="True beside weights that differ from rank to rank",
            expected="one weight: Equation 6 has one lambda, and the bound is on it",
        )
    whole = _check_horizon(horizon) == "list"
    totals = np.cumsum(problem.rank_weights)
    if whole:
        totals[:] = totals[-1]
    work = _Work.of(problem, scores, allowed, must, totals, limits)
    lists, evaluations = work.lists(whole_lists if whole and one_weight else greedy_lists, weights)
    relevance, apart = _worth(problem, scores, lists)
    certificate = None
    if certify:
        plain, _ = work.lists(greedy_lists, np.zeros(size))
        certificate = _certificate(problem, scores, allowed, must, lists, plain, tol)
    return CalibratedLists(lists, relevance, apart, evaluations, certificate)


@final
@dataclass(frozen=True, eq=False)
class _Work:
    """Arrays as compiled code takes them; users are cut for the cores."""

    problem: Problem
    scores: Scores
    allowed: BoolArray
    must: BoolArray
    """(users, items), or (1, items) where nothing must be in the lists."""
    totals: FloatArray
    """(n,): W at each rank."""
    caps: IntArray

    @classmethod
    def of(
        cls,
        problem: Problem,
        scores: Scores,
        allowed: BoolArray,
        must: BoolArray | None,
        totals: FloatArray,
        caps: IntArray,
    ) -> _Work:
        due = np.zeros((1, scores.shape[1]), dtype=np.bool_) if must is None else np.ascontiguousarray(must)
        of_users = scores if scores.flags.c_contiguous else scores.copy()
        return cls(problem, of_users, np.ascontiguousarray(allowed), due, totals, caps)

    def lists(self, make: Callable[..., None], weights: FloatArray) -> tuple[IntArray, IntArray]:
        """The lists (users, n) and evaluations (users,), as `make`, a compiled function, makes them."""
        problem, users, cores = self.problem, len(self.scores), core_count()
        lists, evaluations = np.full((users, len(weights)), -1, dtype=np.int64), np.zeros(users, dtype=np.int64)
        setting = Setting(weights, problem.rank_weights, self.totals, problem.importance, problem.smoothing, self.caps)

        def solve(rows: slice) -> None:
            make(
                self.scores[rows],
                self.allowed[rows],
                self.must if len(self.must) == 1 else self.must[rows],
                problem.interests[rows],
                problem.vectors,
                setting,
                lists[rows],
                evaluations[rows],
            )

        step = max(1, math.ceil(users / cores))
        with ThreadPoolExecutor(cores) as pool:
            list(pool.map(solve, (slice(start, start + step) for start in range(0, users, step))))
        if (evaluations == NOT_FINITE).any():
            check_finite("scores", torch.tensor(torch.nan))
        return lists, evaluations


def _objective(problem: Problem, scores: Scores, lists: IntArray) -> FloatArray:
    """(users,): Equation 6 of the lists."""
    relevance, apart = _worth(problem, scores, lists)
    return (1 - problem.weight) * relevance - problem.weight * apart


def _worth(problem: Problem, scores: Scores, lists: IntArray) -> tuple[FloatArray, FloatArray]:
    """(users,) s(I) and (users,) C_KL of the lists."""
    taken = np.take_along_axis(scores, np.maximum(lists, 0), axis=1).astype(np.float64)
    of_vectors = np.where(lists >= 0, problem.vectors.vector_of[np.maximum(lists, 0)], -1).astype(np.int64)
    q = list_distribution(of_vectors, problem.vectors.shares(), problem.rank_weights)
    apart = divergence(problem.interests, q, problem.smoothing, problem.importance)
    return np.where(lists >= 0, taken, 0.0).sum(axis=1), apart


def _certificate(
    problem: Problem,
    scores: Scores,
    allowed: BoolArray,
    must: BoolArray | None,
    lists: IntArray,
    plain: IntArray,
    tol: float,
) -> Certificate:
    value, by_score = _objective(problem, scores, lists), _objective(problem, scores, plain)
    bound = upper_bound(problem, scores, allowed, must, lists)
    upper = np.maximum(value, bound + _ROUNDING * np.maximum(1.0, np.abs(bound)))
    return Certificate(value, upper, by_score, tol)


def _check_scores(scores: Scores, allowed: BoolArray, vectors: CategoryVectors) -> int:
    """How many users there are."""
    expected = f"floats of shape (users, {vectors.n_items}), one number an item"
    if scores.ndim != 2 or scores.shape[1] != vectors.n_items or scores.dtype not in (np.float32, np.float64):
        raise InputError("scores", received=f"{scores.dtype} of shape {scores.shape}", expected=expected)
    if allowed.shape != scores.shape or allowed.dtype != np.bool_:
        received = f"{allowed.dtype} of shape {allowed.shape}"
        raise InputError("allowed", received=received, expected=f"booleans of shape {scores.shape}")
    if not vectors.n_items:
        raise InputError("vectors", received="a catalogue without items", expected="at least one item")
    return len(scores)


def _check_weight(weight: float | ArrayLike, size: int) -> FloatArray:
    if size < 1:
        raise InputError("size", received=size, expected="a list length of 1 or more")
    weights = np.asarray(weight, dtype=np.float64)
    if weights.shape not in ((), (size,)):
        raise InputError("weight", received=f"shape {weights.shape}", expected=f"one number, or {size}, one a rank")
    if not ((weights >= 0) & (weights <= 1)).all():
        raise InputError(
            "weight", received=weight, expected="lambda from 0 (the scores alone) to 1 (calibration alone)"
        )
    return np.broadcast_to(weights, size).copy()


def _check_interests(interests: FloatArray, shape: tuple[int, int]) -> FloatArray:
    interests = np.ascontiguousarray(interests, dtype=np.float64)
    if interests.shape != shape:
        raise InputError("interests", received=f"shape {interests.shape}", expected=f"shape {shape}: users, genres")
    if not (np.isfinite(interests).all() and (interests >= 0).all()):
        raise InputError("interests", received="a number below 0, NaN or infinite", expected="probabilities")
    # A share of the history so small that its terms underflow is none.
    return np.where(interests < _NEGLIGIBLE, 0.0, interests)


def _check_rank_weights(weights: ArrayLike | None, size: int) -> FloatArray:
    found = np.ones(size) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
    falling = found.shape == (size,) and np.isfinite(found).all() and (np.diff(found) <= 0).all()
    if not (falling and found[0] > 0 and found[-1] >= 0):
        raise InputError(
            "rank_weights",
            received=repr(weights),
            expected=f"{size} weights, the first above 0, none below 0, none above the one before",
            remedy="A weight that rises with the rank would make an old gain no bound on a new one.",
        )
    return found


def _check_horizon(horizon: Horizon) -> Horizon:
    if horizon not in get_args(Horizon):
        remedy = did_you_mean(horizon, get_args(Horizon))
        raise InputError("horizon", received=repr(horizon), expected="'prefix' or 'list'", remedy=remedy)
    return horizon


def _check_smoothing(smoothing: float) -> float:
    if not 0 < smoothing < 1:
        raise InputError("smoothing", received=smoothing, expected="alpha above 0 and below 1; the paper has 0.01")
    return float(smoothing)


def _check_importance(importance: ArrayLike | None, genres: int) -> FloatArray:
    found = np.ones(genres) if importance is None else np.ascontiguousarray(importance, dtype=np.float64)
    if found.shape != (genres,) or not (np.isfinite(found) & (found >= 0)).all():
        expected = f"{genres} finite numbers of 0 or more"
        raise InputError("importance", received=repr(importance), expected=expected)
    return found


def _check_caps(caps: ArrayLike | None, genres: int) -> IntArray:
    found = np.full(genres, NO_CAP) if caps is None else np.ascontiguousarray(caps)
    if found.shape != (genres,) or found.dtype.kind not in "iu" or (found < 0).any():
        raise InputError("caps", received=repr(caps), expected=f"{genres} whole numbers of 0 or more")
    return found.astype(np.int64)


def _check_must(must: BoolArray | None, allowed: BoolArray, size: int) -> None:
    if must is None:
        return
    if must.shape != allowed.shape or must.dtype != np.bool_:
        received = f"{must.dtype} of shape {must.shape}"
        raise InputError("must", received=received, expected=f"booleans of shape {allowed.shape}")
    if (must & ~allowed).any():
        raise InputError("must", received="an item that is not allowed", expected="allowed items")
    most = int(must.sum(axis=1).max(initial=0))
    if most > size:
        raise InputError("must", received=f"{most} items for one list", expected=f"at most {size}, the list's length")
