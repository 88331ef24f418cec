"""The two questions of agency over time, each asked in hindsight and from now on: own ratings, and others' ratings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from recaudit.audits.contrasts import Tiers, contrast_items, item_tiers, user_tiers
from recaudit.audits.fits import Fits
from recaudit.audits.groups import Grouping
from recaudit.audits.instability import instability
from recaudit.audits.instability_result import Instability
from recaudit.audits.intervals import Bootstrap, Ratio, aggregate, mean
from recaudit.audits.lifts import Lifts
from recaudit.audits.reachability import reachability
from recaudit.audits.reachability_result import Reachability
from recaudit.audits.result import GROUP_SCHEMA, SERIES_SCHEMA, SUMMARY_SCHEMA
from recaudit.audits.sweeps import Kind, Sweep, sweep_beta, sweep_horizon
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine
from recaudit.interventions import Future, Past
from recaudit.models.base import FittedModel, Recommender
from recaudit.policies import Softmax
from recaudit.solvers.distances import Distance
from recaudit.status import Status

OWN = ("lift", "mean_lift", "doubled")
"""What is measured of a user's own ratings; each with `past_` or `future_` in front."""
OTHERS = ("instability", "unstable_share")
"""What is measured of another's ratings."""
ITEM_CONTRAST = "popular against intermediate items"
EDITOR_CONTRAST = "active against intermediate editors"

_BINS = 1000
_PAIR_SCHEMA = {
    "when": pl.String,
    "value": pl.Float64,
    "status": pl.String,
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
    drawn, everybody = lifts.weights(scope.targets), np.ones(len(found.users))
    logs = lifts.logs(drawn)
    ratios = [
        mean(metric, logs, everybody, transform=np.exp),
        mean(f"{when}_mean_lift", lifts.means(drawn), everybody),
        mean(f"{when}_doubled", lifts.shares(drawn, 2.0), everybody),
        *_lift_by_group(scope.groupings, metric, lifts, drawn),
    ]
    summary, groups = aggregate(ratios, scope.bootstrap)
    lifted = pl.DataFrame({"item": scope.data.item_ids, metric: pl.Series(lifts.of_items()).fill_nan(None)})
    return Part(
        summary,
        pl.concat([groups, _item_contrast(found, tiers, metric, scope.bootstrap)]),
        _curves(scope, when, "lift", summary, _own_sweeps(scope, when, model, users)),
        pl.DataFrame({"user": found.data.user_ids.gather(found.users), metric: pl.Series(np.exp(logs)).fill_nan(None)}),
        lifted,
        pl.DataFrame(),
        found.counts(),
    )


def _lift_by_group(groupings: list[Grouping], metric: str, lifts: Lifts, drawn: np.ndarray) -> list[Ratio]:
    """Over the users of a group, or over everybody's items of a group."""
    ratios = []
    own, positions = lifts.logs(drawn), lifts.found.users
    for grouping in groupings:
        for group, weights in zip(grouping.names, grouping.weights.T, strict=True):
            if grouping.over == "users":
                values, members = own, weights[positions]
            else:
                values, members = lifts.logs(drawn * weights), np.ones(len(positions))
            ratios.append(mean(metric, values, members, grouping.by, group, transform=np.exp))
    return ratios


def _item_contrast(found: Reachability, tiers: Tiers, metric: str, made: Bootstrap) -> pl.DataFrame:
    if not tiers.second:
        return pl.DataFrame(schema=GROUP_SCHEMA)
    rows = contrast_items(
        found, tiers.first, tiers.second, confidence=made.confidence, samples=made.samples, rng=made.rng
    )
    names = {"first": "popular", "second": "intermediate", "first / second": "popular / intermediate"}
    return rows.filter(pl.col("metric") == "lift").select(
        pl.lit(ITEM_CONTRAST).alias("by"),
        pl.col("group").replace_strict(names),
        pl.lit(metric).alias("metric"),
        *list(SUMMARY_SCHEMA)[1:],
    )


def _own_sweeps(scope: Scope, when: Kind, model: FittedModel, users: list[object]) -> list[Sweep]:
    made = scope.bootstrap
    horizons, betas = _others_than(scope, when)
    swept = []
    if horizons:
        swept.append(
            sweep_horizon(
                scope.recommender if when == "past" else model,
                scope.data,
                kind=when,
                horizons=horizons,
                policy=scope.policy,
                users=users,
                targets=scope.targets,
                fitted=[scope.model(when, horizon) for horizon in horizons] if when == "past" else (),
                confidence=made.confidence,
                samples=made.samples,
                rng=made.rng,
                engine=scope.engine,
            )
        )
    if betas and when == "past":
        swept.append(
            sweep_beta(
                model,
                scope.data,
                actions=scope.actions(when),
                betas=betas,
                users=users,
                targets=scope.targets,
                confidence=made.confidence,
                samples=made.samples,
                rng=made.rng,
                engine=scope.engine,
            )
        )
    return swept
