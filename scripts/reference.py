"""Write the pages of docs/reference that follow from the classes; here configuration.md, every key of a file.

make reference
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args

from command_page import command_page
from metric_page import metric_page
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from setting_words import Setting, default_words, in_files, settings_of, type_words

from recaudit.audits.audit import Audit
from recaudit.data.interactions import Interactions
from recaudit.data.sources import AnyData
from recaudit.policies import AnyListPolicy
from recaudit.registry import (
    ACTIONS,
    AUDITS,
    CHOICES,
    ENGINES,
    ENVIRONMENTS,
    MODELS,
    POLICIES,
    SIMULATED_MODELS,
    SPLITS,
)
from recaudit.runs.configuration import Configuration
from recaudit.runs.simulation import SimulationConfiguration
from recaudit.simulate.worlds.environment import Environment
from recaudit.simulate.worlds.scenarios import Course
from recaudit.specification import NamedParts
from recaudit.studies.own.config import OwnStudyConfiguration, StudyChange, StudyMetric

FOLDER = Path(__file__).parent.parent / "docs" / "reference"

EXAMPLE = """
seed = 0

[data]
name = "demo"                 # or file = "ratings.csv": your own

[split]
kind = "leave-last"
k = 3

[[model]]
kind = "als"
factors = 16

[[model]]
kind = "ease"
label = "EASE, light"
regularization = 500

[audits.accuracy]
k = 10

[audits.exposure]

[audits.reachability]
actions = {kind = "next-k", k = 5}
users = 50
"""

INTRODUCTION = f"""# Configuration

What `recaudit audit FILE`, `recaudit study own --config FILE` and `recaudit simulate FILE` read: a TOML file with \
these keys and no others. A mistake is told by its key, with what was expected there. In Python the same keys are the \
keywords of the classes, from which `make reference` writes this page.

A whole audit, of two models side by side:

```toml{EXAMPLE}```

