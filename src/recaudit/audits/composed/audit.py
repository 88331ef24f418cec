"""An audit of one's own, answered by another audit that asks the same, in closed form, or by plugging ratings in."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import polars as pl
from pydantic import model_validator

from recaudit.audits.audit import Audit, Context, Subject, Verb
from recaudit.audits.composed.answers import at_given, largest
from recaudit.audits.composed.pairs import ResolvedPairs
from recaudit.audits.instability.audit import Instability
from recaudit.audits.logs import audited
from recaudit.audits.reachability.audit import Reachability
from recaudit.audits.recipe.parts import (
    AnyFunctional,
    AnyOutcome,
    AnyQuantifier,
    At,
    Change,
    Distribution,
    Lift,
    Max,
    Moved,
    PredictedRating,
    Probability,
    RankGain,
    RecommendedList,
    Replaced,
    Value,
)
from recaudit.audits.recipe.recipe import Recipe
from recaudit.audits.result import Result, Table
from recaudit.audits.samples import Candidates, draw_facts
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Actions
from recaudit.interventions.who import AnyIntervention, Others, Own
from recaudit.metrics.inference import Bounds
from recaudit.metrics.intervals import mean
from recaudit.metrics.metric import Metric
from recaudit.metrics.tables import means_by, user_table
from recaudit.policies import AnyPolicy, EpsilonGreedy, Power, Softmax, Top1
from recaudit.solvers.distance.distances import largest_distance
from recaudit.specification import Id, Some

_RUNNABLE = (
    "With Max(): over one's own ratings, Value() and Lift() of Probability(), its RankGain() with Max(of=Value()), and "
    "Value() and Change() of PredictedRating(); over another's, Moved() of Distribution(), Value(), Lift() and "
    "Change() of Probability(), and Value() and Change() of PredictedRating(). With At(ratings): all of these for "
    "anybody's ratings, and Replaced() of RecommendedList()."
)


@final
class Composed(Audit):
    """A question of one's own: who changes what, what is looked at, how it becomes a number, over which ratings.

    Rows are pairs: viewer, editor where another acts, item where the outcome is about one; `value`, `lower` and `upper`
    (null where there are no bounds), `status` and `baseline`, the outcome without the intervention (0 for a distance),
    taken at the model's scores and for `Past` at the ratings that were given.

    At given ratings every recipe about fixed items can be run, whatever the model's response. The largest value is
    exact or refused.
    """

    metrics = (
        Metric(
            "composed",
            "Composed number",
            "The number that the recipe names, averaged over the rows of a viewer, then over viewers.",
            "mean over viewers of the mean of value",
            "As its functional's.",
            "neither",
        ),
    )
    split_by = ()

    intervention: AnyIntervention
    """Who changes what."""
    outcome: AnyOutcome
    """What is looked at."""
    functional: AnyFunctional
    """How it becomes a number."""
    over: AnyQuantifier | None = None
    """At given ratings, or at those that make it largest."""
    viewers: Some | None = None
    """Who looks: how many, or whose ids; everybody where nothing is said."""
    editors: Some | None = None
    """Which others act, likewise. A viewer is never paired with themselves."""
    items: tuple[Id, ...] | None = None
    """The items that are asked about; else every candidate, and where another acts on what is predicted, the candidates
    that the other rates."""
    policy: AnyPolicy = Softmax()
    """How scores become a recommendation."""
    candidates: Candidates = "unseen"
    """What is chosen from: items that are neither seen nor acted on, or all but the acted on."""

    @model_validator(mode="after")
    def _make_sense(self) -> Composed:
        own = isinstance(self.recipe.intervention, Own)
        if self.editors is not None and own:
            raise InputError(
                "editors",
                received="ids, with Own(...)",
                expected="nothing: everybody acts for themselves",
                remedy="Name the viewers, or let others act: Others(...).",
            )
        if self.items is not None and not self.outcome.about_an_item:
            expected = "nothing: the outcome is not about single items"
            raise InputError("items", received=f"ids, with {self.outcome!r}", expected=expected)
        return self

    @property
    def recipe(self) -> Recipe:
        """The four parts."""
        return Recipe(self.intervention, self.outcome, self.functional, self.over)

    def bounds_of(self, metric: Metric) -> Bounds:
        """See `Audit`: they are those of the functional.

        Averages of single items' probabilities, and of distances over many editors, have no upper bound here, because
        they never come near 1.
        """
        match self.outcome, self.functional:
            case Probability(), Value() | Lift():
                return 0.0, None
            case Distribution(), Moved(name=distance):
                return 0.0, largest_distance(distance) if isinstance(self.intervention, Own) else None
            case RecommendedList(), Replaced():
                return 0.0, 1.0
        return metric.bounds

    def measure(self, subject: Subject, context: Context) -> Result:
        """Ask every viewer."""
        rows = self._rows(subject, context)
        means = means_by(rows, "viewer", "value")
        values = {"composed": means["value"].fill_null(np.nan).to_numpy()}
        ratios = [mean("composed", values["composed"], np.ones(len(means)))]
        tables: dict[str, Table] = {
            **self.aggregated(ratios, None, ids=means["viewer"]),
            "users": user_table(means["viewer"], values),
            "pairs": rows,
        }
        facts: dict[str, Any] = {"question": str(self.recipe)}
        if isinstance(self.intervention, Own | Others):
            model = subject.model or audited(subject, self.intervention.actions, context.rng)[0]
            facts |= {"rule": model.rule, **draw_facts(self.viewers, len(means), model.data)}
        return Result(self, tables, rng=context.rng, facts=facts)

    def _rows(self, subject: Subject, context: Context) -> pl.DataFrame:
        if not isinstance(self.intervention, Own | Others):
            raise NotSupportedError(
                f"A composed audit changes ratings, and here that is {self.intervention}. What changes nothing has "
                "audits of its own, such as accuracy and exposure: see recaudit audits."
            )
        others = isinstance(self.intervention, Others)
        match others, self.outcome, self.functional, self.over:
            case False, Probability(), Value() | Lift(), Max(of=None):
                return self._by_reachability(subject, context)
            case False, Probability(), RankGain(), Max(of=Value()):
                return self._by_reachability(subject, context)
            case True, Distribution(), Moved(), Max(of=None):
                return self._by_instability(subject, context)
            case (True, Probability(), Value() | Lift() | Change(), Max(of=None)) | (
                _,
                PredictedRating(),
                Value() | Change(),
                Max(of=None),
            ):
                self._check_closed_form()
                pairs = self._pairs(subject, context)
                return pairs.frame(largest(self.outcome, self.functional, pairs), about_an_item=True)
            case (
                _,
                Probability() | PredictedRating() | Distribution() | RecommendedList(),
                Value() | Lift() | RankGain() | Change() | Moved() | Replaced(),
                At(),
            ):
                pairs = self._pairs(subject, context)
                rows = at_given(self.outcome, self.functional, self.over, pairs)
                return pairs.frame(rows, about_an_item=self.outcome.about_an_item)
        raise NotSupportedError(f"{self.recipe}: nothing here computes that. {_RUNNABLE}")

    def _pairs(self, subject: Subject, context: Context) -> ResolvedPairs:
        assert isinstance(self.intervention, Own | Others)
        model, log = audited(subject, self.intervention.actions, context.rng)
        if isinstance(self.outcome, PredictedRating) and not model.predicts_ratings:
            raise NotSupportedError(
                f"The scores of this {model.called} only rank: it predicts no ratings. Probability() can be "
                "looked at for any model; models from arrays predict ratings if you say predicts_ratings=True."
            )
        return ResolvedPairs.of(self, model, log, context.rng)

    def _common(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in ("policy", "candidates", "confidence")},
            "by": (),
            "refits": 0,
        }

    def _by_reachability(self, subject: Subject, context: Context) -> pl.DataFrame:
        assert isinstance(self.intervention, Own)
        audit = Reachability(
            actions=self.intervention.actions, users=self.viewers, targets=self.items, **self._common()
        )
        found = audit.measure(subject, context).pairs.rename({"user": "viewer"})
        if isinstance(self.functional, Lift):
            bounds = (pl.col(name) / pl.col("baseline") for name in ("lower", "upper"))
            found = found.with_columns(pl.col("lift").alias("value"), *bounds)
        elif isinstance(self.functional, RankGain):
            # The bounds are those of the probability; the places climbed at the best ratings found have none.
            unknown = (pl.lit(None, pl.Float64).alias(name) for name in ("lower", "upper"))
            found = found.with_columns(pl.col("rank_gain").cast(pl.Float64).alias("value"), *unknown)
        return found.select("viewer", "item", "value", "lower", "upper", "status", "baseline")

    def _by_instability(self, subject: Subject, context: Context) -> pl.DataFrame:
        assert isinstance(self.intervention, Others)
        assert isinstance(self.functional, Moved)
        audit = Instability(
            edits=self.intervention.actions,
            viewers=self.viewers,
            editors=self.editors,
            distance=self.functional.name,
            pairs=True,
            **self._common(),
        )
        found = audit.measure(subject, context).pairs
        return found.select("viewer", "editor", "value", "lower", "upper", "status", "baseline")

    def _check_closed_form(self) -> None:
        assert isinstance(self.intervention, Own | Others)
        if isinstance(self.outcome, Probability) and not isinstance(
            self.policy, Softmax | Top1 | EpsilonGreedy | Power
        ):
            raise NotSupportedError(
                f"Whether {self.policy!r} shows an item more often when its score grows is not known. Softmax, Top1, "
                "EpsilonGreedy and Power do, so that the largest probability is known for them."
            )
        actions = self.intervention.actions
        if isinstance(actions, Actions) and actions.changes is not None:
            raise NotSupportedError(
                f"{self.recipe}: no closed form has a limit on changes. Leave changes out; ra.reachability takes it."
            )


composed = Verb(Composed, Result)
