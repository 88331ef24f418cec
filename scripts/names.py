"""Keep docs/contributing/names-0.3.csv: every public name of recaudit 0.2 with its name in 0.3.

python scripts/names.py

adds a row for every public name that the table lacks and lists the rows without a decision. Names are collected from
the installed package, from pyproject.toml, and from the tables of one small run of every audit.
"""

from __future__ import annotations

import ast
import csv
import inspect
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, get_args

import polars as pl
import typer
from pydantic import BaseModel
from setting_words import Setting, in_files, settings_of
from typer.core import TyperArgument, TyperGroup, TyperOption
from website.api import PAGES

import recaudit as ra
from recaudit import registry
from recaudit.audits.audit import Audit
from recaudit.cli import app

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "docs" / "contributing" / "names-0.3.csv"
AREAS = ("python", "setting", "toml", "command", "option", "entry-point", "metric", "table", "column")
STATUSES = ("kept", "renamed", "dropped", "moved", "added")

FILES = {
    "configuration": ["recaudit.runs.configuration:Configuration"],
    "data": ["recaudit.data.sources:NamedData", "recaudit.data.sources:OwnData"],
    "simulation": ["recaudit.runs.simulation:SimulationConfiguration"],
    "environment": ["recaudit.simulate.worlds.scenarios:Course"],
    "tune": ["recaudit.simulate.offline.cross_validation:OptunaSearch"],
    "gate": ["recaudit.runs.gate.rules:Gate"],
    "rule": ["recaudit.runs.gate.rules:Rule"],
    "study": ["recaudit.studies.own.config:OwnStudyConfiguration"],
    "study-metric": ["recaudit.studies.own.config:StudyMetric"],
    "study-change": ["recaudit.studies.own.config:StudyChange"],
}
"""Tables of TOML files, and the classes that read them."""
FAMILIES = ("AUDITS", "SIMULATED_MODELS", "POLICIES", "ACTIONS", "ENVIRONMENTS", "CHOICES", "ENGINES", "SPLITS")
"""Registries whose parts have settings."""
METHODS = ("Audit.run", "models.Recommender.fit")
"""Methods of classes with settings that callers use by name; other methods of these classes are for plug-ins."""
MODULES_OF_RESULTS = ("", "gates")
"""Where the classes are whose members have rows: at the top, and the modules that take over some of them."""
SHARED_TABLES = ("summary", "groups", "series", "terms", "people")
"""Result tables that have the same columns in every audit. The columns of the last also depend on the data."""


class Name(NamedTuple):
    """A public name."""

    area: str
    """One of `AREAS`."""
    name: str
    """The name with its owner: `reachability.actions`, `audit --out`, `recaudit.models:als`."""


class Row(NamedTuple):
    """A row of the table."""

    area: str
    old: str
    """The name in 0.2, empty if 0.3 adds it."""
    new: str
    """The name in 0.3, empty if it is dropped."""
    status: str
    """One of `STATUSES`, empty if nothing is decided."""
    reason: str


HEADER = ("area", "name in 0.2", "name in 0.3", "status", "reason")


def collect_names() -> list[Name]:
    """Collect every public name of the installed package, sorted, without duplicates."""
    names: dict[str, Iterable[str]] = {
        "python": _python_names(),
        "setting": _setting_names(),
        "toml": _toml_names(),
        "command": (f"recaudit {path}" for path, _ in _commands() if path),
        "option": _option_names(),
        "entry-point": _entry_point_names(),
        "metric": _metric_names(),
    }
    tables = _result_tables()
    names["table"] = sorted({f"{owner}.{table}" for owner, table, _ in tables})
    names["column"] = (f"{owner}.{table}.{column}" for owner, table, column in tables)
    return _sorted({Name(area, name) for area, area_names in names.items() for name in area_names})


def _sorted(names: Iterable[Name]) -> list[Name]:
    return sorted(names, key=lambda name: (AREAS.index(name.area), name.name))


# ---- Python ----------------------------------------------------------------------------------------------


def _python_names() -> Iterator[str]:
    """Exported names, parameters of exported functions, and members of the classes that verbs take or return."""
    described: list[object] = []
    for path, value in _exported():
        yield path
        if any(value is other for other in described) or isinstance(value, ModuleType):
            continue
        described.append(value)
        yield from (f"{path}.{parameter}" for parameter in _parameters(value))
        if isinstance(value, type) and path.rpartition(".")[0] in MODULES_OF_RESULTS and not _has_settings(value):
            yield from (f"{path}.{member}" for member in _members(value))
    for path in METHODS:
        owner, _, method = path.rpartition(".")
        cls: Any = ra
        for part in owner.split("."):
            cls = getattr(cls, part)
        yield path
        yield from (f"{path}.{parameter}" for parameter in _parameters(getattr(cls, method)) if parameter != "self")


def _exported() -> Iterator[tuple[str, Any]]:
    """Every exported name with its value: first those of `recaudit`, then those of its public modules."""
    for name in ra.__all__:
        yield name, getattr(ra, name)
    for long_path in dict.fromkeys(module for page in PAGES.values() for module in page.modules):
        module = import_module(f"recaudit.{long_path}")
        last_part = long_path.rpartition(".")[2]
        path = last_part if getattr(ra, last_part, None) is module else long_path
        for name in _names_of(module):
            yield f"{path}.{name}", getattr(module, name)


