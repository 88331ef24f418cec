"""Systems that can only be asked: somebody's history goes in, scores, probabilities or a list come out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recaudit.arguments import checked
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError, SystemFailedError
from recaudit.models.base import FittedModel
from recaudit.models.checks import check_actions, checked_array
from recaudit.models.given.answers import AnsweringService
from recaudit.models.given.queries import ListSampling, Memory, Queries, Retry
from recaudit.models.response import OpaqueResponse, Response

LOWEST_LOG = float(np.log(1e-300))
"""The logarithm that stands for a probability of 0: scores must be finite."""
NO_SCORE = 2 * LOWEST_LOG
"""The score of an item that has none, or what is added to it: whatever else is added, it stays below `LOWEST_LOG`."""
REPEATS = 20
"""How many lists of a random system are an answer, where nothing else is said."""
_PROBED = 3
"""Users asked about, at most, until one of them is answered, to see whether a system repeats itself."""


@final
@dataclass(frozen=True)
class History:
    """Query of a system: a user's ratings, for the recommendations of this user."""

    user: object
    """The id of the user whose ratings these are."""
    viewer: object
    """The id of the user whose recommendations are requested: always `user`, except for services whose requests send
    both, so that they can show what another user's ratings change."""
    items: tuple[object, ...]
    """Item ids, oldest first; where the log has no times, in the order of its item ids."""
    ratings: tuple[float, ...]


Ask = Callable[[FloatArray], NDArray[Any]]
"""Ratings (actions,) to a score of every item (items,); of a system of lists, to the positions of the listed items."""


@final
class ListSystem:
    """How lists are read: by their ranks, of a system that repeats itself; else how often an item comes in many."""

    def __init__(self, repeats: int | None, places: int, asked_twice: bool = False) -> None:
        self.repeats = repeats
        """How many lists are an answer: 1 of a system that repeats itself; None as long as that is not known."""
        self.places = places
        """How many places of each count."""
        self.asked_twice = asked_twice
        """Whether `repeats` was found out by asking the same question twice."""
        self._lock = threading.Lock()

    def find_out(self, repeats_itself: Callable[[], bool]) -> int:
        """`repeats`, found out once where nothing was said."""
        with self._lock:
            if self.repeats is None:
                self.repeats, self.asked_twice = 1 if repeats_itself() else REPEATS, True
            return self.repeats

    def __reduce__(self) -> tuple[type[ListSystem], tuple[int | None, int, bool]]:
        return ListSystem, (self.repeats, self.places, self.asked_twice)  # a lock does not travel


