"""Folding: unrelated groups of users and items that overlap in a model's space (Xin et al. 2017, paper 002)."""

from recaudit.audits.folding.folding import folding
from recaudit.audits.folding.neighbours import neighbours
from recaudit.audits.folding.relatedness import Relatedness
from recaudit.audits.folding.result import Folding
from recaudit.audits.folding.tradeoff import Tradeoff, folding_tradeoff
from recaudit.audits.folding.tuning import Tuning, folding_tuning

__all__ = [
    "Folding",
    "Relatedness",
    "Tradeoff",
    "Tuning",
    "folding",
    "folding_tradeoff",
    "folding_tuning",
    "neighbours",
]
