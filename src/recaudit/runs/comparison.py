"""Two runs, or two models of one run, side by side: what differs, for whom, and how sure it is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, final

import numpy as np
import polars as pl
import polars.selectors as cs
from pydantic import Field

from recaudit.arguments import checked
from recaudit.audits.audit import definitions
from recaudit.audits.result import Result
from recaudit.errors import InputError
from recaudit.metrics.paired import (
    DIFFERENCE_SCHEMA,
    ROUNDING,
    Correction,
    ListCounts,
    PairedNumber,
    corrected,
    difference_table,
    pair_counts,
    pair_terms,
)
from recaudit.metrics.terms import QUESTION, TERM_SCHEMA, by_group
from recaudit.registry import AUDITS, Displayed
from recaudit.runs.cautions import RunCaution
from recaudit.runs.changes import RunChange, changes, settings_of
from recaudit.runs.comparability import Comparability
from recaudit.runs.folder import Run
from recaudit.runs.list_changes import LIST_SCHEMA, list_changes
from recaudit.runs.services import SharedAnswers, shared_answers
from recaudit.specification import written
from recaudit.status import Status

COMPARISON_SCHEMA = {
    **dict.fromkeys(("model", "audit"), pl.String),
    **DIFFERENCE_SCHEMA,
    "adjusted": pl.Float64,
    **dict.fromkeys(("status", "verdict"), pl.String),
}
"""Columns of a comparison: model, audit, and those of `DIFFERENCE_SCHEMA`.

