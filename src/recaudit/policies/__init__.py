"""Scores to recommendations: a distribution over the allowed items, a list drawn from it, or a list made as a whole."""

from recaudit.policies.base import AnyListPolicy, AnyPolicy, Lister, ListPolicy, Policy
from recaudit.policies.calibrated import Calibrated
from recaudit.policies.selection import EpsilonGreedy, Power, Softmax, Top1
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
    "Softmax",
    "Top1",
    "top_items",
]
