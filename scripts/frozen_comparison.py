"""Comparison of two recordings of frozen numbers, table by table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, final

import numpy as np
import polars as pl
from frozen_names import Change, Names, Replacement

RELATIVE, ABSOLUTE = 1e-9, 1e-12
"""Largest difference of equal numbers."""
TRAINING_SHARE, TRAINING_ERRORS = 0.005, 2.0
"""Largest difference of the means of two ways of training: this share, and this number of standard errors."""
KEYS = ("metric", "by", "group", "user", "actor", "viewer", "editor", "item", "rank", "over", "at", "trial", "step")
"""Columns that identify a row, where they do."""
INDEX = "recording.json"


@final
@dataclass(frozen=True)
class Recording:
    """A folder of tables with its index."""

    folder: Path
    cases: dict[str, dict[str, Any]]
    skipped: dict[str, str]
    failed: dict[str, str]
    has_old_names: bool

    @staticmethod
    def read(folder: Path) -> Recording:
        """Read the index of a recording."""
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        return Recording(folder, index["cases"], index["skipped"], index["failed"], index["names"] == "old")

    def tables(self, case: str, names: Names) -> dict[str, pl.DataFrame]:
        """Return the tables of a case under new names."""
        family = self.cases[case]["family"]
        tables = {}
        for table in self.cases[case]["tables"]:
            frame = pl.read_parquet(self.folder / case / f"{table}.parquet")
            name = table
            if self.has_old_names:
                name, frame = names.table(family, table), renamed(frame, names, family, table)
            tables[name] = frame
        return tables


def renamed(frame: pl.DataFrame, names: Names, family: str, table: str) -> pl.DataFrame:
    """Return the frame of an old table with new names of columns and values."""
    for column in frame.columns:
        if changes := names.value_changes(column):
            frame = frame.with_columns(pl.col(column).cast(pl.String).replace(changes))
    return frame.rename({column: names.column(family, table, column) for column in frame.columns})


@final
@dataclass
class Comparison:
    """Differences between two recordings, and notes about what was not compared or is new."""

    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compared: int = 0
    """Tables that were compared."""


@final
@dataclass(frozen=True)
class Declared:
    """Differences that are declared."""

    solvers: Sequence[Replacement] = ()
    training: Sequence[Replacement] = ()
    changes: Sequence[Change] = ()

    def change(self, family: str, case: str, table: str, column: str) -> Change | None:
        """Return the declared change of a column, or None."""
        for each in self.changes:
            if matches(each.where, family, case, table) and fnmatchcase(column, each.column):
                return each
        return None

    def solver(self, family: str, case: str, table: str) -> Replacement | None:
        """Return the declared replacement of a table's solver, or None."""
        return next((each for each in self.solvers if matches(each.where, family, case, table)), None)

    def retrained(self, kinds: Sequence[str]) -> list[str]:
        """Return the kinds among these that are trained in another way."""
        return [kind for kind in kinds if kind in {each.where for each in self.training}]


def matches(pattern: str, family: str, case: str, table: str) -> bool:
    """Return whether a pattern names this table, by its family or by its case."""
    return any(fnmatchcase(f"{where}/{table}", pattern) for where in (family, case))


def compare_recordings(old: Recording, new: Recording, names: Names, declared: Declared) -> Comparison:
    """Compare every table of the old recording with the new one."""
    result = Comparison()
    for recording in (old, new):
        result.differences += [f"{case}: failed in {recording.folder}: {why}" for case, why in recording.failed.items()]
    for case, entry in old.cases.items():
        family = entry["family"]
        if case not in new.cases:
            if case in new.failed:
                continue
            reason = new.skipped.get(case, "it is not a case of the new recording")
            _missing(result, declared, family, case, "*", f"{case}: not in the new recording: {reason}")
            continue
        before, after = old.tables(case, names), new.tables(case, names)
        retrained = declared.retrained(entry["trained"])
        if retrained and family != "seeds":
            result.notes.append(f"{case}: not compared, because training of {', '.join(retrained)} is replaced")
            continue
        for table, frame in before.items():
            if table not in after:
                _missing(result, declared, family, case, table, f"{case}/{table}: the new recording has no such table")
                continue
            result.compared += 1
            if retrained:
                _compare_training(result, f"{case}/{table}", frame, after[table])
            elif declared.solver(family, case, table):
                _compare_bounds(result, declared, family, case, table, frame, after[table])
            else:
                _compare_tables(result, declared, family, case, table, frame, after[table])
        result.notes += [f"{case}/{table}: added" for table in after if table not in before]
    result.notes += [f"{case}: added" for case in new.cases if case not in old.cases]
    return result


