"""Systems that can only be asked: somebody's history goes in, scores, probabilities or a list come out."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import stats

from recaudit.arguments import checked
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.models.arrays import FloatArray, IntArray, Tensor, checked_array
from recaudit.models.base import FittedModel, check_actions
from recaudit.models.response import OpaqueResponse, Response

LOWEST_LOG = float(np.log(1e-300))
"""The logarithm that stands for a probability of 0: scores must be finite."""


@final
@dataclass(frozen=True)
class History:
    """What a system is asked with: somebody's ratings, and who looks."""

    user: object
    """The id of the user whose ratings these are; everybody else's are as the system knows them."""
    viewer: object
    """The id of the user whose recommendations are asked for: the same, or another."""
    items: tuple[object, ...]
    """Item ids, oldest first; where the log has no times, in the order of its item ids."""
    ratings: tuple[float, ...]


@final
class Queries:
    """How often a system was asked, in this process."""

    def __init__(self) -> None:
        self.asked = 0
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """Count so many more questions."""
        with self._lock:
            self.asked += count

    def __getstate__(self) -> int:
        return self.asked

    def __setstate__(self, asked: int) -> None:
        self.asked = asked
        self._lock = threading.Lock()  # a lock does not travel

    def __repr__(self) -> str:
        return f"{self.asked:,} queries"


@final
@dataclass(frozen=True)
class Sampling:
    """How probabilities are estimated from lists."""

    repeats: int
    """How many lists are asked for."""
    places: int
    """How many places of each count."""

    def at_least(self, share: float, confidence: float = 0.975) -> float:
        """What the true share is not below, given the share estimated from `repeats` lists (Clopper and Pearson).

        A list has an item or has not, independently of the others, so that how many have it is binomial. An item that
        has a place in each list has a share of `1 / places`.
        """
        had = round(share * self.repeats * self.places)
        if had == 0:
            return 0.0
        return float(stats.beta.ppf(1 - confidence, had, self.repeats - had + 1)) / self.places


Ask = Callable[[FloatArray], FloatArray]
"""Ratings (actions,) to a score of every item (items,)."""


class System(ABC):
    """What stands behind a black box."""

    @abstractmethod
    def asking(self, viewer: int, editor: int, items: IntArray) -> Ask:
        """The question of what the viewer's scores are when the editor gives ratings to `items` (actions,)."""


@final
@dataclass(frozen=True, eq=False)
class BlackBox(FittedModel):
    """A system that is only ever asked, and keeps count."""

    data: Interactions
    system: System
    gives_probabilities: bool
    """Whether scores are logarithms of the system's own probabilities: the system is then its own policy, and the
    one policy that gives its probabilities back is Softmax(beta=1). Audits refuse any other."""
    sampling: Sampling | None
    """How the probabilities are estimated, for a system that gives lists: answers are then random."""
    queries: Queries
    predicts_ratings: bool = False

    response: ClassVar[type[Response]] = OpaqueResponse

    @property
    def cost(self) -> int:
        """How many queries an answer takes."""
        return 1 if self.sampling is None else self.sampling.repeats

    def scores(self, users: IntArray) -> Tensor:
        """(len(users), items): what the system says without any edit; a question for each user."""
        none = np.empty(0, dtype=np.int64)
        rows = [self.respond(int(user), int(user), none).scores(np.empty(0)) for user in users]
        return torch.stack(rows) if rows else torch.empty(0, self.data.n_items, dtype=torch.float64)

    def respond(self, viewer: int, editor: int, items: IntArray) -> OpaqueResponse:
        """The answers of the system to the editor's history with other ratings of `items`.

        A rating that is in the history is replaced where it stands; a new one is added at the end.
        """
        items = check_actions(items, self.data.n_items)
        ask = self.system.asking(viewer, editor, items)

        def query(ratings: FloatArray) -> Tensor:
            self.queries.add(self.cost)
            return torch.from_numpy(ask(ratings))

        return OpaqueResponse(items, query)


@checked
def from_system(
    data: Interactions,
    *,
    scores: Callable[[History], ArrayLike] | None = None,
    probabilities: Callable[[History], ArrayLike] | None = None,
    lists: Callable[[History], Iterable[object]] | None = None,
    repeats: int = 100,
    places: int = 1,
    predicts_ratings: bool = False,
) -> BlackBox:
    """A model of a system that can only be asked. Give one of:

    - `scores(history)`: a score of every item, in the order of `data.item_ids`. `predicts_ratings` says whether they
      estimate ratings on the log's scale.
    - `probabilities(history)`: how likely the system is to recommend each item, in the same order. They may sum to
      less than one, not to more.
    - `lists(history)`: a ranked list of item ids, drawn anew each time. It is asked `repeats` times, each a query of
      its own, and an item's probability is estimated by the share of the first `places` places that it had: with
      `places=1`, how often it was first.

    `data` is the log that the system knows. The system must answer as if it knew the submitted history in place of
    the user's own, and forget it again.
    """
    given = {"scores": scores, "probabilities": probabilities, "lists": lists}
    named = [name for name, system in given.items() if system is not None]
    if len(named) != 1:
        raise InputError(
            "scores, probabilities, lists",
            received=" and ".join(named) or "none of them",
            expected="exactly one way of asking the system",
        )
    if repeats < 1 or places < 1:
        raise InputError("repeats, places", received=(repeats, places), expected="whole numbers of 1 or more")
    if predicts_ratings and scores is None:
        raise InputError(
            "predicts_ratings", received=f"True beside {named[0]}", expected="scores: only they can estimate ratings"
        )
    system: _Asked
    if scores is not None:
        system = _AskedForScores(data, scores)
    elif probabilities is not None:
        system = _AskedForProbabilities(data, probabilities)
    else:
        assert lists is not None
        system = _AskedForLists(data, lists, Sampling(repeats, places))
    return BlackBox(
        data,
        system,
        predicts_ratings=predicts_ratings,
        gives_probabilities=scores is None,
        sampling=None if lists is None else Sampling(repeats, places),
        queries=Queries(),
    )


