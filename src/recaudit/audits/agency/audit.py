"""Agency over time: past-k and future-k reachability and instability (paper 001, Definitions 4.1 to 4.4)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, final

import numpy as np
import polars as pl
from pydantic import AfterValidator, BeforeValidator, PositiveFloat

from recaudit.audits.agency.definitions import AGENCY, EDITOR_CONTRAST, ITEM_CONTRAST, OTHERS, OWN
from recaudit.audits.agency.sweeps import BETAS, HORIZONS, AuditRunner, point
from recaudit.audits.audit import Context, Subject, Verb
from recaudit.audits.instability.audit import Instability
from recaudit.audits.instability.result import InstabilityResult
from recaudit.audits.reachability.audit import Reachability
from recaudit.audits.reachability.contrasts import Lifts, Tiers, contrast_items, item_tiers, user_tiers
from recaudit.audits.reachability.result import ReachabilityResult
from recaudit.audits.recipe import Lift, Max, Own, Probability, Recipe
from recaudit.audits.result import Result
from recaudit.audits.rules import RuleAudit
from recaudit.audits.samples import resolve_items, resolve_users, subsample
from recaudit.data.interactions import Interactions
from recaudit.engines import track
from recaudit.errors import NotSupportedError
from recaudit.interventions import Future, Past
from recaudit.metrics.groupings import groupings
from recaudit.metrics.inference import MIN_USERS, SampleEstimate
from recaudit.metrics.intervals import mean, row
from recaudit.metrics.tables import GROUP_SCHEMA, SERIES_SCHEMA, SUMMARY_SCHEMA, item_table, people_table, user_table
from recaudit.policies import Policy, Softmax
from recaudit.registry import POLICIES
from recaudit.solvers.distance.distances import Distance
from recaudit.specification import Count, OneOf, Some, mistake
from recaudit.status import Status

# How many users are followed into the future by default: at most, and times the items.
_FOLLOWED, _FOLLOWED_ITEMS = 20, 100_000
# Of more items than this the curves have few points: each is an audit of its own.
_LARGE, _FEW_BETAS = 5000, (0.5, 6.0)


def _softmax(policy: object) -> object:
    if isinstance(policy, Policy) and not isinstance(policy, Softmax):
        raise mistake((), policy, "softmax, with any beta")
    return policy


@final
class Agency(RuleAudit):
    """What users can do with their last k ratings and with their next k, to their own recommendations and to others'.

    Hindsight asks a model that has not seen anybody's last k ratings; the future one that has seen the whole log. The
    recommender is fitted for each, and once more for each of the horizons, save where the subject's model has that
    very log.

    Groups: of users, of items, and of editors ("editor history", ...); and two contrasts on the same users, "popular
    against intermediate items" (geometric mean lift, and their ratio) and "active against intermediate editors" (mean
    instability, and the difference), see `item_tiers` and `user_tiers`. The `series` have each metric over "horizon"
    and "beta", and over "instability" the share of pairs in each of 1,000 equal steps. The `pairs` are worked out: for
    past and future the pair with the largest instability, and the ratings that bring it about.

    What a model cannot answer has the status not_applicable, and the settings have it under `left_out`, by reason; a
    model that can answer nothing raises `NotSupportedError`.
    """

    metrics = AGENCY
    drawn = ("users",)
    needs = ("recommender", "data")

    k: Count = 5
    """How many ratings are free. With the split leave-last and the same k, hindsight needs no other model."""
    horizons: tuple[Count, ...] | None = None
    """Other numbers of ratings, for the curves; the model is fitted again for each. By default 1 to 5, and where there
    are more than 5,000 items 1 alone."""
    betas: tuple[PositiveFloat, ...] | None = None
    """Other betas of the policy, for the curves of everything but future lift, where they would take too long. By
    default 0.2, 0.5, 0.8 and 1 to 6, and where there are more than 5,000 items 0.5 and 6."""
    policy: Annotated[Softmax, OneOf(POLICIES), BeforeValidator(_softmax), AfterValidator(_softmax)] = Softmax()
    """How scores become a recommendation: softmax."""
    distance: Distance = "hellinger"
    """How far apart two distributions are."""
    users: Some | None = 100
    """Whose recommendations are looked at."""
    followed: Count | None = None
    """How many of them to follow into the future, which takes the longest. By default 20, and where there are more than
    5,000 items 100,000 divided by their number, but not fewer than 10, without which there is no interval."""
    targets: Some | None = 100
    """The items whose chances are looked at."""
    editors: Some | None = 100
    """The others who rate."""

    @property
    def recipe(self) -> Recipe:
        """Of its four questions the first: hindsight about one's own recommendations."""
        return Recipe(Own(Past(self.k)), Probability(), Lift(), Max())

    def measure(self, subject: Subject, context: Context) -> Result:
        """Ask about the whole log: its last ratings are the past, what comes after it the future."""
        data, rng = subject.data, context.rng
        assert data is not None
        chosen = resolve_users(self.users, data, rng)
        most = self.followed or min(_FOLLOWED, max(MIN_USERS, _FOLLOWED_ITEMS // data.n_items))
        users, targets, editors, followed = (
            tuple(ids.gather(positions).to_list())
            for ids, positions in (
                (data.user_ids, chosen),
                (data.item_ids, resolve_items(self.targets, data, rng)),
                (data.user_ids, resolve_users(self.editors, data, rng, "editors")),
                (data.user_ids, subsample(chosen, most, data, rng)),
            )
        )
        asked = {"users": users, "targets": targets, "editors": editors}
        runner = AuditRunner(subject, data, context)
        sliced = [grouping for grouping in groupings(data, self.by) if grouping.over == "users"]
        by, asked_at = [grouping.by for grouping in sliced], data.users_at(users)
        shared: dict[str, Any] = {"policy": self.policy, "confidence": self.confidence}
        own = {"targets": targets, "by": (), **shared}
        others = {"viewers": users, "editors": editors, "distance": self.distance, "pairs": False, "by": by, **shared}
        questions: list[tuple[When, Reachability | Instability]] = [
            ("past", Reachability(actions=Past(self.k), **own | {"users": users})),
            ("future", Reachability(actions=Future(self.k), **own | {"users": followed})),
            ("past", Instability(edits=Past(self.k), **others)),
            ("future", Instability(edits=Future(self.k), **others)),
        ]
        answered: dict[str, Result] = {}
        rule: dict[str, Any] = {}
        left_out: dict[str, list[str]] = {}
        for when, audit in track(questions, "agency", len(questions)):
            names = [f"{when}_{metric}" for metric in (OWN if isinstance(audit, Reachability) else OTHERS)]
            try:
                if when == "past" and data.times is None:
                    raise NotSupportedError(
                        "The log has no times, so that nobody knows which ratings were the last. "
                        "Name the time column when you build the log (time='timestamp')."
                    )
                if isinstance(audit, Reachability):
                    answered[names[0]] = _own_ratings(self, audit, when, runner)
                else:
                    answered[names[0]] = _others_ratings(self, audit, when, runner)
                rule = rule or runner.rule(audit, self.refits)
            except NotSupportedError as error:
                left_out.setdefault(str(error), []).extend(names)
        if not answered:
            raise NotSupportedError(next(iter(left_out)))
        answers = list(answered.values())
        missing = [name for names in left_out.values() for name in names]
        unanswered = [{"metric": name, **row(SampleEstimate(value=np.nan, n=0), len(users))} for name in missing]
        tables = {
            "summary": pl.concat([*(a.frame for a in answers), pl.DataFrame(unanswered, SUMMARY_SCHEMA)]),
            "groups": pl.concat([a.groups for a in answers]),
            "terms": pl.concat([a.table("terms") for a in answers]),
            "people": people_table(data.user_ids.gather(asked_at), asked_at, sliced),
            "users": _joined(pl.DataFrame({"user": pl.Series(users, dtype=data.user_ids.dtype)}), "users", answers),
            "items": _joined(item_table(data), "items", answers),
            "pairs": pl.concat([a.pairs for a in answers]),
            "series": pl.concat([a.series for a in answers]),
        }
        widths = {name: answer.facts["widths"] for name, answer in answered.items() if "widths" in answer.facts}
        facts = {
            **{name: len(ids) for name, ids in asked.items()},
            "followed": len(followed),
            "popular items": item_tiers(data, rng).rule,
            "active editors": user_tiers(data, rng).rule,
            "statuses": {name: answer.facts["statuses"] for name, answer in answered.items()},
            **({"widths": widths} if widths else {}),
            **rule,
            **({"left_out": left_out} if left_out else {}),
        }
        return Result(self, tables, rng=rng, facts=facts)


agency = Verb(Agency, Result)


def _joined(table: pl.DataFrame, name: str, answers: list[Result]) -> pl.DataFrame:
    """The table with the values of each answer beside it, null where it has none."""
    for answer in answers:
        table = table.join(answer.table(name), on=table.columns[0], how="left", maintain_order="left")
    return table


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


def _own_ratings(agency: Agency, audit: Reachability, when: When, runner: AuditRunner) -> Result:
    """How far users can lift items by their own ratings: past-k or future-k reachability of the audit's targets."""
    data, rng = runner.data, runner.context.rng
    assert isinstance(audit.targets, tuple)
    tiers = item_tiers(data, rng)
    targets = tuple(dict.fromkeys([*audit.targets, *tiers.first, *tiers.second]))
    found: ReachabilityResult = runner.run(audit.model_copy(update={"targets": targets}))
    metric, lifts, users = f"{when}_lift", Lifts(found), found.users["user"]
    drawn, everybody = lifts.weights(audit.targets), np.ones(len(users))
    logs, statuses = lifts.logs(drawn), lifts.statuses(drawn)
    ratios = [
        mean(metric, logs, everybody, scale="geometric", statuses=statuses),
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
            ratios.append(mean(metric, lifts.logs(items), members, *named, scale="geometric", statuses=stand))
    made = agency.aggregated(ratios, data, positions)
    summary = made["summary"]
    tables = {
        "summary": summary,
        "groups": pl.concat([made["groups"], _item_contrast(agency, lifts, tiers, metric)], how="diagonal"),
        "series": _curves(agency, audit, metric, runner, summary),
        "terms": made["terms"],
        "users": user_table(users, {metric: np.exp(logs)}),
        "items": pl.DataFrame({"item": data.item_ids, metric: pl.Series(lifts.of_items()).fill_nan(None)}),
        "pairs": pl.DataFrame(schema=_pair_schema(data)),
    }
    return Result(agency, tables, rng=rng, facts=_statuses(found))


def _item_contrast(agency: Agency, lifts: Lifts, tiers: Tiers, metric: str) -> pl.DataFrame:
    """No rows where nobody has pairs in both groups: few users, who have seen everything popular."""
    first, second = (lifts.logs(lifts.weights(ids)) for ids in (tiers.first, tiers.second))
    if np.isnan(first - second).all():
        return pl.DataFrame(schema=GROUP_SCHEMA)
    groups = lifts.found, tiers.first, tiers.second
    rows = contrast_items(*groups, confidence=agency.confidence)
    names = {"first": "popular", "second": "intermediate", "first / second": "popular / intermediate"}
    return rows.filter(pl.col("metric") == "lift").with_columns(
        pl.col("group").replace_strict(names), by=pl.lit(ITEM_CONTRAST), metric=pl.lit(metric)
    )


def _others_ratings(agency: Agency, audit: Instability, when: When, runner: AuditRunner) -> Result:
    """How far others can move what users are recommended: past-k or future-k instability."""
    found: InstabilityResult = runner.run(audit)
    metric = f"{when}_instability"
    summary, groups, terms = (
        rows.filter(pl.col("metric").is_in(OTHERS)).with_columns(metric=pl.lit(f"{when}_") + pl.col("metric"))
        for rows in (found.frame, found.groups, found.table("terms"))
    )
    curves = _curves(agency, audit, metric, runner, summary)
    tables = {
        "summary": summary,
        "groups": pl.concat([groups, _editor_contrast(audit, metric, runner)], how="diagonal"),
        "series": pl.concat([curves, _histogram(found, metric)], how="diagonal"),
        "terms": terms,
        "users": found.users.select("user", pl.col("instability").alias(metric)),
        "items": pl.DataFrame({"item": runner.data.item_ids}),
        "pairs": _worked_pair(found, audit, when, runner),
    }
    return Result(agency, tables, rng=found.rng, facts=_statuses(found))


def _statuses(found: ReachabilityResult | InstabilityResult) -> dict[str, Any]:
    widths = {"widths": found.facts["widths"]} if "widths" in found.facts else {}
    return {"statuses": {status: count for status, count in found.counts().items() if count}, **widths}


def _editor_contrast(audit: Instability, metric: str, runner: AuditRunner) -> pl.DataFrame:
    tiers = user_tiers(runner.data, runner.context.rng)
    update = {"editors": (*tiers.first, *tiers.second), "pairs": True}
    found: InstabilityResult = runner.run(audit.model_copy(update=update))
    known = found.pairs.drop_nulls("value")
    first, second = (set(known.filter(pl.col("editor").is_in(ids))["viewer"]) for ids in (tiers.first, tiers.second))
    if first.isdisjoint(second):
        return pl.DataFrame(schema=GROUP_SCHEMA)
    names = {"first": "active", "second": "intermediate", "first - second": "active - intermediate"}
    viewers = pl.col("viewers").cast(pl.Int64)
    return found.contrast(tiers.first, tiers.second).select(
        pl.col("group").replace_strict(names),
        "value",
        "lower",
        "upper",
        "reason",
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
    rows: pl.DataFrame = runner.run(audit.model_copy(update=update)).pairs
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
    large = runner.data.n_items > _LARGE
    horizons = (HORIZONS[:1] if large else HORIZONS) if agency.horizons is None else agency.horizons
    betas = (_FEW_BETAS if large else BETAS) if agency.betas is None else agency.betas
    curves = [pl.DataFrame(schema=SERIES_SCHEMA)]
    wanted = (
        ("horizon", horizons, agency.k),
        ("beta", () if metric == "future_lift" else betas, agency.policy.fixed_beta),
    )
    for over, points, here in wanted:
        if others := [at for at in points if at != here]:
            curve = runner.curve(audit.model_copy(update={"by": ()}), over, others)
            curves += [point(over, here, main), curve.filter(pl.col("metric") == metric.partition("_")[2])]
    return pl.concat(curves).with_columns(metric=pl.lit(metric)).sort("over", "at", maintain_order=True)
