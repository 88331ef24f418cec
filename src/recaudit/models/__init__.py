"""Scores from data: recommenders, and models from arrays that you already have."""

from recaudit.models.adapt import adapt
from recaudit.models.base import FittedModel, Recommender
from recaudit.models.baseline.popularity import Random, TopPop
from recaudit.models.factor.als import ALS
from recaudit.models.factor.bayes import BayesMF, BayesMFModel
from recaudit.models.factor.llorma import LLORMA
from recaudit.models.factor.model import FactorModel, FactorVectors, FoldInModel, reachable_factors
from recaudit.models.factor.sgd import BiasedMF
from recaudit.models.factor.wals import WALS
from recaudit.models.given.arrays import from_factors, from_weights
from recaudit.models.given.black_box import BlackBox, History, as_black_box, from_system
from recaudit.models.given.http import Http, from_http
from recaudit.models.given.lists import ShownLists, from_lists
from recaudit.models.linear.model import EASE, SLIM, LinearModel
from recaudit.models.neighbour.knn import ItemKNN, UserKNN
from recaudit.models.neural.autorec import AutoRec
from recaudit.models.neural.cfnade import CFNADE
from recaudit.models.neural.recurrent import RecurrentModel, RecurrentRecommender
from recaudit.models.response import AffineResponse, DifferentiableResponse, OpaqueResponse, Response
from recaudit.models.updates import AlsSolve, SgdStep, UpdateRule, WalsSolve

__all__ = [
    "ALS",
    "CFNADE",
    "EASE",
    "LLORMA",
    "SLIM",
    "WALS",
    "AffineResponse",
    "AlsSolve",
    "AutoRec",
    "BayesMF",
    "BayesMFModel",
    "BiasedMF",
    "BlackBox",
    "DifferentiableResponse",
    "FactorModel",
    "FactorVectors",
    "FittedModel",
    "FoldInModel",
    "History",
    "Http",
    "ItemKNN",
    "LinearModel",
    "OpaqueResponse",
    "Random",
    "Recommender",
    "RecurrentModel",
    "RecurrentRecommender",
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
