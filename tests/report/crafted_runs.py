"""Run folders with known answers: real folders, whose tables are written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, cast

import polars as pl

from recaudit.audits.result import Result
from recaudit.metrics.inference import MIN_USERS
from recaudit.metrics.tables import GROUP_SCHEMA, SERIES_SCHEMA, SUMMARY_SCHEMA
from recaudit.metrics.terms import TERM_SCHEMA
from recaudit.registry import AUDITS
from recaudit.runs import AuditRecord, Run
from recaudit.runs.folder import Journal
from recaudit.runs.manifest import DataRecord, ModelRecord
from recaudit.specification import as_data

Number = float | tuple[float, float, float] | None
"""A value, a value with the ends of its interval, or nothing: not applicable."""


@dataclass(frozen=True)
class Crafted:
    """What a run keeps of a result: the audit's name, its settings as data, and tables."""

    kind: str
    settings: Mapping[str, Any]
    tables: Mapping[str, pl.DataFrame]
    kept: frozenset[str] = frozenset()

    @property
    def asked(self) -> dict[str, Any]:
        """Nothing was: the settings are as they are said."""
        return {}

    @property
    def writers(self) -> dict[str, Any]:
        return {name: table.write_parquet for name, table in self.tables.items()}


RULE: Mapping[str, Any] = {
    "rule": "the user's vector is solved anew; items are held",
    "fidelity": {"pairs": 3, "median_error": 0.02, "realised_share": 0.93, "refit_difference": 0.0},
}
"""What every result about new ratings says of how they are taken in."""

RATING = ("rmse", "mae")
RANKING = ("ndcg", "recall", "precision", "map", "mrr")


def cells(number: Number, *, baseline: float | None = None, users: int = 100, excluded: int = 0) -> dict[str, object]:
    """The shared columns of a row."""
    value, lower, upper = number if isinstance(number, tuple) else (number, number, number)
    status = "not_applicable" if value is None else "solved"
    counts = {"users": users, "excluded": excluded}
    return {"value": value, "lower": lower, "upper": upper, "status": status, "baseline": baseline, **counts}


def groups(
    by: str, metric: str, named: Mapping[str, Number], baselines: Mapping[str, float] | None = None, users: int = 100
) -> pl.DataFrame:
    """One metric in several groups."""
    rows = [
        {"by": by, "group": name, "metric": metric, **cells(number, baseline=(baselines or {}).get(name), users=users)}
        for name, number in named.items()
    ]
    return pl.DataFrame(rows, GROUP_SCHEMA)


def accuracy(
    ndcg: Number = 0.2,
    rmse: Number = 0.9,
    *,
    per_user: Sequence[float] = (),
    by: Sequence[pl.DataFrame] = (),
    users: int = 100,
    excluded: int = 0,
    status: str = "",
    facts: Mapping[str, Any] | None = None,
) -> Crafted:
    """An accuracy result: every ranking metric as `ndcg`, both rating metrics as `rmse`."""
    numbers = dict.fromkeys(RATING, rmse) | dict.fromkeys(RANKING, ndcg)
    rows = [
        {"metric": name, **cells(number, users=users, excluded=excluded)}
        | ({"status": status} if status and number is None else {})
        for name, number in numbers.items()
    ]
    own = {name: pl.Series(per_user, dtype=pl.Float64) for name in (*RATING, *RANKING)}
    return Crafted(
        "accuracy",
        {"k": 10, "relevant": None, "policy": {"kind": "top-1"}, "confidence": 0.95, "rng": 0} | dict(facts or {}),
        {
            "summary": pl.DataFrame(rows, SUMMARY_SCHEMA),
            "groups": pl.concat([pl.DataFrame(schema=GROUP_SCHEMA), *by]),
            "users": pl.DataFrame({"user": [f"u{i}" for i in range(len(per_user))], **own}),
        },
    )


