"""A TOML file becomes a section, or one error that names the file and each key that is wrong."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from recaudit.errors import ConfigError
from recaudit.runs.problems import config_error
from recaudit.runs.sections import Section

Part = TypeVar("Part", bound=Section)


def read_section(section: type[Part], path: Path) -> Part:
    """The section in a TOML file; paths in it start at its folder."""
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
    return parse_section(section, text, source=path.name, folder=path.parent)


def parse_section(section: type[Part], text: str, *, source: str, folder: Path) -> Part:
    """The section in a TOML text; `source` names it in errors, relative paths start at `folder`."""
    try:
        table = tomllib.loads(text)
        return section.model_validate(table, context={"folder": folder, "source": source})
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(source, received=f"invalid TOML: {error}", expected="valid TOML") from None
    except ValidationError as error:
        raise config_error(source, error) from None
    except RecursionError:
        raise ConfigError(
            source, received="tables or lists too deep inside each other", expected="a few levels, as in the examples"
        ) from None
