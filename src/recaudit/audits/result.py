"""What an audit gives back: the audit that was asked, as data, and its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from recaudit import folders
from recaudit.audits.facts import ResultRecord
from recaudit.audits.overlap import overlap_sentence
from recaudit.audits.samples import drawn_words
from recaudit.audits.spill import Rows, SpilledRows, lazily
from recaudit.errors import InputError, did_you_mean
from recaudit.metrics.intervals import aggregate, mean
from recaudit.metrics.metric import Metric
from recaudit.metrics.paired import PairedMean, difference_table
from recaudit.metrics.tables import GROUP_SCHEMA, NOT_OVER_USERS, SERIES_SCHEMA, SUMMARY_SCHEMA
from recaudit.registry import AUDITS, Displayed
from recaudit.specification import as_data
from recaudit.status import Status
from recaudit.version import __version__

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

    from recaudit.audits.audit import Audit

Table = pl.DataFrame | SpilledRows | Callable[[], Any]
"""A table, in memory or in files, or what makes it when it is first looked at."""
_LONGEST = 120
"""Of a setting in a heading, in characters."""
_LITTLE, _SWING, _FEW_REFITS = 0.1, 0.5, 10
"""Refits cast doubt on a rule where half of them, or all together, give less than this share of the promised gain; or
where they are fewer than so many, and their shares lie further apart than this."""
_TOLD = ("causes", "left_out")
"""Facts that nobody must miss."""
_EMPTY = {"summary": SUMMARY_SCHEMA, "groups": GROUP_SCHEMA, "series": SERIES_SCHEMA}


def rule_lines(settings: Mapping[str, Any]) -> list[str]:
    """What the numbers of these settings rest on, for a person: the rule for new ratings, and how faithful it was."""
    if "rule" not in settings:
        return []
    tested = [fidelity_words(settings["fidelity"])] if "fidelity" in settings else []
    return [f"How the model takes in ratings: {settings['rule'].rstrip('.')}.", *tested]


def fidelity_words(fidelity: Mapping[str, Any]) -> str:
    """How far a rule's promises were kept by refits, as a sentence."""
    if "not_measured" in fidelity:
        return f"Not checked: {str(fidelity['not_measured']).rstrip('.')}."
    if "kept" in fidelity:
        kept, pairs = fidelity["kept"], fidelity["pairs"]
        return f"Checked by {pairs:,} refit{'s' * (pairs != 1)}: {kept:,} of them brought it about."
    share, error = fidelity["realised_share"], fidelity["median_error"]
    if error is None:
        return "Not checked: no refit gave an answer."
    if share is None:
        kept = f"half of the numbers are within a factor of {np.exp(error):.2f}"
    elif share > 2:
        kept = f"{share:,.0f} times the promised gain came, so that the rule promises too little"
    else:
        kept = f"{share:.0%} of the promised gain came" if share > 0 else "nothing of the promised gain came"
    return f"Checked by {fidelity['pairs']:,} refit{'s' * (fidelity['pairs'] != 1)}: {kept}."


def fidelity_doubt(fidelity: Mapping[str, Any]) -> str:
    """Why numbers that rest on a rule are in doubt after refits, without a full stop; empty where they are not."""
    pairs, share, shares = fidelity.get("pairs", 0), fidelity.get("realised_share"), fidelity.get("shares")
    refits = f"{pairs:,} refit{'s' * (pairs != 1)}"
    if "kept" in fidelity:
        kept = fidelity["kept"]
        return f"{kept:,} of {refits} brought about what the rule promised" if 2 * kept < pairs else ""
    if shares is not None and shares["median"] < _LITTLE:
        return f"the median of {refits} gave {shares['median']:.0%} of the promised gain, the best {shares['most']:.0%}"
    if share is not None and share < _LITTLE:
        return f"{refits} gave {share:.0%} of the promised gain"
    if shares is not None and pairs < _FEW_REFITS and shares["most"] - shares["least"] > _SWING:
        return f"{refits} are few, and gave from {shares['least']:.0%} to {shares['most']:.0%} of the promised gain"
    return ""


def _shortened(text: str) -> str:
    """What is too long ends after one of its parts, with its brackets closed: `Costs(items={'a': 1.0, ...})`."""
    if len(text) <= _LONGEST:
        return text
    kept, closing = text[:_LONGEST].rpartition(", ")[0] or text[:_LONGEST], ""
    for letter in kept:
        if letter in _BRACKETS:
            closing = _BRACKETS[letter] + closing
        elif closing.startswith(letter):
            closing = closing[1:]
    return f"{kept}, ...{closing}"


_BRACKETS = {"(": ")", "[": "]", "{": "}"}


