"""Folding: unrelated groups of users and items that overlap in a model's space (Xin et al. 2017, paper 002)."""

from recaudit.audits.folding.folding import folding
from recaudit.audits.folding.neighbours import neighbours
from recaudit.audits.folding.relatedness import Relatedness
from recaudit.audits.folding.result import Folding

__all__ = ["Folding", "Relatedness", "folding", "neighbours"]
