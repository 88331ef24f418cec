"""Mistakes in a configuration: collected while it is validated, told together in the file's own words."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from recaudit.errors import ConfigError, did_you_mean

Place = tuple[int | str, ...]

_WORDS = {
    "missing": "a value",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "string_type": "a text",
}
"""What pydantic expects, in the words of a TOML file where its own are Python's."""

_UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")
"""How pydantic calls a key that a model, and one that a dataclass, does not have."""


def problem(place: Place, received: object, expected: str, remedy: str = "") -> ValidationError:
    """One mistake at `place`, counted from the part that is being validated."""
    return ValidationError.from_exception_data(
        "configuration", [_details("wrong_value", place, received, {"expected": expected, "remedy": remedy})]
    )


def missing(key: str, expected: str) -> ValidationError:
    """A key that must be there and is not."""
    return ValidationError.from_exception_data(
        "configuration", [_details("missing", (key,), None, {"expected": expected})]
    )


def together(errors: Iterable[ValidationError]) -> ValidationError:
    """The mistakes of several parts as one error."""
    lines = [line for error in errors for line in error.errors(include_url=False)]
    return ValidationError.from_exception_data("configuration", [_again(line, {}) for line in lines])


def within(key: str, error: ValidationError) -> ValidationError:
    """The mistakes of the part under this key, counted from the table that holds it."""
    details = [_again(line, {}) | {"loc": (key, *line["loc"])} for line in error.errors(include_url=False)]
    return ValidationError.from_exception_data("configuration", details)


def with_known_keys(error: ValidationError, known: Iterable[str]) -> ValidationError:
    """The same mistakes, where each unknown key of this very table carries the keys that are known in it."""
    names = list(known)
    details = []
    for line in error.errors(include_url=False):
        here = line["type"] in _UNKNOWN_KEY and len(line["loc"]) == 1
        details.append(_again(line, {"known": names} if here else {}))
    return ValidationError.from_exception_data("configuration", details)


def config_error(source: str, error: ValidationError) -> ConfigError:
    """Everything that is wrong, as one error that names the file and each key."""
    found = [_told(line) for line in error.errors(include_url=False)]
    if len(found) == 1:
        key, received, expected, remedy = found[0]
        return ConfigError(f"{source}, {key}", received=received, expected=expected, remedy=remedy)
    lines = [str(ConfigError(key, received=got, expected=want, remedy=do)) for key, got, want, do in found]
    return ConfigError(
        source,
        received=f"{len(found)} mistakes",
        expected="none",
        remedy="\n  ".join(["Each of them:", *lines]),
    )


def _details(kind: str, place: Place, received: object, context: dict[str, object]) -> InitErrorDetails:
    # The message is written in `_told`: pydantic's own template is never shown.
    error = PydanticCustomError(kind, context.get("message", ""), context)  # type: ignore[arg-type]  # LiteralString
    return InitErrorDetails(type=error, loc=place, input=received)


def _again(line: ErrorDetails, context: dict[str, object]) -> InitErrorDetails:
    """A line of a caught error, to be raised once more from an outer part."""
    told = {"message": line["msg"], **line.get("ctx", {}), **context}
    return _details(line["type"], line["loc"], line["input"], told)


def _told(line: ErrorDetails) -> tuple[str, str, str, str]:
    """(key, received, expected, remedy) of one mistake."""
    key, context = _key(line["loc"]), line.get("ctx", {})
    if line["type"] in _UNKNOWN_KEY:
        known = context.get("known", [])
        return key, "a key that is not known here", "a known key", did_you_mean(str(line["loc"][-1]), known)
    received = "nothing" if line["type"] == "missing" else _shown(line["input"])
    message = str(context.get("message", line["msg"]))
    stated = _WORDS.get(line["type"]) or message.removeprefix("Input should be ").rstrip(".")
    if line["type"] == "value_error":  # an InputError, which tells received and expected itself
        stated = stated.rpartition("; expected ")[2]
    return key, received, str(context.get("expected", stated)), str(context.get("remedy", ""))


def _key(place: Place) -> str:
    """A place as it is written in the file: model[1].factors."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".") or "the file"


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
