"""What the parts of a configuration have in common: frozen, strict about keys, chosen by `kind`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from typing import Self, TypeVar

from pydantic import (
    BaseModel,
    ModelWrapValidatorHandler,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from recaudit.errors import did_you_mean
from recaudit.runs.problems import missing, problem, together, with_known_keys, within
from recaudit.specification import Settings

Made = TypeVar("Made")
Reader = Callable[[object, ValidationInfo], Made]
"""What turns a written value into what it stands for."""


class Section(Settings):
    """A frozen part of the configuration that refuses keys it does not know and suggests those it does."""

    @model_validator(mode="wrap")
    @classmethod
    def _suggest_keys(cls, value: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(value)
        except ValidationError as error:
            raise with_known_keys(error, keys_of(cls)) from None


def keys_of(section: type) -> list[str]:
    """The keys that a section (a pydantic model or dataclass) is written with."""
    if issubclass(section, BaseModel):
        return [field.alias or name for name, field in section.model_fields.items()]
    assert is_dataclass(section)
    return [field.name for field in fields(section)]


def by_kind(kinds: Mapping[str, type[Made]], **parts: Reader[object]) -> Reader[Made]:
    """A validator: a table with the key `kind` becomes the class of that name; a ready-made one stays.

    `parts` are tables inside the table, each with a validator of its own.
    """

    def validate(value: object, info: ValidationInfo) -> Made:
        for made in kinds.values():
            if isinstance(value, made):
                return value
        kind, table = take_kind(value, kinds)
        wrong: list[ValidationError] = []
        for name, read in parts.items():
            if name in table:
                try:
                    table[name] = read(table.pop(name), info)
                except ValidationError as error:
                    wrong.append(within(name, error))
        try:
            built = build(kinds[kind], table, info, "kind")
        except ValidationError as error:
            wrong.append(error)
        if wrong:
            raise together(wrong)
        return built

    return validate


def take_kind(value: object, kinds: Collection[str]) -> tuple[str, dict[str, object]]:
    """The known `kind` of a table, and the table without it."""
    if not isinstance(value, Mapping):
        raise problem((), value, "a table with the key 'kind'")
    expected = f"one of {', '.join(kinds)}"
    if "kind" not in value:
        raise missing("kind", expected)
    table = dict(value)
    kind = table.pop("kind")
    if not isinstance(kind, str) or kind not in kinds:
        near = did_you_mean(str(kind), kinds)
        raise problem(("kind",), kind, expected, near if near.startswith("Did") else "")
    return kind, table


def build(section: type[Made], table: Mapping[str, object], info: ValidationInfo, *also: str) -> Made:
    """The section from its table; an unknown key is told the section's own keys and `also`."""
    try:
        return TypeAdapter(section).validate_python(dict(table), context=info.context)
    except ValidationError as error:
        raise with_known_keys(error, [*also, *keys_of(section)]) from None
