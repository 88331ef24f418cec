"""Scores from data: recommenders, and models from arrays that you already have."""

from recaudit.models.als import ALS
from recaudit.models.base import FittedModel, Recommender
from recaudit.models.factors import FactorModel, from_factors
from recaudit.models.linear import EASE, SLIM, LinearModel, from_weights
from recaudit.models.neighbours import ItemKNN, UserKNN
from recaudit.models.popularity import Random, TopPop
from recaudit.models.reachable import reachable_factors
from recaudit.models.response import AffineResponse, DifferentiableResponse, OpaqueResponse, Response
from recaudit.models.sgd import BiasedMF
from recaudit.models.updates import AlsSolve, SgdStep

__all__ = [
    "ALS",
    "EASE",
    "SLIM",
    "AffineResponse",
    "AlsSolve",
    "BiasedMF",
    "DifferentiableResponse",
    "FactorModel",
    "FittedModel",
    "ItemKNN",
    "LinearModel",
    "OpaqueResponse",
    "Random",
    "Recommender",
    "Response",
    "SgdStep",
    "TopPop",
    "UserKNN",
    "from_factors",
    "from_weights",
    "reachable_factors",
]
