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
    from recaudit import (
        audits,
        data,
        engines,
        errors,
        interventions,
        metrics,
        models,
        policies,
        registry,
        report,
        runs,
        simulate,
        solvers,
        testing,
    )
    from recaudit.audits import (
        Audit,
        Reachability,
        ReachabilityResult,
        Relatedness,
        Result,
        Subject,
        accuracy,
        agency,
        calibration,
        calibration_curve,
        composed,
        exposure,
        fidelity,
        folding,
        folding_tradeoff,
        folding_tuning,
        instability,
        reachability,
        recommend,
        rerank,
        rerank_file,
        reranking,
        sweep_beta,
        sweep_horizon,
    )
    from recaudit.data import Interactions, datasets, splits
    from recaudit.models import reachable_factors

_ROOMS = (
    *("audits", "data", "engines", "errors", "interventions", "metrics", "models", "policies", "registry", "report"),
    *("runs", "simulate", "solvers", "testing"),
)
_NAMES = {
    "recaudit.audits": (
        *("Audit", "Reachability", "ReachabilityResult", "Relatedness", "Result", "Subject", "accuracy", "agency"),
        *("calibration", "calibration_curve"),
        *("composed", "exposure", "fidelity", "folding", "folding_tradeoff", "folding_tuning", "instability"),
        *("reachability", "recommend", "rerank", "rerank_file", "reranking", "sweep_beta", "sweep_horizon"),
    ),
    "recaudit.data": ("Interactions", "datasets", "splits"),
    "recaudit.models": ("reachable_factors",),
}
"""Where each public name lives."""
_HOME = {name: home for home, names in _NAMES.items() for name in names}

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
