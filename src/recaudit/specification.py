"""What every part that can be named has in common: a frozen, validated configuration that travels as data.

Python makes one with keywords, a configuration file with a table, and both refuse the same mistakes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Self, TypeVar, cast, dataclass_transform, final

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FiniteFloat,
    GetCoreSchemaHandler,
    ModelWrapValidatorHandler,
    PlainSerializer,
    PlainValidator,
    PositiveInt,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic_core import CoreSchema, ErrorDetails, InitErrorDetails, PydanticCustomError, core_schema

from recaudit.errors import InputError, did_you_mean, nearest_word

Made = TypeVar("Made")
Place = tuple[int | str, ...]
_NO_NUMBER = (bool, np.bool_, str, bytes)


if TYPE_CHECKING:  # type checkers do not follow a computed metaclass, and read the settings from the fields
    _Called = BaseModel
else:

    class _CalledMeta(type(BaseModel)):
        """A call raises an `InputError`; a table is validated without a call, and all its mistakes are collected."""

        def __call__(cls, **settings: Any) -> Any:
            with _called(cls):
                return super().__call__(**settings)

    class _Called(BaseModel, metaclass=_CalledMeta):
        pass


class Specification(_Called):
    """A frozen configuration: unknown settings are refused, with the known ones; no value is turned into another.

    pydantic would take True for 1 and "3" for 3. Here that is a mistake like any other. The first mistake of a call is
    an `InputError`; a table is validated as a whole, and all its mistakes are told together.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    def __str__(self) -> str:
        return repr(self)

    def with_settings(self, **changes: Any) -> Self:
        """Copy the configuration with other settings, all of them validated.

        For values that come from a caller, a command or a file. `model_copy(update=...)` validates nothing, and is for
        values that the code has made itself.

        Args:
            changes: The settings that change, by name.

        Raises:
            InputError: If a setting is unknown or wrong, or does not go together with the others.
        """
        fields = type(self).model_fields
        settings = {(field.alias or name): getattr(self, name) for name, field in fields.items()}
        given = {(fields[name].alias or name) if name in fields else name: value for name, value in changes.items()}
        validated = type(self)(**{**settings, **given})
        return self.model_copy(update={name: getattr(validated, name) for name in changes})

    @model_validator(mode="wrap")
    @classmethod
    def _as_given(cls, value: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            made = handler(value)
        except ValidationError as error:
            raise with_known_keys(error, keys_of(cls)) from None
        if isinstance(value, Mapping):
            for name, field in cls.model_fields.items():
                given = value.get(field.alias or name)
                if _turned(given, getattr(made, name)):
                    raise mistake((field.alias or name,), given, "a number")
        return made


@contextmanager
def _called(cls: type) -> Iterator[None]:
    """The first mistake of a call that makes one of these, as an `InputError`."""
    try:
        yield
    except ValidationError as error:
        names = keys_of(cls)

        def named(place: Place) -> Place:
            """By name, where a value was given by its position."""
            known = place and isinstance(place[0], int) and place[0] < len(names)
            return (names[int(place[0])], *place[1:]) if known else place

        raise mistakes(moved(with_known_keys(error, names), named), cls.__name__)[0] from None


@dataclass_transform(frozen_default=True)
def specified(cls: type[Made]) -> type[Made]:
    """A frozen dataclass that is a specification: for what is also made with values by their position."""
    config = ConfigDict(extra="forbid", use_attribute_docstrings=True)
    made: Any = pydantic_dataclass(frozen=True, config=config)(cls)
    init = made.__init__

    @wraps(init)
    def make(self: Any, *values: Any, **settings: Any) -> None:
        with _called(made):
            init(self, *values, **settings)

    made.__init__ = make
    return cast("type[Made]", made)


def as_data(part: Any, registry: NamedParts | None = None) -> dict[str, Any]:
    """A specification as plain values: what a configuration file would say, `kind` first where it has one."""
    plain = TypeAdapter(type(part)).dump_python(part, mode="json")
    return plain if registry is None else {"kind": registry.kind_of(part), **plain}


class NamedParts(Protocol):
    """Parts by name: a `Registry`, or a fixed few."""

    what: str

    def __iter__(self) -> Iterator[str]: ...

    def __contains__(self, name: object) -> bool: ...

    def __getitem__(self, name: str) -> type[Any]: ...

    def kind_of(self, part: object) -> str:
        """The name of a part."""


@final
class Parts(dict[str, type[Any]]):
    """A fixed few parts by name."""

    def __init__(self, what: str, **parts: type[Any]) -> None:
        super().__init__({name.replace("_", "-"): part for name, part in parts.items()})
        self.what = what

    def kind_of(self, part: object) -> str:
        """The name of a part."""
        return next(name for name, cls in self.items() if isinstance(part, cls))


@final
class OneOf:
    """`Annotated[Policy, OneOf(POLICIES)]`: a policy, or a table whose key `kind` names one."""

    def __init__(self, registry: NamedParts) -> None:
        self.registry = registry

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def read(value: object, info: ValidationInfo) -> object:
            if isinstance(value, source):
                return value
            kind, table = take_kind(self.registry, value)
            return build(self.registry[kind], table, info, "kind")

        return core_schema.with_info_plain_validator_function(
            read,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda part: as_data(part, self.registry), when_used="unless-none"
            ),
        )


