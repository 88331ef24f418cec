"""What is asked of a recommender: one file an audit."""

from recaudit.audits.access import Access, compare_access, compare_access_instability
from recaudit.audits.accuracy import accuracy
from recaudit.audits.agency import agency
from recaudit.audits.best_beta import best_beta
from recaudit.audits.calibration.audit import calibration
from recaudit.audits.calibration.curve import calibration_curve
from recaudit.audits.calibration.lists import ListColumns
from recaudit.audits.calibration.rerank import rerank, rerank_file
from recaudit.audits.contrasts import contrast_items, item_tiers, user_tiers
from recaudit.audits.exposure import exposure
from recaudit.audits.fidelity import fidelity
from recaudit.audits.fidelity_result import Fidelity
from recaudit.audits.folding import (
    Folding,
    Relatedness,
    Tradeoff,
    Tuning,
    folding,
    folding_tradeoff,
    folding_tuning,
    neighbours,
)
from recaudit.audits.geometry import Geometry, geometry
from recaudit.audits.instability import instability
from recaudit.audits.instability_fidelity import instability_fidelity
from recaudit.audits.instability_result import Instability
from recaudit.audits.lists import recommend
from recaudit.audits.metrics import METRICS, Metric
from recaudit.audits.reachability import reachability
from recaudit.audits.reachability_result import Reachability
from recaudit.audits.recipe import Audit, catalog
from recaudit.audits.result import Result
from recaudit.audits.sweeps import Sweep, sweep_beta, sweep_horizon

__all__ = [
    "METRICS",
    "Access",
    "Audit",
    "Fidelity",
    "Folding",
    "Geometry",
    "Instability",
    "ListColumns",
    "Metric",
    "Reachability",
    "Relatedness",
    "Result",
    "Sweep",
    "Tradeoff",
    "Tuning",
    "accuracy",
    "agency",
    "best_beta",
    "calibration",
    "calibration_curve",
    "catalog",
    "compare_access",
    "compare_access_instability",
    "contrast_items",
    "exposure",
    "fidelity",
    "folding",
    "folding_tradeoff",
    "folding_tuning",
    "geometry",
    "instability",
    "instability_fidelity",
    "item_tiers",
    "neighbours",
    "reachability",
    "recommend",
    "rerank",
    "rerank_file",
    "sweep_beta",
    "sweep_horizon",
    "user_tiers",
]
