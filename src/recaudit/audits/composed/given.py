"""Recipes at given ratings: plug them into the model's response and look. Any response will do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.composed.pairs import ResolvedPairs, Rows
from recaudit.audits.recipe.parts import (
    At,
    Change,
    Functional,
    Lift,
    Moved,
    Outcome,
    PredictedRating,
    RankGain,
    RecommendedList,
)
from recaudit.errors import InputError
from recaudit.interventions import Stars
from recaudit.interventions.ratings import rating_range
from recaudit.ranking import ranks
from recaudit.solvers.distance.distances import distance_between


def at_given(outcome: Outcome, functional: Functional, at: At, pairs: ResolvedPairs) -> Rows:
    """The functional of the outcome after each actor has given these ratings."""
    return Rows.joined(_answers(outcome, functional, _ratings(at, pairs), pairs), about_an_item=outcome.about_an_item)


def compared(functional: Functional, before: FloatArray, after: FloatArray) -> FloatArray:
    """The number of each outcome next to its baseline, both (n,); NaN for the lift of what was and stays impossible."""
    if isinstance(functional, Change):
        return after - before
    if isinstance(functional, Lift):
        with np.errstate(divide="ignore", invalid="ignore"):
            return after / before
    return after


def _ratings(at: At, pairs: ResolvedPairs) -> FloatArray:
    """(actions,): a rating for each action, one that may be given."""
    actions = pairs.acted.shape[1]
    given = at.ratings if isinstance(at.ratings, Sequence) else [at.ratings] * actions
    ratings = np.array(given, dtype=np.float64)
    if len(ratings) != actions:
        raise InputError(
            "At.ratings",
            received=f"{len(ratings)} ratings",
            expected=f"{actions}, one for each rating that is free, or a single number for all of them",
        )
    low, high = pairs.ends
    fits = (ratings >= low) & (ratings <= high)
    if isinstance(pairs.ratings, Stars):
        fits &= np.isclose(ratings[:, None], pairs.ratings.values).any(axis=1)
    if not fits.all():
        raise InputError(
            "At.ratings",
            received=ratings[~fits].tolist(),
            expected=f"ratings that the intervention allows: {pairs.ratings!r}",
        )
    return ratings


def _answers(outcome: Outcome, functional: Functional, ratings: FloatArray, pairs: ResolvedPairs) -> Iterator[Rows]:
    scores = pairs.model.scores(pairs.viewers)
    for viewer, actor in pairs.each():
        acts = pairs.acted[actor] >= 0
        items = None
        if outcome.about_an_item:
            items = np.flatnonzero(pairs.asked(viewer, np.array([actor]), outcome))
        count = 1 if items is None else len(items)
        baseline = value = np.full(count, np.nan)
        if acts.any():
            response = pairs.model.respond(
                int(pairs.viewers[viewer]), int(pairs.actors[actor]), pairs.acted[actor][acts]
            )
            before = scores[viewer] if pairs.given is None else response.scores(pairs.given[actor][acts])
            look = _Look(pairs, viewer, torch.stack([before, response.scores(ratings[acts])]))
            if items is None:
                baseline, value = np.zeros(1), np.array([look.apart(outcome, functional)])
            else:
                baseline, value = look.of_items(outcome, functional, items)
        yield Rows(np.full(count, viewer), np.full(count, actor), items, value, baseline)


@final
@dataclass(frozen=True, eq=False)
class _Look:
    """What a viewer sees before and after."""

    pairs: ResolvedPairs
    viewer: int
    """A row of `pairs.viewers`."""
    scores: torch.Tensor
    """(2, items)"""

    def of_items(self, outcome: Outcome, functional: Functional, items: IntArray) -> tuple[FloatArray, FloatArray]:
        """The baseline and the number (len(items),) each; NaN for an item that is no candidate."""
        if isinstance(outcome, PredictedRating):
            both = self.scores.clamp(*rating_range(self.pairs.log.scale)).numpy()[:, items]
        else:
            both = self._log_probabilities().exp().numpy()[:, items]
        if isinstance(functional, RankGain):
            first, second = ranks(self.scores, self._allowed())[:, items]
            value = (first - second).astype(np.float64)
        else:
            value = compared(functional, both[0], both[1])
        candidate = self.pairs.allowed[self.viewer, items]
        return np.where(candidate, both[0], np.nan), np.where(candidate, value, np.nan)

    def apart(self, outcome: Outcome, functional: Functional) -> float:
        """How far apart the two are, as distributions or as lists; NaN where nothing can be recommended."""
        if not self.pairs.allowed[self.viewer].any():
            return float("nan")
        if isinstance(functional, Moved):
            before, after = self._log_probabilities()
            return float(distance_between(functional.name, before, after))
        log, user = self.pairs.log, int(self.pairs.viewers[self.viewer])
        length = outcome.k if isinstance(outcome, RecommendedList) else 1
        # The same key twice draws the same numbers: a list changes because of the scores alone.
        keys = log.user_keys[[user, user]], log.item_keys
        lists = self.pairs.policy.sample(self.scores, self._allowed(), length, self.pairs.rng, *keys)
        return float(np.mean(~np.isin(lists[1][lists[1] >= 0], lists[0])))

    def _allowed(self) -> torch.Tensor:
        return torch.from_numpy(self.pairs.allowed[[self.viewer, self.viewer]])

    def _log_probabilities(self) -> torch.Tensor:
        return self.pairs.policy.log_probabilities(self.scores, self._allowed())
