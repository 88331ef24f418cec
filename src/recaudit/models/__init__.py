"""Scores from data: recommenders, and models from arrays that you already have."""

from recaudit.models.base import FittedModel, Recommender
from recaudit.models.baseline.popularity import Random, TopPop
from recaudit.models.factor.als import ALS
from recaudit.models.factor.bayes import BayesMF, BayesMFModel
from recaudit.models.factor.llorma import LLORMA
from recaudit.models.factor.model import FactorModel, reachable_factors
from recaudit.models.factor.sgd import BiasedMF
from recaudit.models.factor.wals import WALS
from recaudit.models.given.arrays import from_factors, from_weights
from recaudit.models.given.black_box import BlackBox, History, as_black_box, from_system
from recaudit.models.given.http import Http, from_http
from recaudit.models.linear.model import EASE, SLIM, LinearModel
from recaudit.models.neighbour.knn import ItemKNN, UserKNN
from recaudit.models.neural.autorec import AutoRec
from recaudit.models.neural.cfnade import CFNADE
from recaudit.models.neural.recurrent import RecurrentModel, RecurrentRecommender
from recaudit.models.response import AffineResponse, DifferentiableResponse, OpaqueResponse, Response
from recaudit.models.updates import AlsSolve, SgdStep, WalsSolve

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
    "FittedModel",
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
    "TopPop",
    "UserKNN",
    "WalsSolve",
    "as_black_box",
    "from_factors",
    "from_http",
    "from_system",
    "from_weights",
    "reachable_factors",
]
