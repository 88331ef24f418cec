"""What a run keeps of a folding audit beside its numbers: cases, groups, other relatednesses, the trade-off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import polars as pl

from recaudit.audits.folding import Folding, Relatedness
from recaudit.audits.folding.bench import Bench
from recaudit.audits.result import Result
from recaudit.data import Interactions
from recaudit.engines import Engine
from recaudit.errors import InputError, did_you_mean
from recaudit.metrics.tables import SERIES_SCHEMA
from recaudit.models.factor.wals import WALS
from recaudit.status import Status

LOG = "log"
"""The relatedness that every log has: from who rated what."""

_CASES = 10
"""How many spurious recommendations are kept, with the evidence."""


def check_relatedness(names: Sequence[str], data: Interactions) -> None:
    """Each is the log itself, or a category system of it."""
    for name in names:
        if name != LOG and name not in data.categories:
            raise InputError(
                "relatedness",
                received=name,
                expected=f"'{LOG}' or a category system of the data",
                remedy=did_you_mean(name, [LOG, *data.categories]),
            )


def relatedness_of(name: str, data: Interactions) -> Relatedness:
    """From who rated what, or from what items are about."""
    return Relatedness.from_log(data) if name == LOG else Relatedness.from_categories(data, name)


def with_evidence(found: Folding, names: Sequence[str], rng: int, engine: Engine) -> Result:
    """The result with two further tables: `spurious`, the clearest cases, and `co_clusters`, which kinds of users fold
    onto which kinds of items; both in the categories that the relatedness is taken from, else the log's first."""
    system = next((name for name in names if name != LOG), None)
    further = {
        "spurious": found.worst(_CASES, system=system),
        "co_clusters": found.co_clusters(system=system, rng=rng, engine=engine),
    }
    return replace(found.result, series=pl.DataFrame(schema=SERIES_SCHEMA), further=further)


def with_each_relatedness(result: Result, found: Mapping[str, Result]) -> Result:
    """The result with the overall numbers under every relatedness as groups, by "relatedness"."""
    rows = [
        other.frame.select(pl.lit("relatedness").alias("by"), pl.lit(name).alias("group"), pl.all())
        for name, other in found.items()
    ]
    return replace(result, groups=pl.concat([result.groups, *rows]))


def with_tradeoff(result: Result, bench: Bench, recommender: WALS, weights: Sequence[float], rng: int) -> Result:
    """The result with a curve: RMSE and folding of the same recommender with other weights of unrated pairs."""
    rows = []
    for weight in sorted(weights):
        (measured,) = bench.measure(recommender.model_copy(update={"unobserved_weight": weight}), rng)
        for metric in ("rmse", "folding", "shown_folding", "spurious_share"):
            value = measured[metric]
            status = Status.NOT_APPLICABLE if value is None else Status.SOLVED
            rows.append(
                {
                    "over": "unobserved_weight",
                    "at": weight,
                    "metric": metric,
                    "value": value,
                    "status": status.value,
                    "users": bench.train.n_users,
                    "excluded": 0,
                }
            )
    return replace(result, series=pl.DataFrame(rows, SERIES_SCHEMA))
