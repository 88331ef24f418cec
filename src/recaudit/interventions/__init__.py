"""Who may change which ratings, and within which bounds."""

from recaudit.interventions.actions import Actions, FutureEdits, GivenItems, HistoryEdits, NextK
from recaudit.interventions.ratings import Interval, Stars

__all__ = ["Actions", "FutureEdits", "GivenItems", "HistoryEdits", "Interval", "NextK", "Stars"]
