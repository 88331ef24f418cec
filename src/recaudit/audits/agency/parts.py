"""The two questions of agency over time, each asked in hindsight and from now on: own ratings, and others' ratings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import polars as pl

from recaudit.arrays import FloatArray
from recaudit.audits.agency.fits import Fits
from recaudit.audits.agency.sweeps import AuditName, Kind, sweep_beta, sweep_horizon
from recaudit.audits.instability.audit import instability
from recaudit.audits.instability.result import Instability
from recaudit.audits.reachability.audit import reachability
from recaudit.audits.reachability.contrasts import Lifts, Tiers, contrast_items, item_tiers, user_tiers
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine
from recaudit.interventions import Future, Past
from recaudit.metrics.groupings import Grouping
from recaudit.metrics.intervals import Bootstrap, Ratio, aggregate, mean
from recaudit.metrics.tables import GROUP_SCHEMA, SERIES_SCHEMA, SUMMARY_SCHEMA
from recaudit.models.base import FittedModel, Recommender
from recaudit.policies import Softmax
from recaudit.solvers.distance.distances import Distance
from recaudit.status import Status

OWN = ("lift", "mean_lift", "doubled")
"""What is measured of a user's own ratings; each with `past_` or `future_` in front."""
OTHERS = ("instability", "unstable_share")
"""What is measured of another's ratings."""
ITEM_CONTRAST = "popular against intermediate items"
EDITOR_CONTRAST = "active against intermediate editors"

_BINS = 1000
"""Steps of the histogram from 0 to the largest instability that there can be."""


def pair_schema(data: Interactions) -> dict[str, pl.DataType | type[pl.DataType]]:
    """The columns of a pair that is worked out: the ratings that bring its value about, and those given in fact."""
    return {
        "when": pl.String,
        "viewer": data.user_ids.dtype,
        "editor": data.user_ids.dtype,
        "value": pl.Float64,
        "status": pl.String,
        "action_items": pl.List(data.item_ids.dtype),
        "action_ratings": pl.List(pl.Float64),
        "given_ratings": pl.List(pl.Float64),
    }


@final
@dataclass(frozen=True, eq=False)
class Scope:
    """Who is asked about what, the same in all four parts."""

    recommender: Recommender
    fits: Fits
    data: Interactions
    k: int
    horizons: tuple[int, ...]
    betas: tuple[float, ...]
    policy: Softmax
    distance: Distance
    users: list[object]
    followed: list[object]
    """Those of the users who are followed into the future: roll-outs are the costly part."""
    targets: list[object]
    editors: list[object]
    groupings: list[Grouping]
    bootstrap: Bootstrap
    engine: Engine | None

    @property
    def rng(self) -> int:
        """The one seed."""
        return self.bootstrap.rng

    def actions(self, when: Kind) -> Past | Future:
        """The ratings that are free."""
        return Past(self.k) if when == "past" else Future(self.k)

    def model(self, when: Kind, k: int | None = None) -> FittedModel:
        """The model that is asked: one that has not seen the last k ratings, or one that has seen everything."""
        return self.fits.of(Past(k or self.k).before(self.data) if when == "past" else self.data)


@final
@dataclass(frozen=True, eq=False)
class Part:
    """What one question comes to."""

    summary: pl.DataFrame
    groups: pl.DataFrame
    series: pl.DataFrame
    users: pl.DataFrame
    """A row a user: the id, and the user's own value."""
    items: pl.DataFrame
    """A row an item with a value; empty where the question is not about items."""
    pairs: pl.DataFrame
    """The one pair that is worked out; empty for own ratings."""
    statuses: dict[str, int]


def own_ratings(scope: Scope, when: Kind) -> Part:
    """How far users can lift items by their own ratings: past-k or future-k reachability."""
    model, users = scope.model(when), scope.users if when == "past" else scope.followed
    tiers = item_tiers(scope.data, scope.rng)
    found = reachability(
        model,
        scope.data,
        actions=scope.actions(when),
        policy=scope.policy,
        users=users,
        targets=list(dict.fromkeys([*scope.targets, *tiers.first, *tiers.second])),
        rng=scope.rng,
        engine=scope.engine,
    )
    metric, lifts = f"{when}_lift", Lifts.of(found)
    drawn, everybody = lifts.weights(scope.targets), np.ones(len(found.grid.users))
    logs, statuses = lifts.logs(drawn), lifts.statuses(drawn)
    ratios = [
        mean(metric, logs, everybody, transform=np.exp, statuses=statuses),
        mean(f"{when}_mean_lift", lifts.means(drawn), everybody, statuses=statuses),
        mean(f"{when}_doubled", lifts.shares(drawn, 2.0), everybody, statuses=statuses),
        *_lift_by_group(scope.data, scope.groupings, metric, lifts, drawn),
    ]
    summary, groups = aggregate(ratios, scope.bootstrap)
    lifted = pl.DataFrame({"item": scope.data.item_ids, metric: pl.Series(lifts.of_items()).fill_nan(None)})
    return Part(
        summary,
        pl.concat([groups, _item_contrast(lifts, tiers, metric, scope.bootstrap)]),
        _curves(scope, when, "lift", model, summary),
        pl.DataFrame({"user": found.grid.users, metric: pl.Series(np.exp(logs)).fill_nan(None)}),
        lifted,
        pl.DataFrame(),
        found.counts(),
    )


