"""A setting's type, default and meaning in words, from the class that has it."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, InstanceOf
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from recaudit.data.interactions import Interactions
from recaudit.specification import Id, InputFile, InputFolder, NamedParts, OneOf, Some, as_data

_KNOWN = {
    Some.__metadata__[0]: "how many, or a list of ids",
    Id.__metadata__[0]: "an id: a whole number or a text",
    InputFile.__metadata__[-1]: "a file that exists",
    InputFolder.__metadata__[-1]: "a folder that exists",
}
"""Types that are known by one of their validators."""
_PLAIN = {
    bool: "true or false",
    str: "a text",
    int: "a whole number",
    float: "a number",
    Path: "a path",
    Interactions: "a table as under [data](#data)",
}
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
    def parts(self) -> NamedParts | None:
        """What its value is one of, where it is a part with a kind."""
        return next((own.registry for own in _metadata(self.type) if isinstance(own, OneOf)), None)


def settings_of(cls: type) -> list[Setting]:
    """The keys of a specification: a pydantic model, or a dataclass."""
    found: dict[str, FieldInfo] | None = getattr(cls, "__pydantic_fields__", None)
    abouts = _docstrings(cls)
    if found is None:
        hints = get_type_hints(cls, include_extras=True)
        given = [(own.name, hints[own.name], own.default) for own in dataclasses.fields(cls)]
    else:
        given = [
            (field.alias or name, Annotated[field.annotation, *field.metadata, None], field.get_default(call_default_factory=True))
            for name, field in found.items()
        ]
    keys = {(field.alias or name): name for name, field in (found or {}).items()}
    return [Setting(key, type_, default, abouts.get(keys.get(key, key), "")) for key, type_, default in given]


def _docstrings(cls: type) -> dict[str, str]:
    """What the class, or the nearest of its bases that says something, has below each of its fields."""
    found: dict[str, str] = {}
    for own in cls.__mro__:
        if not own.__module__.startswith("recaudit"):
            continue
        [tree] = ast.parse(textwrap.dedent(inspect.getsource(own))).body
        assert isinstance(tree, ast.ClassDef)
        for field, below in zip(tree.body, tree.body[1:], strict=False):
            text = below.value if isinstance(below, ast.Expr) else None
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Constant) and isinstance(field.target, ast.Name):
                found.setdefault(field.target.id, inspect.cleandoc(str(text.value)))
    return found


def _metadata(annotation: Any) -> Iterator[Any]:
    """What constrains a type, wherever it is written."""
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        for own in metadata:
            yield from own.metadata if isinstance(own, FieldInfo) else [own]
        yield from _metadata(inner)
    elif _is_union(annotation):
        for member in get_args(annotation):
            yield from _metadata(member)


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, UnionType)


def in_files(annotation: Any) -> bool:
    """Whether a file can hold such a value, and not Python alone."""
    python_only = get_origin(annotation) is Annotated and any(isinstance(own, InstanceOf) for own in get_args(annotation))
    return annotation is not NoneType and not python_only


def type_words(annotation: Any, link: dict[str, str]) -> str:
    """A type as people say it; `link` has what a part is called, by what its registry says that it is."""
    metadata = list(_metadata(annotation))
    for own in metadata:
        if isinstance(own, OneOf):
            return link[own.registry.what]
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if _is_union(annotation):
        members = [own for own in get_args(annotation) if in_files(own)]
        if not any(own in _KNOWN for own in _hashable(metadata)) and len(members) > 1:
            return _either(type_words(own, link) for own in members)
        annotation = members[0] if len(members) == 1 else annotation
        if get_origin(annotation) is Annotated:
            return type_words(annotation, link)
    for own in _hashable(metadata):
        if own in _KNOWN:
            return _KNOWN[own]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return _either(f"`{json.dumps(value)}`" for value in arguments)
    if origin in (Sequence, list) or (origin is tuple and arguments[-1] is Ellipsis):
        return f"a list, each {type_words(arguments[0], link)}"
    if origin is tuple:
        return f"a list of {len(arguments)}, each {type_words(arguments[0], link)}"
    if origin is dict:
        return f"a table, each value {type_words(arguments[1], link)}"
    if annotation in _PLAIN:
        return _PLAIN[annotation] + (_range(metadata, annotation) if annotation in (int, float) else "")
    if isinstance(annotation, type) and annotation.__name__ in link:
        return link[annotation.__name__]
    raise TypeError(f"{annotation} has no words: add them to scripts/setting_words.py")


def _hashable(metadata: Iterable[Any]) -> list[Any]:
    return [own for own in metadata if type(own).__hash__ is not None]


def _either(words: Iterable[str]) -> str:
    *first, last = dict.fromkeys(words)
    return f"{', '.join(first)} or {last}" if first else last


def _range(metadata: list[Any], kind: type) -> str:
    """The limits of a number: `, 1 or more`."""
    low = next((own.ge for own in metadata if isinstance(own, Ge)), None)
    above = next((own.gt for own in metadata if isinstance(own, Gt)), None)
    high = next((own.le for own in metadata if isinstance(own, Le)), None)
    below = next((own.lt for own in metadata if isinstance(own, Lt)), None)
    high = None if high == _LARGEST else high
    if kind is int and above is not None:
        low, above = above + 1, None  # type: ignore[operator]  # a whole number
    if low is not None and high is not None:
        return f" from {low:g} to {high:g}"
    if above is not None and below is not None:
        return f" between {above:g} and {below:g}"
    ends = [f"{low:g} or more"] if low is not None else [f"above {above:g}"] if above is not None else []
    ends += [f"at most {high:g}"] if high is not None else [f"below {below:g}"] if below is not None else []
    return f", {' and '.join(ends)}" if ends else ""


def default_words(setting: Setting) -> str:
    """A default as it would be written in TOML; empty where nothing is the default."""
    if setting.default in (PydanticUndefined, dataclasses.MISSING):
        return "required"
    value = setting.default
    if isinstance(value, BaseModel) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        return f"`{toml(as_data(value, setting.parts))}`"
    return "" if value is None else f"`{toml(value)}`"


def toml(value: Any) -> str:
    """A value on one line of TOML."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {toml(own)}' for key, own in value.items() if own is not None)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value if isinstance(value, bool | int | float) else str(value), ensure_ascii=False)
