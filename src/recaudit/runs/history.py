"""Many runs one after the other: every number over time, and what changed between the runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, final

import polars as pl
from pydantic import Field

from recaudit.arguments import checked
from recaudit.errors import InputError
from recaudit.metrics.paired import Correction
from recaudit.runs.changes import RunChange, changes, settings_of
from recaudit.runs.comparison import RunComparison, compare
from recaudit.runs.folder import Run

HISTORY_SCHEMA: dict[str, Any] = {
    "run": pl.String,
    "started": pl.String,
    "model": pl.String,
    "audit": pl.String,
    "metric": pl.String,
    "by": pl.String,
    "group": pl.String,
    "value": pl.Float64,
    "lower": pl.Float64,
    "upper": pl.Float64,
    "status": pl.String,
    "users": pl.Int64,
    "era": pl.Int64,
}
"""`run` is the folder, `by` and `group` are empty where a number is about everybody. `era` counts from 0 how often the
audit of the model was asked differently than in the run before that had it: numbers of two eras answer two questions.
"""


@final
@dataclass(frozen=True, eq=False)
class RunHistory:
    """Every number of several runs, one run after the other."""

    runs: tuple[Run, ...]
    frame: pl.DataFrame
    """One row a number and run, columns as in HISTORY_SCHEMA."""
    changes: tuple[tuple[RunChange, ...], ...]
    """For each run what differs from the run before; nothing for the first."""
    last: RunComparison | None
    """The last run against the one before, person by person; None where they share no number."""
    why_not: str = ""
    """Why they share none."""

    @property
    def models(self) -> tuple[str, ...]:
        """The labels of all models, those of the last run first."""
        return tuple(dict.fromkeys(label for run in reversed(self.runs) for label in run.models))

    def __repr__(self) -> str:
        return f"<{len(self.runs)} runs from {self.runs[0].path} to {self.runs[-1].path}, {len(self.frame):,} numbers>"


@checked
def history(
    runs: Sequence[Run | str | Path],
    *,
    as_given: bool = False,
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95,
    correction: Correction = "holm",
) -> RunHistory:
    """Every number of several runs, in the order in which they were started, or `as_given`.

    Intervals are those that each run has; the last two runs are compared as `ra.compare` does it, with the
    confidence and correction that are given here. Models are followed by their label.
    """
    opened = [run if isinstance(run, Run) else Run.open(run) for run in runs]
    if len(opened) < 2:
        raise InputError("runs", received=f"{len(opened)}", expected="two run folders or more")
    places = [run.path.resolve() for run in opened]
    twice = next((run.path for run, place in zip(opened, places, strict=True) if places.count(place) > 1), None)
    if twice is not None:
        raise InputError("runs", received=f"{twice} twice", expected="every run once")
    ordered = opened if as_given else sorted(opened, key=lambda run: run.manifest.started)
    last, why_not = None, ""
    try:
        found = compare(*ordered[-2:], confidence=confidence, correction=correction)
        last, why_not = (None, found.cautions[0].text) if found.is_refused else (found, "")
    except InputError as error:
        if error.argument not in ("after", "models"):
            raise
        why_not = f"{error.received}: {error.remedy or error.expected}"
    told = ((), *(tuple(_changes(one, other)) for one, other in pairwise(ordered)))
    return RunHistory(tuple(ordered), _numbers(ordered), told, last, why_not)


def _changes(before: Run, after: Run) -> Iterator[RunChange]:
    """What differs between two runs, models that one of them lacks included."""
    yield from changes(before, after, {label: (label, label) for label in before.models if label in after.models})
    first, second = ({own.label: own.kind for own in run.manifest.models if not own.floor} for run in (before, after))
    for label in [*first, *second]:
        if label not in first or label not in second:
            yield RunChange(f"model {label}", "kind", first.get(label, ""), second.get(label, ""))


def _numbers(runs: Sequence[Run]) -> pl.DataFrame:
    frames = [pl.DataFrame(schema=HISTORY_SCHEMA)]
    eras: dict[tuple[str, str], tuple[int, Mapping[str, Any]]] = {}
    for run in runs:
        for model in run.models:
            for audit, settings in run.steps(model).items():
                asked = settings_of(audit, settings)
                era, before = eras.get((model, audit), (0, asked))
                eras[model, audit] = era + (asked != before), asked
                named = {"run": str(run.path), "started": run.manifest.started, "model": model, "audit": audit}
                frames += [
                    rows.with_columns(
                        *(pl.lit(text).alias(name) for name, text in named.items()), era=pl.lit(eras[model, audit][0])
                    ).select(pl.col(name).cast(kind) for name, kind in HISTORY_SCHEMA.items())
                    for rows in _tables(run, model, audit)
                ]
    return pl.concat(frames)


def _tables(run: Run, model: str, audit: str) -> list[pl.DataFrame]:
    """The numbers of one audit: about everybody, then by group."""
    result = run.result(model, audit)
    return [result.frame.with_columns(by=pl.lit(""), group=pl.lit("")), result.groups]
