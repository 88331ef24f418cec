"""Markdown from a template: whatever comes from data stays text, whatever somebody has called a model or a group."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import SandboxedEnvironment
from markupsafe import Markup

from recaudit.errors import InputError
from recaudit.report.kit.document import FILTERS

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "~": "&#126;", "$": "&#36;"}
_MARKUP = re.compile(
    r"(?P<entity>[&<>|~$])"
    r"|(?P<mention>(?<!\w)@)|(?P<address>:(?=//))"
    r"|(?P<mark>[\\`*#]|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[:]))"
    r"|(?P<first>^(?:[-+](?=\s|$)|[-=](?=[-=\s]*$)|\[(?=[ xX]\])))"
)
"""What Markdown, or GitHub's, may take for something else than itself, where it would."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def escaped(text: object) -> Markup:
    """Text on one line that stays text: in a paragraph, an item of a list or a cell of a table."""
    line = re.sub(r"\s+", " ", _printable(text))
    return Markup(re.sub(r"^(\d+)([.)])(?=\s|$)", r"\1\\\2", _MARKUP.sub(_harmless, line)))


def _printable(text: object) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in str(text))


def _harmless(found: re.Match[str]) -> str:
    if found["entity"]:
        return _ENTITIES[found[0]]
    return f"\\{found[0]}" if found["mark"] or found["first"] else f"&#{ord(found[0])};"


def code(text: object) -> Markup:
    """Text as code inside a line, also inside a table."""
    plain = _printable(text).replace("|", "\\|")
    ticks = "`" * (1 + max(map(len, re.findall("`+", plain)), default=0))
    space = " " if plain.startswith("`") or plain.endswith("`") else ""
    return Markup(f"{ticks}{space}{plain}{space}{ticks}")


def fenced(text: str, language: str = "text") -> Markup:
    """Lines as a block of code."""
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return Markup(f"{ticks}{language}\n{text.rstrip()}\n{ticks}")


def toml(table: Mapping[str, Any]) -> str:
    """A configuration as TOML: what `tomllib` reads as this very table."""
    lines = [f"{_key(name)} = {_value(own)}" for name, own in table.items() if not _headed(own)]
    for name, own in table.items():
        if isinstance(own, Mapping):
            inside = own if own and all(isinstance(part, Mapping) for part in own.values()) else None
            for heading, part in {name: own}.items() if inside is None else inside.items():
                at = _key(heading) if inside is None else f"{_key(name)}.{_key(heading)}"
                lines += ["", f"[{at}]", *_settings(part)]
        elif _headed(own):
            lines += [line for part in own for line in ("", f"[[{_key(name)}]]", *_settings(part))]
    return "\n".join(lines).strip() + "\n"


def _headed(value: object) -> bool:
    """Whether a value has headings of its own: a table, or a list of tables."""
    several = isinstance(value, list) and bool(value) and all(isinstance(part, Mapping) for part in value)
    return several or isinstance(value, Mapping)


def _settings(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(name)} = {_value(own)}" for name, own in table.items()]


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _value(value: object) -> str:
    """As JSON writes it, but for tables."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(_settings(value))} }}" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False)


def rendered_markdown(template: str, own: Path | None = None, **content: Any) -> str:
    """A template filled in: the package's, or somebody's `own`, which may extend it block by block."""
    environment = _environment()
    try:
        made = environment.get_template(template) if own is None else environment.from_string(_read(own))
        return re.sub(r"\n{3,}", "\n\n", made.render(**content)).strip() + "\n"
    except jinja2.TemplateError as error:
        if own is None:
            raise
        line = f", line {error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
        raise InputError(
            "template",
            received=f"{own}{line}: {error}",
            expected=f"a Jinja template of names that a statement has, as in recaudit's own {template}",
            remedy="docs/auditors/statement.md says which names there are.",
        ) from None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "bytes that are not UTF-8"
        raise InputError("template", received=f"{path}: {reason}", expected="a Jinja template in a file") from None


def _environment() -> jinja2.Environment:
    """Everything that an expression gives is escaped, unless it is Markdown already; templates can run nothing."""
    environment = SandboxedEnvironment(
        loader=jinja2.PackageLoader("recaudit.report"),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else escaped(value),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {**FILTERS, "code": code, "fenced": fenced, "toml": toml}
    return environment
