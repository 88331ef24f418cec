"""The papers use public names of recaudit alone, and recaudit uses nothing of the papers."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import recaudit
import recaudit_papers

PAPERS = Path(recaudit_papers.__file__).parent
PRODUCT = Path(recaudit.__file__).parent
STABILITY = Path(__file__).parents[2] / "docs" / "reference" / "stability.md"
PUBLIC = {
    "recaudit",
    *(
        f"recaudit.{name}"
        for name in (
            *("audits", "audits.recipe", "cli.messages", "cli.progress", "data", "data.datasets", "data.splits"),
            *("data.synthetic", "engines", "errors", "folders", "interventions", "models", "plugins", "policies"),
            *("registry", "report", "runs", "simulate", "solvers", "testing"),
        )
    ),
}
"""Modules whose `__all__`, or names without an underscore, are public."""


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """Every name that a file imports, with its module; attributes of `import recaudit as ra` among them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    whole = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, ""
                whole.add((alias.asname or alias.name, alias.name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield from ((module, node.attr) for name, module in whole if node.value.id == name)


def public_names(module: str) -> set[str]:
    found = importlib.import_module(module)
    names = getattr(found, "__all__", None)
    own = [name for name, value in vars(found).items() if getattr(value, "__module__", module) == module]
    return {name for name in (own if names is None else names) if not name.startswith("_")} | {"__version__"}


@pytest.mark.parametrize("path", sorted(PAPERS.rglob("*.py")), ids=lambda path: str(path.relative_to(PAPERS)))
def test_the_papers_import_public_names_alone(path: Path) -> None:
    for module, name in imported(path):
        if module.split(".")[0] == "recaudit":
            assert module in PUBLIC or f"{module}.{name}" in PUBLIC, f"{module} is not a public module"
            if name and f"{module}.{name}" not in PUBLIC:
                assert name in public_names(module), f"{module}.{name} is not public"


@pytest.mark.parametrize("path", sorted(PRODUCT.rglob("*.py")), ids=lambda path: str(path.relative_to(PRODUCT)))
def test_recaudit_imports_nothing_of_the_papers(path: Path) -> None:
    assert not [module for module, _ in imported(path) if module.split(".")[0] == "recaudit_papers"]


def test_public_modules_are_documented() -> None:
    words = re.findall(r"`([\w.]+)`", STABILITY.read_text(encoding="utf-8"))
    named = {word.removeprefix("recaudit.") for word in words}
    assert {module for module in PUBLIC - {"recaudit"} if named.isdisjoint(_with_outer(module))} == set()


def _with_outer(module: str) -> set[str]:
    """The name of a module within recaudit, and that of the package around it."""
    name = module.removeprefix("recaudit.")
    return {name} if name.startswith("cli.") else {name, name.split(".")[0]}


def test_the_versions_agree() -> None:
    assert recaudit_papers.__version__ == recaudit.__version__
