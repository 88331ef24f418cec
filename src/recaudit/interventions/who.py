"""Who changes what: the first part of an audit's recipe (paper 001, section 3.2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, final

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


@final
@dataclass(frozen=True)
class Own(Intervention):
    """The viewer's own ratings, do(O_i): what people can do for themselves."""

    actions: AnyActions
    """Which ratings are free, and within which bounds."""

    def __post_init__(self) -> None:
        _check_actions("Own", self.actions)

    def __str__(self) -> str:
        return f"own {_which(self.actions)}"


@final
@dataclass(frozen=True)
class Others(Intervention):
    """The ratings of one other user, the editor, do(O_-i): what people can do to each other."""

    actions: AnyActions
    """Which of the editor's ratings are free, and within which bounds."""

    def __post_init__(self) -> None:
        _check_actions("Others", self.actions)

    def __str__(self) -> str:
        return f"another user's {_which(self.actions)}"


@final
@dataclass(frozen=True)
class Deployed(Intervention):
    """The recommender itself, do(A): it decides what is shown, learns from the answers, and decides again."""

    def __str__(self) -> str:
        return "the recommender, over time"


AnyIntervention = Annotated[
    Intervention, OneOf(Parts("who changes what", nothing=Nothing, own=Own, others=Others, deployed=Deployed))
]


def _check_actions(who: str, actions: object) -> None:
    if not isinstance(actions, Actions | Future):
        raise InputError(f"{who}.actions", received=actions, expected=_ACTIONS)


def _which(actions: Actions | Future) -> str:
    """The ratings that are free, in words."""
    limit = None if isinstance(actions, Future) else actions.changes
    within = "" if actions.ratings is None else _within(actions.ratings)
    return _of_which_items(actions) + within + ("" if limit is None else f", at most {limit} of them changed")


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
