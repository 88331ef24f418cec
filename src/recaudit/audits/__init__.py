"""What is asked of a recommender: one file an audit."""

from recaudit.audits.access import Access, compare_access, compare_access_instability
from recaudit.audits.agency.audit import Agency, agency
from recaudit.audits.agency.sweeps import Sweep, sweep_beta, sweep_horizon
from recaudit.audits.audit import Audit, Subject
from recaudit.audits.calibration.audit import calibration
from recaudit.audits.calibration.curve import calibration_curve
from recaudit.audits.calibration.lists import ListColumns
from recaudit.audits.calibration.rerank import rerank, rerank_file
from recaudit.audits.fidelity.audit import Fidelity, fidelity
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
from recaudit.audits.instability.audit import Instability, instability
from recaudit.audits.instability.result import InstabilityResult
from recaudit.audits.lists.accuracy import accuracy
from recaudit.audits.lists.exposure import exposure
from recaudit.audits.lists.recommend import recommend
from recaudit.audits.reachability.audit import Reachability, reachability
from recaudit.audits.reachability.contrasts import contrast_items, item_tiers, user_tiers
from recaudit.audits.reachability.geometry import Geometry, best_beta, geometry
from recaudit.audits.reachability.result import ReachabilityResult
from recaudit.audits.result import Result
from recaudit.metrics.metric import Metric

__all__ = [
    "Access",
    "Agency",
    "Audit",
    "Fidelity",
    "Folding",
    "Geometry",
    "Instability",
    "InstabilityResult",
    "ListColumns",
    "Metric",
    "Reachability",
    "ReachabilityResult",
    "Relatedness",
    "Result",
    "Subject",
    "Sweep",
    "Tradeoff",
    "Tuning",
    "accuracy",
    "agency",
    "best_beta",
    "calibration",
    "calibration_curve",
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
