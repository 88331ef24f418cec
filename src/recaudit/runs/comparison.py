"""Two runs, or two models of one run, side by side: what differs, for whom, and how sure it is."""

from __future__ import annotations

from collections.abc import Mapping
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
from recaudit.metrics.intervals import Bootstrap
from recaudit.metrics.paired import (
    DIFFERENCE_SCHEMA,
    Correction,
    ListCounts,
    corrected,
    count_differences,
    judged,
    term_differences,
)
from recaudit.metrics.terms import QUESTION, TERM_SCHEMA, by_group
from recaudit.registry import AUDITS, Displayed
from recaudit.runs.changes import RunChange, changes, settings_of
from recaudit.runs.folder import Run
from recaudit.runs.list_changes import list_changes
from recaudit.specification import written
from recaudit.status import Status

COMPARISON_SCHEMA = {
    **dict.fromkeys(("model", "audit"), pl.String),
    **DIFFERENCE_SCHEMA,
    **dict.fromkeys(("lower", "upper", "p", "adjusted"), pl.Float64),
    **dict.fromkeys(("status", "verdict"), pl.String),
}
"""`before` and `after` are the two numbers over the people who are compared, `difference` is after - before, `lower`
and `upper` its interval, `error` its standard error, `error_before` and `error_after` those of the two numbers, `p`
that of the test that there is no difference, `adjusted` the same corrected for how many questions are asked at once.
`status` is bounded where one of the two is only a bound. `verdict`: "same" (to one in a million), "better", "worse",
"changed" (of a metric that has no better), "not shown" (the difference may be chance), or "not known" (too few users,
or only bounds)."""
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
    """Those concerned; all of the audit, where none is named."""


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
    changes: tuple[RunChange, ...]
    """What differs in configuration, data and versions."""
    lists: pl.DataFrame
    """One row a user and model, most changed first: model, user, `replaced` (the share of the first list that is not in
    the second), `moved` (1 - average overlap: how different the lists are, the first places counting most), and the
    titles of both lists, `before` and `after`."""
    confidence: float
    correction: Correction
    samples: int

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
        """Whether both runs looked at the same log."""
        return self.before.manifest.data.fingerprint == self.after.manifest.data.fingerprint

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
    samples: Annotated[int, Field(ge=2)] = 1000,
    correction: Correction = "holm",
    rng: int = 0,
) -> RunComparison:
    """Every number that two runs share, overall and by group, paired by user.

    Models of the same label are compared, or the only ones of both runs; `models` names one of each instead, and alone
    compares two models of one run. People are compared with themselves: who was measured in one run alone is left out,
    save where both runs drew their people at random from the same log. Then each draw counts whole, and who is in both
    is paired. Groups of users are those of the first run.

    For each pair of models, the questions about everybody are one family for the correction, those about groups
    another.
    """
    first = before if isinstance(before, Run) else Run.open(before)
    second = first if after is None else after if isinstance(after, Run) else Run.open(after)
    pairs = _paired_models(first, second, models)
    bootstrap = Bootstrap(confidence, samples, rng)
    frames, left_out = [pl.DataFrame(schema=COMPARISON_SCHEMA)], list[LeftOut]()
    for name, labels in pairs.items():
        found, lacking = _compared(first, second, name, labels, bootstrap, correction)
        frames.append(found)
        left_out += lacking
    frame = pl.concat(frames)
    if frame.is_empty():
        told = "; ".join(dict.fromkeys(f"{lack.audit}: {lack.reason}" for lack in left_out)) or "no finished audits"
        raise InputError("after", received=str(second.path), expected="a run that shares a number", remedy=f"{told}.")
    lists = [list_changes(first, second, name, labels) for name, labels in pairs.items()]
    return RunComparison(
        first,
        second,
        pairs,
        frame,
        tuple(left_out),
        tuple(changes(first, second, pairs)),
        pl.concat(lists, how="vertical_relaxed"),
        confidence,
        correction,
        samples,
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
    before: Run, after: Run, name: str, labels: tuple[str, str], bootstrap: Bootstrap, correction: Correction
) -> tuple[pl.DataFrame, list[LeftOut]]:
    """The numbers of one pair of models, and what has none."""
    steps = [run.steps(label) for run, label in zip((before, after), labels, strict=True)]
    frames, left_out = [], []
    for audit in dict.fromkeys([*steps[0], *steps[1]]):
        if audit not in steps[0] or audit not in steps[1]:
            lacking = "the first" if audit not in steps[0] else "the second"
            left_out.append(LeftOut(name, audit, f"{lacking} run has no such audit of this model"))
            continue
        refused, why = _asked_differently(audit, *(step[audit] for step in steps))
        if why:
            left_out.append(LeftOut(name, audit, why, refused))
        if why and not refused:
            continue
        sides = _Side(before.result(labels[0], audit)), _Side(after.result(labels[1], audit))
        drawn = before.manifest.data.fingerprint == after.manifest.data.fingerprint and any(
            isinstance(step[audit].get(setting), int) for step in steps for setting in _drawn(audit)
        )
        found = _differences(*sides, bootstrap, drawn=drawn).filter(~pl.col("metric").is_in(refused))
        told = {*found["metric"], *refused}
        missing = {why: sorted(metrics - told) for why, metrics in _reasons(*sides).items()}
        left_out += [LeftOut(name, audit, why, tuple(metrics)) for why, metrics in missing.items() if metrics]
        frames.append(_with_standing(found, *sides).with_columns(model=pl.lit(name), audit=pl.lit(audit)))
    if not frames:
        return pl.DataFrame(schema=COMPARISON_SCHEMA), left_out
    whole = decided(pl.concat(frames), bootstrap.confidence, correction)
    return whole.select(pl.col(column).cast(kind) for column, kind in COMPARISON_SCHEMA.items()), left_out


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


