"""recaudit: what does a recommender let people do, and what does it do to them?

    import recaudit as ra

    data = ra.datasets.load("demo")
    train, test = ra.splits.leave_last(data, k=5)
    model = ra.models.BiasedMF(factors=32).fit(train)
    print(ra.accuracy(model, test, k=10).summary())

Names are imported when they are first used: `import recaudit` itself is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from recaudit.version import __version__ as __version__

if TYPE_CHECKING:
    from recaudit import audits as audits
    from recaudit import data as data
    from recaudit import engines as engines
    from recaudit import errors as errors
    from recaudit import interventions as interventions
    from recaudit import metrics as metrics
    from recaudit import models as models
    from recaudit import policies as policies
    from recaudit import registry as registry
    from recaudit import report as report
    from recaudit import runs as runs
    from recaudit import simulate as simulate
    from recaudit import solvers as solvers
    from recaudit import studies as studies
    from recaudit import testing as testing
    from recaudit.audits.agency.audit import Agency as Agency
    from recaudit.audits.agency.audit import agency as agency
    from recaudit.audits.agency.sweeps import sweep_beta as sweep_beta
    from recaudit.audits.agency.sweeps import sweep_horizon as sweep_horizon
    from recaudit.audits.audit import Audit as Audit
    from recaudit.audits.audit import Subject as Subject
    from recaudit.audits.calibration.audit import Calibration as Calibration
    from recaudit.audits.calibration.audit import calibration as calibration
    from recaudit.audits.calibration.rerank import rerank as rerank
    from recaudit.audits.calibration.rerank import rerank_file as rerank_file
    from recaudit.audits.calibration.reranking import Reranking as Reranking
    from recaudit.audits.calibration.reranking import calibration_curve as calibration_curve
    from recaudit.audits.calibration.reranking import reranking as reranking
    from recaudit.audits.composed.audit import Composed as Composed
    from recaudit.audits.composed.audit import composed as composed
    from recaudit.audits.fidelity.audit import Fidelity as Fidelity
    from recaudit.audits.fidelity.audit import fidelity as fidelity
    from recaudit.audits.folding.audit import Folding as Folding
    from recaudit.audits.folding.audit import FoldingResult as FoldingResult
    from recaudit.audits.folding.audit import folding as folding
    from recaudit.audits.folding.relatedness import Relatedness as Relatedness
    from recaudit.audits.folding.tradeoff import folding_tradeoff as folding_tradeoff
    from recaudit.audits.instability.audit import Instability as Instability
    from recaudit.audits.instability.audit import instability as instability
    from recaudit.audits.instability.result import InstabilityResult as InstabilityResult
    from recaudit.audits.lists.accuracy import Accuracy as Accuracy
    from recaudit.audits.lists.accuracy import accuracy as accuracy
    from recaudit.audits.lists.exposure import Exposure as Exposure
    from recaudit.audits.lists.exposure import exposure as exposure
    from recaudit.audits.lists.recommend import recommend as recommend
    from recaudit.audits.mitigation.audit import Mitigation as Mitigation
    from recaudit.audits.mitigation.audit import mitigation as mitigation
    from recaudit.audits.reachability.audit import Reachability as Reachability
    from recaudit.audits.reachability.audit import reachability as reachability
    from recaudit.audits.reachability.result import ReachabilityResult as ReachabilityResult
    from recaudit.audits.recourse.audit import Recourse as Recourse
    from recaudit.audits.recourse.audit import recourse as recourse
    from recaudit.audits.recourse.goals import AmongFirst as AmongFirst
    from recaudit.audits.recourse.goals import CalibratedWithin as CalibratedWithin
    from recaudit.audits.recourse.goals import CategoryShare as CategoryShare
    from recaudit.audits.recourse.goals import Changes as Changes
    from recaudit.audits.recourse.goals import ItemCosts as ItemCosts
    from recaudit.audits.recourse.goals import LikelyShown as LikelyShown
    from recaudit.audits.recourse.goals import OutOfFirst as OutOfFirst
    from recaudit.audits.recourse.goals import TotalChange as TotalChange
    from recaudit.audits.recourse.result import RecourseResult as RecourseResult
    from recaudit.audits.result import Result as Result
    from recaudit.data import datasets as datasets
    from recaudit.data import splits as splits
    from recaudit.data.interactions import Interactions as Interactions
    from recaudit.models.factor.model import reachable_factors as reachable_factors
    from recaudit.runs.comparison import RunComparison as RunComparison
    from recaudit.runs.comparison import compare as compare
    from recaudit.runs.gate.decision import Decision as Decision
    from recaudit.runs.gate.decision import check as check
    from recaudit.runs.gate.rules import Gate as Gate
    from recaudit.runs.gate.rules import Rule as Rule
    from recaudit.runs.history import RunHistory as RunHistory
    from recaudit.runs.history import history as history

_ROOMS = (
    *("audits", "data", "engines", "errors", "interventions", "metrics", "models", "policies", "registry", "report"),
    *("runs", "simulate", "solvers", "studies", "testing"),
)
_NAMES = {
    "audits.agency.audit": ("Agency", "agency"),
    "audits.agency.sweeps": ("sweep_beta", "sweep_horizon"),
    "audits.audit": ("Audit", "Subject"),
    "audits.calibration.audit": ("Calibration", "calibration"),
    "audits.calibration.rerank": ("rerank", "rerank_file"),
    "audits.calibration.reranking": ("Reranking", "calibration_curve", "reranking"),
    "audits.composed.audit": ("Composed", "composed"),
    "audits.fidelity.audit": ("Fidelity", "fidelity"),
    "audits.folding.audit": ("Folding", "FoldingResult", "folding"),
    "audits.folding.relatedness": ("Relatedness",),
    "audits.folding.tradeoff": ("folding_tradeoff",),
    "audits.instability.audit": ("Instability", "instability"),
    "audits.lists.accuracy": ("Accuracy", "accuracy"),
    "audits.lists.exposure": ("Exposure", "exposure"),
    "audits.lists.recommend": ("recommend",),
    "audits.mitigation.audit": ("Mitigation", "mitigation"),
    "audits.reachability.audit": ("Reachability", "reachability"),
    "audits.reachability.result": ("ReachabilityResult",),
    "audits.instability.result": ("InstabilityResult",),
    "audits.recourse.audit": ("Recourse", "recourse"),
    "audits.recourse.goals": (
        "AmongFirst",
        "CalibratedWithin",
        "CategoryShare",
        "Changes",
        "ItemCosts",
        "LikelyShown",
        "OutOfFirst",
        "TotalChange",
    ),
    "audits.recourse.result": ("RecourseResult",),
    "audits.result": ("Result",),
    "data": ("datasets", "splits"),
    "data.interactions": ("Interactions",),
    "models.factor.model": ("reachable_factors",),
    "runs.comparison": ("RunComparison", "compare"),
    "runs.history": ("RunHistory", "history"),
    "runs.gate.decision": ("Decision", "check"),
    "runs.gate.rules": ("Gate", "Rule"),
}
"""Where each public name lives."""
_HOME = {name: f"recaudit.{home}" for home, names in _NAMES.items() for name in names}

__all__ = [*_ROOMS, *_HOME]  # noqa: PLE0604  names, all of them


def __getattr__(name: str) -> object:
    if name in _ROOMS:
        value: object = importlib.import_module(f"recaudit.{name}")
    elif name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    else:
        value = _verb(name)
    globals()[name] = value
    return value


def _verb(name: str) -> object:
    """The verb of another package's audit, which is registered under this name."""
    from recaudit.registry import AUDITS  # noqa: PLC0415  only for what is not recaudit's own

    if name.startswith("_") or name.replace("_", "-") not in AUDITS:
        from recaudit.errors import did_you_mean  # noqa: PLC0415  only on the way to an error

        raise AttributeError(f"module 'recaudit' has no attribute {name!r}. {did_you_mean(name, __all__)}")
    from recaudit.audits.audit import Verb  # noqa: PLC0415  heavy

    audit = AUDITS[name.replace("_", "-")]
    return Verb(audit, audit.result)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
