"""Has a model used the held-out interactions? Its scores are compared with those of refits on the training part.

One model's scores cannot answer this: among 90 honest and 90 leaked models of 15 kinds the ranges overlap almost
completely. Refits of the same recommender can: a model that ranks held-out items higher than its refits do, by more
than they vary, has seen some of them. docs/guides/data.md has the measured error rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.lists.recommend import gives_lists
from recaudit.audits.samples import subsample
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine
from recaudit.engines.base import blocks
from recaudit.metrics.inference import MIN_REFITS, compute_memory_limit
from recaudit.models.base import FittedModel, Recommender
from recaudit.models.linear.model import EASE
from recaudit.seeding import derive

MATCHED_ITEMS = 20
"""Number of unrated items that each held-out item is compared with."""

MAX_USERS = 2000
"""Number of users that are sampled."""


def detect_memory(
    model: FittedModel, recommender: Recommender | None, test: Interactions, refits: int, rng: int, engine: Engine
) -> dict[str, Any]:
    """Compare a model with refits of its recommender on the training part.

    Args:
        model: Model whose held-out scores are in question; `model.data` is the training part.
        recommender: Recommender with the settings of the model. None if the model cannot be trained again.
        test: Held-out interactions.
        refits: Number of refits; 0 if the comparison was not requested.
        rng: Seed of the refits and of the sample of users.
        engine: Executor of the blocks of users.

    Returns:
        The fact `memory` of the accuracy audit. `status` is "not_requested", "not_retrainable", "too_few_refits",
        "no_scores", "memory" or "no_sign". The last two come with `matched_share` of the model and of each of the
        `refits`, with the `limit` that an honest model exceeds once in 1,000 times, `users`, and the `settings`.
    """
    if not refits:
        return {"status": "not_requested"}
    if recommender is None or recommender.given:
        return {"status": "not_retrainable"}
    if gives_lists(model):
        return {"status": "no_scores"}
    if refits < MIN_REFITS:
        return {"status": "too_few_refits", "needed": MIN_REFITS}
    users = np.flatnonzero(test.user_counts)
    if len(users):
        users = subsample(users, MAX_USERS, model.data, rng, "memory")
    models = [model]
    models += [recommender.fit(model.data, derive(rng, "memory", number)) for number in range(refits)]
    work = _MatchedShares(models, EASE().fit(model.data), test)
    pieces = list(engine.map(work, list(blocks(users)), "refits"))
    shares = np.concatenate([np.empty((0, len(models))), *pieces])
    shares = shares[np.isfinite(shares).all(axis=1)]
    if not len(shares):
        return {"status": "no_scores"}
    own, *refitted = shares.mean(axis=0).tolist()
    limit = compute_memory_limit(np.array(refitted))
    assert limit is not None
    return {
        "status": "memory" if own > limit else "no_sign",
        "matched_share": own,
        "limit": limit,
        "refits": refitted,
        "users": len(shares),
        "settings": repr(recommender),
    }


def compute_matched_share(
    scores: FloatArray, reference_scores: FloatArray, held_out: IntArray, is_rated: BoolArray
) -> float:
    """Compute the share of comparable unrated items that one user's held-out items outrank.

    Comparable with a held-out item are the `MATCHED_ITEMS` unrated items whose reference scores are nearest to its own,
    half of them below. Ties count one half.

    Args:
        scores: Scores of the model, shape (items,).
        reference_scores: Scores of the reference model, shape (items,).
        held_out: Positions of the held-out items.
        is_rated: Mask of the items that the user rated in the training or the test part, shape (items,).

    Returns:
        The share, or NaN with fewer than 2 * `MATCHED_ITEMS` unrated items or without held-out items.
    """
    unrated = np.flatnonzero(~is_rated)
    if not len(held_out) or len(unrated) < 2 * MATCHED_ITEMS:
        return np.nan
    order = unrated[np.argsort(reference_scores[unrated], kind="stable")]
    at = np.searchsorted(reference_scores[order], reference_scores[held_out])
    start = np.clip(at - MATCHED_ITEMS // 2, 0, len(order) - MATCHED_ITEMS)
    matched = scores[order[start[:, None] + np.arange(MATCHED_ITEMS)]]
    own = scores[held_out][:, None]
    return float((matched < own).mean() + 0.5 * (matched == own).mean())


@final
@dataclass(frozen=True)
class _MatchedShares:
    """Matched shares of a block of users by several models."""

    models: Sequence[FittedModel]
    reference: FittedModel
    test: Interactions

    def __call__(self, users: IntArray) -> FloatArray:
        """Shape (users, models). NaN for a user whose scores are not all finite."""
        is_rated = self.reference.data.seen(users) | self.test.seen(users)
        reference_scores = self.reference.scores(users)
        shares = np.full((len(users), len(self.models)), np.nan)
        for column, model in enumerate(self.models):
            scores = model.scores(users)
            for row in np.flatnonzero(np.isfinite(scores).all(axis=1)):
                held_out = self.test.history(int(users[row]))[0].astype(np.int64)
                shares[row, column] = compute_matched_share(scores[row], reference_scores[row], held_out, is_rated[row])
        return shares