def _lift_by_group(
    data: Interactions, groupings: list[Grouping], metric: str, lifts: Lifts, drawn: FloatArray
) -> list[Ratio]:
    """Over the users of a group, or over everybody's items of a group."""
    ratios = []
    positions = data.users_at(lifts.found.grid.users)
    for grouping in groupings:
        for group, weights in zip(grouping.names, grouping.weights.T, strict=True):
            of_users = grouping.over == "users"
            items, members = (drawn, weights[positions]) if of_users else (drawn * weights, np.ones(len(positions)))
            named, statuses = (grouping.by, group), lifts.statuses(items)
            ratios.append(mean(metric, lifts.logs(items), members, *named, transform=np.exp, statuses=statuses))
    return ratios


def _item_contrast(lifts: Lifts, tiers: Tiers, metric: str, made: Bootstrap) -> pl.DataFrame:
    """No rows where nobody has pairs in both groups: few users, who have seen everything popular."""
    first, second = (lifts.logs(lifts.weights(ids)) for ids in (tiers.first, tiers.second))
    if np.isnan(first - second).all():
        return pl.DataFrame(schema=GROUP_SCHEMA)
    rows = contrast_items(
        lifts.found, tiers.first, tiers.second, confidence=made.confidence, samples=made.samples, rng=made.rng
    )
    names = {"first": "popular", "second": "intermediate", "first / second": "popular / intermediate"}
    return rows.filter(pl.col("metric") == "lift").select(
        pl.lit(ITEM_CONTRAST).alias("by"),
        pl.col("group").replace_strict(names),
        pl.lit(metric).alias("metric"),
        *list(SUMMARY_SCHEMA)[1:],
    )


def others_ratings(scope: Scope, when: Kind) -> Part:
    """How far others can move what users are recommended: past-k or future-k instability."""
    model, made = scope.model(when), scope.bootstrap
    found = _moved(scope, model, when, scope.users, scope.editors)
    of_users = [grouping.by for grouping in scope.groupings if grouping.over == "users"]
    result = found.aggregate(by=of_users, confidence=made.confidence, samples=made.samples, rng=made.rng)
    metric = f"{when}_instability"
    summary = _named(result.frame, when)
    return Part(
        summary,
        pl.concat([_named(result.groups, when), _editor_contrast(scope, model, when)]),
        pl.concat([_curves(scope, when, "instability", model, summary), _histogram(found, metric)]),
        result.users.select("user", pl.col("instability").alias(metric)),
        pl.DataFrame(),
        _worked(scope, found, model, when),
        found.counts(),
    )


def _moved(
    scope: Scope,
    model: FittedModel,
    when: Kind,
    viewers: list[object],
    editors: list[object],
    *,
    pairs: bool = False,
    best_ratings: bool = False,
) -> Instability:
    return instability(
        model,
        scope.data,
        edits=scope.actions(when),
        viewers=viewers,
        editors=editors,
        distance=scope.distance,
        policy=scope.policy,
        pairs=pairs,
        best_ratings=best_ratings,
        rng=scope.rng,
        engine=scope.engine,
    )


def _named(rows: pl.DataFrame, when: Kind) -> pl.DataFrame:
    """The metrics of instability under their names here."""
    return rows.filter(pl.col("metric").is_in(OTHERS)).with_columns(metric=pl.lit(f"{when}_") + pl.col("metric"))


def _editor_contrast(scope: Scope, model: FittedModel, when: Kind) -> pl.DataFrame:
    tiers, made = user_tiers(scope.data, scope.rng), scope.bootstrap
    found = _moved(scope, model, when, scope.users, [*tiers.first, *tiers.second], pairs=True)
    known = found.frame.drop_nulls("value")
    first, second = (set(known.filter(pl.col("editor").is_in(ids))["viewer"]) for ids in (tiers.first, tiers.second))
    if first.isdisjoint(second):
        return pl.DataFrame(schema=GROUP_SCHEMA)
    rows = found.contrast(tiers.first, tiers.second, confidence=made.confidence, samples=made.samples, rng=made.rng)
    names = {"first": "active", "second": "intermediate", "first - second": "active - intermediate"}
    return rows.select(
        pl.lit(EDITOR_CONTRAST).alias("by"),
        pl.col("group").replace_strict(names),
        pl.lit(f"{when}_instability").alias("metric"),
        "value",
        pl.col("lower", "upper").fill_nan(None),
        "status",
        pl.lit(None, pl.Float64).alias("baseline"),
        pl.col("viewers").cast(pl.Int64).alias("users"),
        (len(scope.users) - pl.col("viewers")).cast(pl.Int64).alias("excluded"),
    )


