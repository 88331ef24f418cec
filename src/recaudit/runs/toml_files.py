"""A TOML file becomes a specification, or one error that names the file and each key that is wrong."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from recaudit.errors import ConfigError
from recaudit.specification import Specification, mistakes

Whole = TypeVar("Whole", bound=Specification)


def read_toml(cls: type[Whole], path: Path) -> Whole:
    """The specification in a TOML file; paths in it start at its folder."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(str(path), received="bytes that are not UTF-8", expected="a TOML file") from None
    except OSError as error:
        raise ConfigError(
            "configuration",
            received=f"{path}: {error.strerror or error}",
            expected="a TOML file",
            remedy="Check the spelling.",
        ) from None
    return parse_toml(cls, text, source=path.name, folder=path.parent)


def parse_toml(cls: type[Whole], text: str, *, source: str, folder: Path) -> Whole:
    """The specification in a TOML text; `source` names it in errors, relative paths start at `folder`."""
    try:
        table = tomllib.loads(text)
        return cls.model_validate(table, context={"folder": folder, "source": source})
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(source, received=f"invalid TOML: {error}", expected="valid TOML") from None
    except ValidationError as error:
        raise config_error(source, error) from None
    except RecursionError:
        raise ConfigError(
            source, received="tables or lists too deep inside each other", expected="a few levels, as in the examples"
        ) from None


def config_error(source: str, error: ValidationError) -> ConfigError:
    """Everything that is wrong, as one error that names the file and each key."""
    found = mistakes(error)
    if len(found) == 1:
        [one] = found
        return ConfigError(f"{source}, {one.argument}", received=one.received, expected=one.expected, remedy=one.remedy)
    each = "\n  ".join(["Each of them:", *map(str, found)])
    return ConfigError(source, received=f"{len(found)} mistakes", expected="none", remedy=each)
