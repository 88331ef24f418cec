"""Scores to recommendations: a distribution over the allowed items, a list drawn from it, or a list made as a whole."""

from recaudit.policies.calibrated import Calibrated
from recaudit.policies.selection import (
    AnyListPolicy,
    AnyPolicy,
    EpsilonGreedy,
    Lister,
    ListPolicy,
    Policy,
    Power,
    ShowingPolicy,
    Softmax,
    Top1,
)
from recaudit.ranking import top_items

__all__ = [
    "AnyListPolicy",
    "AnyPolicy",
    "Calibrated",
    "EpsilonGreedy",
    "ListPolicy",
    "Lister",
    "Policy",
    "Power",
    "ShowingPolicy",
    "Softmax",
    "Top1",
    "top_items",
]