def take_kind(registry: NamedParts, value: object) -> tuple[str, dict[str, object]]:
    """The known `kind` of a table, and the table without it."""
    if not isinstance(value, Mapping):
        raise mistake((), value, f"{registry.what}: a table with the key 'kind'")
    expected = f"one of {', '.join(registry)}"
    if "kind" not in value:
        raise missing("kind", expected)
    table = dict(value)
    kind = table.pop("kind")
    if not isinstance(kind, str) or kind not in registry:
        raise mistake(("kind",), kind, expected, nearest_word(str(kind), registry))
    return kind, table


def build(cls: type[Made], table: Mapping[str, object], info: ValidationInfo, *also: str) -> Made:
    """The specification from its table; an unknown key is refused with the known ones and `also`."""
    unknown = [key for key in table if is_dataclass(cls) and key not in keys_of(cls)]
    if unknown:  # pydantic passes over what a plain dataclass does not have
        lines = [_details(_UNKNOWN_KEY[1], (key,), table[key], {"known": [*also, *keys_of(cls)]}) for key in unknown]
        raise _error(lines)
    try:
        return TypeAdapter(cls).validate_python(dict(table), context=info.context)
    except ValidationError as error:
        raise with_known_keys(error, [*also, *keys_of(cls)]) from None


def keys_of(cls: type) -> list[str]:
    """The keys that a specification, a pydantic model or dataclass, is written with."""
    if issubclass(cls, BaseModel):
        return [field.alias or name for name, field in cls.model_fields.items()]
    return [field.name for field in fields(cls)] if is_dataclass(cls) else []


# ---- mistakes: collected while something is validated, so that all are told together ---------------------

_UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")
"""How pydantic calls a key that a model, and one that a dataclass, does not have."""
_WORDS = {
    "missing": "a value",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "string_type": "a text",
}
"""What pydantic expects, where its own words are Python's."""


def mistake(place: Place, received: object, expected: str, remedy: str = "") -> ValidationError:
    """One mistake at `place`, counted from the part that is being validated."""
    return _error([_details("wrong_value", place, received, {"expected": expected, "remedy": remedy})])


def missing(key: str, expected: str) -> ValidationError:
    """A key that must be there and is not."""
    return _error([_details("missing", (key,), None, {"expected": expected})])


def together(errors: Iterable[ValidationError]) -> ValidationError:
    """The mistakes of several parts as one error."""
    return _error([_again(line) for error in errors for line in _lines(error)])


def within(key: str, error: ValidationError) -> ValidationError:
    """The mistakes of the part under this key, counted from the table that holds it."""
    return moved(error, lambda place: (key, *place))


def moved(error: ValidationError, where: Callable[[Place], Place]) -> ValidationError:
    """The same mistakes, each at another place."""
    return _error([_again(line) | {"loc": where(line["loc"])} for line in _lines(error)])


def with_known_keys(error: ValidationError, known: Iterable[str]) -> ValidationError:
    """The same mistakes, where each unknown key of this very table carries the keys that are known in it."""
    names = list(known)

    def here(line: ErrorDetails) -> bool:
        return line["type"] in _UNKNOWN_KEY and len(line["loc"]) == 1

    return _error([_again(line, **({"known": names} if here(line) else {})) for line in _lines(error)])


def mistakes(error: ValidationError, whole: str = "the file") -> list[InputError]:
    """Each mistake: its key as it is written in a file, or the name of the `whole`; what came, what was expected, what
    to do."""
    return [_input_error(line, whole) for line in _lines(error)]


def _input_error(line: ErrorDetails, whole: str) -> InputError:
    key, context = _written(line["loc"]) or whole, line.get("ctx", {})
    if line["type"] in _UNKNOWN_KEY:
        remedy = did_you_mean(str(line["loc"][-1]), context.get("known", []))
        return InputError(key, received="a key that is not known here", expected="a known key", remedy=remedy)
    cause = context.get("error")
    if isinstance(cause, InputError):  # raised by the part itself, which names what does not go together
        names = [name.strip() for name in cause.argument.split(",")]
        inside = cause.argument and len(names) == 1 and line["loc"][-1:] != (names[0],)
        at = _written((*line["loc"], names[0])) if inside else _written(line["loc"]) or cause.argument or whole
        return InputError(at, received=cause.received, expected=cause.expected, remedy=cause.remedy)
    message = str(context.get("message", line["msg"]))
    expected = _WORDS.get(line["type"]) or message.removeprefix("Input should be ").removeprefix("Value error, ")
    return InputError(
        key,
        received="nothing" if line["type"] == "missing" else _shown(line["input"]),
        expected=str(context.get("expected", expected)).rstrip("."),
        remedy=str(context.get("remedy", "")),
    )


