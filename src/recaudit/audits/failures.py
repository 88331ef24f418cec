"""Why a system gave no answer: the cause in words, and whether it may pass, so that it is worth asking again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from recaudit.models.given.black_box import BlackBox
from recaudit.models.given.queries import PAIR_BUDGET_SPENT, SYSTEM_FAILED
from recaudit.status import Status

if TYPE_CHECKING:
    from recaudit.audits.result import Result
    from recaudit.models.base import FittedModel


def cause_of(error: BaseException) -> str:
    """The cause of a failure in words: what the system itself raised, if it did."""
    return str(error.__cause__ or error)


def failed_pair_facts(model: FittedModel | None, result: Result) -> dict[str, Any]:
    """Facts about the pairs without an answer, of a system that was queried; none if all have one.

    `failed_pairs`: how many failed, by cause. `answered_pairs`: how many have an answer, of all that can have one.
    """
    if not isinstance(model, BlackBox) or not result.has_table("pairs"):
        return {}
    rows = result.scan("pairs")
    if "failure" not in rows.collect_schema().names():
        return {}
    measurable = rows.filter(pl.col("status") != Status.NOT_APPLICABLE.value)
    causes = measurable.group_by("failure").len().sort("len", "failure", descending=[True, False]).collect()
    failed = dict(causes.drop_nulls("failure").iter_rows())
    if not failed:
        return {}
    total = int(causes["len"].sum())
    return {"failed_pairs": failed, "answered_pairs": {"pairs": total - sum(failed.values()), "of": total}}


def causes_of(settings: Mapping[str, Any]) -> dict[str, int]:
    """The failures of a result that may pass: how many users or pairs have no answer, by cause, most frequent first."""
    pairs = {cause: count for cause, count in settings.get("failed_pairs", {}).items() if may_pass(cause)}
    return {**settings.get("failed", {}), **pairs}


def may_pass(cause: str) -> bool:
    """Whether the same query may be answered another time: not if a pair's own budget was too small."""
    return not cause.startswith(PAIR_BUDGET_SPENT) or SYSTEM_FAILED in cause


def measured_nothing(settings: Mapping[str, Any]) -> bool:
    """Whether a system gave no answer at all to what an audit queried."""
    counts = [settings[name] for name in ("answered", "answered_pairs") if name in settings]
    return bool(counts) and all(count.get("users", count.get("pairs")) == 0 for count in counts)
