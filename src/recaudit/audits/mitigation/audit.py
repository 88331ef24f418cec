"""Mitigation: what a model's levers cost and give, each number by one definition before and after."""

from __future__ import annotations

from typing import Annotated, final

import polars as pl
from pydantic import AfterValidator, Field

from recaudit.audits.audit import Context, ListAudit, Subject, Verb
from recaudit.audits.calibration.calibrator import systems_of, with_system
from recaudit.audits.lists.recommend import check_length, gives_lists
from recaudit.audits.mitigation.definitions import BORROWED, METRICS, ORDER
from recaudit.audits.mitigation.levers import Setting, levers_of
from recaudit.audits.mitigation.measures import DRAWN, WHOLE, Yardstick, by_reason
from recaudit.audits.mitigation.turned import Turned
from recaudit.audits.recipe.recipe import Rung
from recaudit.audits.result import Result
from recaudit.data.interactions import Interactions
from recaudit.errors import NotSupportedError
from recaudit.metrics.tables import SUMMARY_SCHEMA
from recaudit.policies import AnyPolicy, Policy, Softmax, Top1
from recaudit.policies.calibrated import CalibrationTarget, ScoreTransform, Share
from recaudit.specification import Count, Number, Some, mistake
from recaudit.status import Status

_NOT_TESTED = "the reachability and instability audits test it by refits"


def _softmax(policy: Policy) -> Policy:
    if not isinstance(policy, Softmax):
        raise mistake((), policy, "softmax: a beta is what is varied")
    return policy


