"""What is asked of a recommender: one file an audit."""

from recaudit.audits.access import Access, compare_access, compare_access_instability
from recaudit.audits.agency.audit import agency
from recaudit.audits.agency.sweeps import Sweep, sweep_beta, sweep_horizon
from recaudit.audits.audit import Audit
from recaudit.audits.calibration.audit import Calibration, calibration
from recaudit.audits.calibration.curve import CalibrationCurve, calibration_curve
from recaudit.audits.calibration.lists import ListColumns
from recaudit.audits.calibration.rerank import rerank, rerank_file
from recaudit.audits.calibration.reranking import Reranking, RerankingResult, reranking
from recaudit.audits.fidelity.audit import fidelity
from recaudit.audits.fidelity.instability import instability_fidelity
from recaudit.audits.fidelity.result import Fidelity
from recaudit.audits.folding.audit import Folding, FoldingResult, folding
from recaudit.audits.folding.explanations import neighbours
from recaudit.audits.folding.fronts import MeasuredModels
from recaudit.audits.folding.relatedness import Relatedness
from recaudit.audits.folding.tradeoff import Tradeoff, folding_tradeoff, folding_tuning
from recaudit.audits.instability.audit import instability
from recaudit.audits.instability.result import Instability
from recaudit.audits.lists.accuracy import accuracy
from recaudit.audits.lists.exposure import exposure
from recaudit.audits.lists.recommend import recommend
from recaudit.audits.reachability.audit import reachability
from recaudit.audits.reachability.best_beta import best_beta
from recaudit.audits.reachability.contrasts import contrast_items, item_tiers, user_tiers
from recaudit.audits.reachability.geometry import Geometry, geometry
from recaudit.audits.reachability.result import Reachability
from recaudit.audits.result import Result
from recaudit.metrics.metric import Metric

__all__ = [
    "Access",
    "Audit",
    "Calibration",
    "CalibrationCurve",
    "Fidelity",
    "Folding",
    "FoldingResult",
    "Geometry",
    "Instability",
    "ListColumns",
    "MeasuredModels",
    "Metric",
    "Reachability",
    "Relatedness",
    "Reranking",
    "RerankingResult",
    "Result",
    "Sweep",
    "Tradeoff",
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
    "instability_fidelity",
    "item_tiers",
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
