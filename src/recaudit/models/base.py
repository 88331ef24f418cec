"""What a recommender is: a frozen configuration whose `fit` returns a fitted model."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import ClassVar, Literal, Self, get_type_hints

import numpy as np

from recaudit import models
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.engines.base import BLOCK
from recaudit.errors import InputError, NotSupportedError
from recaudit.models.checks import check_action_rows, check_data
from recaudit.models.products import ScoreVectors
from recaudit.models.response import AffineResponse, AffineResponses, EditedItems, Response
from recaudit.models.rollouts import ReplayedRollOut, RollOut
from recaudit.specification import Specification

NO_LIST = -2
"""In place of an item, in every place of a list: nobody knows what the user is shown. An empty list is known."""
_SCORES = 1 << 22
"""Scores that are held together, 32 MiB: beyond it the system clears memory anew for every block, which takes longer
than filling it."""


def users_together(n_items: int) -> int:
    """How many users are scored together, when each has a score of every item: by the size of the catalogue alone."""
    return max(1, min(BLOCK, _SCORES // max(1, n_items)))


class Recommender(Specification, ABC):
    """A frozen, validated configuration. Fitting leaves it untouched and never inherits state."""

    given: ClassVar[bool] = False
    """Whether `fit` hands over what was made elsewhere, whatever the log: nothing is learned from it."""
    execution_settings: ClassVar[frozenset[str]] = frozenset()
    """Names of the settings that say how the work is done (time limits, budgets), and change no number by themselves: a
    run is resumed although they have changed."""
    grows_with: ClassVar[Literal["users", "items"]] = "users"
    """What the time of a fit grows with first: a slice of it is fitted to say beforehand how long a fit will take."""

    @abstractmethod
    def fit(self, data: Interactions, rng: int = 0) -> FittedModel:
        """A model of this log. The same log and seed give the same model, number by number."""

    @property
    def learns_from_clicks(self) -> bool:
        """Whether a log says something in which every rating is the same; False where only their differences count."""
        return True

    def check_log(self, data: Interactions) -> None:
        """Refuse a log that nothing can be learned from."""
        check_data(data)
        if data.scale[0] == data.scale[1] and not self.learns_from_clicks:
            raise InputError(
                "data",
                received=f"a log in which every rating is {data.scale[0]:g}",
                expected=f"ratings that differ: {type(self).__name__}, as it is set, learns from nothing else",
                remedy="Models for clicks and purchases: EASE, SLIM, TopPop, WALS(values='ones').",
            )

    def sample_users(self, data: Interactions, seed: int) -> IntArray | None:
        """Positions of the users that lists are queried for, ascending; None for all users.

        All models of a run are measured on the same users.
        """
        return None

    def shrunk(self, share: float) -> Recommender:
        """The same for a catalogue of which this share is left; here as it is, no setting counts items."""
        return self

    def warm_fit(self, model: FittedModel, data: Interactions, rng: int = 0) -> FittedModel:
        """Start from a model that this configuration fitted, now that the log has grown; here, from scratch."""
        return self.fit(data, rng)


class FittedModel(ABC):
    """Scores from data, by position. Which other users stand in the block moves a score by rounding only."""

    data: Interactions
    """The log that the model was fitted to."""
    predicts_ratings: bool = True
    """Whether a score estimates a rating on the log's scale; False for scores that only rank.

    A field of the fitted model where it depends on the configuration (EASE centred or not).
    """
    brought_as: str = ""
    """The class that it had in the library that it was adapted from."""
    foreign: bool = False
    """Whether others' code made the model, here or elsewhere: what it has seen cannot be known for sure."""
    recommender: Recommender | None = None
    """What fits such models anew, where the model brought it along: for audits that need a refit."""
    response: ClassVar[type[Response] | None] = None
    """What `respond` returns, which decides the solvers; None where no formula says how scores follow ratings."""
    no_rule: ClassVar[str] = "no formula says how its scores follow edited ratings"
    """Why there is no response, where there is none."""
    others_move: ClassVar[Literal["unknown", "nothing", "rated items", "any item"]] = "unknown"
    """Scores of a viewer that another user's ratings change, without training again: those of the rated items
    (`edited_items` computes them), of any item (`respond` computes them), of nothing (the model sees the viewer's own
    ratings only), or unknown (`respond` accepts own edits only)."""

    audited_users: IntArray | None = None
    """(users,): positions of those for whom lists are asked, of a system that cannot be asked about everybody."""

    def __repr__(self) -> str:
        says = "predicts ratings" if self.predicts_ratings else "ranks"
        return f"{type(self).__name__}({self.data.n_users:,} users x {self.data.n_items:,} items; {says})"

    @property
    def called(self) -> str:
        """What messages call it: as the person knows it who has brought it, or made it."""
        return self.brought_as or type(self).__name__

    @property
    def rule(self) -> str:
        """How the model takes in new ratings, in words: what every answer of `respond` rests on."""
        check_response(self)
        return f"as {self.called} says of itself"

    @abstractmethod
    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items), double precision: the score of every item, seen ones too."""

    def score_vectors(self) -> ScoreVectors | None:
        """The vectors whose products the scores are, where every item may be shown; None where there are none such.

        Lists of the highest scores are then made without holding everybody's scores of everything.
        """
        return None

    def may_show(self, scores: FloatArray) -> BoolArray:
        """(users, items): whether an item of these `scores` (users, items) is ever shown; here every item is."""
        return np.ones(scores.shape, dtype=bool)

    def own_lists(self, users: IntArray) -> IntArray | None:
        """(len(users), longest): positions of the items that a system shows, in its order, -1 where there is none.

        Every place of a user whose list is not known is `NO_LIST`. None for models that rank by their scores.
        """
        return None

    def predict(self, users: IntArray, items: IntArray) -> FloatArray:
        """(len(users),): the score of each pair; a model whose scores are ratings stays inside the scale."""
        out = self.pair_scores(users, items)
        return np.clip(out, *self.data.scale) if self.predicts_ratings else out

    def pair_scores(self, users: IntArray, items: IntArray) -> FloatArray:
        """(len(users),): the score of each pair, as it is."""
        out = np.empty(len(users))
        distinct, row = np.unique(users, return_inverse=True)
        order = np.argsort(row, kind="stable")
        size = users_together(self.data.n_items)
        ends = np.searchsorted(row[order], np.arange(0, len(distinct) + size, size))
        for block, (start, end) in enumerate(pairwise(ends)):
            pairs = order[start:end]
            scores = self.scores(distinct[block * size : (block + 1) * size])
            out[pairs] = scores[row[pairs] - block * size, items[pairs]]
        return out

    def with_recommender(self, recommender: Recommender | None) -> Self:
        """The same model, which knows what fits such models anew."""
        return self._with("recommender", recommender)

    def from_elsewhere(self, brought_as: str = "") -> Self:
        """The same model, of which it is known that others' code made it, perhaps as an object of that class."""
        return self._with("foreign", True)._with("brought_as", brought_as or self.brought_as)

    def _with(self, name: str, value: object) -> Self:
        made = copy.copy(self)
        object.__setattr__(made, name, value)  # models are frozen
        return made

    def respond(self, viewer: int, editor: int, items: IntArray) -> Response:
        """How the viewer's scores of all items move when the editor rates `items` (positions) anew."""
        raise no_response(self)

    def own_responses(self, users: IntArray, items: IntArray) -> AffineResponses:
        """How each user's scores move when they rate their own row of `items` (users, actions) anew.

        -1 in a row fills up for users with fewer actions. The same numbers as `respond(user, user, ...)`; a model
        may answer for many users at once.
        """
        check_affine(self)
        items = check_action_rows(items, self.data.n_items)
        slope = np.zeros((len(users), self.data.n_items, items.shape[1]))
        intercept = np.empty((len(users), self.data.n_items))
        for row, user in enumerate(users):
            acted = np.flatnonzero(items[row] >= 0)
            response = self.respond(int(user), int(user), items[row][acted])
            assert isinstance(response, AffineResponse)
            slope[row][:, acted] = response.slope
            intercept[row] = response.intercept
        return AffineResponses(slope, intercept)

    def respond_in_turn(self, user: int, items: IntArray) -> Response:
        """The user's scores after rating `items` one after the other, each moving the model before the next.

        Here the order has no effect, and it is `respond`.
        """
        return self.respond(user, user, items)

    def rollout(self, user: int) -> RollOut:
        """The user before anything is shown and rated; the same numbers as `respond_in_turn`, step by step."""
        check_affine(self)
        return ReplayedRollOut(self, user)

    def edited_items(self, editors: IntArray, items: IntArray, ratings: FloatArray) -> EditedItems:
        """What becomes of `items` (editors, actions) when their editors rate them `ratings` (editors, actions, n).

        -1 in a row fills up for editors with fewer actions, and its vectors mean nothing. The same numbers as
        `respond(viewer, editor, ...)` has for the edited items. Only where `others_move` is "rated items".
        """
        raise NotSupportedError(
            f"{self.called}: nothing says how another user's ratings move its scores. Models that know: "
            f"{makers(lambda model: model.others_move == 'rated items')}."
        )


