"""From scores to calibrated lists: what the policy `Calibrated` says, carried out for the users of one log."""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from torch import Tensor

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.calibration.target import Target
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError, did_you_mean
from recaudit.policies.calibrated import Calibrated, ScoreTransform
from recaudit.ranking import ranks
from recaudit.solvers.lists.calibrated import NO_CAP, CalibratedLists, calibrated_lists
from recaudit.solvers.lists.objective import CategoryVectors, rank_weights


@final
class Calibrator:
    """The policy with everything that it takes from a log, made once for all blocks of users; a `Lister`."""

    def __init__(self, policy: Calibrated, data: Interactions) -> None:
        self.policy, self.data = policy, data
        self.target = Target.of(data, policy)
        self._vectors = CategoryVectors.of(self.target.shares)
        self._caps = _caps(policy.at_most, self.target.names)
        self._must, self._must_not = (np.zeros(data.n_items, dtype=np.bool_) for _ in range(2))
        for name, mask in (("must", self._must), ("must_not", self._must_not)):
            if ids := getattr(policy, name):
                mask[data.items_at(ids, name)] = True

    def __call__(self, scores: Tensor, allowed: Tensor, users: IntArray, n: int, rng: int) -> IntArray:
        """(users, n): the lists."""
        return self.solve(scores.numpy(), allowed.numpy(), users, n).lists

    def solve(
        self,
        scores: FloatArray,
        allowed: BoolArray,
        users: IntArray,
        n: int,
        *,
        weight: float | None = None,
        pool: IntArray | None = None,
        certify: bool = False,
    ) -> CalibratedLists:
        """Lists (users, n) with the policy's weight or another, out of all items or of a `pool` alone.

        `scores`, `allowed` (users, items), or (users, len(pool)); the lists are positions among those. A user at
        position -1 is unknown to the log. With `certify`, how far each list's objective may be below the best one's.
        """
        policy = self.policy
        items, vectors = np.arange(self._vectors.n_items), self._vectors
        if pool is not None:
            items, vectors = pool, _only(vectors, pool)
        chosen = policy.weight if weight is None else weight
        allowed = allowed & ~self._must_not[items]
        return calibrated_lists(
            transformed(scores, allowed, policy.transform),
            allowed,
            vectors,
            self.target.interests[users],
            weight=np.array([*chosen, *chosen[-1:] * n][:n]) if isinstance(chosen, tuple) else chosen,
            size=n,
            rank_weights=rank_weights(policy.rank_weights, n),
            smoothing=policy.smoothing,
            importance=self.target.importance,
            caps=self._caps,
            must=allowed & self._must[items] if self._must.any() else None,
            horizon=policy.horizon,
            certify=certify,
        )


def transformed(scores: FloatArray, allowed: BoolArray, kind: ScoreTransform) -> FloatArray:
    """(users, items): each user's scores on another scale, in the same order; what is not allowed does not count.

    Equal scores stay equal, and tied ones become so for "rank". A user whose scores are all the same has 0 everywhere,
    or 1 for "rank".
    """
    if kind == "none":
        return scores
    count = np.maximum(allowed.sum(axis=1, keepdims=True), 1)
    if kind == "rank":
        place = ranks(torch.from_numpy(scores), torch.from_numpy(allowed), shared=True)
        return np.asarray(np.where(allowed, 1 - (place - 1) / count, 0.0))
    if kind == "minmax":
        low = np.where(allowed, scores, np.inf).min(axis=1, keepdims=True, initial=np.inf)
        span = np.where(allowed, scores, -np.inf).max(axis=1, keepdims=True, initial=-np.inf) - low
    else:
        low = np.where(allowed, scores, 0.0).sum(axis=1, keepdims=True) / count
        span = np.sqrt(np.square(np.where(allowed, scores - low, 0.0)).sum(axis=1, keepdims=True) / count)
    return np.asarray(np.where(allowed, scores - low, 0.0) / np.where(span > 0, span, 1.0))


def _caps(at_most: dict[str, int], names: tuple[str, ...]) -> IntArray:
    caps = np.full(len(names), NO_CAP)
    for name, most in at_most.items():
        if name not in names:
            remedy = did_you_mean(name, names)
            raise InputError("at_most", received=repr(name), expected="a category of the log", remedy=remedy)
        caps[[genre == name for genre in names]] = most
    return caps


def _only(vectors: CategoryVectors, items: IntArray) -> CategoryVectors:
    """The vectors of these items alone, numbered from 0; vectors that none of them has stay, without members."""
    vector_of = vectors.vector_of[items]
    counts = np.bincount(vector_of, minlength=vectors.n_vectors)
    return vectors._replace(
        vector_of=vector_of,
        member_indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        members=np.argsort(vector_of, kind="stable").astype(np.int32),
    )
