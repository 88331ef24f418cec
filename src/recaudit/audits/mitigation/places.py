"""Places in lists, as ratings move them: what users can bring into their own list, and out of each other's.

Re-ranked lists have no probability of a single item, and no formula for what ratings do to them. So ratings are tried,
and each time the list is made: what is found is a lower bound. Only the lowest and the highest rating are tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.calibration.calibrator import systems_of
from recaudit.data.interactions import Interactions
from recaudit.interventions.ratings import rating_range
from recaudit.models.base import FittedModel
from recaudit.models.response import AffineResponse, DifferentiableResponse, Response
from recaudit.policies import Lister, ListPolicy
from recaudit.policies.calibrated import Calibrated
from recaudit.ranking import top_items
from recaudit.torch_extra import require_torch

_APART = 1e-6
"""A gap wider than this part of the largest score keeps its sign on every machine, and is no chain of ties."""


@final
@dataclass(frozen=True, eq=False)
class PlaceSearch:
    """Which targets users can bring into their lists; a block of users in, (2, users, targets) out. Picklable, pure.

    The first is 1 where a target is in the list or was found to get into the next, 0 where it was not; the second 0
    where nothing brings it in, else 1. NaN where the user has seen it, or is shown nothing.
    """

    model: FittedModel
    policy: ListPolicy
    lists: IntArray
    """(users, k): what everybody is shown now, -1 for none."""
    targets: IntArray
    """(targets,): positions."""
    budget: int
    """How many ratings of the list are tried for a target."""
    rng: int

    def __call__(self, users: IntArray) -> FloatArray:
        """(2, users, targets), of these users (positions)."""
        return np.stack([self._user(int(user)) for user in users], axis=1)

    def _user(self, user: int) -> FloatArray:
        """(2, targets)"""
        data, shown = self.model.data, self.lists[user][self.lists[user] >= 0]
        unseen = ~data.seen(np.array([user]))[0]
        found = np.full((2, len(self.targets)), np.nan)
        if not len(shown):
            return found
        asked = unseen[self.targets]
        found[:, asked] = np.isin(self.targets, shown)[asked]
        candidates = unseen & ~np.isin(np.arange(data.n_items), shown)
        response = self.model.respond(user, user, shown)
        wanted = np.flatnonzero(found[0] == 0)
        possible = ~self._kept_out(response, candidates, self.targets[wanted])
        found[1, wanted] = possible
        open_to = wanted[possible]
        found[0, open_to] = _RatedList(self, user, shown, response, candidates).reached(self.targets[open_to])
        return found

    def _kept_out(self, response: Response, candidates: BoolArray, targets: IntArray) -> BoolArray:
        """(targets,): whether k candidates stand above the target at all ratings, so that no list has it.

        Of items with the same categories, a re-ranked list takes those with the higher scores first: only they count.
        """
        kept, policy, data = np.zeros(len(targets), dtype=bool), self.policy, self.model.data
        if not isinstance(response, AffineResponse):
            return kept
        # Of a model that leaves items out, what stands above the target may itself not be shown.
        if not bool(self.model.may_show(response.scores(np.full(len(response.items), data.scale[0]))[None]).all()):
            return kept
        alike = _kinds(policy, data) if isinstance(policy, Calibrated) else np.zeros(data.n_items, dtype=np.int64)
        low, high = rating_range(data.scale)
        slope, intercept = response.slope, response.intercept
        largest = (np.abs(intercept) + np.abs(slope).sum(axis=1) * max(abs(low), abs(high))).max()
        for place, target in enumerate(targets.tolist()):
            rivals = np.flatnonzero(candidates & (alike == alike[target]))
            ahead = slope[target] - slope[rivals]
            most = intercept[target] - intercept[rivals] + np.maximum(ahead * low, ahead * high).sum(axis=1)
            kept[place] = np.count_nonzero(most < -_APART * largest) >= self.lists.shape[1]
        return kept


@final
class _RatedList:
    """Ratings of one user's list, tried one after the other."""

    def __init__(
        self, search: PlaceSearch, user: int, shown: IntArray, response: Response, candidates: BoolArray
    ) -> None:
        self.search, self.user, self.response, self.candidates = search, user, response, candidates
        self.low, self.high = rating_range(search.model.data.scale)
        # What was rated is part of the history that the next list is calibrated to.
        log = search.model.data.with_ratings(user, shown, np.full(len(shown), search.model.data.scale[1]))
        self.lister = search.policy.lister(log)
        self.starts = np.stack([np.full(len(shown), end) for end in (self.low, self.high)])

    def reached(self, targets: IntArray) -> BoolArray:
        """(targets,): for which of them ratings were found that bring them into the list.

        From the best of a few starts on, the one rating is changed that lifts the target most over the k-th of the
        others, until that is of no use.
        """
        found, lead = np.zeros(len(targets), dtype=bool), np.full(len(targets), -np.inf)
        left, going = self.search.budget, np.arange(len(targets))
        points = np.stack([np.tile(start, (len(targets), 1)) for start in self.starts], axis=1)
        points = np.concatenate([points, *self._towards(targets)], axis=1)
        while left > 0 and len(going):
            points = points[:, :left]  # (targets that go on, points, actions)
            left -= points.shape[1]
            leads, there = self._tried(points, targets[going])
            found[going] = there.any(axis=1)
            on = ~there.any(axis=1) & (leads.max(axis=1) > lead[going])
            lead[going] = leads.max(axis=1)
            best = points[on, leads[on].argmax(axis=1)]
            going, points = going[on], _one_changed(best, self.low, self.high)
        return found

    def _tried(self, points: FloatArray, targets: IntArray) -> tuple[FloatArray, BoolArray]:
        """(targets, points) each: how far a target is above the k-th of the others, and whether it is in the list.

        The first is a part of the largest score, rounded so that no rounding of scores decides.
        """
        scores = scores_at(self.response, points.reshape(-1, points.shape[2]))
        allowed = self.candidates & self.search.model.may_show(scores)
        k, own = self.search.lists.shape[1], np.repeat(targets, points.shape[1])
        rows = np.arange(len(own))
        lists = self.lister(scores, allowed, np.full(len(own), self.user), k, self.search.rng)
        others = np.where(allowed, scores, -np.inf)
        height = others[rows, own]
        others[rows, own] = -np.inf
        place = max(0, others.shape[1] - k)
        with np.errstate(invalid="ignore"):  # two infinities, where hardly anything is left to show
            above: FloatArray = height - np.partition(others, place, axis=1)[:, place]
        size = max(float(np.abs(scores).max()), np.finfo(np.float64).tiny)
        lead = np.asarray(np.round(np.nan_to_num(above / size), 9), dtype=np.float64)
        return lead.reshape(points.shape[:2]), (lists == own[:, None]).any(axis=1).reshape(points.shape[:2])

    def _towards(self, targets: IntArray) -> list[FloatArray]:
        """(targets, 1, actions): what lifts each most over the mean of those that come next; of affine scores alone."""
        if not isinstance(self.response, AffineResponse):
            return []
        middle = scores_at(self.response, self.starts.mean(axis=0)[None])
        ties, k = self.search.model.data.tie_keys(np.array([self.user])), self.search.lists.shape[1]
        rivals = top_items(middle, self.candidates[None], k, ties)[0]
        slope = self.response.slope
        ahead = slope[targets] - slope[rivals[rivals >= 0]].sum(axis=0) / max(1, (rivals >= 0).sum())
        return [np.where(ahead > 0, self.high, self.low)[:, None]]


