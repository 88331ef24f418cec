"""What reading the sources does not show: verbs are functions, and the fields of a class are a table in its text.

An extension of griffe, which reads the sources for mkdocstrings.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import griffe
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from setting_words import Setting, settings_of, type_words
from website.api import documented

from recaudit.audits.audit import Verb
from recaudit.registry import ACTIONS, AUDITS, CHOICES, ENGINES, ENVIRONMENTS, MODELS, POLICIES, SPLITS

_LINKS = {
    POLICIES.what: "a [policy](policies.md)",
    ACTIONS.what: "[actions](interventions.md)",
    AUDITS.what: "an [audit](audits.md)",
    MODELS.what: "a [recommender](models.md)",
    CHOICES.what: "a [choice](simulate.md)",
    ENVIRONMENTS.what: "an [environment](simulate.md)",
    ENGINES.what: "an [engine](engines.md)",
    SPLITS.what: "a [split](data.md)",
}
_FEW = 6
"""A signature with more parameters does not fit on a screen."""
_HANDED_IN = {
    "model": "The fitted model, or a recommender that the audit fits itself.",
    "recommender": "What fits the models that are compared.",
    "data": "The log; the model's own where it is None.",
    "test": "Ratings that were held out.",
    "history": "The log that lists are compared with; the model's own where it is None.",
    "rng": "The seed that chance follows from.",
    "engine": "How the work is spread; one process where it is None.",
    "device": 'Where it is computed: "cpu", or "cuda" where the audit can use one.',
}


class SettingsShown(griffe.Extension):  # type: ignore[misc]  # griffe's types are not there when scripts are checked
    """Verbs and fields of the public names."""

    def __init__(self) -> None:
        self.known = documented()

    def on_module_members(self, *, mod: griffe.Module, **_: Any) -> None:
        """A verb becomes the function that it is."""
        for name in list(mod.members):
            verb = self.known.get(f"{mod.path}.{name}")
            if isinstance(verb, Verb):
                mod.members[name] = griffe.Function(
                    name,
                    lineno=mod.members[name].lineno,
                    endlineno=mod.members[name].endlineno,
                    parameters=_parameters(inspect.signature(verb)),
                    returns=griffe.ExprName(verb.__signature__.return_annotation.__name__, parent=mod),
                    docstring=griffe.Docstring(f"{inspect.getdoc(verb.audit)}\n\n{_settings_table(verb)}"),
                    parent=mod,
                )

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Fields stand in a table below the text, and not as members."""
        known = self.known.get(cls.path)
        if not isinstance(known, type) or not (issubclass(known, BaseModel) or dataclasses.is_dataclass(known)):
            return
        settings = settings_of(known)
        for own in settings:
            cls.members.pop(own.name, None)
        if issubclass(known, BaseModel):
            cls.members["__init__"] = griffe.Function(
                "__init__", parameters=_parameters(inspect.signature(known), first="self"), parent=cls
            )
        if settings:
            text = "" if cls.docstring is None else cls.docstring.value
            cls.docstring = griffe.Docstring(f"{text}\n\n{_table(settings)}", parent=cls)


def _parameters(signature: inspect.Signature, first: str = "") -> griffe.Parameters:
    """Names and defaults, of many only those with a place: the others, and all types, stand in the table."""
    kinds = {kind.name.lower(): kind for kind in griffe.ParameterKind}
    given = list(signature.parameters.values())
    placed = given if len(given) <= _FEW else [own for own in given if own.kind is not own.KEYWORD_ONLY]
    own = [
        griffe.Parameter(
            each.name,
            kind=kinds[each.kind.name.lower()],
            default=None if each.default is each.empty else brief(each.default),
        )
        for each in placed
    ]
    if first:
        own.insert(0, griffe.Parameter(first, kind=griffe.ParameterKind.positional_or_keyword))
    if len(placed) < len(given):
        own.append(griffe.Parameter("settings", kind=griffe.ParameterKind.var_keyword))
    return griffe.Parameters(*own)


def _settings_table(verb: Verb[Any]) -> str:
    """All that a verb takes."""
    known = {own.name: own for own in settings_of(verb.audit)}
    rows = []
    for each in inspect.signature(verb).parameters.values():
        default = PydanticUndefined if each.default is each.empty else each.default
        rows.append(known.get(each.name) or Setting(each.name, None, default, _HANDED_IN[each.name]))
    return _table(rows)


def _table(settings: list[Setting]) -> str:
    """A line for each; without a column of defaults where nothing has one."""
    some = any(not own.is_required for own in settings)
    lines = ["| name | default | meaning |", "| --- | --- | --- |"] if some else ["| name | meaning |", "| --- | --- |"]
    for own in settings:
        default = "required" if own.is_required else f"`{brief(own.default)}`"
        kind = _type(own)
        about = " ".join(own.about.split())
        told = " ".join(filter(None, (about, f"*{kind[0].upper()}{kind[1:]}.*" if kind else "")))
        cells = [f"`{own.name}`", *([default] if some else []), told]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def _type(setting: Setting) -> str:
    """The type in words; nothing where there are none."""
    try:
        words = type_words(setting.type, _LINKS)
    except (TypeError, KeyError):
        return ""
    return words.replace("a table as under [data](#data)", "a log").replace("true or false", "True or False")


def brief(value: object) -> str:
    """A default as one would write it: of a part, only what is set."""
    if isinstance(value, BaseModel):
        given = {name: getattr(value, name) for name in type(value).model_fields}
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        given = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    else:
        return repr(value)
    return (
        f"{type(value).__name__}({', '.join(f'{name}={brief(own)}' for name, own in given.items() if own is not None)})"
    )
