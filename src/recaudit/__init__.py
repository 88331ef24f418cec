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
    from recaudit import audits, data, engines, errors, interventions, models, policies, report, runs, simulate, solvers
    from recaudit.audits import (
        Audit,
        Fidelity,
        Folding,
        Instability,
        Reachability,
        Relatedness,
        Result,
        accuracy,
        agency,
        calibration,
        calibration_curve,
        exposure,
        fidelity,
        folding,
        folding_tradeoff,
        folding_tuning,
        instability,
        instability_fidelity,
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

_HOME = {
    "Audit": "recaudit.audits",
    "Fidelity": "recaudit.audits",
    "Folding": "recaudit.audits",
    "Instability": "recaudit.audits",
    "Interactions": "recaudit.data",
    "Reachability": "recaudit.audits",
    "Relatedness": "recaudit.audits",
    "Result": "recaudit.audits",
    "accuracy": "recaudit.audits",
    "agency": "recaudit.audits",
    "audits": "recaudit",
    "calibration": "recaudit.audits",
    "calibration_curve": "recaudit.audits",
    "data": "recaudit",
    "datasets": "recaudit.data",
    "engines": "recaudit",
    "errors": "recaudit",
    "exposure": "recaudit.audits",
    "fidelity": "recaudit.audits",
    "folding": "recaudit.audits",
    "folding_tradeoff": "recaudit.audits",
    "folding_tuning": "recaudit.audits",
    "instability": "recaudit.audits",
    "instability_fidelity": "recaudit.audits",
    "interventions": "recaudit",
    "models": "recaudit",
    "policies": "recaudit",
    "reachability": "recaudit.audits",
    "reachable_factors": "recaudit.models",
    "recommend": "recaudit.audits",
    "report": "recaudit",
    "rerank": "recaudit.audits",
    "rerank_file": "recaudit.audits",
    "reranking": "recaudit.audits",
    "runs": "recaudit",
    "simulate": "recaudit",
    "solvers": "recaudit",
    "splits": "recaudit.data",
    "sweep_beta": "recaudit.audits",
    "sweep_horizon": "recaudit.audits",
}
"""Where each public name lives; a name that lives in `recaudit` is a package of its own."""

__all__ = [
    "Audit",
    "Fidelity",
    "Folding",
    "Instability",
    "Interactions",
    "Reachability",
    "Relatedness",
    "Result",
    "accuracy",
    "agency",
    "audits",
    "calibration",
    "calibration_curve",
    "data",
    "datasets",
    "engines",
    "errors",
    "exposure",
    "fidelity",
    "folding",
    "folding_tradeoff",
    "folding_tuning",
    "instability",
    "instability_fidelity",
    "interventions",
    "models",
    "policies",
    "reachability",
    "reachable_factors",
    "recommend",
    "report",
    "rerank",
    "rerank_file",
    "reranking",
    "runs",
    "simulate",
    "solvers",
    "splits",
    "sweep_beta",
    "sweep_horizon",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        from recaudit.errors import did_you_mean  # noqa: PLC0415  only on the way to an error

        raise AttributeError(f"module 'recaudit' has no attribute {name!r}. {did_you_mean(name, _HOME)}")
    home = _HOME[name]
    value = (
        importlib.import_module(f"{home}.{name}")
        if home == "recaudit"
        else getattr(importlib.import_module(home), name)
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