class Result(Displayed):
    """The answer of one audit: tables by name, the metrics among them, and what the numbers depend on."""

    display = "result"

    def __init__(self, audit: Audit, tables: Mapping[str, Table], *, rng: int, facts: Mapping[str, Any] | None = None):
        self.audit = audit
        self.rng = rng
        self.facts = dict(facts or {})
        """What turned out while measuring: counts by status, the ratings that were free, what was left out and why."""
        self._tables = dict(tables)

    @property
    def kind(self) -> str:
        """The audit's name, as a configuration calls it."""
        return AUDITS.kind_of(self.audit)

    @property
    def asked(self) -> dict[str, Any]:
        """The audit's settings, as plain values."""
        return as_data(self.audit)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Everything that the numbers depend on, as plain values: what was asked, and over it what it turned out as."""
        return {**self.asked, "rng": self.rng, **self.facts}

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The definitions of the audit's metrics, by name, with the bounds that its settings give them."""
        return {metric.name: replace(metric, bounds=self.audit.bounds_of(metric)) for metric in self.audit.metrics}

    def table(self, name: str) -> pl.DataFrame:
        """One table by its name; `tables` has them all."""
        found = self._rows(name)
        return found.scan().collect() if isinstance(found, SpilledRows) else found

    def scan(self, name: str) -> pl.LazyFrame:
        """The same, read no further than it is asked for: pairs can be millions, and are then in files."""
        return lazily(self._rows(name))

    def _rows(self, name: str) -> Rows:
        if name not in self._tables:
            if name in _EMPTY:
                return pl.DataFrame(schema=_EMPTY[name])
            remedy = did_you_mean(name, self._tables)
            raise InputError("name", received=name, expected=f"a table of {self.kind}", remedy=remedy)
        found = self._tables[name]
        while not isinstance(found, pl.DataFrame | SpilledRows):
            found = self._tables[name] = found()
        return found

    def has_table(self, name: str) -> bool:
        """Whether there is a table of this name, with columns."""
        return name in self._tables and self._rows(name).width > 0

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """Every non-empty table by name, as a run folder stores them."""
        return {name: table for name in self._tables if (table := self.table(name)).width}

    @property
    def writers(self) -> dict[str, Callable[[Path], None]]:
        """What writes each non-empty table into a Parquet file, without having it in memory where it is not."""
        return {name: rows.write_parquet for name in self._tables if (rows := self._rows(name)).width}

    @property
    def kept(self) -> set[str]:
        """The tables that were written to the run folder while they were worked out."""
        found = ((name, self._rows(name)) for name in self._tables)
        return {name for name, rows in found if isinstance(rows, SpilledRows) and rows.kept}

    @property
    def frame(self) -> pl.DataFrame:
        """One row a metric, columns as in SUMMARY_SCHEMA."""
        return self.table("summary")

    @property
    def groups(self) -> pl.DataFrame:
        """The same by group of users or items, columns as in GROUP_SCHEMA."""
        return self.table("groups")

    @property
    def users(self) -> pl.DataFrame:
        """One row a user: the id and the user's own value of each metric, null where it has none."""
        return self.table("users")

    @property
    def items(self) -> pl.DataFrame:
        """One row an item, where the audit says something about items."""
        return self.table("items")

    @property
    def pairs(self) -> pl.DataFrame:
        """One row a pair, where the audit asks about pairs."""
        return self.table("pairs")

    @property
    def series(self) -> pl.DataFrame:
        """One row a point of a curve, columns as in SERIES_SCHEMA, where the audit varies something."""
        return self.table("series")

    def __getitem__(self, metric: str) -> float:
        """The overall value of one metric."""
        rows = self.frame.filter(pl.col("metric") == metric)
        if rows.is_empty():
            remedy = did_you_mean(metric, self.frame["metric"])
            raise InputError("metric", received=metric, expected=f"a metric of {self.kind}", remedy=remedy)
        value, status = rows["value"][0], rows["status"][0]
        if value is None:
            raise InputError("metric", received=f"{metric}, which is {status}", expected="a metric that has a value")
        return float(value)

    def by(self, name: str) -> pl.DataFrame:
        """The rows of `groups` for one way of grouping."""
        rows = self.groups.filter(pl.col("by") == name)
        if rows.is_empty():
            remedy = did_you_mean(name, self.groups["by"].unique())
            raise InputError("name", received=name, expected="a way of grouping in this result", remedy=remedy)
        return rows

    def grouped(self, groups: pl.DataFrame) -> pl.DataFrame:
        """Every metric that users, or items, have a value of their own of, by any grouping of them.

        `groups` has a column `user` or `item` with ids, and a column for each grouping; who is in no group has null.
        Rows as in `groups`: the mean of the members' own values. Of users it has an interval over the members. Of
        items it has none, because the items of a catalog are no sample of others.
        """
        over = next((name for name in ("user", "item") if name in groups.columns), None)
        if over is None:
            raise InputError("groups", received=groups.columns, expected="a column 'user' or 'item' with ids")
        joined = self.table(f"{over}s").join(groups, on=over, how="left", maintain_order="left")
        names = [name for name in self.metrics if name in joined.columns]
        is_geometric = {name: metric.average == "geometric" for name, metric in self.metrics.items()}
        values = {name: joined[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in names}
        ratios = [
            mean(
                name,
                np.log(values[name]) if is_geometric[name] else values[name],
                inside.to_numpy(),
                by,
                str(group),
                scale="geometric" if is_geometric[name] else "mean",
            )
            for by in groups.columns
            if by != over
            for group in joined[by].drop_nulls().unique().sort()
            for inside in [(joined[by] == group).fill_null(value=False).cast(pl.Float64)]
            for name in names
        ]
        if not ratios:
            raise InputError("groups", received=groups.columns, expected=f"groups of the {over}s of this result")
        rows = aggregate(ratios, self.audit.metric_bounds, self.audit.confidence)[1]
        if over == "user":
            return rows
        ends = (pl.lit(None, pl.Float64).alias(name) for name in ("lower", "upper"))
        return rows.with_columns(*ends, reason=pl.when(pl.col("value").is_not_null()).then(pl.lit(NOT_OVER_USERS)))

    def difference(self, other: Result, metric: str) -> pl.DataFrame:
        """Return how much more of a metric the same users have here than in another result, as `compare` does."""
        for result in (self, other):
            if metric not in result.users.columns:
                remedy = did_you_mean(metric, result.users.columns[1:])
                raise InputError("metric", received=metric, expected="a metric that users have each", remedy=remedy)
        is_geometric = metric in self.metrics and self.metrics[metric].average == "geometric"
        both = self.users.select("user", new=metric).join(other.users.select("user", old=metric), on="user")
        known = both.drop_nulls()
        new, old = (known[name].cast(pl.Float64).to_numpy() for name in ("new", "old"))
        pair = PairedMean(
            metric=metric,
            new_values=np.log(new) if is_geometric else new,
            old_values=np.log(old) if is_geometric else old,
            is_geometric=is_geometric,
        )
        [row] = difference_table([pair], self.audit.confidence).to_dicts()
        status = Status.NOT_APPLICABLE if row["difference"] is None else Status.SOLVED
        shared = {name: row[name] for name in ("metric", "lower", "upper", "users")}
        reason = row["reason"] if status is Status.SOLVED else None
        others = {"value": row["difference"], "reason": reason, "status": status, "excluded": len(both) - len(known)}
        return pl.DataFrame([shared | others], SUMMARY_SCHEMA)

    def to_pandas(self) -> pd.DataFrame:
        """The `frame` as a pandas frame (needs the `pandas` extra)."""
        return self.frame.to_pandas()

    def save(self, path: str | Path) -> None:
        """Keep the result in a folder of its own, every file with its digest."""
        record = {"kind": self.kind, "audit": self.asked, "rng": self.rng, "facts": self.facts}
        manifest = folders.Manifest(kind="result", recaudit=__version__, status="complete", plan={}, record=record)
        folder = folders.Folder.begin(Path(path), manifest, fresh=True)
        folder.put({f"{name}.parquet": write for name, write in self.writers.items()})

    @staticmethod
    def load(path: str | Path) -> Result:
        """The result that `save` kept; a file that is not as it was written is refused."""
        folder = folders.Folder.open(Path(path), "result")
        record = ResultRecord.of(folder)
        audit: type[Audit] = AUDITS[record.kind]
        tables: dict[str, Table] = {
            Path(file).stem: pl.read_parquet(folder.checked_table(file)[0], glob=False)
            for file in folder.manifest.files
        }
        return audit.result(audit.model_validate(record.audit), tables, rng=record.rng, facts=record.facts)

    def heading(self) -> list[str]:
        """What was asked, as far as it is not the default, and what the answer rests on; `settings` has everything."""
        said = dict(self.audit.__repr_args__())
        said |= {name: value for name, value in self.facts.items() if name in said}
        told = ", ".join(f"{name}={_shortened(repr(value))}" for name, value in {**said, "rng": self.rng}.items())
        notes = [drawn_words(self.facts["drawn"])] if "drawn" in self.facts else []
        doubts = fidelity_doubt(self.facts.get("fidelity", {})), overlap_sentence(self.facts.get("overlap", {}))
        notes += [f"Caution: {doubt}." for doubt in doubts if doubt]
        notes += [f"{name.replace('_', ' ')}: {self.facts[name]}" for name in _TOLD if self.facts.get(name)]
        return [f"{self.kind} ({told})", *(f"  {line}" for line in [*rule_lines(self.settings), *notes])]

    def summary(self) -> str:
        """The overall values with their intervals, a line each."""
        lines = self.heading()
        labels = {name: self.metrics[name].titled(self.settings.get("k", "k")) for name in self.frame["metric"]}
        width = max(map(len, labels.values()), default=0)
        for row in self.frame.iter_rows(named=True):
            label = labels[row["metric"]].ljust(width)
            if row["value"] is None:
                lines.append(f"  {label}  {row['status']}")
                continue
            interval = "" if row["lower"] is None else f"  [{row['lower']:.4f}, {row['upper']:.4f}]"
            left_out = f", {row['excluded']:,} excluded" if row["excluded"] else ""
            bound = f", {self.metrics[row['metric']].bound}" if row["status"] == Status.BOUNDED else ""
            lines.append(f"  {label}  {row['value']:8.4f}{interval}  {row['users']:,} users{left_out}{bound}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.summary()

    def plot(self) -> alt.FacetChart:
        """A chart of the metrics with their intervals."""
        from recaudit.audits.notebook import chart  # noqa: PLC0415  altair takes a while to import

        return chart(self)
