"""Every name in an error message, a docstring or a help text is one that there is."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

import recaudit
from recaudit.registry import (
    ACTIONS,
    AUDITS,
    CHOICES,
    DATASETS,
    ENGINES,
    ENVIRONMENTS,
    MODELS,
    POLICIES,
    SECTIONS,
    SIMULATED_MODELS,
    SPLITS,
    Registry,
)

SOURCE = Path(recaudit.__file__).parent
FAMILIES = [ACTIONS, AUDITS, CHOICES, DATASETS, ENGINES, ENVIRONMENTS, MODELS, POLICIES, SECTIONS, SPLITS]
FAMILIES += [SIMULATED_MODELS]
OTHERS = {"GiB", "MiB", "MovieLens", "NaN"}
"""Words with capitals inside that are no names of ours."""
NAMED = re.compile(r"(?<![\w.%/-])(?:ra\.)?([A-Z][a-z]+(?:[A-Z0-9][a-z0-9]*)+)(?![\w/-])")
CALLED = re.compile(r"(?<![\w.])ra((?:\.[A-Za-z_]\w*)+)")


def told(tree: ast.AST) -> Iterator[str]:
    """Every text inside a `raise`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def defined() -> set[str]:
    """Every class, function and constant of the package."""
    names = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
    return names


def test_every_class_in_an_error_message_exists() -> None:
    known = defined() | OTHERS
    wrong = {
        (path.name, name)
        for path in SOURCE.rglob("*.py")
        for text in told(ast.parse(path.read_text()))
        for name in NAMED.findall(text)
        if name not in known
    }
    assert not wrong


def test_every_call_in_an_error_message_or_docstring_exists() -> None:
    wrong = set()
    for path in SOURCE.rglob("*.py"):
        for dotted in CALLED.findall(path.read_text()):
            value: object = recaudit
            try:
                for name in dotted.strip(".").split("."):
                    value = getattr(value, name)
            except AttributeError:
                wrong.add((path.name, f"ra{dotted}"))
    assert not wrong


def test_every_kind_in_the_help_of_a_command_is_registered() -> None:
    from recaudit.cli import app

    kinds = {kind for family in FAMILIES for kind in family}
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        for kind in re.findall(r'kind = "([\w-]+)"', command.help or ""):
            assert kind in kinds, f"recaudit {name} --help"
        for audit in re.findall(r"\[audits\.([\w-]+)\]", (command.help or "").replace("\\", "")):
            assert audit in AUDITS, f"recaudit {name} --help"


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.groups[0])
def test_every_registered_part_is_there_and_says_what_it_is(family: Registry) -> None:
    for name, part in family.items():
        assert getattr(part, "__doc__", None) or getattr(part, "about", None), name
        assert name == name.lower()


def test_no_class_name_is_defined_twice() -> None:
    where: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                where.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    assert {name: files for name, files in where.items() if len(files) > 1} == {}


def test_every_module_can_be_imported_alone() -> None:
    for path in sorted(SOURCE.rglob("*.py")):
        if path.name not in ("__main__.py", "__init__.py"):
            importlib.import_module(".".join(("recaudit", *path.relative_to(SOURCE).with_suffix("").parts)))