def differences(before: Result, after: Result, bootstrap: Bootstrap, *, drawn: bool = False) -> pl.DataFrame:
    """The numbers that two results of one audit share, with the standard error of each difference, paired by user.

    Columns as in DIFFERENCE_SCHEMA, and `status`. People who are in one result alone are left out, save where both drew
    theirs at random from the same log (`drawn`).
    """
    sides = _Side(before), _Side(after)
    return _with_standing(_differences(*sides, bootstrap, drawn=drawn), *sides)


def decided(found: pl.DataFrame, confidence: float, correction: Correction) -> pl.DataFrame:
    """Differences with interval, `p`, `adjusted` and `verdict`; everybody's are one family, those of groups another."""
    found = judged(found, confidence)
    groups = pl.col("by") != ""
    families = [found.filter(~groups), found.filter(groups)]
    adjusted = [own.with_columns(adjusted=_adjusted(own["p"], correction)) for own in families]
    return _with_verdicts(pl.concat(adjusted), 1 - confidence)


def compared_by(result: Result) -> dict[str, pl.DataFrame]:
    """The tables of a result from which `differences` about everybody follow: ids are text in them."""
    side = _Side(result)
    names, counts = side.counted()
    tables = {"summary": side.summary, "terms": side.terms.filter(pl.col("by") == "")}
    if names and counts is not None:
        tables |= {"lists": counts.lists.select("user", "item")}
        tables |= {"items": result.items.select(pl.col("item").cast(pl.String), cs.numeric().exclude("item"))}
    return tables


def _reasons(before: _Side, after: _Side) -> dict[str, set[str]]:
    """Why metrics of one of the two are not compared, where they are not."""
    strangers = len(before.users) and len(after.users) and not before.shares(after)
    otherwise = "nobody was measured in both" if strangers else "it is no number that users have each"
    return {
        "the first has no such number": after.metrics - before.metrics,
        "the second has no such number": before.metrics - after.metrics,
        otherwise: before.metrics & after.metrics,
    }


def _drawn(audit: str) -> tuple[str, ...]:
    return AUDITS[audit].drawn if audit in AUDITS else ()


def _adjusted(p: pl.Series, correction: Correction) -> pl.Series:
    return pl.Series(corrected(p.fill_null(np.nan).to_numpy(), correction), dtype=pl.Float64).fill_nan(None)


@final
class _Side:
    """One audit of one model, as a comparison needs it."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.summary, self.groups = result.frame, result.groups
        self.metrics = set(self.summary.filter(pl.col("value").is_not_null())["metric"])

        def kept(name: str) -> pl.DataFrame | None:
            ids = pl.col("user", "item") if name == "lists" else pl.col("user")
            # As text: one run may have read ids as numbers, and the other not.
            return result.table(name).with_columns(ids.cast(pl.String)) if result.has_table(name) else None

        terms, people = kept("terms"), kept("people")
        self.terms = self._from_users(kept("users")) if terms is None else terms.select(*TERM_SCHEMA)
        self.people = self.terms.select("user").unique() if people is None else people
        self.lists = kept("lists")
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
        names, functional = self.result.audit.of_counts(self.result.items) if self.lists is not None else ((), None)
        if not names or functional is None or self.lists is None:
            return (), None
        return tuple(names), ListCounts(self.lists, self.result.items["item"].cast(pl.String), functional)


def _differences(before: _Side, after: _Side, bootstrap: Bootstrap, *, drawn: bool) -> pl.DataFrame:
    people = pl.concat([before.people, after.people], how="diagonal").unique("user", keep="first", maintain_order=True)
    # Groups are those of the first run, also of people whom the second puts elsewhere.
    people = people.select(column for column in before.people.columns if column in after.people.columns)
    first, second = (by_group(side.terms, people) for side in (before, after))
    if not drawn:
        both = [rows.select("metric", "user").unique() for rows in (first, second)]
        first, second = (
            first.join(both[1], on=["metric", "user"], how="semi"),
            second.join(both[0], on=["metric", "user"], how="semi"),
        )
    elif not before.shares(after):
        return pl.DataFrame(schema=term_differences(first.clear(), second.clear(), bootstrap).schema)
    frames = [term_differences(first, second, bootstrap)]
    (names, lists), (others, other_lists) = before.counted(), after.counted()
    if lists is not None and other_lists is not None and names == others:
        frames.append(count_differences(names, lists, other_lists, bootstrap))
    return pl.concat(frames)


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
    verdict = (
        pl.when(pl.col("p") == 1)
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
