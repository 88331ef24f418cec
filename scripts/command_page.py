"""docs/reference/commands.md: every command with its arguments and options, as `--help` tells them."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from recaudit.cli import app
from recaudit.cli.other_packages import DISTRIBUTIONS
from recaudit.registry import COMMANDS

INTRODUCTION = """# Commands

What the command line takes, as each command's `--help` says it; `make reference` writes this page. Most commands \
have `--json` for programs.
"""


def command_page() -> str:
    """All of it, ending in a line break."""
    whole = typer.main.get_command(app)
    assert isinstance(whole, TyperGroup)
    parts = [INTRODUCTION, *_text(whole), *_table(whole)]
    for name, command in whole.commands.items():
        if name not in {*COMMANDS, *DISTRIBUTIONS}:  # the page is the same with other packages and without
            parts += _command(name, command)
    return "\n".join(parts)


def _command(name: str, command: object, depth: int = 2) -> Iterator[str]:
    assert isinstance(command, TyperCommand | TyperGroup)
    yield f"{'#' * depth} `recaudit {name}`\n"
    yield from _text(command)
    yield from _table(command)
    if isinstance(command, TyperGroup):
        for inner, own in command.commands.items():
            yield from _command(f"{name} {inner}", own, depth + 1)


def _text(command: TyperCommand | TyperGroup) -> Iterator[str]:
    """The help: paragraphs, and what is laid out by hand as it is."""
    for part in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "").replace("\\[", "[")):
        if part.startswith("\b"):
            laid_out = textwrap.dedent(part.replace("\b", "")).strip()
            yield f"```text\n{laid_out}\n```\n"
        else:
            yield " ".join(part.split()) + "\n"


def _table(command: TyperCommand | TyperGroup) -> Iterator[str]:
    """A line for each argument and option."""
    rows = []
    for own in command.params:
        assert isinstance(own, TyperArgument | TyperOption)
        if own.hidden:
            continue
        rows.append((f"`{_names(own)}`", _default(own), " ".join((own.help or "").replace("\\[", "[").split())))
    if rows:
        some = any(default for _, default, _ in rows)
        head = ("takes", "default", "meaning") if some else ("takes", "meaning")
        lines = [head, ("---",) * len(head), *(row if some else (row[0], row[2]) for row in rows)]
        yield "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines) + "\n"


def _names(own: TyperArgument | TyperOption) -> str:
    """`--out DIR`, or the name of an argument, with dots where it may be several."""
    if isinstance(own, TyperArgument):
        return f"{own.metavar or (own.name or '').upper()}{'...' if own.nargs == -1 else ''}"
    flags = " / ".join([*own.opts, *own.secondary_opts])
    return flags if own.is_flag else f"{flags} {own.metavar or _value(own.type_descriptor.annotation)}"


def _value(annotation: Any) -> str:
    """What stands for a value: its choices, or its type."""
    if get_origin(annotation) is Literal:
        return "|".join(map(str, get_args(annotation)))
    return "NUMBER" if annotation in (int, float) else "TEXT"


def _default(own: TyperArgument | TyperOption) -> str:
    if own.required:
        return "required"
    nothing = own.default in (None, False, ()) or callable(own.default)
    return "" if nothing else f"`{own.default}`"
