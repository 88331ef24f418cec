"""What an audit asks: who changes what, what is looked at, how it becomes a number, and over which ratings."""

from recaudit.audits.recipe.functionals import Change, Functional, Lift, Measured, Moved, RankGain, Replaced, Value
from recaudit.audits.recipe.outcomes import (
    Distribution,
    Outcome,
    PredictedRating,
    Probability,
    RatingsReceived,
    RecommendedList,
    Similarity,
)
from recaudit.audits.recipe.quantifiers import At, Max, Quantifier
from recaudit.audits.recipe.recipe import Recipe, Rung
from recaudit.interventions.who import Deployed, Intervention, Nothing, Others, Own

__all__ = [
    "At",
    "Change",
    "Deployed",
    "Distribution",
    "Functional",
    "Intervention",
    "Lift",
    "Max",
    "Measured",
    "Moved",
    "Nothing",
    "Others",
    "Outcome",
    "Own",
    "PredictedRating",
    "Probability",
    "Quantifier",
    "RankGain",
    "RatingsReceived",
    "Recipe",
    "RecommendedList",
    "Replaced",
    "Rung",
    "Similarity",
    "Value",
]
