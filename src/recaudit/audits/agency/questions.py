"""The two questions of agency over time, each asked in hindsight and from now on: own ratings, and others' ratings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from recaudit.audits.agency.definitions import EDITOR_CONTRAST, ITEM_CONTRAST, OTHERS
from recaudit.audits.agency.sweeps import AuditRunner, point
from recaudit.audits.instability.audit import Instability
from recaudit.audits.instability.result import InstabilityResult
from recaudit.audits.reachability.audit import Reachability
from recaudit.audits.reachability.contrasts import Lifts, Tiers, contrast_items, item_tiers, user_tiers
from recaudit.audits.reachability.result import ReachabilityResult
from recaudit.audits.result import Result
from recaudit.data.interactions import Interactions
from recaudit.metrics.groupings import groupings
from recaudit.metrics.intervals import aggregate, mean
from recaudit.metrics.tables import GROUP_SCHEMA, SERIES_SCHEMA, user_table
from recaudit.status import Status

if TYPE_CHECKING:
    from recaudit.audits.agency.audit import Agency

When = Literal["past", "future"]


def _pair_schema(data: Interactions) -> dict[str, pl.DataType | type[pl.DataType]]:
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


def own_ratings(agency: Agency, audit: Reachability, when: When, runner: AuditRunner) -> Result:
    """How far users can lift items by their own ratings: past-k or future-k reachability of the audit's targets."""
    data, rng = runner.data, runner.context.rng
    assert isinstance(audit.targets, tuple)
    tiers = item_tiers(data, rng)
    targets = tuple(dict.fromkeys([*audit.targets, *tiers.first, *tiers.second]))
    found = runner.run(audit.model_copy(update={"targets": targets}))
    assert isinstance(found, ReachabilityResult)
    metric, lifts, users = f"{when}_lift", Lifts.of(found), found.users["user"]
    drawn, everybody = lifts.weights(audit.targets), np.ones(len(users))
    logs, statuses = lifts.logs(drawn), lifts.statuses(drawn)
    ratios = [
        mean(metric, logs, everybody, transform=np.exp, statuses=statuses),
        mean(f"{when}_mean_lift", lifts.means(drawn), everybody, statuses=statuses),
        mean(f"{when}_doubled", lifts.shares(drawn, 2.0), everybody, statuses=statuses),
    ]
    positions = data.users_at(users)
    for grouping in groupings(data, agency.by):
        for group, weights in zip(grouping.names, grouping.weights.T, strict=True):
            # Over the users of a group, or over everybody's items of a group.
            of_users = grouping.over == "users"
            items, members = (drawn, weights[positions]) if of_users else (drawn * weights, everybody)
            named, stand = (grouping.by, group), lifts.statuses(items)
            ratios.append(mean(metric, lifts.logs(items), members, *named, transform=np.exp, statuses=stand))
    summary, groups = aggregate(ratios, agency.bootstrap(rng))
    counted = dict(found.pairs["status"].value_counts().iter_rows())
    tables = {
        "summary": summary,
        "groups": pl.concat([groups, _item_contrast(agency, lifts, tiers, metric, rng)], how="diagonal"),
        "series": _curves(agency, audit, metric, runner, summary),
        "users": user_table(users, {metric: np.exp(logs)}),
        "items": pl.DataFrame({"item": data.item_ids, metric: pl.Series(lifts.of_items()).fill_nan(None)}),
        "pairs": pl.DataFrame(schema=_pair_schema(data)),
    }
    facts = {"statuses": {status.value: counted[status.value] for status in Status if status.value in counted}}
    return Result(agency, tables, rng=rng, facts=facts)


def _item_contrast(agency: Agency, lifts: Lifts, tiers: Tiers, metric: str, rng: int) -> pl.DataFrame:
    """No rows where nobody has pairs in both groups: few users, who have seen everything popular."""
    first, second = (lifts.logs(lifts.weights(ids)) for ids in (tiers.first, tiers.second))
    if np.isnan(first - second).all():
        return pl.DataFrame(schema=GROUP_SCHEMA)
    groups = lifts.found, tiers.first, tiers.second
    rows = contrast_items(*groups, confidence=agency.confidence, samples=agency.samples, rng=rng)
    names = {"first": "popular", "second": "intermediate", "first / second": "popular / intermediate"}
    return rows.filter(pl.col("metric") == "lift").with_columns(
        pl.col("group").replace_strict(names), by=pl.lit(ITEM_CONTRAST), metric=pl.lit(metric)
    )


