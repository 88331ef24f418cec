"""Two run folders with known numbers, made of what each user has: for whatever sets runs side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from recaudit.metrics.intervals import Ratio, aggregate, mean
from recaudit.metrics.terms import term_table
from recaudit.runs import Run
from recaudit.runs.folder import ITEM_COUNTS, USER_SIGNATURES, Journal
from recaudit.runs.gate import Gate
from recaudit.status import Status
from report.crafted_runs import Crafted, Data, Model, write_run

SETTINGS: Mapping[str, Any] = {"k": 10, "confidence": 0.95, "rng": 0}


def measured(
    values: Mapping[str, ArrayLike],
    groups: Mapping[str, Sequence[str | None]] | None = None,
    *,
    users: Sequence[str] | None = None,
    kind: str = "accuracy",
    status: Status = Status.SOLVED,
    facts: Mapping[str, Any] | None = None,
) -> Crafted:
    """A result in which every metric is the mean of what users have of it (users,), NaN for nothing.

    `groups` are the group of each user, by grouping; `users` their ids, u0 and on where nothing is said; `facts` are
    further settings.
    """
    own = {metric: np.asarray(each, dtype=np.float64) for metric, each in values.items()}
    count = len(next(iter(own.values())))
    ids = pl.Series(users or [f"u{place}" for place in range(count)], dtype=pl.String)
    everybody = [_mean(metric, each, np.ones(count), status) for metric, each in own.items()]
    by_group = [
        _mean(metric, each, np.array([float(other == group) for other in labels]), status, by, group)
        for by, labels in (groups or {}).items()
        for group in dict.fromkeys(filter(None, labels))
        for metric, each in own.items()
    ]
    summary, grouped = aggregate([*everybody, *by_group], {})
    return Crafted(
        kind,
        {**SETTINGS, **(facts or {})},
        {
            "summary": summary,
            "groups": grouped,
            "users": pl.DataFrame(
                {"user": ids, **{name: pl.Series(each).fill_nan(None) for name, each in own.items()}}
            ),
            "terms": term_table(everybody, ids),
            "people": pl.DataFrame(
                {"user": ids, **{by: pl.Series(list(labels), dtype=pl.String) for by, labels in (groups or {}).items()}}
            ),
        },
    )


def _mean(metric: str, values: Any, members: Any, status: Status, by: str = "", group: str = "") -> Ratio:
    return mean(metric, values, members, by, group, statuses=np.full(len(values), status.value))


def write_pair(
    folder: Path, before: Crafted | Sequence[Model], after: Crafted | Sequence[Model], *, attributes: Sequence[str] = ()
) -> tuple[Run, Run]:
    """Two finished runs: of one model, ALS, with this result each, or of these models."""
    sides = {"before": before, "after": after}
    first, second = (
        write_run(
            folder / name,
            [Model("ALS", [side])] if isinstance(side, Crafted) else side,
            Data(attributes=tuple(attributes), config={"written_for": name}),
        )
        for name, side in sides.items()
    )
    return first, second


def gate_of(*rules: Mapping[str, Any]) -> Gate:
    """A gate with these tables as its rules."""
    return Gate.model_validate({"rule": rules})


def add_data(
    run: Run,
    signatures: Mapping[str, int] | None = None,
    counts: Mapping[str, int] | None = None,
    *,
    fingerprint: str = "",
) -> Run:
    """The same run with these signatures of users' histories and item counts, and perhaps of other data."""
    tables = {
        USER_SIGNATURES: pl.DataFrame(
            {
                "user": pl.Series(list(signatures or {}), dtype=pl.String),
                "signature": pl.Series(list((signatures or {}).values()), dtype=pl.UInt64),
            }
        ),
        ITEM_COUNTS: pl.DataFrame(
            {
                "item": pl.Series(list(counts or {}), dtype=pl.String),
                "count": pl.Series(list((counts or {}).values()), dtype=pl.Int64),
            }
        ),
    }
    run.folder.put({name: table.write_parquet for name, table in tables.items()})
    if fingerprint:
        data = run.manifest.data.model_copy(update={"fingerprint": fingerprint})
        return rewritten(run, data=data)
    return Run.open(run.path)


def signatures_of(users: int, seed: int = 0) -> dict[str, int]:
    """Random signatures of users u0 and on, the same for the same seed."""
    values = np.random.default_rng(seed).integers(0, 2**63, users)
    return {f"u{place}": int(value) for place, value in enumerate(values)}


def rewritten(run: Run, **changes: Any) -> Run:
    """The same folder, whose manifest says something else."""
    kept = Journal(run.folder).manifest.model_copy(update=changes).kept()
    run.folder.put({}, record=kept.record, status=kept.status)
    return Run.open(run.path)