def _lines(error: ValidationError) -> list[ErrorDetails]:
    return error.errors(include_url=False)


def _error(details: list[InitErrorDetails]) -> ValidationError:
    return ValidationError.from_exception_data("specification", details)


def _details(kind: str, place: Place, received: object, context: dict[str, object]) -> InitErrorDetails:
    # The message is written in `_input_error`: pydantic's own template is never shown.
    error = PydanticCustomError(kind, context.get("message", ""), context)  # type: ignore[arg-type]  # LiteralString
    return InitErrorDetails(type=error, loc=place, input=received)


def _again(line: ErrorDetails, **context: object) -> InitErrorDetails:
    """A line of a caught error, to be raised once more from an outer part."""
    return _details(
        line["type"], line["loc"], line["input"], {"message": line["msg"], **line.get("ctx", {}), **context}
    )


def _written(place: Place) -> str:
    """A place as it is written in a file: model[1].factors."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".")


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# ---- what settings hold --------------------------------------------------------------------------------


def _turned(given: object, made: object) -> bool:
    """Whether a truth or a text has become a number on the way, here or further in."""
    if isinstance(given, Mapping) and isinstance(made, Mapping):
        return any(_turned(value, made.get(key)) for key, value in given.items())
    if isinstance(given, list | tuple) and isinstance(made, list | tuple):
        return any(map(_turned, given, made))
    return isinstance(given, _NO_NUMBER) and isinstance(made, int | float) and not isinstance(made, bool)


def _not_turned(expected: str) -> PydanticCustomError:
    return PydanticCustomError("not_turned", "Input should be {expected}", {"expected": expected})


def _number(value: object) -> object:
    if isinstance(value, _NO_NUMBER):
        raise _not_turned("a number")
    return value


def _id(value: object) -> object:
    plain = value.item() if isinstance(value, np.generic) else value
    if type(plain) not in (int, str):
        raise _not_turned("an id: a whole number or a text")
    return plain


Count = Annotated[PositiveInt, BeforeValidator(_number)]
"""How many: 1 or more."""
Number = Annotated[FiniteFloat, BeforeValidator(_number)]
"""Any finite number."""
Id = Annotated[int | str, BeforeValidator(_id)]
"""What the log calls a user or item."""


def _some(value: object) -> int | str | tuple[int | str, ...]:
    if isinstance(value, str) and value == "all":
        return value
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 1:
        return int(value)
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise mistake((), value, "how many, 1 or more, or a list of ids, or 'all'")
    ids = tuple(one.item() if isinstance(one, np.generic) else one for one in value)
    for one in ids:
        if type(one) not in (int, str):
            raise mistake((), one, "ids: whole numbers or texts")
    if not ids:
        raise InputError("", received="no ids", expected="at least one, or None for all")
    return ids


def _plain(some: int | str | tuple[int | str, ...]) -> int | str | list[int | str]:
    return list(some) if isinstance(some, tuple) else some


Some = Annotated[int | str | tuple[int | str, ...], PlainValidator(_some), PlainSerializer(_plain)]
"""How many, drawn at random and the same for every model; or which ones, by id; or "all"."""


def _resolved(path: Path, info: ValidationInfo) -> Path:
    try:
        return Path((info.context or {}).get("folder", Path())) / path.expanduser()
    except RuntimeError:  # ~ of a user that there is not
        raise mistake((), str(path), "a path below a folder that exists") from None


def _existing(kind: str) -> AfterValidator:
    def check(path: Path, info: ValidationInfo) -> Path:
        try:
            exists = path.is_file() if kind == "file" else path.is_dir()
        except OSError:  # a name that is too long
            exists = False
        if not exists:
            remedy = "A relative path starts at the configuration file."
            raise mistake((), str(path), f"a {kind} that exists", remedy)
        check_input = (info.context or {}).get("check_input")
        if check_input is not None:
            check_input(path)
        return path

    return AfterValidator(check)


CheckInput = Callable[[Path], None]
"""Under "check_input" in the context of a validation: raises a mistake for a file or a folder that must not be read."""
InputFile = Annotated[Path, AfterValidator(_resolved), _existing("file")]
"""A file that exists; a relative path starts at the folder of the configuration file."""
InputFolder = Annotated[Path, AfterValidator(_resolved), _existing("folder")]
"""The same for a folder."""
AnyFolder = Annotated[Path, AfterValidator(_resolved)]
"""The same for a folder that need not exist yet."""


def written(value: Any) -> str:
    """A setting as plain data in words: a part such as {"kind": "softmax", "beta": 2.0} as `softmax(beta=2.0)`."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{name}={written(own)}" for name, own in value.items() if name != "kind" and own is not None)
        kind = str(value.get("kind", "")).rsplit(":", 1)[-1]  # of a part that is not registered, its class
        return f"{kind}({inner})" if inner else kind
    return " ".join(map(written, value)) if isinstance(value, list | tuple) else str(value)