`adjusted` is the p-value, corrected for the number of tests in its family. `status` is bounded if one of the two
numbers is only a bound. `verdict`: "same" (equal numbers, up to one in a million), "better", "worse", "changed" (a
metric without a better direction), "not shown" (the difference may be chance), or "not known" (`reason` has the code,
or one of the numbers is only a bound)."""
_NAMING = "models=(A, B), or --models A B"
VERDICTS = ("worse", "better", "changed", "not shown", "same", "not known")


@final
@dataclass(frozen=True)
class LeftOut:
    """What could not be compared, and why."""

    model: str
    audit: str
    reason: str
    metrics: tuple[str, ...] = ()
    """Metrics concerned; empty for all of the audit."""
    code: str = ""
    """Stable code of the reason."""


@final
@dataclass(frozen=True, eq=False)
class RunComparison(Displayed):
    """How the second of two runs differs from the first."""

    display = "comparison"

    before: Run
    after: Run
    models: Mapping[str, tuple[str, str]]
    """The two labels of each pair of models that were compared, by the name that the pair has here."""
    frame: pl.DataFrame
    """One row a number, columns as in COMPARISON_SCHEMA: overall, then by group of users or items."""
    left_out: tuple[LeftOut, ...]
    cautions: tuple[RunCaution, ...]
    """What the two runs cannot be compared in, and what else a reader must know first."""
    changes: tuple[RunChange, ...]
    """What differs in configuration, data and versions."""
    lists: pl.DataFrame
    """One row a user and model, most changed first: model, user, `replaced` (the share of the first list that is not in
    the second), `moved` (1 - average overlap: how different the lists are, the first places counting most), and the
    titles of both lists, `before` and `after`."""
    confidence: float
    correction: Correction

    @property
    def overall(self) -> pl.DataFrame:
        """The rows about everybody."""
        return self.frame.filter(pl.col("by") == "")

    @property
    def groups(self) -> pl.DataFrame:
        """The rows about groups."""
        return self.frame.filter(pl.col("by") != "")

    @property
    def same_data(self) -> bool:
        """Whether both runs used the same interactions."""
        return self.before.manifest.data.fingerprint == self.after.manifest.data.fingerprint

    @property
    def is_refused(self) -> bool:
        """Whether nothing was compared because the users of the two runs are not known to be the same."""
        return self.frame.is_empty()

    @property
    def shared_answers(self) -> list[SharedAnswers]:
        """Answers of services that both runs have used, which cannot show a change of the service."""
        return shared_answers(self.before, self.after, self.models)

    def __repr__(self) -> str:
        counts = dict(self.frame["verdict"].value_counts().iter_rows())
        told = ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in VERDICTS if verdict in counts)
        return f"<{self.before.path} -> {self.after.path}: {told}>"


@checked
def compare(
    before: Run | str | Path,
    after: Run | str | Path | None = None,
    *,
    models: tuple[str, str] | None = None,
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95,
    correction: Correction = "holm",
) -> RunComparison:
    """Compare every number that two runs share, for all users and by group, paired by user.

    Models of the same label are compared, or the only ones of both runs; `models` names one of each instead, and alone
    compares two models of one run. Only users that both runs measured are compared; the others are counted. Groups of
    users are those of the first run.

    The differences for all users are one family for the correction, those of groups another.
    """
    if not 0 < confidence < 1:
        raise InputError("confidence", received=confidence, expected="a number between 0 and 1")
    first = before if isinstance(before, Run) else Run.open(before)
    second = first if after is None else after if isinstance(after, Run) else Run.open(after)
    pairs = _paired_models(first, second, models)
    comparability = Comparability(first, second)
    refusal = comparability.refusal
    frames, left_out = list[pl.DataFrame](), list[LeftOut]()
    for name, labels in pairs.items():
        if refusal is not None:
            audits = dict.fromkeys([*first.audits(labels[0]), *second.audits(labels[1])])
            left_out += [
                LeftOut(name, audit, "the users of the two runs are not known to be the same", code=refusal.code)
                for audit in audits
            ]
            continue
        found, lacking = _compared(comparability, name, labels, confidence)
        frames += found
        left_out += lacking
    frame = pl.DataFrame(schema=COMPARISON_SCHEMA)
    if frames:
        frame = decide(pl.concat(frames), correction, 1 - confidence).select(
            pl.col(column).cast(kind) for column, kind in COMPARISON_SCHEMA.items()
        )
    if frame.is_empty() and refusal is None:
        told = "; ".join(dict.fromkeys(f"{lack.audit}: {lack.reason}" for lack in left_out)) or "no finished audits"
        raise InputError("after", received=str(second.path), expected="a run that shares a number", remedy=f"{told}.")
    lists = [pl.DataFrame(schema=LIST_SCHEMA)]
    if refusal is None:
        lists += [list_changes(first, second, name, labels) for name, labels in pairs.items()]
    return RunComparison(
        first,
        second,
        pairs,
        frame,
        tuple(left_out),
        (*comparability.cautions, *(own.caution for own in shared_answers(first, second, pairs))),
        tuple(changes(first, second, pairs)),
        pl.concat(lists, how="vertical_relaxed"),
        confidence,
        correction,
    )


def _paired_models(before: Run, after: Run, named: tuple[str, str] | None) -> dict[str, tuple[str, str]]:
    if named is not None:
        for label, run in zip(named, (before, after), strict=True):
            run.audits(label)
        one, other = named
        if before.path.resolve() == after.path.resolve() and one == other:
            raise InputError("models", received=f"{one} twice", expected="two different models of this run")
        return {one if one == other else f"{one} \N{RIGHTWARDS ARROW} {other}": named}
    if before.path.resolve() == after.path.resolve():
        expected = "another run, or two models of this one"
        raise InputError("after", received=f"{after.path} twice", expected=expected, remedy=f"Name them: {_NAMING}.")
    shared = [label for label in before.models if label in after.models]
    if not shared and len(before.models) == len(after.models) == 1:
        return _paired_models(before, after, (before.models[0], after.models[0]))
    if not shared:
        raise InputError(
            "models",
            received=f"{', '.join(before.models)} and {', '.join(after.models)}",
            expected="models of the same label in both runs",
            remedy=f"Name one of each: {_NAMING}.",
        )
    return {label: (label, label) for label in shared}


def _compared(
    comparability: Comparability, name: str, labels: tuple[str, str], confidence: float
) -> tuple[list[pl.DataFrame], list[LeftOut]]:
    """Differences of one pair of models, a table for each audit, and what could not be compared."""
    before, after = comparability.before, comparability.after
    steps = [run.steps(label) for run, label in zip((before, after), labels, strict=True)]
    frames, left_out = [], []
    for audit in dict.fromkeys([*steps[0], *steps[1]]):
        if audit not in steps[0] or audit not in steps[1]:
            lacking = "the first" if audit not in steps[0] else "the second"
            reason = f"{lacking} run has no such audit of this model"
            left_out.append(LeftOut(name, audit, reason, code="comparison.no-audit"))
            continue
        asked = [step[audit] for step in steps]
        refused, why = _asked_differently(audit, *asked)
        if why:
            left_out.append(LeftOut(name, audit, why, refused, "comparison.other-settings"))
        if why and not refused:
            continue
        for own in comparability.refusals(audit, *asked):
            refused += own.metrics
            left_out.append(LeftOut(name, audit, own.reason, own.metrics, own.code))
        sides = _Side(before.result(labels[0], audit)), _Side(after.result(labels[1], audit))
        refused += sides[0].counted()[0] if comparability.has_other_catalogue else ()
        found = difference_table(_paired(*sides, refused), confidence)
        told = {*found["metric"], *refused}
        for (code, reason), metrics in _reasons(*sides).items():
            if missing := sorted(metrics - told):
                left_out.append(LeftOut(name, audit, reason, tuple(missing), code))
        frames.append(_with_standing(found, *sides).with_columns(model=pl.lit(name), audit=pl.lit(audit)))
    return frames, left_out


def _asked_differently(audit: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    """The metrics that depend on what one run asked otherwise than the other, none where all do; and how it differs."""
    one, other = settings_of(audit, before), settings_of(audit, after)
    differing = [key for key in one if one[key] != other[key]]
    if not differing:
        return (), ""
    metrics = {metric.name: set(differing) <= set(metric.free_of) for metric in AUDITS[audit].metrics}
    refused = [name for name, free in metrics.items() if not free]
    told = ", ".join(f"{key} is {written(one[key])} and {written(other[key])}" for key in differing)
    remedy = f"to compare it, run one of the two again with the other's {' and '.join(differing)}"
    return tuple(refused) if len(refused) < len(metrics) else (), f"it was asked differently: {told}; {remedy}"


def differences(before: Result, after: Result, *, confidence: float = 0.95) -> pl.DataFrame:
    """Estimate the difference of every number that two results of one audit have for the same users.

    The results may be of two models of one run, or of two runs. Users that only one of them measured are left out.

    Args:
        before: Result that is compared with.
        after: Result that is compared.
        confidence: Confidence level of the intervals.

    Returns:
        One row for each number, columns as in `DIFFERENCE_SCHEMA`, and `status`: bounded if one of the two numbers is
        only a bound. Rows of all users have empty `by` and `group`. P-values are not corrected; `decide` does this
        for a family.
    """
    sides = _Side(before), _Side(after)
    return _with_standing(difference_table(_paired(*sides), confidence), *sides)


def paired_numbers(before: Result, after: Result) -> list[PairedNumber]:
    """Pair every number that two results of one audit have for the same users."""
    return _paired(_Side(before), _Side(after))


def decide(found: pl.DataFrame, correction: Correction = "holm", level: float = 0.05) -> pl.DataFrame:
    """Add `adjusted` and `verdict` to differences.

    Args:
        found: Differences, as `differences` returns them. Those of all users are one family, those of groups another.
        correction: Correction of the p-values within each family.
        level: Level of each family.
    """
    p, adjusted = found["p"].fill_null(np.nan).to_numpy(), np.full(len(found), np.nan)
    has_group = (found["by"] != "").to_numpy()
    for family in (has_group, ~has_group):
        adjusted[family] = corrected(p[family], correction)
    return _with_verdicts(found.with_columns(adjusted=pl.Series(adjusted).fill_nan(None)), level)


def compared_by(result: Result) -> dict[str, pl.DataFrame]:
    """The tables of a result from which `differences` about everybody follow: ids are text in them."""
    side = _Side(result)
    names, counts = side.counted()
    tables = {"summary": side.summary, "terms": side.terms.filter(pl.col("by") == "")}
    if names and counts is not None:
        tables |= {"lists": counts.lists.select("user", "item")}
        tables |= {"items": result.items.select(pl.col("item").cast(pl.String), cs.numeric().exclude("item"))}
    return tables


def _reasons(before: _Side, after: _Side) -> dict[tuple[str, str], set[str]]:
    """Why metrics of one of the two are not compared, if they are not: code and reason."""
    strangers = len(before.users) and len(after.users) and not before.shares(after)
    otherwise = ("comparison.not-per-user", "it is not a number that each user has")
    if strangers:
        otherwise = ("comparison.no-common-users", "no user was measured in both")
    return {
        ("comparison.not-measured", "the first has no such number"): after.metrics - before.metrics,
        ("comparison.not-measured", "the second has no such number"): before.metrics - after.metrics,
        otherwise: before.metrics & after.metrics,
    }


@final
class _Side:
    """One audit of one model, as a comparison needs it."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.summary, self.groups = result.frame, result.groups
        self.metrics = set(self.summary.filter(pl.col("value").is_not_null())["metric"])

        def kept(name: str, *keys: str) -> pl.DataFrame | None:
            if not result.has_table(name):
                return None
            # As text: one run may have read ids as numbers, and the other not. A join of repeated rows has no limit.
            table = result.table(name).with_columns(pl.col(keys or ("user",)).cast(pl.String))
            return table.unique(keys, keep="first", maintain_order=True) if keys else table

        terms, people = kept("terms"), kept("people", "user")
        self.terms = self._from_users(kept("users", "user")) if terms is None else terms.select(*TERM_SCHEMA)
        self.people = self.terms.select("user").unique() if people is None else people
        self.lists = kept("lists", "user", "item")
        self.users = self.terms["user"].unique()

    def _from_users(self, users: pl.DataFrame | None) -> pl.DataFrame:
        """The terms of metrics that are the mean of users' own values, where none were kept."""
        frames = [pl.DataFrame(schema=TERM_SCHEMA)]
        for metric, value in self.summary.drop_nulls("value").select("metric", "value").iter_rows():
            if users is None or metric not in users.columns:
                continue
            own = users.select(pl.col("user").cast(pl.String), total=pl.col(metric).cast(pl.Float64)).drop_nulls()
            if own.is_empty() or not np.isclose(own["total"].mean(), value, rtol=1e-9, atol=1e-12):  # type: ignore[arg-type]
                continue
            named = {"by": "", "group": "", "metric": metric, "scale": "mean", "weight": 1.0}
            frames.append(own.with_columns(pl.lit(text).alias(key) for key, text in named.items()).select(*TERM_SCHEMA))
        return pl.concat(frames)

    def shares(self, other: _Side) -> bool:
        """Whether anybody was measured in both."""
        return bool(self.users.is_in(other.users.implode()).any())

    def counted(self) -> tuple[tuple[str, ...], ListCounts | None]:
        """The metrics that are made of item counts, and what they are made of."""
        if self.lists is None:
            return (), None
        items = self.result.items.unique("item", keep="first", maintain_order=True)
        names, functional = self.result.audit.of_counts(items)
        if not names:
            return (), None
        return tuple(names), ListCounts(self.lists, items["item"].cast(pl.String), functional)