def _missing(result: Comparison, declared: Declared, family: str, case: str, table: str, message: str) -> None:
    change = next(
        (each for each in declared.changes if each.column == "*" and matches(each.where, family, case, table)), None
    )
    if change is None:
        result.differences.append(message)
    else:
        result.notes.append(f"{message} (intended: {change.reason})")


def _compare_tables(
    result: Comparison, declared: Declared, family: str, case: str, table: str, old: pl.DataFrame, new: pl.DataFrame
) -> None:
    """Compare all columns of a table that are not meant to change."""
    where = f"{case}/{table}"
    added = [column for column in new.columns if column not in old.columns]
    if added:
        result.notes.append(f"{where}: added columns {', '.join(added)}")
    intended = {column: declared.change(family, case, table, column) for column in old.columns}
    for change in dict.fromkeys(change for change in intended.values() if change is not None):
        columns = [column for column, its in intended.items() if its is change]
        result.notes.append(f"{where}: {', '.join(columns)} not compared (intended: {change.reason})")
    columns = [column for column, change in intended.items() if change is None]
    missing = [column for column in columns if column not in new.columns]
    if missing:
        result.differences.append(f"{where}: the new table has no columns {', '.join(missing)}")
    if len(old) != len(new):
        result.differences.append(f"{where}: {len(old)} rows before, {len(new)} now")
        return
    old, new = _matched(old, new)
    for column in columns:
        if column not in missing and (difference := column_difference(old[column], new[column])):
            result.differences.append(f"{where}: {column}: {difference}")


