"""Agency over time: what people can do to their own recommendations, and others to them, in hindsight and from now on.

Paper 001's four questions about one recommender: past-k and future-k reachability, past-k and future-k instability
(Definitions 4.1 to 4.4), by group, by horizon and by beta.
"""

from __future__ import annotations

from typing import Annotated, Any, final

import numpy as np
import polars as pl
from pydantic import AfterValidator, BeforeValidator, PositiveFloat

from recaudit.audits.agency.definitions import AGENCY, OTHERS, OWN
from recaudit.audits.agency.questions import When, others_ratings, own_ratings
from recaudit.audits.agency.sweeps import BETAS, HORIZONS, AuditRunner
from recaudit.audits.audit import Audit, Context, Subject, Verb
from recaudit.audits.instability.audit import Instability
from recaudit.audits.reachability.audit import Reachability
from recaudit.audits.reachability.contrasts import item_tiers, user_tiers
from recaudit.audits.result import Result
from recaudit.audits.samples import resolve_items, resolve_users, subsample
from recaudit.engines import track
from recaudit.errors import NotSupportedError
from recaudit.interventions import Future, Past
from recaudit.metrics.groupings import groupings
from recaudit.metrics.intervals import row
from recaudit.metrics.tables import SUMMARY_SCHEMA, item_table
from recaudit.policies import Policy, Softmax
from recaudit.registry import POLICIES
from recaudit.solvers.distance.distances import Distance
from recaudit.specification import Count, OneOf, Some, mistake


def _softmax(policy: object) -> object:
    if isinstance(policy, Policy) and not isinstance(policy, Softmax):
        raise mistake((), policy, "softmax, with any beta")
    return policy


@final
class Agency(Audit):
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
    needs = ("recommender", "data")

    k: Count = 5
    """How many ratings are free. With the split leave-last and the same k, hindsight needs no other model."""
    horizons: tuple[Count, ...] = HORIZONS
    """Other numbers of ratings, for the curves; the model is fitted again for each."""
    betas: tuple[PositiveFloat, ...] = BETAS
    """Other betas of the policy, for the curves of everything but future lift, where they would take too long."""
    policy: Annotated[Softmax, OneOf(POLICIES), BeforeValidator(_softmax), AfterValidator(_softmax)] = Softmax(beta=2.0)
    """How scores become a recommendation: softmax."""
    distance: Distance = "hellinger"
    """How far apart two distributions are."""
    users: Some | None = 100
    """Whose recommendations are looked at."""
    followed: Count = 20
    """How many of them to follow into the future, which takes the longest."""
    targets: Some | None = 100
    """The items whose chances are looked at."""
    editors: Some | None = 100
    """The others who rate."""

    def measure(self, subject: Subject, context: Context) -> Result:
        """Ask about the whole log: its last ratings are the past, what comes after it the future."""
        data, rng = subject.data, context.rng
        assert data is not None
        chosen = resolve_users(self.users, data, rng)
        users, targets, editors, followed = (
            tuple(ids.gather(positions).to_list())
            for ids, positions in (
                (data.user_ids, chosen),
                (data.item_ids, resolve_items(self.targets, data, rng)),
                (data.user_ids, resolve_users(self.editors, data, rng, "editors")),
                (data.user_ids, subsample(chosen, self.followed, data, rng)),
            )
        )
        asked = {"users": users, "targets": targets, "editors": editors}
        runner = AuditRunner(subject, data, context)
        by = [grouping.by for grouping in groupings(data, self.by) if grouping.over == "users"]
        shared: dict[str, Any] = {"policy": self.policy, "confidence": self.confidence, "samples": self.samples}
        own = {"targets": targets, "by": (), **shared}
        others = {"viewers": users, "editors": editors, "distance": self.distance, "pairs": False, "by": by, **shared}
        questions: list[tuple[When, Reachability | Instability]] = [
            ("past", Reachability(actions=Past(self.k), **own | {"users": users})),
            ("future", Reachability(actions=Future(self.k), **own | {"users": followed})),
            ("past", Instability(edits=Past(self.k), **others)),
            ("future", Instability(edits=Future(self.k), **others)),
        ]
        answered: dict[str, Result] = {}
        left_out: dict[str, list[str]] = {}
        for when, audit in track(questions, "agency", len(questions)):
            names = [f"{when}_{metric}" for metric in (OWN if isinstance(audit, Reachability) else OTHERS)]
            try:
                answered[names[0]] = self._answer(when, audit, runner)
            except NotSupportedError as error:
                left_out.setdefault(str(error), []).extend(names)
        if not answered:
            raise NotSupportedError(next(iter(left_out)))
        answers = list(answered.values())
        missing = [name for names in left_out.values() for name in names]
        unanswered = [{"metric": name, **row(np.nan, np.nan, np.nan, 0, len(users))} for name in missing]
        tables = {
            "summary": pl.concat([*(a.frame for a in answers), pl.DataFrame(unanswered, SUMMARY_SCHEMA)]),
            "groups": pl.concat([a.groups for a in answers]),
            "users": _joined(pl.DataFrame({"user": pl.Series(users, dtype=data.user_ids.dtype)}), "users", answers),
            "items": _joined(item_table(data), "items", answers),
            "pairs": pl.concat([a.pairs for a in answers]),
            "series": pl.concat([a.series for a in answers]),
        }
        facts = {
            **{name: len(ids) for name, ids in asked.items()},
            "followed": len(followed),
            "popular items": item_tiers(data, rng).rule,
            "active editors": user_tiers(data, rng).rule,
            "statuses": {name: answer.facts["statuses"] for name, answer in answered.items()},
            **({"left_out": left_out} if left_out else {}),
        }
        return Result(self, tables, rng=rng, facts=facts)

    def _answer(self, when: When, audit: Reachability | Instability, runner: AuditRunner) -> Result:
        if when == "past" and runner.data.times is None:
            raise NotSupportedError(
                "The log has no times, so that nobody knows which ratings were the last. "
                "Name the time column when you build the log (time='timestamp')."
            )
        if isinstance(audit, Reachability):
            return own_ratings(self, audit, when, runner)
        return others_ratings(self, audit, when, runner)


agency = Verb(Agency, Result)


def _joined(table: pl.DataFrame, name: str, answers: list[Result]) -> pl.DataFrame:
    """The table with the values of each answer beside it, null where it has none."""
    for answer in answers:
        table = table.join(answer.table(name), on=table.columns[0], how="left", maintain_order="left")
    return table
