"""Audits of one's own, as a plug-in would write them: they look at the log that a model was fitted to."""

from __future__ import annotations

import polars as pl

from recaudit.audits.audit import Audit, Context, Subject
from recaudit.audits.result import Result
from recaudit.data import Interactions
from recaudit.errors import NotSupportedError
from recaudit.metrics.tables import SUMMARY_SCHEMA

SEEN: list[Interactions] = []
"""The logs that `Look` has met."""


class OwnAudit(Audit):
    """Numbers by name."""

    def measure(self, subject: Subject, context: Context) -> Result:
        assert subject.model is not None
        rows = [{"metric": name, "value": value} for name, value in self.numbers(subject.model.data).items()]
        solved = pl.DataFrame(rows, {"metric": pl.String, "value": pl.Float64}).with_columns(status=pl.lit("solved"))
        missing = [
            pl.lit(None, kind).alias(name) for name, kind in SUMMARY_SCHEMA.items() if name not in solved.columns
        ]
        return Result(self, {"summary": solved.with_columns(missing)}, rng=context.rng)

    def numbers(self, data: Interactions) -> dict[str, float]:
        raise NotImplementedError


class Look(OwnAudit):
    def numbers(self, data: Interactions) -> dict[str, float]:
        SEEN.append(data)
        return {}


class Broken(OwnAudit):
    def numbers(self, data: Interactions) -> dict[str, float]:
        return {"none": float("nan"), "endless": float("inf"), "fine": 1.0}


class LogSize(OwnAudit):
    scale: float = 1.0

    def numbers(self, data: Interactions) -> dict[str, float]:
        return {"ratings": self.scale * len(data)}


class Fingerprint(OwnAudit):
    def numbers(self, data: Interactions) -> dict[str, float]:
        return {"fingerprint": float(int(data.fingerprint[:12], 16))}


class Refuses(OwnAudit):
    def numbers(self, data: Interactions) -> dict[str, float]:
        raise NotSupportedError("not of this model")