@final
@dataclass(frozen=True, eq=False)
class ReplacementSearch:
    """How much of viewers' lists others can replace; a block of viewers in, (users, editors) out. Picklable, pure.

    The largest share of the viewer's list that is gone after one of the ratings that were tried of the editor's list;
    NaN where viewer and editor are the same, or one of them is shown nothing.
    """

    model: FittedModel
    policy: ListPolicy
    lists: IntArray
    """(users, k): what everybody is shown now, -1 for none."""
    editors: IntArray
    """(editors,): positions."""
    rng: int

    def __call__(self, viewers: IntArray) -> FloatArray:
        """(viewers, editors), of these viewers (positions)."""
        return np.stack([self._viewer(int(viewer)) for viewer in viewers])

    def _viewer(self, viewer: int) -> FloatArray:
        """(editors,)"""
        own, shares = self.lists[viewer][self.lists[viewer] >= 0], np.full(len(self.editors), np.nan)
        others = np.flatnonzero((self.editors != viewer) & (self.lists[self.editors] >= 0).any(axis=1))
        if not len(own) or not len(others):
            return shares
        parts = [self._moved(viewer, own, int(editor)) for editor in self.editors[others]]
        scores = np.concatenate(parts)
        allowed = ~self.model.data.seen(np.array([viewer])) & self.model.may_show(scores)
        lists = self._lister(scores, allowed, np.full(len(scores), viewer), self.lists.shape[1], self.rng)
        gone = 1 - np.isin(lists, own).sum(axis=1) / len(own)
        starts = np.cumsum([0, *map(len, parts[:-1])])
        shares[others] = np.maximum.reduceat(gone, starts)
        return shares

    def _moved(self, viewer: int, own: IntArray, editor: int) -> FloatArray:
        """(points, items): the viewer's scores after each of the ratings that are tried; `own` is the viewer's list."""
        rated = self.lists[editor][self.lists[editor] >= 0]
        low, high = rating_range(self.model.data.scale)
        response = self.model.respond(viewer, editor, rated)
        points = np.stack([np.full(len(rated), end) for end in (low, high)])
        if isinstance(response, AffineResponse):
            slope = response.slope
            away = slope.sum(axis=0) - 2 * slope[own].sum(axis=0)  # up with what is not in the list, down with what is
            start = np.where(away > 0, high, low)
            points = np.vstack([points, start[None], _one_changed(start[None], low, high)[0]])
        return scores_at(response, points)

    @cached_property
    def _lister(self) -> Lister:
        return self.policy.lister(self.model.data)  # once for all pairs


def scores_at(response: Response, points: FloatArray) -> FloatArray:
    """(points, items): every score after ratings (points, actions)."""
    if isinstance(response, AffineResponse):
        return points @ response.slope.T + response.intercept
    assert isinstance(response, DifferentiableResponse)
    torch = require_torch("differentiable responses")
    with torch.no_grad():
        scores: FloatArray = response.batch_scores(torch.from_numpy(points)).numpy()
    return scores


def _one_changed(points: FloatArray, low: float, high: float) -> FloatArray:
    """(points, actions, actions): points of lowest and highest ratings, with each rating in turn at the other end."""
    return np.where(np.eye(points.shape[1], dtype=bool), low + high - points[:, None], points[:, None])


def _kinds(policy: Calibrated, data: Interactions) -> IntArray:
    """(items,): a number for all items with the same categories, of those that the lists are calibrated to."""
    shares = np.hstack([data.categories[name].weights.toarray() for name in systems_of(data, policy.categories)])
    return np.asarray(np.unique(shares, axis=0, return_inverse=True)[1]).ravel()