@final
@dataclass(frozen=True, eq=False, repr=False)
class BlackBox(FittedModel):
    """A system that is only ever asked, and keeps count."""

    data: Interactions
    system: HistorySystem | HiddenModel
    says_probabilities: bool
    """Whether the system says its probabilities itself; scores are then their logarithms."""
    lists: ListSystem | None
    """How lists are read, for a system that gives lists."""
    queries: Queries
    predicts_ratings: bool = False
    memory: Memory | None = None
    """Where a question is looked up before it is asked; None to ask anew each time."""
    audited_users: IntArray | None = None
    leaves_out: bool = False
    """Whether a score of `LOWEST_LOG` or less says that an item has none, and is never shown."""
    service: AnsweringService | None = None
    """The service behind it, if it remembers its answers."""

    foreign = True
    response: ClassVar[type[Response]] = OpaqueResponse

    @property
    def others_move(self) -> Literal["nothing", "any item"]:  # type: ignore[override]  # depends on the system
        """See `FittedModel`: nothing, for a system that is only sent the target user's own history."""
        return "any item" if self.system.sees_others else "nothing"

    @property
    def rule(self) -> str:
        """See `FittedModel`."""
        return "the system itself answers about the edited history"

    @property
    def sampling(self) -> ListSampling | None:
        """How probabilities are estimated, for a system whose lists are random; None for any other.

        Where nobody said whether a system of lists repeats itself, it is asked: two queries, once.
        """
        if self.lists is None:
            return None
        repeats = self.lists.find_out(self._repeats_itself)
        return None if repeats == 1 else ListSampling(repeats, self.lists.places)

    @property
    def gives_probabilities(self) -> bool:
        """Whether scores are logarithms of the system's own probabilities: the system is then its own policy, and the
        one policy that gives its probabilities back is Softmax(beta=1). Audits refuse any other."""
        return self.says_probabilities or self.sampling is not None

    @property
    def gives_ranks(self) -> bool:
        """Whether scores are places in a list, the first -1, the second -2: they are no amounts, and the one policy
        that they have is Top1. Audits refuse any other."""
        return self.lists is not None and self.sampling is None

    @property
    def cost(self) -> int:
        """How many queries an answer takes, where the system does not fail."""
        return 1 if self.sampling is None else self.sampling.repeats

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items): what the system says without any edit; a question for each user."""
        none = np.empty(0, dtype=np.int64)
        rows = [self.respond(int(user), int(user), none).scores(np.empty(0)) for user in users]
        return np.stack(rows) if rows else np.empty((0, self.data.n_items))

    def may_show(self, scores: FloatArray) -> BoolArray:
        """See `FittedModel`: not what a system gives no probability, or names in none of its lists."""
        if self.gives_ranks:
            return scores >= -self.data.n_items
        return scores > LOWEST_LOG if self.gives_probabilities or self.leaves_out else super().may_show(scores)

    def respond(self, viewer: int, editor: int, items: IntArray) -> OpaqueResponse:
        """The answers of the system to the editor's history with other ratings of `items`.

        A rating that is in the history is replaced at its position; a new one is added at the end. If the system cannot
        see another user's history, its answer is the one to the viewer's own, unchanged history.
        """
        items = check_actions(items, self.data.n_items)
        if viewer != editor and not self.system.sees_others:
            unchanged = self.respond(viewer, viewer, np.empty(0, dtype=np.int64))
            return OpaqueResponse(items, lambda ratings: unchanged.scores(np.empty(0)))
        return self._respond(viewer, editor, items, in_turn=False)

    def respond_in_turn(self, user: int, items: IntArray) -> OpaqueResponse:
        """See `FittedModel`; a system that is sent histories is sent the ratings in this order either way."""
        # One rating, or none, has no order: the answer is the one that `respond` may have remembered.
        return self._respond(user, user, check_actions(items, self.data.n_items), in_turn=len(items) > 1)

    def _respond(self, viewer: int, editor: int, items: IntArray, *, in_turn: bool) -> OpaqueResponse:
        ask = self._asking(viewer, editor, items, in_turn=in_turn)
        who = np.array([in_turn, viewer, editor, *items]).tobytes()

        def query(ratings: FloatArray) -> FloatArray:
            if self.memory is None:
                return ask(ratings)
            key = who + (ratings + 0.0).tobytes()  # 0.0 and -0.0 are the same rating
            return self.memory.recall(key, lambda: ask(ratings), self.queries)

        return OpaqueResponse(items, query)

    def own_lists(self, users: IntArray) -> IntArray | None:
        """See `FittedModel`: a list for each user, by one query."""
        if self.lists is None:
            return None
        shown = [self._list(int(user)) for user in users]
        table = np.full((len(users), max([1, *map(len, shown)])), -1, dtype=np.int64)
        for row, items in enumerate(shown):
            table[row, : len(items)] = items
        return table

    def _asking(self, viewer: int, editor: int, items: IntArray, *, in_turn: bool) -> Ask:
        """The viewer's scores when the editor rates `items` (actions,), all at once or one after the other."""
        sampling, n_items = self.sampling, self.data.n_items
        # Shares are estimated from independent lists.
        system = self.system if sampling is None else self.system.using_earlier_answers(use=False)
        ask = system.asking(viewer, editor, items, self.queries, in_turn=in_turn)
        if self.lists is None:
            return ask
        if sampling is None:
            return lambda ratings: _minus_places(ask(ratings), n_items)
        return lambda ratings: _log_shares([ask(ratings) for _ in range(sampling.repeats)], sampling.places, n_items)

    def _list(self, user: int) -> IntArray:
        """(length,): positions of the items that a system of lists shows this user now, in its order; one query."""
        none = np.empty(0, dtype=np.int64)
        return self.system.asking(user, user, none, self.queries)(np.empty(0))

    def _repeats_itself(self) -> bool:
        """Whether one user's list is the same when it is asked for again."""
        failures = []
        independent = replace(self, system=self.system.using_earlier_answers(use=False))
        for user in range(min(_PROBED, self.data.n_users)):
            try:
                return np.array_equal(independent._list(user), independent._list(user))
            except SystemFailedError as error:
                failures.append(error)
        raise failures[0]

    @property
    def with_earlier_answers(self) -> BlackBox:
        """The same system, whose remembered answers count like new ones.

        For audits that need one answer to each question. Whether a random system would give another answer is tested
        by the audits that depend on it, which must not use this.
        """
        return replace(self, system=self.system.using_earlier_answers(use=True))

    def counting(self, queries: Queries, memory: Memory | None = None) -> BlackBox:
        """The same system, whose questions count in `queries` and are looked up in `memory`."""
        return replace(self, queries=queries, memory=memory)