def with_users(
    result: Crafted,
    metric: str,
    values: Sequence[float],
    members: Mapping[str, Sequence[str]] | None = None,
    *,
    scale: str = "mean",
) -> Crafted:
    """The result with the users' own values of a metric, from which tests are computed, and their means by group.

    `members` has the group of each user by grouping. Values are logarithms if the scale is geometric, squares if it is
    a root.
    """
    users = [f"u{place:05}" for place in range(len(values))]
    named = {"user": users, "by": "", "group": "", "metric": metric, "scale": scale}
    terms = pl.DataFrame(named | {"total": list(values), "weight": 1.0}, TERM_SCHEMA)
    people = pl.DataFrame({"user": users, **(members or {})})
    rows = [pl.DataFrame(schema=GROUP_SCHEMA)]
    for by, own in (members or {}).items():
        for name in sorted(set(own)):
            some = [value for value, group in zip(values, own, strict=True) if group == name]
            error = 1.96 * stdev(some) / len(some) ** 0.5 if len(some) >= MIN_USERS else None
            middle = fmean(some)
            number = middle if error is None else (middle, middle - error, middle + error)
            rows.append(groups(by, metric, {name: number}, users=len(some)))
    return _with_tables(result, terms, people, pl.concat(rows))


def with_item_groups(result: Crafted, metric: str, by: str, values: Mapping[str, Sequence[float]]) -> Crafted:
    """The result with the users' own values of a metric for each group of items, and their means."""
    users = [f"u{place:05}" for place in range(len(next(iter(values.values()))))]
    terms = pl.concat(
        pl.DataFrame(
            {"user": users, "by": by, "group": name, "metric": metric, "scale": "mean", "total": own, "weight": 1.0},
            TERM_SCHEMA,
        )
        for name, own in values.items()
    )
    rows = groups(by, metric, {name: fmean(own) for name, own in values.items()}, users=len(users))
    return _with_tables(result, terms, pl.DataFrame({"user": users}), rows)


def _with_tables(result: Crafted, terms: pl.DataFrame, people: pl.DataFrame, rows: pl.DataFrame) -> Crafted:
    before = result.tables
    if "terms" in before:
        terms = pl.concat([before["terms"], terms])
        people = before["people"].join(people, on="user", how="full", coalesce=True)
    tables = {**before, "terms": terms, "people": people, "groups": pl.concat([before["groups"], rows])}
    return replace(result, tables=tables)


@dataclass(frozen=True)
class Film:
    """An item and what became of it."""

    title: str | None
    ratings: int
    mean: float | None
    lists: int


def exposure(films: Sequence[Film], *, lift: Number = (0.5, 0.4, 0.6), by: Sequence[pl.DataFrame] = ()) -> Crafted:
    """An exposure result over these items."""
    coverage = sum(film.lists > 0 for film in films) / len(films)
    numbers: dict[str, Number] = {
        "coverage": (coverage, max(0.0, coverage - 0.1), min(1.0, coverage + 0.1)),
        "gini": (0.8, 0.7, 0.9),
        "popularity_correlation": (0.6, 0.5, 0.7),
        "popularity_lift": lift,
        "novelty": (3.0, 2.9, 3.1),
    }
    return Crafted(
        "exposure",
        {"k": 10, "policy": {"kind": "top-1"}, "confidence": 0.95, "rng": 0},
        {
            "summary": pl.DataFrame(
                [{"metric": name, **cells(number)} for name, number in numbers.items()], SUMMARY_SCHEMA
            ),
            "groups": pl.concat([pl.DataFrame(schema=GROUP_SCHEMA), *by]),
            "users": pl.DataFrame({"user": ["u0"], "popularity_lift": [0.5], "novelty": [3.0]}),
            "items": pl.DataFrame(
                {
                    "item": range(len(films)),
                    "title": pl.Series([film.title for film in films], dtype=pl.String),
                    "ratings": [film.ratings for film in films],
                    "mean_rating": pl.Series([film.mean for film in films], dtype=pl.Float64),
                    "recommended": [film.lists for film in films],
                }
            ),
        },
    )


@dataclass(frozen=True)
class Pair:
    """A user and an item of a reachability result."""

    user: str
    item: str
    baseline: float
    value: float | None
    status: str = "solved"
    upper: float | None = None
    """As `value`, where nothing is said."""
    climbs: int = 0
    ratings: Mapping[str, float] | None = None
    """The best action: ratings by item."""


