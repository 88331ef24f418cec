"""The nonlinear model that other tests search is what models must be."""

from __future__ import annotations

from models.nonlinear import Nonlinear
from recaudit.testing import ModelContract


class TestNonlinear(ModelContract):
    recommender = Nonlinear()