def _paired(before: _Side, after: _Side, without: Collection[str] = ()) -> list[PairedNumber]:
    """Pair the numbers of two results, without some metrics."""
    people = pl.concat([before.people, after.people], how="diagonal").unique("user", keep="first", maintain_order=True)
    # Groups are those of the first run, also for users that the second run has in another group.
    people = people.select(column for column in before.people.columns if column in after.people.columns)
    terms = [side.terms.filter(~pl.col("metric").is_in(list(without))) for side in (before, after)]
    numbers: list[PairedNumber] = [*pair_terms(*(by_group(own, people) for own in terms))]
    (names, lists), (other_names, other_lists) = before.counted(), after.counted()
    if lists is not None and other_lists is not None and names == other_names and not set(names) <= set(without):
        numbers += (own for own in pair_counts(names, lists, other_lists) if own.metric not in without)
    return numbers


def _with_standing(found: pl.DataFrame, *sides: _Side) -> pl.DataFrame:
    """With the status of each number: bounded where it is in one of the two results."""
    on = list(QUESTION)
    bounded = [
        rows.filter(pl.col("status") == Status.BOUNDED.value).select(on)
        for side in sides
        for rows in (side.summary.with_columns(by=pl.lit(""), group=pl.lit("")), side.groups)
    ]
    marks = pl.concat(bounded).unique().with_columns(status=pl.lit(Status.BOUNDED.value))
    status = pl.col("status").fill_null(Status.SOLVED.value)
    return _in_order(found.join(marks, on=on, how="left", maintain_order="left").with_columns(status), *sides)