def others_ratings(agency: Agency, audit: Instability, when: When, runner: AuditRunner) -> Result:
    """How far others can move what users are recommended: past-k or future-k instability."""
    found = _instability(audit, runner)
    metric = f"{when}_instability"
    summary, groups = (
        rows.filter(pl.col("metric").is_in(OTHERS)).with_columns(metric=pl.lit(f"{when}_") + pl.col("metric"))
        for rows in (found.frame, found.groups)
    )
    curves = _curves(agency, audit, metric, runner, summary)
    tables = {
        "summary": summary,
        "groups": pl.concat([groups, _editor_contrast(audit, metric, runner)], how="diagonal"),
        "series": pl.concat([curves, _histogram(found, metric)], how="diagonal"),
        "users": found.users.select("user", pl.col("instability").alias(metric)),
        "items": pl.DataFrame({"item": runner.data.item_ids}),
        "pairs": _worked_pair(found, audit, when, runner),
    }
    statuses = {status: count for status, count in found.counts().items() if count}
    return Result(agency, tables, rng=found.rng, facts={"statuses": statuses})


def _instability(audit: Instability, runner: AuditRunner) -> InstabilityResult:
    found = runner.run(audit)
    assert isinstance(found, InstabilityResult)
    return found


def _editor_contrast(audit: Instability, metric: str, runner: AuditRunner) -> pl.DataFrame:
    tiers = user_tiers(runner.data, runner.context.rng)
    found = _instability(audit.model_copy(update={"editors": (*tiers.first, *tiers.second), "pairs": True}), runner)
    known = found.pairs.drop_nulls("value")
    first, second = (set(known.filter(pl.col("editor").is_in(ids))["viewer"]) for ids in (tiers.first, tiers.second))
    if first.isdisjoint(second):
        return pl.DataFrame(schema=GROUP_SCHEMA)
    names = {"first": "active", "second": "intermediate", "first - second": "active - intermediate"}
    viewers = pl.col("viewers").cast(pl.Int64)
    return found.contrast(tiers.first, tiers.second).select(
        pl.col("group").replace_strict(names),
        "value",
        pl.col("lower", "upper").fill_nan(None),
        "status",
        by=pl.lit(EDITOR_CONTRAST),
        metric=pl.lit(metric),
        users=viewers,
        excluded=len(found.users) - viewers,
    )


def _histogram(found: InstabilityResult, metric: str) -> pl.DataFrame:
    """The share of pairs from each step on, as a curve over instability; steps without pairs are left out."""
    answered = int(found.users["instability"].count())
    counted = found.table("histogram").filter(pl.col("pairs") > 0)
    return counted.select(
        over=pl.lit("instability"),
        at="lower",
        metric=pl.lit(metric),
        value="share",
        status=pl.lit((Status.BOUNDED if found.counts()[Status.BOUNDED] else Status.SOLVED).value),
        users=pl.lit(answered, pl.Int64),
        excluded=pl.lit(len(found.users) - answered, pl.Int64),
    )


def _worked_pair(found: InstabilityResult, audit: Instability, when: When, runner: AuditRunner) -> pl.DataFrame:
    """The pair with the largest instability: what the editor rates, and how; nothing where no pair moves."""
    data, schema = runner.data, _pair_schema(runner.data)
    worst = found.users.filter(pl.col("max_instability") > 0).sort("max_instability", "user", descending=True)
    if worst.is_empty():
        return pl.DataFrame(schema=schema)
    viewer, editor = worst["user"][0], worst["worst_editor"][0]
    update = {"viewers": (viewer,), "editors": (editor,), "pairs": True, "best_ratings": True}
    rows = _instability(audit.model_copy(update=update), runner).pairs
    items, ratings = data.history(int(data.users_at([editor])[0]))
    given = dict(zip(data.item_ids.gather(items), ratings.tolist(), strict=True))
    before = [given.get(item) for item in rows["action_items"][0]]
    worked = rows.with_columns(pl.lit(when).alias("when"), pl.Series("given_ratings", [before], pl.List(pl.Float64)))
    return worked.select(pl.col(column).cast(kind) for column, kind in schema.items())


def _curves(
    agency: Agency, audit: Reachability | Instability, metric: str, runner: AuditRunner, summary: pl.DataFrame
) -> pl.DataFrame:
    """The metric by horizon and by beta; the point of the summary itself is not computed again.

    Without betas for the future's own ratings: each would take as long as everything else together.
    """
    main = summary.filter(pl.col("metric") == metric)
    betas = () if metric == "future_lift" else agency.betas
    curves = [pl.DataFrame(schema=SERIES_SCHEMA)]
    for over, points, here in (("horizon", agency.horizons, agency.k), ("beta", betas, agency.policy.beta)):
        if others := [at for at in points if at != here]:
            curve = runner.curve(audit.model_copy(update={"by": ()}), over, others)
            curves += [point(over, here, main), curve.filter(pl.col("metric") == metric.partition("_")[2])]
    return pl.concat(curves).with_columns(metric=pl.lit(metric)).sort("over", "at", maintain_order=True)
