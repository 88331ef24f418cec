"""`recaudit audits`: which audits there are, what each asks and measures, and how to run it."""

from __future__ import annotations

import inspect
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from recaudit.cli.messages import AsJson, answers, command, plain_table, print_json
from recaudit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from recaudit.audits.audit import Audit


@command()
def audits(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Say all about one of them.")] = None,
    papers: Annotated[bool, typer.Option("--papers", help="List the five papers' audits instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """List every audit: the question, its rung on the causal ladder, and what it measures.

    \b
      recaudit audits
      recaudit audits reachability     # settings with their defaults, metrics with their definitions
      recaudit audits --papers         # what the papers ask, as settings of these audits
    """
    from recaudit.registry import AUDITS

    if papers:
        _papers(as_json)
        return
    if name is not None and name not in AUDITS:
        expected = "the name of an audit"
        raise InputError("NAME", received=repr(name), expected=expected, remedy=did_you_mean(name, AUDITS))
    chosen = {one: AUDITS[one] for one in AUDITS if name in (None, one)}
    if as_json:
        print_json([_document(one, cls) for one, cls in chosen.items()])
    elif name is not None:
        _print_one(name, chosen[name])
    else:
        table = plain_table("Audit", "Question", "Rung", wide="Question")
        for one, cls in chosen.items():
            table.add_row(Text(one, style="bold"), _question(cls), _rung(cls))
        answers().print(table, soft_wrap=False)
        answers().print("\nOne of them with its settings and definitions: recaudit audits NAME")


def _question(cls: type[Audit]) -> str:
    return (inspect.getdoc(cls) or "").partition("\n")[0]


def _by_default(cls: type[Audit]) -> Audit | None:
    """The audit with its defaults; None for one that has none."""
    return None if any(field.is_required() for field in cls.model_fields.values()) else cls()


def _rung(cls: type[Audit]) -> str:
    """Where the audit stands with its defaults."""
    audit = _by_default(cls)
    return "follows from its recipe" if audit is None else str(audit.rung or "")


def _print_one(name: str, cls: type[Audit]) -> None:
    console = answers()
    console.print(name, style="bold")
    console.print(inspect.getdoc(cls) or "")
    if rung := _rung(cls):
        recipe = None if (audit := _by_default(cls)) is None else audit.recipe
        console.print("" if recipe is None else f"\nWith its defaults: {recipe}")
        console.print(f"Rung on the causal ladder: {rung}")
    console.print(
        f"\nSettings, in Python as {name.replace('-', '_')}(...), in a configuration under [audits.{name}]:",
        markup=False,
    )
    for one in _settings(cls):
        console.print(Text.assemble("  ", (one["name"], "bold"), f" = {one['default']}"))
        console.print(Padding(" ".join(one["about"].split()), (0, 0, 0, 6)), soft_wrap=False)
    metrics = plain_table()
    for metric in cls.metrics:
        about = f"{metric.definition} Formula: {metric.formula}. Range: {metric.range}"
        metrics.add_row(Text(metric.name, style="bold"), Text(about))
    console.print("\nMetrics:")
    console.print(metrics, soft_wrap=False)


def _settings(cls: type[Audit]) -> list[dict[str, Any]]:
    from recaudit.specification import as_data

    defaults = as_data(cls.model_construct())
    return [
        {"name": name, "default": defaults.get(name, "required"), "about": field.description or ""}
        for name, field in cls.model_fields.items()
    ]


def _document(name: str, cls: type[Audit]) -> dict[str, Any]:
    return {
        "name": name,
        "question": _question(cls),
        "rung": _rung(cls),
        "needs": list(cls.needs),
        "settings": _settings(cls),
        "metrics": [
            {key: getattr(metric, key) for key in ("name", "label", "definition", "formula", "range", "better")}
            for metric in cls.metrics
        ],
    }


def _papers(as_json: bool) -> None:
    from recaudit.audits.catalogue import PAPERS, catalog
    from recaudit.registry import AUDITS
    from recaudit.specification import as_data

    if as_json:
        keys = ("name", "paper", "where", "number")
        print_json(
            [{**{key: getattr(one, key) for key in keys}, "audit": as_data(one.audit, AUDITS)} for one in catalog()]
        )
        return
    for paper, title in PAPERS.items():
        answers().print(f"{paper}  {title}", style="bold")
        for one in catalog(paper):
            settings = (f"{name}={_brief(getattr(one.audit, name))}" for name in sorted(one.audit.model_fields_set))
            call = f"{type(one.audit).__name__}({', '.join(settings)})"
            answers().print(f"  {one.name:<24}{one.where:<10}{call:<40}{one.number}")


def _brief(value: object) -> str:
    """A value as one would type it: of a part, its first setting."""
    if not is_dataclass(value):
        return repr(value)
    return f"{type(value).__name__}({getattr(value, fields(value)[0].name)!r})"
