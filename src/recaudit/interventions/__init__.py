"""Who may change which ratings, and within which bounds."""

from recaudit.interventions.actions import Actions, Future, FutureEdits, GivenItems, HistoryEdits, NextK, Past
from recaudit.interventions.ratings import Interval, Stars

__all__ = ["Actions", "Future", "FutureEdits", "GivenItems", "HistoryEdits", "Interval", "NextK", "Past", "Stars"]