def reachability(
    pairs: Sequence[Pair],
    titles: Mapping[str, str] | None = None,
    *,
    discovery: Number = (0.5, 0.4, 0.6),
    availability: Number = (0.02, 0.01, 0.03),
    lift: Number = (2.5, 2.0, 3.0),
    people: Mapping[str, float] | None = None,
    by: Sequence[pl.DataFrame] = (),
    facts: Mapping[str, Any] | None = None,
) -> Crafted:
    """A reachability result over these pairs; `people` is the discovery of each user, `facts` are further ones."""
    numbers = {"discovery": (discovery, 0.25), "availability": (availability, 0.005), "lift": (lift, None)}
    rows = [{"metric": name, **cells(number, baseline=base)} for name, (number, base) in numbers.items()]
    frame = pl.DataFrame(
        {
            "user": [pair.user for pair in pairs],
            "item": [pair.item for pair in pairs],
            "value": pl.Series([pair.value for pair in pairs], dtype=pl.Float64),
            "lower": pl.Series([pair.value for pair in pairs], dtype=pl.Float64),
            "upper": pl.Series([pair.value if pair.upper is None else pair.upper for pair in pairs], dtype=pl.Float64),
            "status": [pair.status for pair in pairs],
            "baseline": [pair.baseline for pair in pairs],
            "rank_gain": pl.Series([pair.climbs for pair in pairs], dtype=pl.Int32),
        }
    ).with_columns(
        lift=pl.col("value") / pl.col("baseline"), candidates=pl.col("value").count().over("user").cast(pl.Int32)
    )
    actions = [pair.ratings for pair in pairs]
    worked = [
        pl.Series("action_items", [given and list(given) for given in actions], pl.List(pl.String)),
        pl.Series("action_ratings", [given and list(given.values()) for given in actions], pl.List(pl.Float64)),
    ]
    example = frame.with_columns(worked).filter(pl.col("action_items").is_not_null())
    people = people or dict.fromkeys((pair.user for pair in pairs), 0.5)
    known = pl.col("value").drop_nulls()
    items = frame.group_by("item", maintain_order=True).agg(users=known.len(), best=known.max())
    acted = {item for pair in pairs for item in pair.ratings or {}} - set(items["item"])
    items = pl.concat([items, pl.DataFrame({"item": sorted(acted)}, {"item": pl.String})], how="diagonal")
    return Crafted(
        "reachability",
        {
            "actions": {"kind": "next-k", "k": 10, "ratings": None, "changes": None},
            "policy": {"kind": "softmax", "beta": 2.0},
            "tolerance": 1e-6,
            **RULE,
            **(facts or {}),
        },
        {
            "summary": pl.DataFrame(rows, SUMMARY_SCHEMA),
            "groups": pl.concat([pl.DataFrame(schema=GROUP_SCHEMA), *by]),
            "users": pl.DataFrame(
                {"user": list(people), "discovery": list(people.values()), "baseline_discovery": 0.25, "log_lift": 0.0}
            ),
            "items": items.with_columns(
                pl.col("users").fill_null(0),
                title=pl.col("item").replace_strict(dict(titles or {}), default=None, return_dtype=pl.String),
                ratings=pl.lit(20),
            ),
            "pairs": frame,
            "example": example,
        },
    )


AGENCY: Mapping[str, Number] = {
    "past_lift": (1.5, 1.4, 1.6),
    "past_mean_lift": (1.7, 1.6, 1.8),
    "past_doubled": (0.2, 0.1, 0.3),
    "past_instability": (0.02, 0.01, 0.03),
    "past_unstable_share": (0.0, 0.0, 0.0),
    "future_lift": (2.5, 2.0, 3.0),
    "future_mean_lift": (2.7, 2.2, 3.2),
    "future_doubled": (0.4, 0.3, 0.5),
    "future_instability": (0.03, 0.02, 0.04),
    "future_unstable_share": (0.0, 0.0, 0.0),
}


@dataclass(frozen=True)
class Moved:
    """The worked pair of an agency result: whose ratings move whom, and (fact, instead) by item."""

    viewer: str
    editor: str
    value: float
    ratings: Mapping[str, tuple[float | None, float]]
    when: str = "past"


def curve(over: str, metric: str, points: Mapping[float, Number]) -> pl.DataFrame:
    """One metric along a sweep."""
    rows = [{"over": over, "at": at, "metric": metric, **cells(number)} for at, number in points.items()]
    return pl.DataFrame(rows, SERIES_SCHEMA)


