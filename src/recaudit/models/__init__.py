"""Scores from data: recommenders, and models from arrays that you already have."""

from recaudit.models.adapt import adapt
from recaudit.models.base import FittedModel, Recommender
from recaudit.models.baseline.popularity import Random, TopPop
from recaudit.models.factor.als import ALS
from recaudit.models.factor.model import FactorModel, FactorVectors, FoldInModel, reachable_factors
from recaudit.models.factor.sgd import BiasedMF
from recaudit.models.factor.wals import WALS
from recaudit.models.given.arrays import from_factors, from_weights
from recaudit.models.given.black_box import BlackBox, History, as_black_box, from_system
from recaudit.models.given.http import Http, from_http
from recaudit.models.given.lists import ShownLists, from_lists
from recaudit.models.linear.model import EASE, SLIM, LinearModel
from recaudit.models.neighbour.knn import ItemKNN, ItemKNNModel, UserKNN
from recaudit.models.response import AffineResponse, DifferentiableResponse, EditedItems, OpaqueResponse, Response
from recaudit.models.updates import AlsSolve, SgdStep, UpdateRule, WalsSolve

__all__ = [
    "ALS",
    "EASE",
    "SLIM",
    "WALS",
    "AffineResponse",
    "AlsSolve",
    "BiasedMF",
    "BlackBox",
    "DifferentiableResponse",
    "EditedItems",
    "FactorModel",
    "FactorVectors",
    "FittedModel",
    "FoldInModel",
    "History",
    "Http",
    "ItemKNN",
    "ItemKNNModel",
    "LinearModel",
    "OpaqueResponse",
    "Random",
    "Recommender",
    "Response",
    "SgdStep",
    "ShownLists",
    "TopPop",
    "UpdateRule",
    "UserKNN",
    "WalsSolve",
    "adapt",
    "as_black_box",
    "from_factors",
    "from_http",
    "from_lists",
    "from_system",
    "from_weights",
    "reachable_factors",
]