A default is given as it would be written. Where there is none and the key is not required, nothing is set, and the \
meaning says what follows. A relative path starts at the folder of the file.
"""

_TABLES = {
    "data": "a table: [data](#data)",
    "split": "a table: [a split](#splits)",
    "model": "tables, each [a model](#models)",
    "audits": "tables, each [an audit](#audits)",
    "engine": "a table: [an engine](#engines)",
    "base": "a file that exists, or a table: [the file](#the-file) of an audit",
    "models": "a text or a list of texts",
    "metric": "tables, each [a metric](#metrics-of-a-study)",
    "change": "tables, each [a change](#changes-of-a-study)",
    "environment": "tables, each [an environment](#environments)",
    "recommender": "tables, each [a recommender](#recommenders)",
}
"""The keys of a file that are tables of it."""

_PRINTED = 'a number, or a text where its last digit is 0: `"1.370"`'
_MODEL_KEYS = [
    Setting("kind", str, PydanticUndefined, "Which of those below."),
    Setting(
        "label", str | None, None, "What tables and the report call it; without one its name, counted if it repeats."
    ),
]
_LOOP_KEYS = [
    *_MODEL_KEYS,
    Setting("policy", AnyListPolicy, None, "How its scores become what is shown; without one the simulation's."),
    Setting("tune", dict, None, "How its settings are chosen by cross-validation; without it they are as written."),
]
_LINKS = {
    POLICIES.what: "a [policy](#policies)",
    ACTIONS.what: "[actions](#actions)",
    AUDITS.what: "an [audit](#audits), by its `kind`",
    MODELS.what: "a [model](#models), by its `kind`",
    CHOICES.what: "a [choice](#choices)",
    ENGINES.what: "an [engine](#engines)",
    SPLITS.what: "a [split](#splits)",
}


class Reference:
    """The page; parts that settings name, and that have no section of their own, are collected on the way."""

    def __init__(self) -> None:
        self.links = dict(_LINKS)
        self.inside: dict[str, Mapping[str, type]] = {}

    def page(self) -> str:
        """All of it, ending in a line break."""
        parts = [INTRODUCTION, *self._audit_file(), *self._study(), *self._simulation()]
        return "\n".join(part.strip() + "\n" for part in parts)

    def _audit_file(self) -> Iterator[str]:
        yield "## The file\n"
        yield self._table(settings_of(Configuration), _TABLES)
        yield "## Data\n\n`[data]` has a name or a file.\n"
        for cls in _members(AnyData):
            yield f"### {_first(cls).rstrip('.')}\n"
            yield self._table(settings_of(cls))
        yield "## Splits\n\n`[split]`: which ratings are held out, by `kind`.\n"
        yield from self._kinds(SPLITS)
        yield "## Models\n\n`[[model]]`, once for each.\n"
        yield self._table(_MODEL_KEYS)
        yield from self._kinds(MODELS)
        yield "## Audits\n\n`[audits.NAME]`, one table for each that is asked. Every one of them has\n"
        yield self._table(settings_of(Audit))
        yield from self._kinds(AUDITS, base=Audit)
        yield '## Policies\n\nHow scores become a recommendation: `policy = {kind = "softmax", beta = 2.0}`.\n'
        yield from self._kinds(POLICIES)
        yield '## Actions\n\nWhich ratings are free, by `kind`: `actions = {kind = "past", k = 5}`.\n'
        yield from self._kinds(ACTIONS)
        yield "## Engines\n\n`[engine]`: how the work is spread. It never changes a number.\n"
        yield from self._kinds(ENGINES)

    def _study(self) -> Iterator[str]:
        yield "## Studies\n\nThe file of `recaudit study own`: [a question of your own](../guides/own-study.md).\n"
        yield self._table(settings_of(OwnStudyConfiguration), _TABLES)
        yield "### Metrics of a study\n\n`[[metric]]`, once for each number.\n"
        yield self._table(settings_of(StudyMetric), {"model": "a text or a list of texts", "published": _PRINTED})
        yield "### Changes of a study\n\n`[[change]]`, once for each.\n"
        yield self._table(settings_of(StudyChange), {"set": "a table"})

    def _simulation(self) -> Iterator[str]:
        yield "## Simulations\n\nThe file of `recaudit simulate`.\n"
        yield self._table(settings_of(SimulationConfiguration), _TABLES)
        yield (
            "`[audits]` has a table `[audits.NAME]` for each [audit](#audits) that needs nothing but a model, and the "
            "key `every`: after how many steps they are asked, and at the last; 0, the default, at the last alone.\n"
        )
        yield (
            "## Environments\n\n`[[environment]]`, once for each: the `name` of one of the paper's (`recaudit simulate "
            "--list`), a `kind` of those below, or `data = {...}`, a table as under [data](#data), for people who are "
            "fitted to a log. Tables call it by its `label`. Without a `name`, `ratings` and `steps` have to be said, "
            "here or for the whole file. All have\n"
        )
        begins = [
            own._replace(default=None) if own.name in ("ratings", "steps") else own for own in settings_of(Course)
        ]
        yield self._table([*begins, *settings_of(Environment)])
        yield from self._kinds(ENVIRONMENTS, base=Environment)
        yield "## Choices\n\nWhat people take from what they are shown, by `kind`.\n"
        yield from self._kinds(CHOICES)
        yield "## Recommenders\n\n`[[recommender]]`, once for each: a [model](#models), or one for simulations only.\n"
        yield self._table(_LOOP_KEYS, {"tune": "a table"})
        yield "`tune = {factors = [10, 20]}` tries every combination of the values that are listed.\n"
        yield from self._kinds({name: SIMULATED_MODELS[name] for name in SIMULATED_MODELS if name not in MODELS})
        yield "## Tables inside settings\n"
        yield from self._inside()

    def _kinds(self, parts: Mapping[str, type] | NamedParts, base: type | None = None) -> Iterator[str]:
        """A table for each of our own, without the keys that it has from `base` as they are."""
        shared = {} if base is None else {own.name: own for own in settings_of(base)}
        for name in sorted(parts):
            cls = parts[name]
            if cls.__module__.startswith("recaudit."):
                yield f"### `{name}`\n\n{_first(cls)}\n"
                own = [setting for setting in settings_of(cls) if setting != shared.get(setting.name)]
                yield self._table(own) if own else "It has no settings of its own.\n"

    def _inside(self) -> Iterator[str]:
        """Each part that was met; describing one may bring up another."""
        done: set[str] = set()
        while left := [title for title in self.inside if title not in done]:
            for title in left:
                done.add(title)
                parts = self.inside[title]
                yield f"### {title}\n"
                for name in parts:
                    if len(parts) > 1:
                        yield f'`kind = "{name}"`: {_first(parts[name])}\n'
                    else:
                        yield f"{_first(parts[name])}\n"
                    if settings := settings_of(parts[name]):
                        yield self._table(settings)

    def _table(self, settings: Iterable[Setting], types: Mapping[str, str] | None = None) -> str:
        """A line for each key; `types` are those that its class does not say."""
        lines = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
        for own in settings:
            if types is not None and own.name in types:
                type_, default = types[own.name], default_words(own) if own.is_required or own.parts else ""
            else:
                self._meet(own)
                type_, default = type_words(own.type, self.links), default_words(own)
            cells = (f"`{own.name}`", type_, default, own.about)
            lines.append(f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |")
        return "\n".join(lines) + "\n"

    def _meet(self, setting: Setting) -> None:
        """Note what the setting holds, where it has no place on the page yet."""
        parts = setting.parts
        if parts is not None and parts.what not in self.links:
            title = parts.what[0].upper() + parts.what[1:]
            self._place(parts.what, title, parts)
        for cls in _specifications(setting.type):
            if parts is None and cls.__name__ not in self.links:
                if (kind := POLICIES.kind_of(cls)) in POLICIES:
                    self.links[cls.__name__] = f"a table with the keys of [`{kind}`](#{kind})"
                else:
                    self._place(cls.__name__, cls.__name__, {cls.__name__: cls})

    def _place(self, key: str, title: str, parts: Any) -> None:
        anchor = title.lower().replace(" ", "-")
        self.links[key] = f"a table: [{title if key == title else key}](#{anchor})"
        self.inside[title] = parts


def _members(annotation: Any) -> list[type]:
    """The classes of an annotated union."""
    return list(get_args(get_args(annotation)[0]))


def _specifications(annotation: Any) -> Iterator[type]:
    """The classes with settings that an annotation names."""
    if isinstance(annotation, type) and (issubclass(annotation, BaseModel) or is_dataclass(annotation)):
        yield from [] if annotation is Interactions else [annotation]
    for inner in get_args(annotation) if in_files(annotation) else ():
        yield from _specifications(inner)


def _first(cls: type) -> str:
    """The first paragraph of a class's docstring."""
    return " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split())


def pages() -> dict[str, str]:
    """Every page, by its name."""
    return {"configuration": Reference().page(), "commands": command_page(), "metrics": metric_page()}


def main() -> None:
    """Write the pages."""
    for name, text in pages().items():
        (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
