"""Scores from data: recommenders, and models from arrays that you already have."""

from recaudit.models.als import ALS
from recaudit.models.autorec import AutoRec
from recaudit.models.base import FittedModel, Recommender
from recaudit.models.bayes import BayesMF, BayesMFModel
from recaudit.models.black_box import BlackBox, History, as_black_box, from_system
from recaudit.models.cfnade import CFNADE
from recaudit.models.factors import FactorModel, from_factors
from recaudit.models.linear import EASE, SLIM, LinearModel, from_weights
from recaudit.models.llorma import LLORMA
from recaudit.models.neighbours import ItemKNN, UserKNN
from recaudit.models.popularity import Random, TopPop
from recaudit.models.reachable import reachable_factors
from recaudit.models.recurrent import RecurrentRecommender
from recaudit.models.recurrent_model import RecurrentModel
from recaudit.models.response import AffineResponse, DifferentiableResponse, OpaqueResponse, Response
from recaudit.models.sgd import BiasedMF
from recaudit.models.updates import AlsSolve, SgdStep, WalsSolve
from recaudit.models.wals import WALS

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
    "from_system",
    "from_weights",
    "reachable_factors",
]