def agency(
    numbers: Mapping[str, Number] = AGENCY,
    *,
    series: Sequence[pl.DataFrame] = (),
    by: Sequence[pl.DataFrame] = (),
    worked: Sequence[Moved] = (),
    titles: Mapping[str, str] | None = None,
    left_out: Mapping[str, Sequence[str]] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Crafted:
    """An agency result with these overall numbers; metrics that are `left_out`, by reason, have none."""
    missing = [metric for metrics in (left_out or {}).values() for metric in metrics]
    told = {**numbers, **dict.fromkeys(missing)}
    pairs = {
        "when": [pair.when for pair in worked],
        "viewer": [pair.viewer for pair in worked],
        "editor": [pair.editor for pair in worked],
        "value": [pair.value for pair in worked],
        "action_items": pl.Series([list(pair.ratings) for pair in worked], dtype=pl.List(pl.String)),
        "action_ratings": pl.Series([[b for _, b in p.ratings.values()] for p in worked], dtype=pl.List(pl.Float64)),
        "given_ratings": pl.Series([[a for a, _ in p.ratings.values()] for p in worked], dtype=pl.List(pl.Float64)),
    }
    items = sorted({item for pair in worked for item in pair.ratings})
    settings = {
        "k": 5,
        "policy": {"kind": "softmax", "beta": 2.0},
        "distance": "hellinger",
        "users": 40,
        "followed": 6,
        "targets": 30,
        "editors": 20,
        "popular items": "the 3 with the most ratings against 3 of rank 10 to 15",
        "active editors": "the 4 with the most ratings against 4 of rank 13 to 20",
        "statuses": {"past_lift": {"solved": 1200}},
        **RULE,
        **(facts or {}),
    }
    return Crafted(
        "agency",
        settings | ({"left_out": left_out} if left_out else {}),
        {
            "summary": pl.DataFrame(
                [{"metric": name, **cells(number)} for name, number in told.items()], SUMMARY_SCHEMA
            ),
            "groups": pl.concat([pl.DataFrame(schema=GROUP_SCHEMA), *by]),
            "users": pl.DataFrame({"user": ["u0"], "past_lift": [1.5]}),
            "items": pl.DataFrame(
                {"item": items, "title": [(titles or {}).get(item) for item in items]},
                {"item": pl.String, "title": pl.String},
            ),
            "pairs": pl.DataFrame(pairs),
            "series": pl.concat([pl.DataFrame(schema=SERIES_SCHEMA), *series]),
        },
    )


@dataclass(frozen=True)
class Model:
    """A model of a crafted run, with the audits that it has, and why it lacks others."""

    label: str
    results: Sequence[Crafted]
    kind: str = "ease"
    skipped: Mapping[str, str] = field(default_factory=dict)
    given: bool = False


@dataclass(frozen=True)
class Data:
    """What the manifest says about the data."""

    name: str = "films"
    items: int = 10
    attributes: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    config: dict[str, object] = field(default_factory=lambda: {"split": {"kind": "random", "fraction": 0.2}})
    fingerprint: str = "f1a9"
    started: str = "2025-03-05T14:02:00+00:00"
    seed: int = 7
    versions: dict[str, str] = field(default_factory=lambda: {"python": "3.11.9", "recaudit": "0.1.0"})


def completed(result: Crafted) -> Crafted:
    """The result with all settings of its audit, written as the audit writes them."""
    kind = AUDITS.get(result.kind)
    if kind is None or not isinstance(result, Crafted):
        return result
    own = {name: value for name, value in result.settings.items() if name in kind.model_fields}
    return replace(result, settings={**result.settings, **as_data(kind.model_validate(own))})


def write_run(path: Path, models: Sequence[Model], data: Data | None = None, audits: Sequence[str] = ()) -> Run:
    """A run folder as a run leaves it; interrupted, where a model lacks one of the `audits` asked for."""
    data = data or Data()
    manifest = AuditRecord(
        recaudit="0.1.0",
        status="running",
        seed=data.seed,
        started=data.started,
        seconds=75.0,
        config=data.config,
        config_hash="c0ffee",
        data=DataRecord(
            name=data.name,
            fingerprint=data.fingerprint,
            users=1234,
            items=data.items,
            ratings=56789,
            train=45431,
            test=11358,
            scale=(1.0, 5.0),
            attributes=data.attributes,
            categories=data.categories,
        ),
        versions=data.versions,
        models=tuple(
            ModelRecord(label=model.label, kind=model.kind, settings={"factors": 8}, given=model.given)
            for model in models
        ),
        audits=tuple(audits),
        steps=(),
    )
    path.mkdir(exist_ok=True, parents=True)
    journal = Journal.begin(path, manifest, fresh=True)
    for model in models:
        for result in model.results:
            journal.add_step(model.label, result.kind, cast("Result", completed(result)), 0.5)
        for audit, reason in model.skipped.items():
            journal.add_skip(model.label, audit, reason)
    journal.complete()
    return Run.open(path)
