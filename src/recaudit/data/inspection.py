"""A look at a file of ratings that nobody has described: how it is written, and what its columns hold."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, final

import polars as pl

from recaudit.data.loading import read_columns
from recaudit.data.readers import reading
from recaudit.data.records import TextFile, check_not_compressed, cut
from recaudit.data.text_files import CANDIDATES, Kind, TextFormat, as_times, named
from recaudit.errors import DataError, InputError

Role = Literal["user", "item", "rating", "time"]
_LINES = 1000
"""Lines that are looked at for the layout."""
_PIECE = 1 << 24
_WORDS: dict[Role, str] = {
    "user": r"(user|member|customer|client|visitor|viewer|reviewer|session|account|person|profile)s?(id|name|key|no)?"
    r"|uid|u",
    "item": r"(item|movie|film|product|artist|book|track|song|album|article|news|game|business|restaurant|video|content"
    r"|show|anime|recipe|joke|beer|place|venue|hotel)s?(id|key|no)?|(parent)?asin|isbn|sku|iid|mid|i",
    "rating": r"rating|ratings|rate|stars|score|overall|value|weight|count|plays|playcount|preference|r",
    "time": r"timestamp|time|date|datetime|ts|t|when|created(at)?|unix(review)?time|(review|event|rating)(time|date)",
}
_TITLE = r".*(title|name)"
_CATEGORIES = {"genre": "genres?", "category": "categor(y|ies)", "topic": "topics?", "tag": "tags?"}
"""Names of columns that hold categories, by what a category is then called."""
_BETWEEN = ("|", ";", ",", "/")
"""What may stand between two categories in one cell."""
_SCALES = ((1, 5), (0.5, 5), (0, 5), (1, 10), (0, 10), (0, 100), (-10, 10))
"""Scales that people rate on, the narrowest first."""
_MOST_LEVELS = 101
"""A column with more distinct numbers than this is no scale of ratings."""
_EPOCH = (10**8, 2 * 10**18)
"""Whole numbers that can be moments: from seconds to nanoseconds since 1970."""


@final
@dataclass(frozen=True)
class Inspected:
    """What was seen in a file: settings of [data] that read it, and why each was chosen."""

    file: Path
    settings: Mapping[str, Any]
    """As OwnData takes them, without the file; only what is not the default."""
    why: Mapping[str, str]
    """For each setting, what it was concluded from."""
    columns: tuple[str, ...]
    """Every column of the file, as a person would call it, with its first value."""
    rows: int
    users: int
    items: int
    ratings: tuple[float, float] | None
    """The lowest and the highest, None where there are none."""
    most_of_a_user: int
    """Rows of the user who has most."""


def inspect_file(path: Path, given: Mapping[str, Any]) -> Inspected:
    """Look at a file; `given` are settings that are known already, and are not questioned."""
    _check_file("path", path)
    settings, why = dict(given), dict.fromkeys(given, "as given")
    names, values = _parquet(path) if path.suffix.lower() == ".parquet" else _text(path, settings, why)
    _choose_columns(names, values, settings, why)
    return _counted(path, names, values, settings, why)


def _check_file(argument: str, path: Path) -> None:
    if not path.is_file():
        raise DataError(argument, received=str(path), expected="a file that exists", remedy="Check the spelling.")
    if path.stat().st_size == 0:
        raise DataError(argument, received=f"{path}, an empty file", expected="a file with rows")
    check_not_compressed(argument, path)


def inspect_items(path: Path, item: int | str) -> dict[str, Any]:
    """The settings of [data] that read titles and categories from a file with a row an item, by its columns' names.

    `item` is the column of the log's item ids; ids are in one of the same name, or in one whose name says so.
    """
    _check_file("items", path)
    settings: dict[str, Any] = {"header": True}
    names, values = _parquet(path) if path.suffix.lower() == ".parquet" else _text(path, settings, {})
    plain = {name: re.sub(r"[^a-z0-9]", "", name.lower()) for name in names or []}
    ids = [name for name in plain if name == item] or [name for name in plain if _role_of(name) == "item"]
    if not ids:
        raise DataError(
            "items",
            received=f"{path.name} with columns {', '.join(map(repr, plain))}",
            expected="a first line that names columns, one of which holds item ids",
            remedy="Write it by hand: items = {file = '...', id = ...} below [data].",
        )
    usual = {"header": True, "separator": {".csv": ",", ".tsv": "\t", ".dat": "::"}.get(path.suffix.lower())}
    settings = {key: value for key, value in settings.items() if usual.get(key) != value}
    found: dict[str, Any] = {"items": settings | ({"id": ids[0]} if ids[0] != item else {})}
    if titles := [name for name in plain if name != ids[0] and re.fullmatch(_TITLE, plain[name])]:
        found["title"] = titles[0]
    kinds = {kind: name for kind, words in _CATEGORIES.items() for name in plain if re.fullmatch(words, plain[name])}
    if kinds:
        found["categories"] = kinds
        held = [column for name, column in zip(plain, values, strict=True) if name in kinds.values()]
        cells = " ".join(str(cell) for column in held for cell in column)
        between = max(_BETWEEN, key=cells.count)
        if between != "|" and between in cells:
            found["category_separator"] = between
    return found


# ---- how it is written -----------------------------------------------------------------------------------


def _parquet(path: Path) -> tuple[list[str] | None, list[pl.Series]]:
    with reading(path):
        head = pl.scan_parquet(path, glob=False).head(_LINES).collect()
    return head.columns, list(head)


def _text(path: Path, settings: dict[str, Any], why: dict[str, str]) -> tuple[list[str] | None, list[pl.Series]]:
    """The names of the columns, where the first line has them, and the first values of each as text."""
    if "encoding" not in settings:
        encoding, why["encoding"] = _encoding(path)
        if encoding != "utf-8":
            settings["encoding"] = encoding
    first_lines = TextFile(path, settings.get("encoding", "utf-8")).head(_LINES)
    lines = [text for text in first_lines if text.strip() and "\ufffd" not in text]
    if "separator" not in settings:
        settings["separator"] = _separator(path, lines)
        why["separator"] = "it cuts the lines into the same number of columns"
    separator = settings["separator"]
    quoted = len(separator) == 1 and settings.get("quotes", True)
    cuts = [cut(line, separator) if quoted else line.split(separator) for line in lines]
    if quoted and "quotes" not in settings and None in cuts:
        settings["quotes"], why["quotes"] = False, "some quotes do not close: they are taken as text"
        cuts = [line.split(separator) for line in lines]
    rows = [row for row in cuts if row is not None]
    width = Counter(map(len, rows)).most_common(1)[0][0]
    rows = [[value.strip() for value in row] for row in rows if len(row) == width]
    if "header" not in settings:
        settings["header"], why["header"] = _header(rows)
    first = rows[0] if settings["header"] else None
    body = rows[1:] if settings["header"] else rows
    if not body:
        raise DataError("path", received=f"{path} with a header and no rows", expected="at least one row")
    return first, [pl.Series([row[i] or None for row in body], dtype=pl.String) for i in range(width)]


def _encoding(path: Path) -> tuple[str, str]:
    """The encoding of the whole file, and why."""
    with path.open("rb") as file:
        start = file.read(_PIECE)
        if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16", "the file begins with the byte order mark of UTF-16"
        decoder, piece, windows = codecs.getincrementaldecoder("utf-8")(), start, False
        text = True
        while piece:
            windows = windows or any(byte in piece for byte in b"\x80\x91\x92\x93\x94\x96\x97")
            try:
                decoder.decode(piece)
            except UnicodeDecodeError:
                text = False
                break
            piece = file.read(_PIECE)
    if text:
        return "utf-8", "all of it is UTF-8"
    name = "cp1252" if windows else "latin-1"
    return name, "some of its bytes are no UTF-8; other one-byte encodings would differ in accents and quotes only"


def _separator(path: Path, lines: Sequence[str]) -> str:
    """What cuts nearly all lines into the same number of columns, more than one."""
    for separator in CANDIDATES:
        cuts = (cut(line, separator) if len(separator) == 1 else line.split(separator) for line in lines)
        widths = Counter(1 if fields is None else len(fields) for fields in cuts)
        width, count = widths.most_common(1)[0] if widths else (1, 0)
        if width > 1 and count >= 0.9 * len(lines):
            return separator
    shown = lines[0][:80] if lines else ""
    raise InputError(
        "separator",
        received=f"{path}, which begins {shown!r}",
        expected="lines that one of tab, comma, semicolon, |, :: or space cuts into the same number of columns",
        remedy="Say what separates the columns with --separator.",
    )


def _header(rows: Sequence[Sequence[str]]) -> tuple[bool, str]:
    first, rest = rows[0], rows[1:]
    if any(_role_of(name) for name in first if len(name) > 1):
        return True, "the first line has names of columns"
    for column, name in enumerate(first):
        if rest and _number(name) is None and all(_number(row[column]) is not None for row in rest):
            return True, f"the first line has {name!r} where all others have a number"
    if any(_number(name) is not None for name in first):
        return False, "the first line holds values like all others"
    raise InputError(
        "header",
        received=f"a first line {' '.join(first)[:80]!r} among lines of text",
        expected="a first line that names columns, or numbers in some column",
        remedy="Say --header or --no-header.",
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


# ---- what the columns hold -------------------------------------------------------------------------------


def _role_of(name: str) -> Role | None:
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return next((role for role, words in _WORDS.items() if re.fullmatch(words, plain)), None)


def _choose_columns(
    names: list[str] | None, values: Sequence[pl.Series], settings: dict[str, Any], why: dict[str, str]
) -> None:
    """Which columns are user, item, rating and time, by their names, or by what they hold."""
    width = len(values)
    taken = {_at(settings[role], names) for role in ("user", "item", "rating", "time") if role in settings}
    for role in ("user", "item", "rating", "time"):
        if role in settings:
            continue
        by_name = [i for i in range(width) if i not in taken and names is not None and _role_of(names[i]) == role]
        found, reason = (by_name[0], "by its name") if by_name else (None, "")
        free = [i for i in range(width) if i not in taken]
        if found is None and names is None and role in ("user", "item") and free:
            found, reason = free[0], "the file has no header: by its place"
        if found is None and role == "time":
            found = next((i for i in free if _looks_like_time(values[i])), None)
            reason = "its values look like times"
        if found is None and role == "rating" and names is None:
            found = next((i for i in free if _looks_like_ratings(values[i])), None)
            reason = "its values look like ratings"
        if role == "rating" and found is not None and _numbers(values[found]) is None:
            found = None  # a text of that name, such as a review
        if role == "time" and found is not None and as_times_of(values[found]) is None:
            found = None
        if found is not None:
            taken.add(found)
            settings[role], why[role] = (found if names is None else names[found]), reason
        elif role == "rating":
            settings[role], why[role] = False, "no column looks like ratings: every row counts as 1"
        elif role != "time":
            columns = ", ".join(map(repr, names or [f"{i}" for i in range(width)]))
            raise InputError(
                role,
                received=f"columns {columns}",
                expected=f"a column whose name says that it holds {role}s",
                remedy=f"Say which one holds {role}s with --{role}.",
            )


def _at(column: object, names: list[str] | None) -> int:
    if isinstance(column, str) and names is not None and column in names:
        return names.index(column)
    return column if isinstance(column, int) and not isinstance(column, bool) else -1


def _numbers(values: pl.Series) -> pl.Series | None:
    """The values as numbers, None where most are not."""
    if not (values.dtype.is_numeric() or values.dtype == pl.String):
        return None
    numbers = values.cast(pl.Float64, strict=False)
    return numbers if numbers.null_count() < len(numbers) / 2 else None


def _looks_like_ratings(values: pl.Series) -> bool:
    numbers = _numbers(values)
    return numbers is not None and numbers.n_unique() <= _MOST_LEVELS and not _looks_like_time(values)


def _looks_like_time(values: pl.Series) -> bool:
    times = as_times_of(values)
    if times is None:
        return False
    return not times.dtype.is_numeric() or bool(times.is_between(*_EPOCH).all())


def as_times_of(values: pl.Series) -> pl.Series | None:
    """The values as times, None where most are none."""
    times = as_times(values) if values.dtype == pl.String else values
    usable = times.dtype.is_numeric() or times.dtype in (pl.Date, pl.Datetime)
    return times if usable and times.null_count() < len(times) / 2 else None


# ---- what all rows say -----------------------------------------------------------------------------------


def _counted(
    path: Path,
    names: list[str] | None,
    values: Sequence[pl.Series],
    settings: dict[str, Any],
    why: dict[str, str],
) -> Inspected:
    """Read all of it, so that what is written down works; and what only all rows can say."""
    user, item, rating, time = (settings.get(role) for role in ("user", "item", "rating", "time"))
    columns: dict[int | str, Kind] = {user: "id", item: "id"}  # type: ignore[dict-item]  # chosen by now
    columns |= {rating: "number"} if rating is not None and rating is not False else {}
    columns |= {time: "time"} if time is not None else {}
    how = TextFormat.model_validate({k: v for k, v in settings.items() if k in TextFormat.model_fields})
    read = read_columns(path, how, columns)
    frame, pair = read.frame, [named(column) for column in list(columns)[:2]]
    repeated = len(frame) - frame.select(pair).n_unique()
    if repeated and "duplicates" not in settings:
        settings["duplicates"] = "last"
        why["duplicates"] = f"{repeated:,} rows have a user and item that came before: the last one counts"
    span = None
    if rating is not None and rating is not False:
        numbers = frame[named(rating)].cast(pl.Float64)
        low, high = float(numbers.min()), float(numbers.max())  # type: ignore[arg-type]  # there are rows
        span = (low, high)
        levels = numbers.n_unique()
        if low == high:
            settings["rating"], why["rating"] = False, f"all of {rating!r} are {low:g}: every row counts as 1"
        fits = [scale for scale in _SCALES if scale[0] <= low and high <= scale[1]]
        if "scale" not in settings and low < high and levels <= _MOST_LEVELS and fits:
            settings["scale"] = list(fits[0])
            why["scale"] = f"ratings go from {low:g} to {high:g}, at {levels} levels"
    called = names or [f"{i}" for i in range(len(values))]
    defaults = {"user": "user", "item": "item", "rating": "rating", "header": True}
    return Inspected(
        file=path,
        settings={k: v for k, v in settings.items() if defaults.get(k) != v or k in ("user", "item", "rating")},
        why=why,
        columns=tuple(f"{name} ({column[0]!r})" for name, column in zip(called, values, strict=True)),
        rows=len(frame),
        users=frame[pair[0]].n_unique(),
        items=frame[pair[1]].n_unique(),
        ratings=span,
        most_of_a_user=int(frame.unique(pair).group_by(pair[0]).len()["len"].max()),  # type: ignore[arg-type]
    )
