"""Places in lists, as ratings move them: what users can bring into their own list, and out of each other's.

Re-ranked lists have no probability of a single item, and no formula for what ratings do to them. So ratings are tried,
and each time the list is made: what is found is a lower bound. Only the lowest and the highest rating are tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import torch
from torch import Tensor

from recaudit.arithmetic import product
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.interventions.ratings import rating_range
from recaudit.models.base import FittedModel
from recaudit.models.response import AffineResponse, DifferentiableResponse, Response
from recaudit.policies import Lister, ListPolicy
from recaudit.policies.calibrated import Calibrated
from recaudit.ranking import top_items

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
        trial = _Trial(self, user, shown, response, candidates)
        for place in wanted[possible]:
            found[0, place] = trial.reaches(int(self.targets[place]))
        return found

    def _kept_out(self, response: Response, candidates: BoolArray, targets: IntArray) -> BoolArray:
        """(targets,): whether k candidates stand above the target at all ratings, so that no list has it.

        Of items with the same categories, a re-ranked list takes those with the higher scores first: only they count.
        """
        kept, policy = np.zeros(len(targets), dtype=bool), self.policy
        if not isinstance(response, AffineResponse) or (isinstance(policy, Calibrated) and policy.must):
            return kept
        alike = _kinds(policy, self.model.data) if isinstance(policy, Calibrated) else np.zeros(len(candidates))
        if isinstance(policy, Calibrated):
            candidates = candidates & ~np.isin(np.arange(len(candidates)), self._never(policy))
        low, high = rating_range(self.model.data.scale)
        slope, intercept = response.slope.numpy(), response.intercept.numpy()
        largest = (np.abs(intercept) + np.abs(slope).sum(axis=1) * max(abs(low), abs(high))).max()
        for place, target in enumerate(targets.tolist()):
            rivals = np.flatnonzero(candidates & (alike == alike[target]))
            ahead = slope[target] - slope[rivals]
            most = intercept[target] - intercept[rivals] + np.maximum(ahead * low, ahead * high).sum(axis=1)
            kept[place] = np.count_nonzero(most < -_APART * largest) >= self.lists.shape[1]
        return kept

    def _never(self, policy: Calibrated) -> IntArray:
        return self.model.data.items_at(policy.must_not, "must_not") if policy.must_not else np.empty(0, dtype=np.int64)


@final
class _Trial:
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

    def reaches(self, target: int) -> bool:
        """Whether ratings were found that bring the target into the list.

        From the best of a few starts on, the one rating is changed that lifts the target most over the k-th of the
        others, until that is of no use.
        """
        points, left = np.vstack([self.starts, *self._towards(target)]), self.search.budget
        lead, best = -np.inf, points[0]
        while left > 0:
            points = points[:left]
            left -= len(points)
            leads, there = self._tried(points, target)
            if there:
                return True
            if leads.max() <= lead:
                return False
            lead, best = leads.max(), points[leads.argmax()]
            points = _one_changed(best, self.low, self.high)
        return False

    def _tried(self, points: FloatArray, target: int) -> tuple[FloatArray, bool]:
        """(points,): how far the target's score is above the k-th of the others; and whether one list has it."""
        k, model = self.search.lists.shape[1], self.search.model
        scores = scores_at(self.response, points)
        allowed = torch.from_numpy(self.candidates).expand(scores.shape) & model.may_show(scores)
        users = np.full(len(points), self.user)
        lists = self.lister(scores, allowed.contiguous(), users, k, self.search.rng)
        others = scores.masked_fill(~allowed, -torch.inf).numpy().copy()
        own = scores[:, target].numpy()
        others[:, target] = -np.inf
        last = np.partition(others, -min(k, others.shape[1]), axis=1)[:, -min(k, others.shape[1])]
        return own - last, bool((lists == target).any())

    def _towards(self, target: int) -> list[FloatArray]:
        """The ratings that lift the target most over the mean of those that come next, where scores are affine."""
        if not isinstance(self.response, AffineResponse):
            return []
        middle = scores_at(self.response, self.starts.mean(axis=0)[None])
        rivals = top_items(middle, torch.from_numpy(self.candidates)[None], self.search.lists.shape[1])[0]
        slope = self.response.slope.numpy()
        ahead = slope[target] - slope[rivals[rivals >= 0]].mean(axis=0)
        return [np.where(ahead > 0, self.high, self.low)[None]]


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
        return np.array([[self._pair(int(viewer), int(editor)) for editor in self.editors] for viewer in viewers])

    def _pair(self, viewer: int, editor: int) -> float:
        own, rated = (self.lists[user][self.lists[user] >= 0] for user in (viewer, editor))
        if viewer == editor or not len(own) or not len(rated):
            return np.nan
        low, high = rating_range(self.model.data.scale)
        response = self.model.respond(viewer, editor, rated)
        points = np.stack([np.full(len(rated), end) for end in (low, high)])
        if isinstance(response, AffineResponse):
            slope = response.slope.numpy()
            away = slope.sum(axis=0) - 2 * slope[own].sum(axis=0)  # up with what is not in the list, down with what is
            start = np.where(away > 0, high, low)
            points = np.vstack([points, start[None], _one_changed(start, low, high)])
        scores = scores_at(response, points)
        unseen = torch.from_numpy(~self.model.data.seen(np.array([viewer])))
        allowed = unseen.expand(scores.shape) & self.model.may_show(scores)
        lists = self._lister(scores, allowed.contiguous(), np.full(len(points), viewer), self.lists.shape[1], self.rng)
        kept = np.isin(lists, own).sum(axis=1).min()
        return float(1 - kept / len(own))

    @cached_property
    def _lister(self) -> Lister:
        return self.policy.lister(self.model.data)  # once for all pairs


def scores_at(response: Response, points: FloatArray) -> Tensor:
    """(points, items): every score after ratings (points, actions)."""
    ratings = torch.from_numpy(points)
    if isinstance(response, AffineResponse):
        return product(ratings, response.slope) + response.intercept
    assert isinstance(response, DifferentiableResponse)
    with torch.no_grad():
        return response.batch_scores(ratings)


def _one_changed(point: FloatArray, low: float, high: float) -> FloatArray:
    """(actions, actions): the point of lowest and highest ratings with each of them turned to the other end in turn."""
    return np.where(np.eye(len(point), dtype=bool), low + high - point, point)


def _kinds(policy: Calibrated, data: Interactions) -> IntArray:
    """(items,): a number for all items with the same categories, of those that the lists are calibrated to."""
    named = [policy.categories] if isinstance(policy.categories, str) else [*(policy.categories or {})]
    shares = np.hstack([data.categories[name].weights.toarray() for name in named])
    return np.asarray(np.unique(shares, axis=0, return_inverse=True)[1]).ravel()
