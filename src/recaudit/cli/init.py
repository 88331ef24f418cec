"""`recaudit init`: a configuration for one's own file, after a look at it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recaudit.cli.messages import answers, command, notes
from recaudit.errors import InputError, reading_from

EASE_ITEMS = 10_000
"""From so many on EASE is not proposed: it holds a matrix of items by items, 800 MB here."""

if TYPE_CHECKING:
    from recaudit.data.inspection import Inspected


@command()
def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Ratings, clicks or purchases, one a row.")],
    out: Annotated[
        Path | None, typer.Option(metavar="TOML", help="The configuration; FILE's name with .toml if not given.")
    ] = None,
    user: Annotated[str | None, typer.Option(metavar="COLUMN", help="User ids, by name or number from 0.")] = None,
    item: Annotated[str | None, typer.Option(metavar="COLUMN", help="Item ids.")] = None,
    rating: Annotated[str | None, typer.Option(metavar="COLUMN", help="Ratings; '' for none.")] = None,
    time: Annotated[str | None, typer.Option(metavar="COLUMN", help="Times.")] = None,
    items: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Titles and categories, one item a row, with a header.")
    ] = None,
    separator: Annotated[str | None, typer.Option(help="What separates columns; \\t is a tab.")] = None,
    header: Annotated[bool | None, typer.Option("--header/--no-header", help="Is the first line a header?")] = None,
    encoding: Annotated[str | None, typer.Option(help="utf-8, latin-1, cp1252, utf-16, ...")] = None,
    on_error: Annotated[str | None, typer.Option(help="Rows that cannot be read: error or skip.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a configuration that is there.")] = False,
) -> None:
    """Look at a file of ratings and write a configuration that audits it, with what was seen and why.

    \b
      recaudit init ratings.csv --items movies.csv
      recaudit init clicks.tsv --out my.toml --user 0 --item 2
      recaudit audit my.toml --out runs/my
    """
    from recaudit.data.inspection import inspect_file, inspect_items

    path = out or Path(f"{file.name.split('.')[0]}.toml")
    if path.exists() and not force:
        raise InputError(
            "--out",
            received=f"{path}, which is there already",
            expected="a new file",
            remedy="Choose another name with --out, or replace it with --force.",
        )
    given: dict[str, Any] = {
        "separator": None if separator is None else separator.replace("\\t", "\t"),
        "header": header,
        "encoding": encoding,
        "on_error": on_error,
        "user": _column(user),
        "item": _column(item),
        "rating": False if rating == "" else _column(rating),
        "time": _column(time),
    }
    with reading_from(file.name, _option):
        seen = inspect_file(file, {name: value for name, value in given.items() if value is not None})
    about: dict[str, Any] = {}
    if items is not None:
        with reading_from(items.name):
            about = inspect_items(items, seen.settings["item"])
        where = _path(items, path.parent)
        about["items"] = {"file": where, **about["items"]} if about["items"] else where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(written(seen, path.parent, about), encoding="utf-8")
    answers().print(f"{path}: {seen.rows:,} rows of {seen.users:,} users and {seen.items:,} items in {file.name}")
    notes().print(f"Look through it, then: recaudit audit {path}")


def written(seen: Inspected, folder: Path, about: Mapping[str, Any]) -> str:
    """The configuration as text; its paths start at the folder. `about` are the settings that say more of items."""
    settings, why = seen.settings, seen.why
    lines = [
        f"# {seen.file.name}, as 'recaudit init' saw it: {seen.rows:,} rows, {seen.users:,} users, "
        f"{seen.items:,} items.",
        f"# Columns, and the first value of each: {', '.join(map(_comment, seen.columns))}",
        "",
        "[data]",
        f"file = {_toml(_path(seen.file, folder))}",
    ]
    for key in ("separator", "header", "encoding", "quotes", "on_error", "user", "item", "rating", "time"):
        if key in settings:
            lines += [f"{key} = {_toml(settings[key])}  # {_comment(why.get(key, ''))}".rstrip(" #")]
        elif key == "time":
            lines += ['# time = "..."  # no column looks like times; with one, [split] can follow time']
    if settings["rating"] is not False:
        low, high = seen.ratings or (0.0, 0.0)
        if "scale" in settings:
            lines += [f"scale = {_toml(settings['scale'])}  # {why['scale']}; say what can be given, not what was"]
        else:
            lines += [f"# scale = [{low:g}, {high:g}]  # the lowest and highest; without it, those that were given"]
        lines += ["# rating = false  # take every row as a 1 instead: what counts is that it happened"]
    if "duplicates" in settings:
        lines += [f"duplicates = {_toml(settings['duplicates'])}  # {why['duplicates']}"]
        lines += ['# duplicates = "mean"  # the average instead'] if settings["rating"] is not False else []
    else:
        lines += ['# duplicates = "last"  # no user has two rows for one item here']
    told = [f"{key} = {_toml(value)}" for key, value in about.items()] or [
        '# items = "items.csv"  # one row an item, ids in a column of the same name',
        '# title = "title"',
        '# categories = {genre = "genres"}  # names in one cell, cut at category_separator = "|"',
    ]
    lines += [
        "",
        "# What is known about items and users, for titles and groups in the report:",
        *told,
        '# users = "users.csv"',
        '# attributes = ["region"]',
        '# catalogue = "all"  # items and users of these files that have no ratings belong to the system, too',
        "",
        *_split(seen),
        "",
        *_models(seen),
    ]
    return "\n".join(lines) + "\n"


def _split(seen: Inspected) -> list[str]:
    by_random = ["[split]", 'kind = "random"  # a share of all ratings, at random, is held out', "fraction = 0.1"]
    if "time" in seen.settings and seen.most_of_a_user > 1:
        told = "# the last rating of each user is held out: what came later is predicted"
        return ["[split]", f'kind = "leave-last"  {told}', "k = 1", '# kind = "by-time"  # everything after one moment']
    return by_random


def _models(seen: Inspected) -> list[str]:
    own = [
        "[[model]]",
        'kind = "top-pop"  # the most popular items, for comparison',
        "",
        "# [[model]]",
        '# kind = "python"  # your own model: def model(data) in mine.py (docs/guides/your-own-model.md)',
        '# object = "mine:model"',
        "",
        "# Without [audits...] accuracy and exposure run; 'recaudit audits' has what else can be asked.",
    ]
    clicks = seen.settings["rating"] is False
    first = ["[[model]]", 'kind = "als"  # predicts ratings', "factors = 16", ""]
    if clicks:
        first = ["[[model]]", 'kind = "wals"  # for logs without ratings', 'values = "ones"', "factors = 16", ""]
    if seen.items <= EASE_ITEMS:
        first += ["[[model]]", 'kind = "ease"  # only ranks; does well on logs of a few ratings a user']
        first += [*(["regularization = 500  # a tenth of the default, which is for stars"] if clicks else []), ""]
    return [*first, *own]


def _path(file: Path, folder: Path) -> str:
    """Of a file, from this folder."""
    return Path(os.path.relpath(file.resolve(), folder.resolve())).as_posix()


def _column(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isdecimal() else text


def _option(name: str, value: str) -> str:
    return f"--{name.replace('_', '-')} {value}"


def _toml(value: object) -> str:
    """A value as TOML writes it: JSON's way, but for tables."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key} = {_toml(one)}' for key, one in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


def _comment(text: str) -> str:
    """Text from a file, fit for a comment: one line, nothing but what can be printed."""
    return "".join(c if c.isprintable() else " " for c in text)[:100]
