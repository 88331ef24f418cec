"""Who may change which ratings, and within which bounds."""

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
from recaudit.interventions.ratings import Interval, Stars
from recaudit.interventions.who import Deployed, Intervention, Nothing, Others, Own

__all__ = [
    "Actions",
    "AnyActions",
    "Deployed",
    "Future",
    "FutureEdits",
    "GivenItems",
    "HistoryEdits",
    "Interval",
    "Intervention",
    "NextK",
    "Nothing",
    "Others",
    "Own",
    "Past",
    "Stars",
]
