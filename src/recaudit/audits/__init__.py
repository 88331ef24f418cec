"""What is asked of a recommender: one file an audit."""

from recaudit.audits.accuracy import accuracy
from recaudit.audits.best_beta import best_beta
from recaudit.audits.exposure import exposure
from recaudit.audits.fidelity import fidelity
from recaudit.audits.fidelity_result import Fidelity
from recaudit.audits.geometry import Geometry, geometry
from recaudit.audits.lists import recommend
from recaudit.audits.metrics import METRICS, Metric
from recaudit.audits.reachability import reachability
from recaudit.audits.reachability_result import Reachability
from recaudit.audits.result import Result

__all__ = [
    "METRICS",
    "Fidelity",
    "Geometry",
    "Metric",
    "Reachability",
    "Result",
    "accuracy",
    "best_beta",
    "exposure",
    "fidelity",
    "geometry",
    "reachability",
    "recommend",
]