def _ascending(values: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(sorted(set(values)))


@final
class MitigationResult(Result):
    """What levers cost and give.

    `series` has every number at every setting (`over` the lever, `at` its value), with the value before as the
    baseline; `changes` how much more there is than before, with an interval over the same people; `groups` the numbers
    at the picked setting of each lever; `frame` those of the model as it is. `users` are people's own numbers before,
    and under `<metric>_<lever>` at the picked setting; `people` what that changes for groups of users; `pairs` the
    places that were searched for.
    """

    @property
    def changes(self) -> pl.DataFrame:
        """One row a lever, setting and metric: the difference after - before, columns as in SERIES_SCHEMA."""
        return self.table("changes")

    @property
    def group_changes(self) -> pl.DataFrame:
        """Who gains and who pays: the change at the picked setting of each lever by group of users, as `changes`."""
        return self.table("group_changes")

    def summary(self) -> str:
        """For each lever, every number before and at the picked setting, and the change."""
        lines = self.heading()
        labels = {name: metric.titled(self.settings["k"]) for name, metric in self.metrics.items()}
        width = max(map(len, labels.values()))
        after = self.groups.select("metric", "group", after="value")
        for lever, at in self.facts["picked"].items():
            lines.append(f"  {lever}: {self.facts['before'][lever]:.3g} -> {at:.3g}")
            found = self.changes.filter(over=lever, at=at).join(after.filter(group=lever), on="metric")
            for row in found.drop_nulls(["value", "baseline", "after"]).iter_rows(named=True):
                interval = "" if row["lower"] is None else f"  [{row['lower']:+.4f}, {row['upper']:+.4f}]"
                bound = ", between lower bounds" if row["status"] == Status.BOUNDED else ""
                numbers = f"{row['baseline']:8.4f} -> {row['after']:8.4f}  {row['value']:+.4f}{interval}"
                lines.append(f"    {labels[row['metric']].ljust(width)}  {numbers}  {row['users']:,} users{bound}")
        return "\n".join(lines)


@final
class Mitigation(ListAudit, CalibrationTarget):
    """What mitigation costs and gives: a model's levers, before and after, in the eyes of all audits.

    Levers: the weight of calibrated re-ranking ("weight", paper 004), the weight of unobserved pairs of a recommender
    that has one ("unobserved_weight", paper 002: it is fitted again), and the beta of the policy that lists are drawn
    by ("beta"). One that a model lacks is left out, and the fact `left_out` says why; so are numbers.

    Every number has one definition at every setting. Lists are judged by what their re-ranking has not seen:
    calibration against the categories of the held-out ratings, folding by who rated what alone. Of every lever the
    setting is picked, other than the one as it is, with the largest sum of nDCG and what the lever aims at, each
    scaled to 0..1 over its settings. See docs/guides/mitigation.md.
    """

    metrics = METRICS
    borrowed = BORROWED
    drawn = ("users",)
    needs = ("model", "test")
    has_floor = False
    split_by = ("users",)
    second = "test"
    result = MitigationResult

    weights: Annotated[tuple[Share, ...], AfterValidator(_ascending)] = (0.5, 0.9, 0.99)
    """Lambdas of calibrated re-ranking beside 0, the list as it is; none leaves the lever out."""
    transform: ScoreTransform = "minmax"
    """What becomes of a user's scores before they are weighed against calibration."""
    unobserved_weights: Annotated[tuple[Annotated[Number, Field(ge=0)], ...], AfterValidator(_ascending)] = (
        0.0,
        0.01,
        0.1,
        1.0,
    )
    """Weights of unobserved pairs beside the recommender's own, which is fitted again with each; none leaves the lever
    out."""
    beta_factors: Annotated[tuple[Annotated[Number, Field(gt=0)], ...], AfterValidator(_ascending)] = (0.5, 2.0, 4.0)
    """How many times the policy's own beta others are; none leaves the lever out."""
    policy: Annotated[AnyPolicy, AfterValidator(_softmax)] = Softmax()
    """The softmax by which an item is shown, for reachability and instability; as a lever, also the lists are drawn."""
    relevant: float | None = None
    """The rating from which on a held-out item counts as relevant for accuracy; without one, every held-out item."""
    users: Some = 100
    """Of whom reachability and instability are asked: a count, drawn at random, or ids. All other numbers are
    everybody's."""
    targets: Some = 10
    """The items whose reachability is asked about: a count or ids."""
    editors: Some = 5
    """Whose ratings may move others' recommendations: a count or ids."""
    budget: Count = 40
    """How many ratings of a list are tried for each user and target, to bring the target into the next list."""

    @property
    def rung(self) -> Rung:
        """The levers of the system are set, whatever its numbers ask about."""
        return Rung.INTERVENTIONAL

    def check(self, data: Interactions) -> None:
        """Groupings and category systems."""
        super().check(data)
        if self.categories is not None:
            systems_of(data, self.categories)

    @property
    def softmax(self) -> Softmax:
        """The policy, which is one."""
        assert isinstance(self.policy, Softmax)
        return self.policy

    def measure(self, subject: Subject, context: Context) -> MitigationResult:
        """Turn every lever, and measure at every setting."""
        model, test = subject.model, subject.test
        assert model is not None
        assert test is not None
        self.check(model.data)
        check_length(self.k, "k")
        if gives_lists(model):
            raise NotSupportedError(f"{model.called} gives lists, without scores: there is nothing to turn.")
        yardstick = Yardstick(self, model.data, test, context)
        levers, lacking = levers_of(self, subject, context)
        plain = yardstick.measure(Setting(0.0, model, Top1(), self.softmax))
        turned = [Turned.of(lever, yardstick, plain) for lever in levers]
        others = (own for each in turned for own in each.left_out if own[0] not in plain.left_out)
        left_out = by_reason([*lacking.items(), *plain.left_out.items(), *others])
        users = plain.users
        for each in turned:
            users = users.join(each.users, on="user", how="left", maintain_order="left")
        pairs = [some for each in turned for some in each.pairs]
        tables = {
            "summary": _whole(plain.frame),
            "groups": pl.concat([each.group for each in turned]),
            "users": users,
            "series": pl.concat([each.series for each in turned]),
            "changes": pl.concat([each.changes for each in turned]),
            "group_changes": pl.concat([each.group_changes(yardstick) for each in turned]),
            "pairs": pl.concat(pairs) if pairs else pl.DataFrame(),
        }
        facts = {
            **plain.facts,
            "before": {each.lever.name: each.lever.before.at for each in turned},
            "picked": {each.lever.name: each.lever.after[each.picked].at for each in turned},
            "aims": {each.lever.name: each.lever.aim for each in turned},
            "sampled": yardstick.sampled,
            "left_out": {why: names for why, names in left_out.items() if why not in (WHOLE, DRAWN)},
            "not_asked": {why: names for why, names in left_out.items() if why in (WHOLE, DRAWN)},
        }
        if model.data.categories:
            facts["categories"] = with_system(self, model.data).categories
        if model.response is not None:
            facts |= {"rule": model.rule, "fidelity": {"not_measured": _NOT_TESTED}}
        return MitigationResult(self, tables, rng=context.rng, facts=facts)


mitigation = Verb(Mitigation, MitigationResult)


def _whole(frame: pl.DataFrame) -> pl.DataFrame:
    """Every metric of the audit; those that the model lacks are not applicable."""
    lacking = [name for name in ORDER if name not in set(frame["metric"])]
    rows = [{"metric": name, "status": Status.NOT_APPLICABLE, "users": 0, "excluded": 0} for name in lacking]
    return pl.concat([frame, pl.DataFrame(rows, SUMMARY_SCHEMA)])
