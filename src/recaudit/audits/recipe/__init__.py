"""The recipe: an audit as a value made of four parts, the catalogue of those in the papers, and how to run one."""

from recaudit.audits.recipe.catalogue import PAPERS, Aggregation, Entry, Source, catalog
from recaudit.audits.recipe.functionals import (
    Change,
    Distance,
    Error,
    Exposure,
    Functional,
    Lift,
    Mean,
    Miscalibration,
    Overshoot,
    RankGain,
    Ranking,
    Replaced,
    Value,
)
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
from recaudit.audits.recipe.specification import Audit, Rung

__all__ = [
    "PAPERS",
    "Aggregation",
    "At",
    "Audit",
    "Change",
    "Distance",
    "Distribution",
    "Entry",
    "Error",
    "Exposure",
    "Functional",
    "Lift",
    "Max",
    "Mean",
    "Miscalibration",
    "Outcome",
    "Overshoot",
    "PredictedRating",
    "Probability",
    "Quantifier",
    "RankGain",
    "Ranking",
    "RatingsReceived",
    "RecommendedList",
    "Replaced",
    "Rung",
    "Similarity",
    "Source",
    "Value",
    "catalog",
]
