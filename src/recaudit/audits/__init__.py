"""What is asked of a recommender: one file an audit."""

from recaudit.audits.access import Access, compare_access, compare_access_instability
from recaudit.audits.agency.audit import Agency, agency
from recaudit.audits.agency.sweeps import Sweep, sweep_beta, sweep_horizon
from recaudit.audits.audit import Audit, Context, ListAudit, Subject
from recaudit.audits.calibration.audit import Calibration, calibration
from recaudit.audits.calibration.rerank import rerank, rerank_file
from recaudit.audits.calibration.reranking import (
    CalibrationCurve,
    Reranking,
    RerankingResult,
    calibration_curve,
    reranking,
)
from recaudit.audits.catalogue import PAPERS, catalog
from recaudit.audits.composed.audit import Composed, composed
from recaudit.audits.fidelity.audit import Fidelity, fidelity
from recaudit.audits.folding.audit import Folding, FoldingResult, folding
from recaudit.audits.folding.explanations import neighbours
from recaudit.audits.folding.relatedness import Relatedness
from recaudit.audits.folding.tradeoff import Tradeoff, folding_tradeoff
from recaudit.audits.instability.audit import Instability, instability
from recaudit.audits.instability.result import InstabilityResult
from recaudit.audits.lists.accuracy import Accuracy, accuracy
from recaudit.audits.lists.exposure import Exposure, exposure
from recaudit.audits.lists.recommend import recommend
from recaudit.audits.mitigation.audit import Mitigation, MitigationResult, mitigation
from recaudit.audits.reachability.audit import Reachability, reachability
from recaudit.audits.reachability.contrasts import contrast_items, item_tiers, user_tiers
from recaudit.audits.reachability.geometry import Geometry, best_beta, geometry
from recaudit.audits.reachability.result import ReachabilityResult
from recaudit.audits.result import Result
from recaudit.data.lists import ListColumns
from recaudit.metrics.metric import Metric

__all__ = [
    "PAPERS",
    "Access",
    "Accuracy",
    "Agency",
    "Audit",
    "Calibration",
    "CalibrationCurve",
    "Composed",
    "Context",
    "Exposure",
    "Fidelity",
    "Folding",
    "FoldingResult",
    "Geometry",
    "Instability",
    "InstabilityResult",
    "ListAudit",
    "ListColumns",
    "Metric",
    "Mitigation",
    "MitigationResult",
    "Reachability",
    "ReachabilityResult",
    "Relatedness",
    "Reranking",
    "RerankingResult",
    "Result",
    "Subject",
    "Sweep",
    "Tradeoff",
    "accuracy",
    "agency",
    "best_beta",
    "calibration",
    "calibration_curve",
    "catalog",
    "compare_access",
    "compare_access_instability",
    "composed",
    "contrast_items",
    "exposure",
    "fidelity",
    "folding",
    "folding_tradeoff",
    "geometry",
    "instability",
    "item_tiers",
    "mitigation",
    "neighbours",
    "reachability",
    "recommend",
    "rerank",
    "rerank_file",
    "reranking",
    "sweep_beta",
    "sweep_horizon",
    "user_tiers",
]
