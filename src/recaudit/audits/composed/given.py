"""Recipes at given ratings: plug them into the model's response and look. Any response will do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from recaudit.arrays import FloatArray
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


def at_given(outcome: Outcome, functional: Functional, at: At, pairs: ResolvedPairs) -> Iterator[Rows]:
    """The functional of the outcome after each actor has given these ratings."""
    ratings = _ratings(at, pairs)
    scores = pairs.model.scores(pairs.viewers)
    for viewer, actor in pairs.each():
        acts = pairs.acted[actor] >= 0
        items = np.zeros(1, dtype=np.int64)
        if outcome.about_an_item:
            items = np.flatnonzero(pairs.asked(viewer, np.array([actor]), outcome))
        value = baseline = np.full(len(items), np.nan)
        if acts.any():
            response = pairs.model.respond(
                int(pairs.viewers[viewer]), int(pairs.actors[actor]), pairs.acted[actor][acts]
            )
            before = scores[viewer] if pairs.given is None else response.scores(pairs.given[actor][acts])
            both = torch.stack([before, response.scores(ratings[acts])])
            if outcome.about_an_item:
                value, baseline = (part[items] for part in _of_items(outcome, functional, pairs, viewer, both))
            else:
                value, baseline = np.array([_apart(outcome, functional, pairs, viewer, both)]), np.zeros(1)
        yield np.full(len(items), viewer), np.full(len(items), actor), items, value, baseline


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


def _of_items(
    outcome: Outcome, functional: Functional, pairs: ResolvedPairs, viewer: int, scores: torch.Tensor
) -> tuple[FloatArray, FloatArray]:
    """(items,) each: the number and the baseline by scores before and after (2, items); NaN for no candidate."""
    candidate = pairs.allowed[viewer]
    allowed = torch.from_numpy(pairs.allowed[[viewer, viewer]])
    if isinstance(outcome, PredictedRating):
        before, after = scores.clamp(*rating_range(pairs.log.scale)).numpy()
    else:
        before, after = pairs.policy.log_probabilities(scores, allowed).exp().numpy()
    value = compared(functional, before, after)
    if isinstance(functional, RankGain):
        first, second = ranks(scores, allowed)
        value = (first - second).astype(np.float64)
    return np.where(candidate, value, np.nan), np.where(candidate, before, np.nan)


def _apart(outcome: Outcome, functional: Functional, pairs: ResolvedPairs, viewer: int, scores: torch.Tensor) -> float:
    """How far apart distributions or lists by scores before and after (2, items) are; NaN where there are none."""
    allowed = torch.from_numpy(pairs.allowed[[viewer, viewer]])
    if not allowed.any():
        return float("nan")
    if isinstance(functional, Moved):
        before, after = pairs.policy.log_probabilities(scores, allowed)
        return float(distance_between(functional.name, before, after))
    user = pairs.viewers[viewer]
    length = outcome.k if isinstance(outcome, RecommendedList) else 1
    # The same key twice draws the same numbers: a list changes because of the scores alone.
    keys = pairs.log.user_keys[[user, user]], pairs.log.item_keys
    before, after = pairs.policy.sample(scores, allowed, length, pairs.rng, *keys)
    return float(np.mean(~np.isin(after[after >= 0], before)))