@checked
def from_system(
    data: Interactions,
    *,
    scores: Callable[[History], ArrayLike] | None = None,
    probabilities: Callable[[History], ArrayLike] | None = None,
    lists: Callable[[History], Iterable[object]] | None = None,
    repeats: int | None = None,
    places: int = 1,
    predicts_ratings: bool = False,
    retries: int = 2,
    pause: float = 0.0,
) -> BlackBox:
    """A model of a system that can only be asked. Give one of:

    - `scores(history)`: a score of every item, in the order of `data.item_ids`. `predicts_ratings` says whether they
      estimate ratings on the log's scale.
    - `probabilities(history)`: how likely the system is to recommend each item, in the same order. They may sum to
      less than one, not to more.
    - `lists(history)`: a ranked list of item ids, best first, of any length. Accuracy, exposure, calibration and
      folding take it as it is: seen items stay, a short list stays short, an empty one finds nothing. Where audits ask
      what other ratings would do, an item that is not listed is never shown, and what counts are the first `places`
      places. Of a system that repeats itself, each item's own place is known, and Top1 is the policy. Of a random one,
      `repeats` lists are an answer, and an item's probability is the share of those places that it had. Where `repeats`
      is not said, the same question is asked twice, once: then it is 1 or 20. `repeats=1` says that it repeats itself.

    `data` is the log that the system knows. The system must answer as if it knew the submitted history in place of
    the user's own, and forget it again. A history is always the target user's own, so another user's new ratings have
    no effect on the answers until the system is trained again, and instability is 0. Where it does not give the same
    answer twice, audits speak of its average answer. A system that raises, or gives back what is no answer, is asked
    again, up to `retries` times, after a `pause` in seconds that doubles each time; every try is a query. A system that
    can hang must raise by itself.
    """
    given = {"scores": scores, "probabilities": probabilities, "lists": lists}
    named = [name for name, system in given.items() if system is not None]
    if len(named) != 1:
        raise InputError(
            "scores, probabilities, lists",
            received=" and ".join(named) or "none of them",
            expected="exactly one way of asking the system",
        )
    if (repeats is not None and repeats < 1) or places < 1:
        raise InputError("repeats, places", received=(repeats, places), expected="whole numbers of 1 or more")
    if retries < 0 or not (np.isfinite(pause) and pause >= 0):
        raise InputError("retries, pause", received=(retries, pause), expected="numbers of 0 or more")
    if predicts_ratings and scores is None:
        raise InputError(
            "predicts_ratings", received=f"True beside {named[0]}", expected="scores: only they can estimate ratings"
        )
    places_of_items = {name: place for place, name in enumerate(data.item_ids.to_list())}

    def reading(ask: Callable[[History], Any]) -> Callable[[History], NDArray[Any]]:
        if lists is not None:
            return partial(_read_list, ask, places_of_items)
        return partial(_read_scores if scores is not None else _read_probabilities, ask, data.n_items)

    ask: Any = given[named[0]]
    recall = getattr(ask, "recall", None)
    system = HistorySystem(data, reading(ask), Retry(retries, pause), None if recall is None else reading(recall))
    listing = None if lists is None else ListSystem(repeats, places)
    service = ask if hasattr(ask, "used_answers") else None
    return BlackBox(
        data,
        system,
        probabilities is not None,
        listing,
        Queries(),
        predicts_ratings=predicts_ratings,
        service=service,
    )


def seeing_others(model: BlackBox) -> BlackBox:
    """Copy a model of `from_system` whose system is also queried about one user after another user's ratings changed.

    Only for systems that can answer this: they read `History.viewer`.
    """
    assert isinstance(model.system, HistorySystem)
    return replace(model, system=replace(model.system, sees_others=True))


@checked
def as_black_box(model: FittedModel) -> BlackBox:
    """A model behind a wall: its scores can be asked for, and nothing else, so that audits can be compared."""
    return BlackBox(model.data, HiddenModel(model), False, None, Queries(), predicts_ratings=model.predicts_ratings)


@final
@dataclass(frozen=True, eq=False)
class HiddenModel:
    """A model that could say more."""

    model: FittedModel

    @property
    def sees_others(self) -> bool:
        """If True, another user's ratings can change the answers."""
        return self.model.others_move != "nothing"

    @property
    def repeats_itself(self) -> bool:
        """Whether the same question surely gets the same answer, and need not be asked twice to see."""
        return self.model.response is not OpaqueResponse

    def using_earlier_answers(self, *, use: bool) -> HiddenModel:
        """See `HistorySystem`."""
        return self

    def asking(self, viewer: int, editor: int, items: IntArray, queries: Queries, *, in_turn: bool = False) -> Ask:
        """The viewer's scores when the editor rates `items` (actions,), all at once or one after the other.

        Each question counts in `queries`.
        """
        model, response = self.model, None
        if len(items):
            response = model.respond_in_turn(viewer, items) if in_turn else model.respond(viewer, editor, items)

        def answer(ratings: FloatArray) -> FloatArray:
            return model.scores(np.array([viewer]))[0] if response is None else response.scores(ratings)

        def ask(ratings: FloatArray) -> FloatArray:
            if not self.repeats_itself:
                return Retry().ask(lambda: answer(ratings), queries, model.data.user_ids[editor])
            queries.add()
            return answer(ratings)

        return ask


