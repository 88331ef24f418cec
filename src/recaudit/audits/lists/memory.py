"""Has a model that was made elsewhere seen the held-out ratings?

A model knows what it was trained on better than what it was not: it ranks a user's training items higher for that user
than for other people, and held-out items less so. Where it ranks held-out items just as high, they look like training
items to it. The rule and what it was measured on are in docs/guides/data.md.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.samples import subsample
from recaudit.data.interactions import Interactions
from recaudit.metrics.intervals import Bootstrap
from recaudit.ties import TIE

_USERS = 2000
"""Users that are looked at."""
_FEWEST = 30
"""Fewer users say nothing."""
_PERSONAL = 0.05
"""How much higher training items must rank for their users than for others: below it the model is hardly personal."""
_ALIKE = 0.95
"""The smallest share that counts as 1."""
_CLOSE = 0.75
"""The lowest that the interval of such a share may begin: a wider one says nothing."""


@final
@dataclass(frozen=True)
class Ranked:
    """How high some users' own items rank for them, and every item for those of them who have not rated it."""

    users: IntArray
    """(users,): positions."""
    trained: FloatArray
    """(users,): the mean percentile of the training items that the user likes."""
    held_out: FloatArray
    """(users,): the same of held-out items."""
    others: FloatArray
    """(2, items): the sum of each item's percentiles over the users who have not rated it, and how many these are."""

    def joined(self, more: Ranked) -> Ranked:
        """With the users of another block."""
        return Ranked(
            np.concatenate([self.users, more.users]),
            np.concatenate([self.trained, more.trained]),
            np.concatenate([self.held_out, more.held_out]),
            self.others + more.others,
        )


@final
@dataclass(frozen=True)
class MemoryCheck:
    """The users that are looked at, and what they like: ratings from the user's mean on, all where they are equal."""

    train: Interactions
    test: Interactions
    users: IntArray

    @classmethod
    def of(cls, train: Interactions, test: Interactions, rng: int) -> MemoryCheck:
        """A sample of the users who like something in both parts."""
        with np.errstate(invalid="ignore"):
            mean = np.bincount(train.users, train.ratings, train.n_users) / train.user_counts
        liked, found = (log.subset(log.ratings >= mean[log.users] - TIE) for log in (train, test))
        both = np.flatnonzero((liked.user_counts > 0) & (found.user_counts > 0))
        return cls(liked, found, subsample(both, _USERS, train, rng, "memory") if len(both) else both)

    def among(self, users: IntArray) -> IntArray:
        """Those of these users (positions) who are in the sample."""
        return users[np.isin(users, self.users)]

    def ranked(self, users: IntArray, scores: torch.Tensor, rated: BoolArray) -> Ranked:
        """For those of a block of users (positions) who are in the sample; `rated` (users, items) in either part."""
        chosen = np.isin(users, self.users) & torch.isfinite(scores).all(dim=1).numpy()
        users, values, others = users[chosen], scores.numpy()[chosen], ~rated[chosen]
        place = np.empty_like(values)
        for row, (own, other) in enumerate(zip(values, others, strict=True)):
            crowd, gap = np.sort(own[other]), TIE * np.abs(own).max(initial=0.0)
            below, upto = np.searchsorted(crowd, own - gap), np.searchsorted(crowd, own + gap, side="right")
            place[row] = (below + upto) / 2 / max(1, len(crowd))
        trained, held_out = (_mean(place, log.seen(users)) for log in (self.train, self.test))
        crowds = np.stack([(place * others).sum(axis=0), others.sum(axis=0)])
        return Ranked(users, trained, held_out, crowds)

    def verdict(self, ranked: Ranked, rng: int) -> dict[str, Any]:
        """What the users' ranks say: "memory", "no sign of memory", or "unknown", and the numbers behind it.

        `trained` and `held_out` are how much higher, in percentiles, items rank for their users than for others;
        `share` is their quotient, with a bootstrap interval over users: 1 where held-out items are like training ones.
        """
        users = ranked.users
        if len(users) < _FEWEST:
            why = f"{len(users)} users with scores and liked items in both parts, and {_FEWEST} are needed"
            return {"verdict": "unknown", "why": why, "users": len(users)}
        total, count = ranked.others
        usual = total / np.maximum(count, 1)
        own = (ranked.trained, ranked.held_out)
        logs = (self.train, self.test)
        trained, held_out = (
            mean - np.bincount(log.users, usual[log.items], log.n_users)[users] / log.user_counts[users]
            for mean, log in zip(own, logs, strict=True)
        )
        bootstrap = Bootstrap(rng=rng)
        with np.errstate(divide="ignore", invalid="ignore"):
            draws = np.concatenate([drawn @ held_out / (drawn @ trained) for drawn in bootstrap.resamples(len(users))])
            lower, upper = bootstrap.percentiles(draws[:, None])[:, 0].tolist()
        facts = {
            "trained": round(float(trained.mean()), 6),
            "held_out": round(float(held_out.mean()), 6),
            "users": len(users),
        }
        if trained.mean() < _PERSONAL:
            why = "training items rank hardly higher for their users than for others"
            return {"verdict": "unknown", "why": why, **facts}
        facts |= {"share": round(float(held_out.mean() / trained.mean()), 6)}
        facts |= {"lower": round(lower, 6), "upper": round(upper, 6)}
        if facts["share"] >= _ALIKE and lower >= _CLOSE:
            return {"verdict": "memory", **facts}
        if upper < 1:
            return {"verdict": "no sign of memory", **facts}
        return {"verdict": "unknown", "why": "the interval is too wide to tell", **facts}


def warn(memory: dict[str, Any]) -> None:
    """Say so where the numbers look like memory."""
    if memory["verdict"] == "memory":
        shares = f"{memory['share']:.0%} [{memory['lower']:.0%}, {memory['upper']:.0%}]"
        warnings.warn(
            "The model ranks held-out items as it ranks the items that it was trained on: their lead over what they "
            f"have with other people is {shares} of that of training items. It has probably seen them: check that it "
            "was trained on the training part alone.",
            stacklevel=2,
        )


def _mean(values: FloatArray, members: BoolArray) -> FloatArray:
    """(rows,): the mean of each row's members."""
    means: FloatArray = np.where(members, values, 0.0).sum(axis=1) / np.maximum(members.sum(axis=1), 1)
    return means
