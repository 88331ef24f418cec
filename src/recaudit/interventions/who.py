"""Who changes what: the first part of an audit's recipe (paper 001, section 3.2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, final

from recaudit.errors import InputError
from recaudit.interventions.actions import (
    Actions,
    AnyActions,
    Future,
    FutureEdits,
    GivenItems,
    HistoryEdits,
    NextK,
    Past,
)
from recaudit.interventions.ratings import Interval, Ratings
from recaudit.policies import Top1
from recaudit.specification import OneOf, Parts

_ACTIONS = "Past, Future, NextK, HistoryEdits, FutureEdits or GivenItems, such as Past(5)"


class Intervention(ABC):
    """Who changes what, before the outcome is looked at. `str()` says it in a few words."""

    @abstractmethod
    def __str__(self) -> str: ...


@final
@dataclass(frozen=True)
class Nothing(Intervention):
    """Nobody changes anything: the recommender is observed as it is."""

    def __str__(self) -> str:
        return "nothing"


@dataclass(frozen=True)
class _Edits(Intervention, ABC):
    actions: AnyActions
    """Which ratings are free, and within which bounds."""
    whose: ClassVar[str]

    def __post_init__(self) -> None:
        if not isinstance(self.actions, Actions | Future):
            raise InputError(f"{type(self).__name__}.actions", received=self.actions, expected=_ACTIONS)

    def __str__(self) -> str:
        limit = None if isinstance(self.actions, Future) else self.actions.changes
        within = "" if self.actions.ratings is None else _within(self.actions.ratings)
        changed = "" if limit is None else f", at most {limit} of them changed"
        return f"{self.whose} {_of_which_items(self.actions)}{within}{changed}"


@final
@dataclass(frozen=True)
class Own(_Edits):
    """The viewer's own ratings, do(O_i): what people can do for themselves."""

    whose = "own"


@final
@dataclass(frozen=True)
class Others(_Edits):
    """The ratings of one other user, the editor, do(O_-i): what people can do to each other."""

    whose = "another user's"


@final
@dataclass(frozen=True)
class Deployed(Intervention):
    """The recommender itself, do(A): it decides what is shown, learns from the answers, and decides again."""

    def __str__(self) -> str:
        return "the recommender, over time"


AnyIntervention = Annotated[
    Intervention, OneOf(Parts("who changes what", nothing=Nothing, own=Own, others=Others, deployed=Deployed))
]


def _of_which_items(actions: Actions | Future) -> str:
    match actions:
        case Past(k):
            words = f"last {k} ratings"
        case Future(k, follows=policy):
            drawn = "" if policy == Top1() else f" of items drawn by {policy!r}"
            words = f"next {k} ratings{drawn}"
        case NextK(k):
            words = f"ratings of the next {k} items"
        case HistoryEdits(k):
            words = f"ratings of {k} seen items"
        case FutureEdits(k):
            words = f"ratings of {k} unseen items"
        case GivenItems(ids):
            words = f"ratings of {len(ids)} given items"
        case _:
            words = repr(actions)
    return words


def _within(ratings: Ratings) -> str:
    low, high = f"{ratings.low:g}", f"{ratings.high:g}"
    if isinstance(ratings, Interval):
        return f" within {low} to {high}"
    return f" in steps of {ratings.step:g} from {low} to {high}"
