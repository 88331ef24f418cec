"""The house's own rules: who may import whom, what is public, what is optional."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import recaudit

SOURCE = Path(recaudit.__file__).parent
ORDER = [
    "version",
    "errors",
    "terminal",
    "registry",
    "torch_extra",
    "machine",
    "arrays",
    "arguments",
    "specification",
    "atomic",
    "lock",
    "parent_watch",
    "folders",
    "seeding",
    "status",
    "ties",
    "arithmetic",
    "ranking",
    "engines",
    "data",
    "models",
    "policies",
    "interventions",
    "solvers",
    "metrics",
    "audits",
    "simulate",
    "runs",
    "report",
    "explore",
    "plugins",
    "testing",
    "cli",
]
"""Each room imports only from itself and from those before it: docs/contributing/architecture.md."""


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_up_only(path: Path) -> None:
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if own in ("__init__", "__main__"):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path.name}:{node.lineno}: imports are absolute"
            bare = node.module == "recaudit"
            names = [f"recaudit.{alias.name}" for alias in node.names] if bare else [node.module]
        for name in names:
            if name.split(".")[0] == "recaudit" and room_of(name) not in ("", "__version__"):
                assert ORDER.index(room_of(name)) <= ORDER.index(own), f"{path.name} imports {name}"


def test_every_room_has_its_place() -> None:
    rooms = {path.name.removesuffix(".py") for path in SOURCE.iterdir() if not path.name.startswith(("_", "py."))}
    assert rooms <= set(ORDER)


def test_public_names() -> None:
    assert sorted(recaudit.__all__) == [
        "Accuracy",
        "Agency",
        "AmongFirst",
        "Audit",
        "CalibratedWithin",
        "Calibration",
        "CategoryShare",
        "Changes",
        "Composed",
        "Decision",
        "Exposure",
        "Fidelity",
        "Folding",
        "FoldingResult",
        "Gate",
        "Instability",
        "InstabilityResult",
        "Interactions",
        "ItemCosts",
        "LikelyShown",
        "Mitigation",
        "OutOfFirst",
        "Reachability",
        "ReachabilityResult",
        "Recourse",
        "RecourseResult",
        "Relatedness",
        "Reranking",
        "Result",
        "Rule",
        "RunComparison",
        "RunHistory",
        "Subject",
        "TotalChange",
        "accuracy",
        "agency",
        "audits",
        "calibration",
        "calibration_curve",
        "check",
        "compare",
        "composed",
        "data",
        "datasets",
        "engines",
        "errors",
        "exposure",
        "fidelity",
        "folding",
        "folding_tradeoff",
        "history",
        "instability",
        "interventions",
        "metrics",
        "mitigation",
        "models",
        "plugins",
        "policies",
        "reachability",
        "reachable_factors",
        "recommend",
        "recourse",
        "registry",
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
        "testing",
    ]
    for name in recaudit.__all__:
        assert getattr(recaudit, name) is not None


def test_public_names_of_the_rooms() -> None:
    from recaudit import data, engines, models, policies

    assert sorted(models.__all__) == [
        "ALS",
        "AffineResponse",
        "AlsSolve",
        "BiasedMF",
        "BlackBox",
        "DifferentiableResponse",
        "EASE",
        "EditedItems",
        "FactorModel",
        "FactorVectors",
        "FittedModel",
        "FoldInModel",
        "History",
        "Http",
        "ItemKNN",
        "ItemKNNModel",
        "LinearModel",
        "OpaqueResponse",
        "Random",
        "Recommender",
        "Response",
        "SLIM",
        "SgdStep",
        "ShownLists",
        "TopPop",
        "UpdateRule",
        "UserKNN",
        "WALS",
        "WalsSolve",
        "adapt",
        "as_black_box",
        "from_factors",
        "from_http",
        "from_lists",
        "from_system",
        "from_weights",
        "reachable_factors",
    ]
    assert sorted(policies.__all__) == [
        "AnyListPolicy",
        "AnyPolicy",
        "Calibrated",
        "EpsilonGreedy",
        "ListPolicy",
        "Lister",
        "Policy",
        "Power",
        "ShowingPolicy",
        "Softmax",
        "Top1",
        "top_items",
    ]
    assert sorted(data.__all__) == [
        "Categories",
        "Interactions",
        "datasets",
        "read",
        "splits",
        "synthetic",
    ]
    assert sorted(engines.__all__) == [
        "AnyEngine",
        "Engine",
        "Processes",
        "Ray",
        "Serial",
        "Step",
        "Threads",
        "listening",
        "track",
        "with_workers",
        "working",
    ]


def test_a_misspelt_name_helps() -> None:
    with pytest.raises(AttributeError, match="Did you mean 'accuracy'"):
        recaudit.acuracy  # noqa: B018  the access is the test


WITHOUT = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name.split(".")[0] in {extras!r} else find(name, *rest)
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_core_works_without_any_extra() -> None:
    extras = ["pandas", "pyarrow", "httpx", "surprise", "implicit", "pytrec_eval", "hypothesis", "matplotlib"]
    code = WITHOUT.format(extras=extras) + (
        "import recaudit as ra\n"
        "for name in ra.__all__: getattr(ra, name)\n"
        "import recaudit.cli\n"
        "data = ra.data.synthetic.demo_world(users=30, items=40).data\n"
        "train, test = ra.splits.leave_last(data)\n"
        "model = ra.models.TopPop().fit(train)\n"
        "print(ra.accuracy(model, test).summary())\n"
    )
    assert "nDCG@10" in run(code)


def test_importing_the_package_is_light() -> None:
    code = "import sys, recaudit; print([m for m in ('torch', 'polars', 'numba', 'altair') if m in sys.modules])"
    assert run(code).strip() == "[]"
