"""Programs of `test_light_installation`, run in processes in which torch and the papers' distribution are missing.

    python tests/without_torch.py NAME [FOLDER]

Prints one JSON document: what each part of the program gave, or its error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

MISSING = ("torch", "recaudit_papers")
"""Packages that cannot be imported here."""
HEAVY = ("torch", "numba", "polars", "altair")
"""Packages that the command line loads only if a command needs them."""


class Missing(MetaPathFinder):
    """Finds nothing, and does not let others find the missing packages."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """See `MetaPathFinder`."""
        if name.split(".", maxsplit=1)[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def hide() -> None:
    """Make the missing packages look as if they were not installed."""
    entry_points: Any = metadata.entry_points
    version = metadata.version
    module: Any = metadata

    def of_installed(**selection: str) -> Any:
        points = entry_points(**selection)
        if not selection:  # numba looks for its own groups
            return points
        return metadata.EntryPoints(point for point in points if point.module.split(".", maxsplit=1)[0] not in MISSING)

    def version_of(name: str) -> str:
        if name.replace("-", "_") in MISSING:
            raise metadata.PackageNotFoundError(name)
        return version(name)

    sys.meta_path.insert(0, Missing())
    module.entry_points = of_installed
    module.version = version_of


def loaded() -> list[str]:
    """Return the heavy packages that were loaded so far."""
    return [name for name in HEAVY if name in sys.modules]


def outcome(work: Callable[[], object]) -> str:
    """Return "done", or the kind and message of the error."""
    try:
        work()
    except Exception as error:  # the test decides which errors are right
        return f"{type(error).__name__}: {error}"
    return "done"


def imports() -> dict[str, list[str]]:
    """Import the package, the command line and one audit, and list what each of them has loaded."""
    outcomes = {}
    import recaudit

    outcomes["import recaudit"] = loaded()
    from typer.testing import CliRunner

    from recaudit.cli import app

    assert CliRunner().invoke(app, ["--help"]).exit_code == 0
    outcomes["recaudit --help"] = loaded()
    assert callable(recaudit.reachability)
    outcomes["from recaudit import reachability"] = loaded()
    return outcomes


def small_data() -> Any:
    """Return 24 users and 30 items with a category system."""
    from recaudit.data.synthetic import demo_world

    return demo_world(users=24, items=30).data


def audits() -> dict[str, str]:
    """Run every audit of every model."""
    import recaudit as ra
    from recaudit.audits.audit import Audit, Subject
    from recaudit.audits.recipe import Change, Max, Own, PredictedRating
    from recaudit.interventions import Future, HistoryEdits, NextK, Past
    from recaudit.registry import AUDITS

    data = small_data()
    train, test = ra.splits.leave_last(data, k=2)
    users = tuple(data.user_ids[:3].to_list())
    recommenders: dict[str, Any] = {
        "ALS": ra.models.ALS(factors=2, iterations=2),
        "BiasedMF": ra.models.BiasedMF(factors=2, epochs=2),
        "EASE": ra.models.EASE(),
        "ItemKNN": ra.models.ItemKNN(),
    }
    settings: dict[str, list[Audit]] = {
        "accuracy": [ra.Accuracy(k=5)],
        "exposure": [ra.Exposure(k=5)],
        "reachability": [
            ra.Reachability(actions=actions, users=users)
            for actions in (NextK(2), HistoryEdits(2), Past(2), Future(2, follows=ra.policies.Top1()))
        ],
        "instability": [ra.Instability(viewers=users, editors=users)],
        "agency": [
            ra.Agency(k=2, horizons=(1,), betas=(1.0,), users=users, followed=2, targets=4, editors=2),
        ],
        "folding": [ra.Folding(k=5)],
        "calibration": [ra.Calibration(k=5, tested=5)],
        "reranking": [ra.Reranking(k=5, tested=5, curve=(0.0, 0.9))],
        "calibration-curve": [AUDITS["calibration-curve"](weights=(0.0, 0.9))],
        "mitigation": [
            ra.Mitigation(k=3, weights=(0.9,), unobserved_weights=(0.3,), beta_factors=(2.0,), users=users, targets=3)
        ],
        "fidelity": [ra.Fidelity()],
        "recourse": [ra.Recourse(actions=NextK(2), users=users, items=3)],
        "composed": [
            ra.Composed(
                intervention=Own(NextK(2)), outcome=PredictedRating(), functional=Change(), over=Max(), viewers=users
            )
        ],
    }
    outcomes = {f"{kind} is tried": "done" if kind in settings else "is missing" for kind in AUDITS}
    for name, recommender in recommenders.items():
        model = recommender.fit(train)
        subject = Subject(model, recommender, data, test)
        for kind, variants in settings.items():
            for number, audit in enumerate(variants):
                outcomes[f"{kind} {number} of {name}"] = outcome(partial(_summary, audit, subject))
    return outcomes


def _summary(audit: Any, subject: Any) -> str:
    summary: str = audit.run(subject).summary()
    return summary


def needs_torch() -> dict[str, str]:
    """Use what needs torch."""
    import numpy as np

    import recaudit as ra
    from recaudit.models.response import DifferentiableResponse

    data = small_data()
    model = ra.models.ALS(factors=2, iterations=2).fit(data)
    response = DifferentiableResponse(np.array([0]), lambda ratings: ratings)
    return {
        "a gradient search": outcome(lambda: ra.reachability(model, users=1, solver="gradient")),
        "a differentiable response": outcome(lambda: response.scores(np.array([3.0]))),
        "a device": outcome(lambda: ra.runs.execute(_configuration("device = 'cuda'"), Path("not-made"))),
    }


_CONFIG = """
{top}
floors = false
[data]
name = "demo"
[split]
kind = "leave-last"
k = 2
[[model]]
kind = "als"
factors = 2
iterations = 2
[[model]]
kind = "ease"
[audits.accuracy]
[audits.exposure]
[audits.reachability]
actions = {{kind = "next-k", k = 2}}
users = 3
refits = 0
[audits.calibration]
tested = 2
"""
_SIMULATION = """
trials = 2
steps = 3
[[environment]]
name = "topics-static"
users = 20
items = 25
users_per_step = 10
ratings = 150
[[recommender]]
kind = "als"
factors = 2
iterations = 2
"""


def _configuration(top: str) -> Any:
    from recaudit import runs

    return runs.parse(_CONFIG.format(top=top), source="small.toml", folder=Path())


_EXIT_CODES = {
    "check one --rules gate.toml": (0, 1, 2),  # a decision is not an error
    "study --list": (0, 3),  # of another distribution, which is missing here
}
"""Exit codes that are right, where that is not only 0."""


def commands(folder: str) -> dict[str, str]:
    """Run every command of the command line in a folder."""
    import os

    from typer.main import get_command
    from typer.testing import CliRunner

    import recaudit.cli.audits as audit_commands
    from recaudit.cli import app
    from recaudit.data import datasets

    os.chdir(folder)
    data = small_data()
    datasets.load = lambda name, path=None: data
    Path("small.toml").write_text(_CONFIG.format(top=""), encoding="utf-8")
    Path("simulation.toml").write_text(_SIMULATION, encoding="utf-8")
    audit_commands.DEMO = Path("small.toml")
    data.frame().write_csv("ratings.csv")
    lines = [
        "doctor",
        "audits",
        "audits reachability",
        "data list",
        "init ratings.csv",
        "audit small.toml --dry-run",
        "audit small.toml --out one",
        "audit small.toml --out other",
        "report one",
        "report one --format md",
        "explore one",
        "compare one other",
        "history one other",
        "verify one",
        "check one --suggest --out gate.toml",
        "check one --rules gate.toml",
        "rerank lists.csv --data demo --out reranked.csv --size 5",
        "simulate simulation.toml --out simulated",
        "demo --out demo",
        "study --list",
    ]
    outcomes = {}
    for line in lines:
        if line.startswith("rerank"):
            _write_lists(data)
        result = CliRunner().invoke(app, line.split(), env={"XDG_CACHE_HOME": str(Path("cache").absolute())})
        allowed = _EXIT_CODES.get(line, (0,))
        failed = result.exit_code not in allowed or not isinstance(result.exception, SystemExit | None)
        outcomes[line] = f"{result.exit_code}: {result.output} {result.exception!r}" if failed else "done"
    used = {line.split()[0] for line in lines}
    known: Any = get_command(app)
    outcomes |= {f"{name} is tried": "done" if name in used else "is missing" for name in known.commands}
    return outcomes


def _write_lists(data: Any) -> None:
    """Write lists of all items of two users."""
    import polars as pl

    users = data.user_ids[:2].to_list()
    rows = [(user, item, place + 1) for user in users for place, item in enumerate(data.item_ids.to_list())]
    pl.DataFrame(rows, ["user", "item", "rank"], orient="row").write_csv("lists.csv")


if __name__ == "__main__":
    hide()
    program: Any = {"imports": imports, "audits": audits, "needs_torch": needs_torch, "commands": commands}[sys.argv[1]]
    answer = program(*sys.argv[2:])
    assert not set(MISSING) & set(sys.modules)
    print(json.dumps(answer))