def _in_order(found: pl.DataFrame, *sides: _Side) -> pl.DataFrame:
    """With the groups of each metric in the order that the results have them in, others by name."""
    groups = pl.concat([side.groups.select("by", "group") for side in sides]).unique(maintain_order=True)
    placed = found.with_row_index("place").join(groups.with_row_index("own"), on=["by", "group"], how="left")
    metric = pl.col("place").min().over("by", "metric")
    return placed.sort(metric, "own", "group", nulls_last=True).drop("place", "own")


def _with_verdicts(found: pl.DataFrame, level: float) -> pl.DataFrame:
    known = definitions()
    better = {name: {"higher": 1, "lower": -1, "neither": 0}[metric.better] for name, metric in known.items()}
    way = pl.col("metric").replace_strict(better, default=0, return_dtype=pl.Int64) * pl.col("difference").sign()
    size = pl.max_horizontal(pl.col("before").abs(), pl.col("after").abs())
    verdict = (
        pl.when(pl.col("difference").abs() <= ROUNDING * size)
        .then(pl.lit("same"))
        .when(pl.col("adjusted").is_null() | (pl.col("status") == Status.BOUNDED.value))
        .then(pl.lit("not known"))
        .when(pl.col("adjusted") > level)
        .then(pl.lit("not shown"))
        .when(way == 0)
        .then(pl.lit("changed"))
        .otherwise(pl.when(way > 0).then(pl.lit("better")).otherwise(pl.lit("worse")))
    )
    return found.with_columns(verdict=verdict)