def check_response(model: FittedModel) -> None:
    """Refuse a model that does not say how its scores follow ratings."""
    if model.response is None:
        raise no_response(model)


def check_affine(model: FittedModel) -> None:
    """Refuse a model whose scores are no affine function of the ratings."""
    if model.response is not AffineResponse:
        raise no_response(model)


def check_own_edits(model: FittedModel, viewer: int, editor: int, why: str) -> None:
    """Refuse another user's edits, which the model does not follow; `why` says what stands in the way."""
    if viewer != editor:
        known = makers(lambda made: made.others_move == "rated items")
        raise NotSupportedError(f"{model.called}: {why}. Ask for viewer == editor, or use a model that knows: {known}.")


def no_response(model: FittedModel) -> NotSupportedError:
    """The error of a model without a response, or with one that exact solvers cannot use."""
    reason = "its scores are no affine function of the ratings, so that this question has no exact solver"
    if model.response is None:
        reason = model.no_rule
    known = makers(lambda made: made.response is AffineResponse)
    return NotSupportedError(f"{model.called}: {reason}. Models that have one: {known}.")


def _kinds(model: type[FittedModel]) -> list[type[FittedModel]]:
    """The class and all that are kinds of it: what a function with this return type may give back."""
    return [model, *(kind for each in model.__subclasses__() for kind in _kinds(each))]


def makers(fits: Callable[[type[FittedModel]], bool]) -> str:
    """What makes fitted models for which `fits` holds: recommenders, and functions that take your own arrays."""
    names = []
    for name in models.__all__:
        public = getattr(models, name)
        recommends = isinstance(public, type) and issubclass(public, Recommender)
        if not (recommends or name.startswith("from_")):
            continue
        made = get_type_hints(public.fit if recommends else public).get("return")
        if (
            isinstance(made, type)
            and issubclass(made, FittedModel)
            and any(map(fits, [made] if recommends else _kinds(made)))
        ):
            names.append(name if recommends else f"models.{name}")
    return ", ".join(names)
