"""What all settings have in common: frozen, strict about names, and no value is turned into another.

pydantic would take True for 1 and "3" for 3. Here that is a mistake, told like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Self

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FiniteFloat,
    ModelWrapValidatorHandler,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

_NO_NUMBER = (bool, np.bool_, str, bytes)


class Settings(BaseModel):
    """A frozen, validated configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="wrap")
    @classmethod
    def _as_given(cls, value: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        made = handler(value)
        if isinstance(value, Mapping):
            wrong = []
            for name, field in cls.model_fields.items():
                given = value.get(field.alias or name)
                if _turned(given, getattr(made, name)):
                    wrong.append(InitErrorDetails(type=_mistake(), loc=(field.alias or name,), input=given))
            if wrong:
                raise ValidationError.from_exception_data(cls.__name__, wrong)
        return made


def _turned(given: object, made: object) -> bool:
    """Whether a truth or a text has become a number on the way, here or further in."""
    if isinstance(given, Mapping) and isinstance(made, Mapping):
        return any(_turned(value, made.get(key)) for key, value in given.items())
    if isinstance(given, list | tuple) and isinstance(made, list | tuple):
        return any(map(_turned, given, made))
    return isinstance(given, _NO_NUMBER) and isinstance(made, int | float) and not isinstance(made, bool)


def _mistake(expected: str = "a number") -> PydanticCustomError:
    return PydanticCustomError("not_turned", "Input should be {expected}", {"expected": expected})


def _number(value: object) -> object:
    if isinstance(value, _NO_NUMBER):
        raise _mistake()
    return value


def _id(value: object) -> object:
    plain = value.item() if isinstance(value, np.generic) else value
    if type(plain) not in (int, str):
        raise _mistake("an id: a whole number or a text")
    return plain


def _existing(kind: str, exists: Callable[[Path], bool]) -> AfterValidator:
    def resolved(path: Path, info: ValidationInfo) -> Path:
        path = Path((info.context or {}).get("folder", Path())) / path.expanduser()
        if not exists(path):
            told = {"expected": f"a {kind} that exists", "remedy": "A relative path starts at the configuration file."}
            line = InitErrorDetails(type=PydanticCustomError("wrong_value", "", told), loc=(), input=str(path))
            raise ValidationError.from_exception_data("configuration", [line])
        return path

    return AfterValidator(resolved)


Count = Annotated[PositiveInt, BeforeValidator(_number)]
"""How many: 1 or more."""
Number = Annotated[FiniteFloat, BeforeValidator(_number)]
"""Any finite number."""
Id = Annotated[int | str, BeforeValidator(_id)]
"""What the log calls a user or item."""
InputFile = Annotated[Path, _existing("file", Path.is_file)]
"""A file that exists; a relative path starts at the folder of the configuration file."""
InputFolder = Annotated[Path, _existing("folder", Path.is_dir)]
"""The same for a folder."""
