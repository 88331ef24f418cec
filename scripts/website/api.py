"""The pages of the Python reference: which public names stand on which. mkdocstrings writes what they are."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple, get_origin

import recaudit as ra
from recaudit.audits.audit import Audit, Verb
from recaudit.audits.result import Result


class ApiPage(NamedTuple):
    """A page, with the public names of some modules of `recaudit`, or those that are named."""

    title: str
    about: str
    modules: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


_AUDITS = """One function for each audit. `ra.reachability(model, users=20)` is \
`ra.Reachability(users=20).run(model)`: the class of the same name is the question as a value, with the same settings. \
They are also the keys of a [configuration](../configuration.md#audits). [Metrics](../metrics.md) says what the \
numbers mean."""
_GOALS = ("AmongFirst", "CalibratedWithin", "CategoryShare", "LikelyShown", "OutOfFirst")

PAGES = {
    "audits": ApiPage("Audits", _AUDITS, ("audits",), ("recourse",)),
    "results": ApiPage("Results", "What audits give back.", (), ("Result",)),
    "goals": ApiPage(
        "Goals of recourse",
        "What [recourse](../../guides/recourse.md) is asked for, and what a change costs.",
        (),
        (*_GOALS, "Changes", "ItemCosts", "TotalChange"),
    ),
    "recipes": ApiPage(
        "Recipes", "The parts of which `ra.composed` makes [an audit](../../guides/recipe.md).", ("audits.recipe",)
    ),
    "data": ApiPage(
        "Data",
        "The log, how it is read, data sets by name, generators, splits.",
        ("data", "data.datasets", "data.splits", "data.synthetic"),
    ),
    "models": ApiPage("Models", "Recommenders, and models that you already have.", ("models",)),
    "policies": ApiPage("Policies", "How scores become a recommendation.", ("policies",)),
    "interventions": ApiPage("Interventions", "Who may change which ratings, and how far.", ("interventions",)),
    "runs": ApiPage("Runs", "Run folders, estimates, comparisons, histories.", ("runs",)),
    "gate": ApiPage("Gate", "Rules for a [release](../../guides/gate.md).", ("runs.gate",)),
    "report": ApiPage("Report", "What is found in a run, and its page.", ("report",)),
    "simulate": ApiPage(
        "Simulations", "People who rate what they are shown, and recommenders that learn.", ("simulate",)
    ),
    "engines": ApiPage("Engines", "How the work is spread. It never changes a number.", ("engines",)),
    "solvers": ApiPage("Solvers", "Arrays in, arrays out; every answer with a certificate.", ("solvers",)),
    "registry": ApiPage("Registries", "Every part that can be named, of recaudit and of plug-ins.", ("registry",)),
    "errors": ApiPage("Errors", "What can go wrong. All of it is a `RecauditError`.", ("errors",)),
    "plugins": ApiPage("For plug-ins", "What parts of other packages are built with.", ("plugins",)),
    "folders": ApiPage("Folders", "Run folders: a manifest with a digest of every file.", ("folders",)),
    "testing": ApiPage("Testing", "Contracts that tests of your own parts inherit.", ("testing",)),
}


def pages() -> dict[str, str]:
    """Every page as Markdown, by its name; each public name stands on one."""
    placed = _placed()
    missing = [name for name in ra.__all__ if not _on_a_page(getattr(ra, name), placed)]
    if missing:
        raise ValueError(f"Public, and on no page of scripts/website/api.py: {', '.join(missing)}")
    return {name: _page(PAGES[name], list(objects)) for name, objects in placed.items()}


def documented() -> dict[str, Any]:
    """Everything on the pages, by the place where it is defined."""
    every = [own for objects in _placed().values() for own in objects.values()]
    return {f"{_home(own)}.{own.__name__}": own for own in every if hasattr(own, "__name__")}


def _home(value: Any) -> str:
    return str(value.audit.__module__ if isinstance(value, Verb) else value.__module__)


def _placed() -> dict[str, dict[str, Any]]:
    """The objects of each page, by the name under which people import them; the first page that has one keeps it."""
    results = {name: value for name, value in _members(ra.audits) if _is_result(value)}
    results |= {name: getattr(ra, name) for name in ra.__all__ if _is_result(getattr(ra, name))}
    placed: dict[str, dict[str, Any]] = {}
    for page, own in PAGES.items():
        found: dict[str, Any] = {f"recaudit.{name}": getattr(ra, name) for name in own.names}
        for module in own.modules:
            members = _members(import_module(f"recaudit.{module}"))
            found |= {_path(module, name, value): value for name, value in members if name not in results}
        if page == "results":
            found |= {_path("audits", name, value): value for name, value in results.items()}
        taken = [value for objects in placed.values() for value in objects.values()]
        placed[page] = {path: value for path, value in found.items() if not any(value is other for other in taken)}
    return placed


def _is_result(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Result)


def _path(module: str, name: str, value: Any) -> str:
    """`recaudit.accuracy` rather than `recaudit.audits.accuracy`, where both are the same."""
    short = not isinstance(value, ModuleType) and getattr(ra, name, None) is value
    return f"recaudit.{name}" if short else f"recaudit.{module}.{name}"


def _members(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The public names of a module, without modules, and without the classes that stand behind verbs."""
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    for name in getattr(module, "__all__", [name for name in own if not name.startswith("_")]):
        value = getattr(module, name)
        behind = isinstance(value, type) and issubclass(value, Audit) and value is not Audit
        helper = module is ra.errors and not isinstance(value, type)
        if not isinstance(value, ModuleType) and not behind and not helper:
            yield name, value


def _on_a_page(value: Any, placed: dict[str, dict[str, Any]]) -> bool:
    behind = isinstance(value, type) and issubclass(value, Audit)
    return (
        behind
        or isinstance(value, ModuleType)
        or any(value is own for page in placed.values() for own in page.values())
    )


def _page(page: ApiPage, paths: list[str]) -> str:
    """The heading, and a directive for each name: verbs, then classes, then functions, then values."""
    groups: dict[str, list[str]] = {"Audits": [], "Classes": [], "Functions": [], "Values": []}
    for path in paths:
        module, _, name = path.rpartition(".")
        value = getattr(import_module(module), name)
        if isinstance(value, Verb):
            groups["Audits"].append(path)
        elif callable(value) and not isinstance(value, type) and get_origin(value) is None:
            groups["Functions"].append(path)
        else:
            groups["Classes" if isinstance(value, type) else "Values"].append(path)
    parts = [f"# {page.title}\n\n{page.about}\n"]
    for heading, own in groups.items():
        if own:
            parts += [f"## {heading}\n", *map(_directive, sorted(own, key=_named))]
    return "\n".join(parts)


def _named(path: str) -> str:
    return path.rpartition(".")[2].lower()


def _directive(path: str) -> str:
    name = path.rpartition(".")[2]
    return f"::: {path}\n    options:\n      heading_level: 3\n      heading: {path}\n      toc_label: {name}\n"
