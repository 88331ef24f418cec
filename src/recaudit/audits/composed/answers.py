"""How a composed audit is answered: at given ratings, plugged into any response; or at the best ones, in closed form.

With an affine response, `s_i = slope_i . a + intercept_i`, the best rating is at the end of its range that its slope
points to. A predicted rating is a score held within the scale, so its extremes are those of the score. A probability
grows with the item's own score and falls with the others'; where each rating moves its own item only, all of these can
be had at once: the item's score at its largest, the other edited items' at their smallest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from recaudit.arrays import BoolArray, FloatArray, IntArray
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
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Stars
from recaudit.interventions.ratings import rating_range
from recaudit.models.base import makers
from recaudit.models.response import AffineResponse
from recaudit.ranking import ranks
from recaudit.solvers.distance.distances import distance_between
from recaudit.ties import TieKeys

_EDITORS = 256
"""Editors looked at together for one viewer: their scores of some thousand items are a few megabytes."""


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
            both = np.stack([before, response.scores(ratings[acts])])
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
    outcome: Outcome, functional: Functional, pairs: ResolvedPairs, viewer: int, scores: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(items,) each: the number and the baseline by scores before and after (2, items); NaN for no candidate."""
    candidate = pairs.allowed[viewer]
    allowed = pairs.allowed[[viewer, viewer]]
    if isinstance(outcome, PredictedRating):
        before, after = scores.clip(*rating_range(pairs.log.scale))
    else:
        before, after = np.exp(pairs.policy.log_probabilities(scores, allowed, _ties(pairs, viewer, 2)))
    value = compared(functional, before, after)
    if isinstance(functional, RankGain):
        first, second = ranks(scores, allowed, _ties(pairs, viewer, 2))
        value = (first - second).astype(np.float64)
    return np.where(candidate, value, np.nan), np.where(candidate, before, np.nan)


def _ties(pairs: ResolvedPairs, viewer: int, count: int) -> TieKeys:
    """Return the viewer's tie keys, for `count` rows of scores."""
    return pairs.model.data.tie_keys(pairs.viewers[[viewer]]).repeated(count)


def _apart(outcome: Outcome, functional: Functional, pairs: ResolvedPairs, viewer: int, scores: FloatArray) -> float:
    """How far apart distributions or lists by scores before and after (2, items) are; NaN where there are none."""
    allowed = pairs.allowed[[viewer, viewer]]
    if not allowed.any():
        return float("nan")
    if isinstance(functional, Moved):
        before, after = pairs.policy.log_probabilities(scores, allowed, _ties(pairs, viewer, 2))
        return float(distance_between(functional.name, before, after))
    user = pairs.viewers[viewer]
    length = outcome.k if isinstance(outcome, RecommendedList) else 1
    # The same key twice draws the same numbers: a list changes because of the scores alone.
    keys = pairs.log.user_keys[[user, user]], pairs.log.item_keys
    before, after = pairs.policy.sample(scores, allowed, length, pairs.rng, *keys, _ties(pairs, viewer, 2))
    return float(np.mean(~np.isin(after[after >= 0], before)))


def largest(outcome: Outcome, functional: Functional, pairs: ResolvedPairs) -> Iterator[Rows]:
    """The functional where it is largest; for `Change`, where its size is."""
    if pairs.model.response not in (None, AffineResponse):
        raise NotSupportedError(
            f"The scores of {type(pairs.model).__name__} are no affine function of the ratings, so that the largest "
            "value has no closed form. At(ratings) can be asked of it; Max() of "
            f"{makers(lambda made: made.response is AffineResponse)}."
        )
    ranges = _own(pairs) if pairs.editors is None else _others(pairs)
    return (_rows(outcome, functional, pairs, one) for one in ranges)


class _Range(NamedTuple):
    """Between which scores (actors, items) a viewer's items can be moved by some actors, both as rows of the pairs."""

    viewer: int
    actors: IntArray
    before: FloatArray
    lowest: FloatArray
    highest: FloatArray