def _matched(old: pl.DataFrame, new: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return both tables in the order of the columns that identify rows, if these do, and else as they are."""
    keys = [key for key in KEYS if key in old.columns and key in new.columns]
    if not keys:
        return old, new
    texts = [pl.col(key).cast(pl.String).alias(key) for key in keys]
    identities = [frame.select(texts).with_row_index("row").sort(keys, nulls_last=True) for frame in (old, new)]
    first, second = (identity.select(keys) for identity in identities)
    if not first.equals(second) or first.is_duplicated().any():
        return old, new
    return old[identities[0]["row"].to_list()], new[identities[1]["row"].to_list()]


def column_difference(old: pl.Series, new: pl.Series) -> str:
    """Describe how two columns differ; empty if they are equal.

    Floats may be `RELATIVE` and `ABSOLUTE` apart. The width of integers, and whether texts are categories, is ignored.
    """
    if isinstance(old.dtype, pl.List | pl.Array) and isinstance(new.dtype, pl.List | pl.Array):
        first, second = (values.cast(pl.List(values.dtype.inner)) for values in (old, new))  # type: ignore[attr-defined]
        lengths = column_difference(first.list.len(), second.list.len())
        return f"lengths of lists: {lengths}" if lengths else column_difference(first.explode(), second.explode())
    if isinstance(old.dtype, pl.Struct) and isinstance(new.dtype, pl.Struct):
        fields = [(name, old.struct.field(name), new.struct.field(name)) for name in old.struct.fields]
        differences = [
            f"{name}: {text}" for name, first, second in fields if (text := column_difference(first, second))
        ]
        return "; ".join(differences)
    if old.dtype.is_nested() or new.dtype.is_nested():
        return f"type {old.dtype} before, {new.dtype} now"
    if old.dtype.is_float() or new.dtype.is_float():
        if not (_is_number(old) and _is_number(new)):
            return f"type {old.dtype} before, {new.dtype} now"
        return _float_difference(old, new)
    if old.dtype.is_integer() and new.dtype.is_integer():
        first, second = old.cast(pl.Int128), new.cast(pl.Int128)
    else:
        first, second = old.cast(pl.String), new.cast(pl.String)
    unequal = np.flatnonzero(~first.eq_missing(second).to_numpy())
    return _described(unequal, old, new)


def _is_number(values: pl.Series) -> bool:
    return values.dtype.is_numeric() or values.dtype == pl.Null


def _float_difference(old: pl.Series, new: pl.Series) -> str:
    first, second = (values.cast(pl.Float64).fill_null(0.0).to_numpy() for values in (old, new))
    with np.errstate(invalid="ignore"):
        close = np.abs(first - second) <= ABSOLUTE + RELATIVE * np.abs(first)
    equal = close | (first == second) | (np.isnan(first) & np.isnan(second))
    equal &= old.is_null().to_numpy() == new.is_null().to_numpy()
    unequal = np.flatnonzero(~equal)
    text = _described(unequal, old, new)
    if not text:
        return ""
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = np.abs(first - second)[unequal] / np.abs(first)[unequal]
    finite = relative[np.isfinite(relative)]
    return text + (f"; largest relative difference {finite.max():.2g}" if len(finite) else "")


def _described(unequal: Any, old: pl.Series, new: pl.Series) -> str:
    if not len(unequal):
        return ""
    row = int(unequal[0])
    return f"{len(unequal)} of {len(old)} rows differ; row {row}: {old[row]!r} before, {new[row]!r} now"


def _bounds(frame: pl.DataFrame) -> tuple[str, str] | None:
    names = (("bound_lower", "bound_upper"), ("lower", "upper"))
    return next((pair for pair in names if set(pair) <= set(frame.columns)), None)


def _compare_bounds(
    result: Comparison, declared: Declared, family: str, case: str, table: str, old: pl.DataFrame, new: pl.DataFrame
) -> None:
    """Compare the bounds, statuses and identifying columns of a table whose solver is replaced."""
    where = f"{case}/{table}"
    ends = _bounds(old)
    if ends is None or _bounds(new) != ends or "status" not in old.columns or "status" not in new.columns:
        result.differences.append(f"{where}: a replaced solver needs the columns of its bounds and status")
        return
    keys = [column for column in KEYS if column in old.columns]
    _compare_tables(result, declared, family, case, table, old.select(keys), new.select(keys))
    if len(old) != len(new):
        return
    old, new = _matched(old, new)
    low, high = ends
    (low_old, high_old), (low_new, high_new) = (
        [frame[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in (low, high)] for frame in (old, new)
    )
    slack = ABSOLUTE + RELATIVE * np.maximum(np.abs(low_old), np.abs(high_old))
    with np.errstate(invalid="ignore"):
        is_apart = (low_old > high_new + slack) | (low_new > high_old + slack)
    is_apart |= np.isnan(low_old) != np.isnan(low_new)
    if is_apart.any():
        row = int(np.flatnonzero(is_apart)[0])
        result.differences.append(
            f"{where}: bounds do not overlap in {is_apart.sum()} of {len(old)} rows; row {row}: "
            f"[{low_old[row]}, {high_old[row]}] before, [{low_new[row]}, {high_new[row]}] now"
        )
    before, after = (frame["status"].cast(pl.String).to_numpy() for frame in (old, new))
    decided = ("solved", "bounded")
    wrong = (before != after) & ~(np.isin(before, decided) & np.isin(after, decided))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        result.differences.append(
            f"{where}: {wrong.sum()} statuses change; row {row}: {before[row]} before, {after[row]} now"
        )
    is_decidable = np.isin(before, decided)
    if is_decidable.any():
        share, new_share = ((statuses[is_decidable] == "solved").mean() for statuses in (before, after))
        result.notes.append(f"{where}: solved {share:.1%} of pairs before, {new_share:.1%} now (solver replaced)")


def _compare_training(result: Comparison, where: str, old: pl.DataFrame, new: pl.DataFrame) -> None:
    """Compare the means of RMSE and nDCG of two ways of training."""
    for metric in ("rmse", "ndcg"):
        before, now = old[metric].drop_nulls().to_numpy(), new[metric].drop_nulls().to_numpy()
        if not len(before) and not len(now):
            continue
        if len(before) < 2 or len(now) < 2:
            result.differences.append(f"{where}: {metric}: {len(before)} values before, {len(now)} now")
            continue
        errors = np.sqrt(before.var(ddof=1) / len(before) + now.var(ddof=1) / len(now))
        allowed = TRAINING_SHARE * abs(before.mean()) + TRAINING_ERRORS * errors
        text = f"{where}: mean {metric} {before.mean():.6f} before, {now.mean():.6f} now, allowed {allowed:.2g}"
        (result.notes if abs(before.mean() - now.mean()) <= allowed else result.differences).append(text)