def _histogram(found: Instability, metric: str) -> pl.DataFrame:
    """The share of pairs from each step on, as a curve over instability; steps without pairs are left out."""
    counted = found.histogram(_BINS).filter(pl.col("pairs") > 0)
    return counted.select(
        pl.lit("instability").alias("over"),
        pl.col("lower").alias("at"),
        pl.lit(metric).alias("metric"),
        pl.col("share").alias("value"),
        pl.lit(None, pl.Float64).alias("lower"),
        pl.lit(None, pl.Float64).alias("upper"),
        pl.lit(Status.SOLVED.value if not found.bounded else Status.BOUNDED.value).alias("status"),
        pl.lit(None, pl.Float64).alias("baseline"),
        pl.lit(int((found.tally.viewers.count > 0).sum()), pl.Int64).alias("users"),
        pl.lit(int((found.tally.viewers.count == 0).sum()), pl.Int64).alias("excluded"),
    )


def _worked(scope: Scope, found: Instability, model: FittedModel, when: Kind) -> pl.DataFrame:
    """The pair with the largest instability: what the editor rates, and how; nothing where no pair moves."""
    worst = found.viewers.filter(pl.col("max_instability") > 0).sort("max_instability", "viewer", descending=True)
    if worst.is_empty():
        return pl.DataFrame()
    viewer, editor = worst["viewer"][0], worst["worst_editor"][0]
    rows = _moved(scope, model, when, [viewer], [editor], pairs=True, best_ratings=True).frame
    items, ratings = scope.data.history(int(scope.data.users_at([editor])[0]))
    given = dict(zip(scope.data.item_ids.gather(items), ratings.tolist(), strict=True))
    before = [given.get(item) for item in rows["action_items"][0]]
    told = rows.with_columns(pl.lit(when).alias("when"), pl.Series("given_ratings", [before], pl.List(pl.Float64)))
    return told.select(pl.col(column).cast(kind) for column, kind in pair_schema(scope.data).items())


def _curves(
    scope: Scope, when: Kind, metric: Literal["lift", "instability"], model: FittedModel, summary: pl.DataFrame
) -> pl.DataFrame:
    """The metric by horizon and by beta; the point of the summary itself is not computed again.

    Without betas for the future's own ratings: each would take as long as everything else together.
    """
    name, made = f"{when}_{metric}", scope.bootstrap
    horizons = [horizon for horizon in scope.horizons if horizon != scope.k]
    betas = [beta for beta in scope.betas if beta != scope.policy.beta]
    own = metric == "lift"
    users = scope.followed if own and when == "future" else scope.users
    targets, editors = (scope.targets, None) if own else (None, scope.editors)
    audit: AuditName = "reachability" if own else "instability"
    main = summary.filter(pl.col("metric") == name)
    curves = []
    if horizons:
        swept = sweep_horizon(
            scope.recommender if when == "past" else model,
            scope.data,
            audit=audit,
            kind=when,
            horizons=horizons,
            policy=scope.policy,
            users=users,
            targets=targets,
            editors=editors,
            distance=scope.distance,
            fitted=[scope.model(when, horizon) for horizon in horizons] if when == "past" else (),
            confidence=made.confidence,
            samples=made.samples,
            rng=made.rng,
            engine=scope.engine,
        )
        curves += [_point("horizon", scope.k, main), swept.curve(metric)]
    if betas and not (own and when == "future"):
        swept = sweep_beta(
            model,
            scope.data,
            audit=audit,
            actions=scope.actions(when),
            betas=betas,
            users=users,
            targets=targets,
            editors=editors,
            distance=scope.distance,
            confidence=made.confidence,
            samples=made.samples,
            rng=made.rng,
            engine=scope.engine,
        )
        curves += [_point("beta", scope.policy.beta, main), swept.curve(metric)]
    joined = pl.concat([pl.DataFrame(schema=SERIES_SCHEMA), *curves])
    return joined.with_columns(pl.lit(name).alias("metric")).sort("over", "at", maintain_order=True)


def _point(over: str, at: float, main: pl.DataFrame) -> pl.DataFrame:
    return main.select(pl.lit(over).alias("over"), pl.lit(float(at)).alias("at"), *SUMMARY_SCHEMA)