def _own(pairs: ResolvedPairs) -> Iterator[_Range]:
    low, high = pairs.ends
    for row, user in enumerate(pairs.viewers):
        acts = pairs.acted[row] >= 0
        response = pairs.model.own_responses(np.array([user]), pairs.acted[row][acts][None, :])
        slope, intercept = response.slope[0], response.intercept[0]
        before = pairs.model.scores(np.array([user]))[0]
        if pairs.given is not None:
            before = slope @ pairs.given[row][acts] + intercept
        ends = np.stack([slope * low, slope * high])
        lowest, highest = ends.min(axis=0).sum(axis=1) + intercept, ends.max(axis=0).sum(axis=1) + intercept
        yield _Range(row, np.array([row]), before[None], lowest[None], highest[None])


def _others(pairs: ResolvedPairs) -> Iterator[_Range]:
    editors, acted = pairs.actors, pairs.acted
    ratings = np.broadcast_to(np.array(pairs.ends), (*acted.shape, 2))
    if pairs.given is not None:
        ratings = np.concatenate([ratings, pairs.given[:, :, None]], axis=2)
    edited = pairs.model.edited_items(editors, acted, ratings)
    for viewer, user in enumerate(pairs.viewers):
        alone = np.array([user])
        scores, moved = pairs.model.scores(alone), edited.scores(alone)[0]
        everybody_else = np.flatnonzero(editors != user)
        for block in np.split(everybody_else, range(_EDITORS, len(everybody_else), _EDITORS)):
            row, action = np.nonzero(acted[block] >= 0)
            cells, at = (row, acted[block][row, action]), moved[block][row, action]
            before, lowest, highest = (np.repeat(scores, len(block), axis=0) for _ in range(3))
            lowest[cells], highest[cells] = at[:, :2].min(axis=1), at[:, :2].max(axis=1)
            if pairs.given is not None:
                before[cells] = at[:, 2]
            yield _Range(viewer, block, before, lowest, highest)


def _rows(outcome: Outcome, functional: Functional, pairs: ResolvedPairs, span: _Range) -> Rows:
    asked = pairs.asked(span.viewer, span.actors, outcome)
    if isinstance(outcome, PredictedRating):
        scores = (span.before, span.lowest, span.highest)
        before, lowest, highest = (part[asked].clip(*rating_range(pairs.log.scale)) for part in scores)
    else:
        before, lowest, highest = (part[asked] for part in _probabilities(pairs, span))
    value = compared(functional, before, highest)
    if isinstance(functional, Change):
        fall = compared(functional, before, lowest)
        # Of a rise and a fall that are equal to rounding, the rise counts.
        value = np.where(value >= -fall * (1 - 1e-9), value, fall)
    row, item = np.nonzero(asked)
    can_act: BoolArray = np.any(pairs.acted[span.actors] >= 0, axis=1)
    answered = pairs.allowed[span.viewer, item] & can_act[row]
    value, before = (np.where(answered, part, np.nan) for part in (value, before))
    return np.full(len(row), span.viewer), span.actors[row], item, value, before


def _probabilities(pairs: ResolvedPairs, span: _Range) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(n, items) each: every item's probability before, at its lowest and at its highest."""
    allowed = np.repeat(pairs.allowed[[span.viewer]], len(span.actors), axis=0)
    ties = _ties(pairs, span.viewer, len(span.actors))

    def shown(scores: FloatArray) -> FloatArray:
        return np.exp(pairs.policy.log_probabilities(scores, allowed, ties))

    def best(own: FloatArray, others: FloatArray) -> FloatArray:
        """Each item at its score in `own`, everything else as in `others`."""
        found = shown(others)
        for acted in pairs.acted[span.actors].T:
            row = np.flatnonzero(acted >= 0)
            cells = row, acted[row]
            moved = others.copy()
            moved[cells] = own[cells]
            found[cells] = shown(moved)[cells]
        return found

    return shown(span.before), best(span.lowest, span.highest), best(span.highest, span.lowest)