def _names_of(module: ModuleType) -> list[str]:
    """Names that a module exports; without `__all__`, those that it defines."""
    defined = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    names: list[str] = getattr(module, "__all__", [name for name in defined if not name.startswith("_")])
    return names


def _parameters(value: Any) -> list[str]:
    """Parameters of a function or verb; the settings of a verb have other rows."""
    settings = getattr(getattr(value, "audit", None), "model_fields", {})
    is_function = inspect.isfunction(value) or bool(settings)
    return [name for name in inspect.signature(value).parameters if name not in settings] if is_function else []


def _has_settings(cls: type) -> bool:
    return issubclass(cls, BaseModel) or hasattr(cls, "__pydantic_fields__")


def _members(cls: type) -> Iterator[str]:
    """Attributes, properties and methods that a class defines itself, methods with their parameters."""
    source = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    assigned = {
        node.attr
        for node in ast.walk(source)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    for name in sorted({*vars(cls), *inspect.get_annotations(cls), *assigned}):
        if name.startswith("_"):
            continue
        yield name
        function = getattr(vars(cls).get(name), "__func__", vars(cls).get(name))
        yield from (f"{name}.{parameter}" for parameter in _parameters(function) if parameter not in ("self", "cls"))


# ---- settings and files ----------------------------------------------------------------------------------


def _setting_names() -> Iterator[str]:
    """Settings of every registered part, and of the parts inside them."""
    for owner, settings in _parts().items():
        yield from (f"{owner}.{setting.name}" for setting in settings)


def _toml_names() -> Iterator[str]:
    """Keys of the tables in files, and kinds of parts that no entry point registers."""
    for table, classes in FILES.items():
        for cls in filter(None, map(_load, classes)):
            yield from (f"{table}.{setting.name}" for setting in settings_of(cls))
    yield from ("model.kind", "model.label")
    yield from ("recommender.kind", "recommender.label", "recommender.policy", "recommender.tune")
    yield from (owner for owner in _parts() if ":" in owner)


@cache
def _parts() -> dict[str, list[Setting]]:
    """Settings of all parts, by owner.

    The owner is the kind of a registered part (`next-k`), a setting and a kind for parts that only this setting
    accepts (`goal:top`), and a class for tables without a kind (`ListColumns`).
    """
    families = [getattr(registry, name) for name in FAMILIES if hasattr(registry, name)]
    parts = {kind: settings_of(family[kind]) for family in families for kind in family if family.is_own(kind)}
    file_classes = [cls for classes in FILES.values() for cls in filter(None, map(_load, classes))]
    listed: list[object] = [Audit, *file_classes, *(family[kind] for family in families for kind in family)]
    pending = [setting for settings in parts.values() for setting in settings]
    pending += [setting for cls in file_classes for setting in settings_of(cls)]
    while pending:
        setting = pending.pop(0)
        inner: dict[str, type] = {}
        if setting.parts is None:
            inner = {cls.__name__: cls for cls in _classes_in(setting.type)}
        elif not isinstance(setting.parts, registry.Registry):
            inner = {f"{setting.name}:{kind}": setting.parts[kind] for kind in setting.parts}
        for owner, cls in inner.items():
            if cls not in listed:
                listed.append(cls)
                parts[owner] = settings_of(cls)
                pending += parts[owner]
    return parts


def _classes_in(annotation: Any) -> Iterator[type]:
    """Classes with settings that an annotation names."""
    if isinstance(annotation, type) and (issubclass(annotation, BaseModel) or is_dataclass(annotation)):
        yield from [] if annotation is ra.Interactions else [annotation]
    for inner in get_args(annotation) if in_files(annotation) else ():
        yield from _classes_in(inner)


def _load(path: str) -> type | None:
    """Load a class, None if it is gone: its rows then have to say that it is dropped or moved."""
    module, _, name = path.partition(":")
    with suppress(ImportError, AttributeError):
        cls: type = getattr(import_module(module), name)
        return cls
    return None


# ---- command line and entry points -----------------------------------------------------------------------


def _commands() -> Iterator[tuple[str, Any]]:
    """Every command with its path: `("data list", command)`; the whole command line has the path ""."""
    pending: list[tuple[str, Any]] = [("", typer.main.get_command(app))]
    while pending:
        path, command = pending.pop()
        yield path, command
        if isinstance(command, TyperGroup):
            pending += [(f"{path} {name}".strip(), inner) for name, inner in command.commands.items()]


def _option_names() -> Iterator[str]:
    """Options and arguments of every command, without those that Typer adds for the completion of shells."""
    for path, command in _commands():
        for parameter in command.params:
            owner = path or "recaudit"
            if isinstance(parameter, TyperArgument):
                yield f"{owner} {parameter.metavar or (parameter.name or '').upper()}".rstrip(".")
            elif isinstance(parameter, TyperOption) and "completion" not in (parameter.name or ""):
                yield from (f"{owner} {flag}" for flag in [*parameter.opts, *parameter.secondary_opts])


def _entry_point_names() -> Iterator[str]:
    """Entry points of pyproject.toml: `recaudit.models:als`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups: dict[str, dict[str, str]] = {"console_scripts": project["scripts"], **project["entry-points"]}
    yield from (f"{group}:{name}" for group, points in groups.items() for name in points)


# ---- results ---------------------------------------------------------------------------------------------


def _metric_names() -> Iterator[str]:
    """Metrics of every audit, without those that another audit defines."""
    for kind, audit in registry.AUDITS.items():
        if registry.AUDITS.is_own(kind):
            yield from (f"{kind}.{metric.name}" for metric in audit.metrics if metric.name not in audit.borrowed)


def _result_tables() -> set[tuple[str, str, str]]:
    """Owner, table and column of the result tables of every audit.

    A column with the name of a metric is omitted, since the metric has a row. `<metric>_reranked` stands for one
    column for each metric.
    """
    columns: set[tuple[str, str, str]] = set()
    for kind, tables in _small_results():
        metrics = [metric.name for metric in registry.AUDITS[kind].metrics]
        for table, frame in tables.items():
            owner = "result" if table in SHARED_TABLES else kind
            for column in frame.columns[:1] if table == "people" else frame.columns:
                suffixes = [column.removeprefix(metric) for metric in metrics if column.startswith(f"{metric}_")]
                if column not in metrics:
                    columns.add((owner, table, f"<metric>{min(suffixes, key=len)}" if suffixes else column))
    return columns


def _small_results() -> Iterator[tuple[str, Mapping[str, pl.DataFrame]]]:
    """Run every audit once on a small dataset, and those with further columns for a black box on one."""
    split = ra.splits.leave_last(ra.data.synthetic.demo_world(rng=1, users=24, items=20).data, k=2)
    recommender = ra.models.WALS(factors=2, iterations=1)
    model = recommender.fit(split.train)
    few: dict[str, Any] = {"users": 3, "targets": 3, "refits": 0}
    pairs: dict[str, Any] = {"viewers": 3, "editors": 3}
    next_rating = {"kind": "own", "actions": {"kind": "next-k", "k": 1}}
    recipe = {"intervention": next_rating, "outcome": {"kind": "probability"}, "functional": {"kind": "value"}}
    settings: dict[str, dict[str, Any]] = {
        "agency": {**few, "editors": 3, "k": 1, "horizons": (1,), "betas": (1.0,), "followed": 1},
        "calibration": {"k": 3},
        "calibration-curve": {"k": (2,), "weights": (0.0, 0.5)},
        "composed": {**recipe, "over": {"kind": "max"}, "viewers": 2},
        "fidelity": {"audit": {"kind": "reachability", "users": 2, "targets": 2}, "top": 1, "other_rng": 1},
        "instability": {**pairs, "refits": 0, "best_ratings": True},
        "mitigation": {"users": 3, "targets": 2, "editors": 2, "weights": (0.5,), "beta_factors": (2.0,), "k": 3},
        "reachability": {**few, "best_actions": True},
        "recourse": {"users": 3, "items": 2, "refits": 0, "goal": {"kind": "top", "n": 3}},
        "reranking": {"k": 3, "curve": (0.0, 0.5)},
    }
    subject = ra.Subject(model=model, recommender=recommender, data=split.train, test=split.test)
    for kind, audit in registry.AUDITS.items():
        if registry.AUDITS.is_own(kind):
            yield kind, audit(**settings.get(kind, {})).run(subject).tables
    black_box = ra.models.as_black_box(model)
    yield "reachability", ra.reachability(black_box, **few, budget=3).tables
    yield "instability", ra.instability(black_box, **pairs, refits=0, budget=3).tables


# ---- the table -------------------------------------------------------------------------------------------


def read_table(path: Path = TABLE) -> list[Row]:
    """Read the rows of the table, none if there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    return [Row(*row) for row in rows]


def write_table(rows: Iterable[Row], path: Path = TABLE) -> None:
    """Write the rows in the order of areas and names."""
    ordered = sorted(rows, key=lambda row: (AREAS.index(row.area), row.old or row.new))
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *ordered])


def without_row(names: Iterable[Name], rows: Iterable[Row]) -> list[Name]:
    """Return the names that are in no row, neither as the name in 0.2 nor as the name in 0.3."""
    in_rows = {Name(row.area, name) for row in rows for name in (row.old, row.new)}
    return [name for name in names if name not in in_rows]


def main(path: Path = TABLE) -> int:
    """Add rows for names that the table lacks, and list the rows without a decision; return 1 if there are any."""
    rows = read_table(path)
    rows += [Row(name.area, name.name, "", "", "") for name in without_row(collect_names(), rows)]
    write_table(rows, path)
    undecided = [row for row in rows if not row.status]
    for row in undecided:
        sys.stdout.write(f"No decision: {row.area} {row.old}\n")
    sys.stdout.write(f"{len(rows):,} names, {len(undecided):,} without a decision: {path}\n")
    return 1 if undecided else 0


if __name__ == "__main__":
    sys.exit(main())