@checked
def as_black_box(model: FittedModel) -> BlackBox:
    """A model behind a wall: its scores can be asked for, and nothing else, so that audits can be compared."""
    return BlackBox(
        model.data,
        _Hidden(model),
        predicts_ratings=model.predicts_ratings,
        gives_probabilities=False,
        sampling=None,
        queries=Queries(),
    )


@final
@dataclass(frozen=True, eq=False)
class _Hidden(System):
    """A model that could say more."""

    model: FittedModel

    def asking(self, viewer: int, editor: int, items: IntArray) -> Ask:
        if not len(items):
            return lambda _: self.model.scores(np.array([viewer]))[0].numpy()
        response = self.model.respond(viewer, editor, items)
        return lambda ratings: response.scores(ratings).numpy()


@dataclass(frozen=True, eq=False)
class _Asked(System):
    """A callable that takes histories."""

    data: Interactions

    @abstractmethod
    def answer(self, history: History) -> FloatArray:
        """(items,): finite scores."""

    @final
    def asking(self, viewer: int, editor: int, items: IntArray) -> Ask:
        data = self.data
        start, end = data.indptr[editor], data.indptr[editor + 1]
        rows = np.arange(start, end) if data.times is None else data.in_time(editor)
        known = data.items[rows].astype(np.int64)
        after = np.concatenate([known, items[~np.isin(items, known)]])
        place = {item: position for position, item in enumerate(after.tolist())}
        edited = np.array([place[item] for item in items.tolist()], dtype=np.int64)
        before = np.concatenate([data.ratings[rows], np.zeros(len(after) - len(known))])
        user, looking = data.user_ids[editor], data.user_ids[viewer]
        ids = tuple(data.item_ids.gather(after).to_list())

        def ask(ratings: FloatArray) -> FloatArray:
            submitted = before.copy()
            submitted[edited] = ratings
            return self.answer(History(user, looking, ids, tuple(submitted.tolist())))

        return ask


@final
@dataclass(frozen=True, eq=False)
class _AskedForScores(_Asked):
    ask: Callable[[History], ArrayLike]

    def answer(self, history: History) -> FloatArray:
        return checked_array("what scores(history) gave back", self.ask(history), (self.data.n_items,))


@final
@dataclass(frozen=True, eq=False)
class _AskedForProbabilities(_Asked):
    ask: Callable[[History], ArrayLike]

    def answer(self, history: History) -> FloatArray:
        name = "what probabilities(history) gave back"
        shares = checked_array(name, self.ask(history), (self.data.n_items,))
        if shares.min() < 0 or shares.sum() > 1 + 1e-6:
            raise InputError(
                name,
                received=f"numbers from {shares.min():.4g} to {shares.max():.4g} that sum to {shares.sum():.4g}",
                expected="probabilities: 0 or more each, at most 1 together",
                remedy="Pass a system that gives scores, logits for instance, as scores=.",
            )
        return _logs(shares)


@final
@dataclass(frozen=True, eq=False)
class _AskedForLists(_Asked):
    ask: Callable[[History], Iterable[object]]
    sampling: Sampling

    def answer(self, history: History) -> FloatArray:
        counts = np.zeros(self.data.n_items)
        for _ in range(self.sampling.repeats):
            counts[self._shown(history)] += 1
        return _logs(counts / (self.sampling.repeats * self.sampling.places))

    def _shown(self, history: History) -> IntArray:
        """Positions of the items in the first places."""
        answer = self.ask(history)
        try:
            positions = [self._positions[name] for name in answer]
        except (TypeError, KeyError) as error:
            raise _bad_list(f"{answer!r:.200}, with {error}") from error
        if len(set(positions)) < len(positions):
            raise _bad_list("a list with the same item twice")
        return np.array(positions[: self.sampling.places], dtype=np.int64)

    @cached_property
    def _positions(self) -> dict[object, int]:
        return {name: position for position, name in enumerate(self.data.item_ids.to_list())}


def _bad_list(received: str) -> InputError:
    return InputError(
        "what lists(history) gave back",
        received=received,
        expected="item ids of data.item_ids, best first, each once",
        remedy="Give the ids under which the items are in the log.",
    )


def _logs(shares: FloatArray) -> FloatArray:
    """Logarithms with a floor, so that they are finite."""
    with np.errstate(divide="ignore"):
        logs: FloatArray = np.maximum(np.log(shares), LOWEST_LOG)
    return logs
