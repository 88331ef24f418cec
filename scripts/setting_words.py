"""A setting's type, default and meaning in words, from the class that has it."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, InstanceOf, JsonValue
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from recaudit.data.interactions import Interactions
from recaudit.specification import Id, InputFile, InputFolder, NamedParts, OneOf, Some, as_data

_KNOWN = {
    get_args(Some)[1]: 'how many, a list of ids, or `"all"`',
    get_args(Id)[1]: "an id: a whole number or a text",
    get_args(InputFile)[-1]: "a file that exists",
    get_args(InputFolder)[-1]: "a folder that exists",
}
"""Types that are known by one of their validators."""
_PLAIN: dict[Any, str] = {
    bool: "true or false",
    str: "a text",
    int: "a whole number",
    float: "a number",
    Path: "a path",
    Interactions: "a table as under [data](#data)",
    Any: "any value",
    JsonValue: "any value",
}
_UNIONS = (Union, UnionType)
_LONG = 120
"""A table with more characters is not written out."""
_LARGEST = 2**31 - 1
"""A limit that is there for the machine, and says nothing to people."""


class Setting(NamedTuple):
    """A key of a table."""

    name: str
    type: Any
    """Its annotation, with what constrains it."""
    default: Any
    """`PydanticUndefined` where there is none."""
    about: str

    @property
    def is_required(self) -> bool:
        """Whether it must be there."""
        return self.default in (PydanticUndefined, dataclasses.MISSING)

    @property
    def parts(self) -> NamedParts | None:
        """What its value is one of, where it is a part with a kind."""
        return next((own.registry for own in _unwrapped(self.type)[1] if isinstance(own, OneOf)), None)


def settings_of(cls: type) -> list[Setting]:
    """The keys of a specification: a pydantic model, or a dataclass."""
    found: dict[str, FieldInfo] | None = getattr(cls, "__pydantic_fields__", None)
    abouts = _docstrings(cls)
    if found is None:
        hints = get_type_hints(cls, include_extras=True)
        given = [(own.name, hints[own.name], own.default) for own in dataclasses.fields(cls)]
    else:
        given = [
            (
                field.alias or name,
                Annotated[field.annotation, *field.metadata, None],
                field.get_default(call_default_factory=True),
            )
            for name, field in found.items()
        ]
    keys = {(field.alias or name): name for name, field in (found or {}).items()}
    return [
        Setting(key, type_, default, abouts.get(keys.get(key, key)) or _about(type_)) for key, type_, default in given
    ]


def _about(annotation: Any) -> str:
    """What a key means that nothing is said about: one that has to be the same always says which table it is in."""
    inner = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    return "Says which table this is." if get_origin(inner) is Literal and len(get_args(inner)) == 1 else ""


def _docstrings(cls: type) -> dict[str, str]:
    """What the class, or the nearest of its bases that says something, has below each of its fields."""
    found: dict[str, str] = {}
    for own in reversed(cls.__mro__):
        if own.__module__.startswith("recaudit"):
            found |= _own_docstrings(own)
    return found


@cache
def _own_docstrings(cls: type) -> dict[str, str]:
    """Return what the class itself has below each of its fields."""
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        text = below.value if isinstance(below, ast.Expr) else None
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Constant) and isinstance(field.target, ast.Name):
            found[field.target.id] = inspect.cleandoc(str(text.value))
    return found


def _unwrapped(annotation: Any) -> tuple[Any, list[Any]]:
    """A type without what constrains it and without None, and what constrains it."""
    metadata: list[Any] = []
    while True:
        arguments = get_args(annotation)
        if get_origin(annotation) is Annotated:
            for own in arguments[1:]:
                metadata += own.metadata if isinstance(own, FieldInfo) else [own]
            annotation = arguments[0]
        elif get_origin(annotation) in _UNIONS and len(members := [own for own in arguments if in_files(own)]) == 1:
            annotation = members[0]
        else:
            return annotation, metadata


def in_files(annotation: Any) -> bool:
    """Whether a file can hold such a value, and not Python alone."""
    # `InstanceOf[X]` is X, annotated with what checks that a value is one.
    return annotation is not NoneType and not any(type(own) is InstanceOf for own in get_args(annotation))


def type_words(annotation: Any, link: dict[str, str]) -> str:
    """A type as people say it; `link` has what a part is called, by what its registry says that it is."""
    inner, metadata = _unwrapped(annotation)
    for own in metadata:
        if isinstance(own, OneOf):
            return link[own.registry.what]
        if type(own).__hash__ is not None and own in _KNOWN:
            return _KNOWN[own]
    if get_origin(inner) is not None:
        return _several_words(inner, link)
    if inner in (int, float):
        return _PLAIN[inner] + _range(metadata, inner)
    found = _PLAIN.get(inner) or link.get(getattr(inner, "__name__", ""))
    if found is None:
        raise TypeError(f"{annotation} has no words: add them to scripts/setting_words.py")
    return found


def _several_words(annotation: Any, link: dict[str, str]) -> str:
    """A type that is made of others."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return _either(f"`{json.dumps(value)}`" for value in arguments)
    if origin in _UNIONS:
        return _either(type_words(own, link) for own in arguments if in_files(own))
    if origin is tuple and arguments[-1] is not Ellipsis:
        return f"a list of {len(arguments)}, each {type_words(arguments[0], link)}"
    if origin in (tuple, list, Sequence):
        return f"a list, each {type_words(arguments[0], link)}"
    if origin in (dict, Mapping):
        return f"a table, each value {type_words(arguments[1], link)}"
    raise TypeError(f"{annotation} has no words: add them to scripts/setting_words.py")


def _either(words: Iterable[str]) -> str:
    *first, last = dict.fromkeys(words)
    comma = "," if any(", " in own for own in first) else ""
    return f"{', '.join(first)}{comma} or {last}" if first else last


def _range(metadata: list[Any], kind: type) -> str:
    """The limits of a number: `, 1 or more`."""
    found: dict[str, Any] = {
        limit: getattr(own, limit)
        for own in metadata
        for limit, cls in (("ge", Ge), ("gt", Gt), ("le", Le), ("lt", Lt))
        if isinstance(own, cls) and getattr(own, limit) != _LARGEST
    }
    if kind is int and "gt" in found:
        found["ge"] = found.pop("gt") + 1
    told = {limit: f"{end:,}".removesuffix(".0") for limit, end in found.items()}
    match told:
        case {"ge": low, "le": high}:
            return f" from {low} to {high}"
        case {"gt": low, "lt": high}:
            return f" between {low} and {high}"
    words = {"ge": "{} or more", "gt": "above {}", "le": "at most {}", "lt": "below {}"}
    ends = [words[limit].format(told[limit]) for limit in words if limit in told]
    return f", {' and '.join(ends)}" if ends else ""


def default_words(setting: Setting) -> str:
    """A default as it would be written in TOML; empty where nothing is the default."""
    if setting.is_required:
        return "required"
    value = setting.default
    if isinstance(value, BaseModel) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        whole = toml(as_data(value, setting.parts))
        return f"`{whole}`" if len(whole) < _LONG else "its own defaults"
    return "" if value is None else f"`{toml(value)}`"


def toml(value: Any) -> str:
    """A value on one line of TOML."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {toml(own)}' for key, own in value.items() if own is not None)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, float):
        value = float(f"{value:.6g}")
    return json.dumps(value if isinstance(value, bool | int | float) else str(value), ensure_ascii=False)