@final
@dataclass(frozen=True, eq=False)
class HistorySystem:
    """A callable that takes histories."""

    data: Interactions
    read: Callable[[History], NDArray[Any]]
    """(items,), what is said of each item; of a system of lists (length,), the positions of the listed items."""
    retry: Retry
    recall: Callable[[History], NDArray[Any]] | None = None
    """Like `read`, but an earlier answer to the same question will do; None for a system that remembers none."""
    earlier: bool = False
    """Whether earlier answers are used."""
    sees_others: bool = False
    """If True, the system is also queried about one user after another user's ratings changed."""
    repeats_itself: ClassVar[bool] = False

    def using_earlier_answers(self, *, use: bool) -> HistorySystem:
        """The same system, which gives the answers that it remembers, or an independent one to each question."""
        return replace(self, earlier=use)

    def asking(self, viewer: int, editor: int, items: IntArray, queries: Queries, *, in_turn: bool = False) -> Ask:
        """See `HiddenModel`. A history has its ratings one after the other in either case."""
        histories = self._histories(viewer, editor, items)
        read = self.recall if self.earlier and self.recall is not None else self.read

        def ask(ratings: FloatArray) -> NDArray[Any]:
            history = histories(ratings)
            return self.retry.ask(lambda: read(history), queries, history.user)

        return ask

    def _histories(self, viewer: int, editor: int, items: IntArray) -> Callable[[FloatArray], History]:
        """Ratings of `items`, (actions,) both, to the editor's history with them."""
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

        def history(ratings: FloatArray) -> History:
            submitted = before.copy()
            submitted[edited] = ratings
            return History(user, looking, ids, tuple(submitted.tolist()))

        return history


def _read_scores(ask: Callable[[History], ArrayLike], n_items: int, history: History) -> FloatArray:
    return checked_array("what scores(history) gave back", ask(history), (n_items,))


def _read_probabilities(ask: Callable[[History], ArrayLike], n_items: int, history: History) -> FloatArray:
    """(items,): logarithms."""
    name = "what probabilities(history) gave back"
    shares = checked_array(name, ask(history), (n_items,))
    if shares.min() < 0 or shares.sum() > 1 + 1e-6:
        raise InputError(
            name,
            received=f"numbers from {shares.min():.4g} to {shares.max():.4g} that sum to {shares.sum():.4g}",
            expected="probabilities: 0 or more each, at most 1 together",
            remedy="Pass a system that gives scores, logits for instance, as scores=.",
        )
    return _logs(shares)


def _read_list(ask: Callable[[History], Iterable[object]], places: Mapping[object, int], history: History) -> IntArray:
    """(length,): positions of the items, in the order given."""
    answer, error = ask(history), None
    try:
        positions = [places[name] for name in answer]
        received = "a list with the same item twice" if len(set(positions)) < len(positions) else ""
    except (TypeError, KeyError) as problem:
        received, error = f"{answer!r:.200}, with {problem}", problem
    if received:
        raise InputError(
            "what lists(history) gave back",
            received=received,
            expected="item ids of data.item_ids, best first, each once",
            remedy="Give the ids under which the items are in the log.",
        ) from error
    return np.array(positions, dtype=np.int64)


def _minus_places(shown: IntArray, n_items: int) -> FloatArray:
    """(items,): -1 for the first of the items `shown` (length,), -2 for the second; lower than all for the others."""
    scores = np.full(n_items, -n_items - 1.0)
    scores[shown] = -np.arange(1.0, len(shown) + 1)
    return scores


def _log_shares(lists: Sequence[IntArray], places: int, n_items: int) -> FloatArray:
    """(items,): logarithms of the share of the lists' first places that each item had."""
    counts = np.zeros(n_items)
    for shown in lists:
        counts[shown[:places]] += 1
    return _logs(counts / (len(lists) * places))


def _logs(shares: FloatArray) -> FloatArray:
    """Logarithms with a floor, so that they are finite."""
    with np.errstate(divide="ignore"):
        logs: FloatArray = np.maximum(np.log(shares), LOWEST_LOG)
    return logs
