"""What a recommender is: a frozen configuration whose `fit` returns a fitted model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError, NotSupportedError
from recaudit.models.response import AffineResponse, AffineResponses, EditedItems, Response
from recaudit.models.rollouts import ReplayedRollOut, RollOut
from recaudit.specification import Specification


class Recommender(Specification, ABC):
    """A frozen, validated configuration. Fitting leaves it untouched and never inherits state."""

    @abstractmethod
    def fit(self, data: Interactions, rng: int = 0) -> FittedModel:
        """A model of this log. The same log and seed give the same model, number by number."""

    def warm_fit(self, model: FittedModel, data: Interactions, rng: int = 0) -> FittedModel:
        """Go on from a model that this configuration fitted, now that the log has grown, instead of starting over.

        Here: fit from scratch, which for a closed form is the same. A model that is trained step by step says how it
        goes on.
        """
        return self.fit(data, rng)


class FittedModel(ABC):
    """Scores from data, by position. Which other users stand in the block moves a score by rounding only."""

    data: Interactions
    """The log that the model was fitted to."""

    predicts_ratings: bool = True
    """Whether a score estimates a rating on the log's scale; False for scores that only rank.

    A field of the fitted model where it depends on the configuration (EASE centred or not).
    """

    response: ClassVar[type[Response]] = AffineResponse
    """The kind of response that `respond` gives: it decides which solvers can answer."""

    @abstractmethod
    def scores(self, users: IntArray) -> Tensor:
        """(len(users), items), double precision: the score of every item, seen ones too."""

    def may_show(self, scores: Tensor) -> Tensor:
        """(users, items): whether an item of these `scores` (users, items) is ever shown; here every item is."""
        return torch.ones_like(scores, dtype=torch.bool)

    def predict(self, users: IntArray, items: IntArray) -> FloatArray:
        """(len(users),): the score of each pair; a model whose scores are ratings stays inside the scale."""
        out = self.pair_scores(users, items)
        return np.clip(out, *self.data.scale) if self.predicts_ratings else out

    def pair_scores(self, users: IntArray, items: IntArray) -> FloatArray:
        """(len(users),): the score of each pair, as it is."""
        out = np.empty(len(users))
        distinct, row = np.unique(users, return_inverse=True)
        order = np.argsort(row, kind="stable")
        ends = np.searchsorted(row[order], np.arange(0, len(distinct) + 256, 256))
        for block, (start, end) in enumerate(pairwise(ends)):
            pairs = order[start:end]
            scores = self.scores(distinct[block * 256 : (block + 1) * 256])
            out[pairs] = scores[torch.from_numpy(row[pairs] - block * 256), torch.from_numpy(items[pairs])].numpy()
        return out

    def respond(self, viewer: int, editor: int, items: IntArray) -> Response:
        """How the viewer's scores of all items move when the editor rates `items` (positions) anew.

        Scores are a function of the ratings given, affine ones for most models: `s = slope @ a + intercept`. What the
        model does with the ratings is its update rule; everything that the rule does not touch, biases included, stays
        as fitted.
        """
        raise NotSupportedError(
            f"{type(self).__name__}: no formula says how its scores follow edited ratings. Models that have one: "
            "BiasedMF, ALS, ItemKNN, EASE, SLIM, and what models.from_factors and models.from_weights return."
        )

    def own_responses(self, users: IntArray, items: IntArray) -> AffineResponses:
        """How each user's scores move when they rate their own row of `items` (users, actions) anew.

        -1 in a row fills up for users with fewer actions. The same numbers as `respond(user, user, ...)`; a model
        that can answer for many users at once may say so here.
        """
        items = check_action_rows(items, self.data.n_items)
        slope = torch.zeros(len(users), self.data.n_items, items.shape[1], dtype=torch.float64)
        intercept = torch.empty(len(users), self.data.n_items, dtype=torch.float64)
        for row, user in enumerate(users):
            acted = np.flatnonzero(items[row] >= 0)
            response = self.respond(int(user), int(user), items[row][acted])
            if not isinstance(response, AffineResponse):
                raise NotSupportedError(
                    f"{type(self).__name__}: its scores are no affine function of the ratings, so that this question "
                    "has no exact solver. BiasedMF, ALS, ItemKNN, EASE and SLIM have one."
                )
            slope[row][:, torch.from_numpy(acted)] = response.slope
            intercept[row] = response.intercept
        return AffineResponses(slope, intercept)

    def respond_in_turn(self, user: int, items: IntArray) -> AffineResponse:
        """The user's scores after rating `items` one after the other, each rating moving the model before the next.

        Here: for models whose scores are a function of the ratings, whatever their order. A model that steps from
        where it stands says so itself.
        """
        response = self.respond(user, user, items)
        if not isinstance(response, AffineResponse):
            raise NotSupportedError(
                f"{type(self).__name__}: its scores are no affine function of the ratings, so that roll-outs have no "
                "exact solver. BiasedMF, ALS, ItemKNN, EASE and SLIM have one."
            )
        return response

    def rollout(self, user: int) -> RollOut:
        """The user before anything is shown and rated; the same numbers as `respond_in_turn`, step by step."""
        return ReplayedRollOut(self, user)

    def edited_items(self, editors: IntArray, items: IntArray, ratings: FloatArray) -> EditedItems:
        """What becomes of `items` (editors, actions) when their editors rate them `ratings` (editors, actions, n).

        -1 in a row fills up for editors with fewer actions, and its vectors mean nothing. The same numbers as
        `respond(viewer, editor, ...)` has for the edited items. Only for models in which another user's rating moves
        the score of its own item and no other.
        """
        raise NotSupportedError(
            f"{type(self).__name__}: nothing says how another user's ratings move its scores. Models that know: "
            "BiasedMF, ALS, RecurrentRecommender, and what models.from_factors returns."
        )


LARGEST_RATING = 1e100
"""In size: sums of the squares of larger ones would leave the finite numbers."""


def check_data(data: Interactions) -> None:
    """A log with at least one rating, and none whose square would be past the largest number."""
    if len(data) == 0:
        raise InputError(
            "data",
            received="a log without ratings",
            expected="at least one rating",
            remedy="Check the split.",
        )
    if (largest := float(np.abs(data.ratings).max())) > LARGEST_RATING:
        raise InputError(
            "data",
            received=f"a log with ratings of up to {largest:g}",
            expected=f"ratings of at most {LARGEST_RATING:g}, so that sums of their squares are numbers",
            remedy="Divide the ratings by a constant.",
        )


def check_actions(items: IntArray, n_items: int) -> IntArray:
    """Positions of acted-on items: inside the catalogue, each once."""
    items = np.asarray(items, dtype=np.int64)
    if items.ndim != 1 or len(np.unique(items)) != len(items) or ((items < 0) | (items >= n_items)).any():
        raise InputError(
            "items",
            received=items.tolist(),
            expected=f"a list of distinct item positions from 0 to {n_items - 1}",
            remedy="Turn ids into positions with data.items_at(ids).",
        )
    return items


def check_action_rows(items: IntArray, n_items: int) -> IntArray:
    """(users, actions): each row's acted-on items inside the catalogue, each once; -1 fills up."""
    items = np.asarray(items, dtype=np.int64)
    if items.ndim != 2:
        raise InputError(
            "items", received=f"shape {items.shape}", expected="(users, actions), -1 where there are fewer"
        )
    ordered = np.sort(items, axis=1)
    again = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    outside = (items < -1) | (items >= n_items)
    for row in np.flatnonzero(again.any(axis=1) | outside.any(axis=1))[:1]:
        check_actions(items[row][items[row] != -1], n_items)  # which says what is wrong
    return items
