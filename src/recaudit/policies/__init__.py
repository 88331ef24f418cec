"""Scores to recommendations: a distribution over the allowed items, or a list drawn from it."""

from recaudit.policies.base import AnyPolicy, Policy
from recaudit.policies.calibrated import Calibrated
from recaudit.policies.selection import EpsilonGreedy, Power, Softmax, Top1
from recaudit.ranking import top_items

__all__ = ["AnyPolicy", "Calibrated", "EpsilonGreedy", "Policy", "Power", "Softmax", "Top1", "top_items"]
