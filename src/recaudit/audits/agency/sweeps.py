"""How agency grows with the horizon and follows the policy's beta: paper 001, section 6, Figures 3 to 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, final

import polars as pl

from recaudit.arguments import check_count, checked
from recaudit.audits.audit import Context, Subject
from recaudit.audits.instability.audit import Instability
from recaudit.audits.logs import Fits
from recaudit.audits.reachability.audit import Reachability
from recaudit.audits.result import Result
from recaudit.audits.rules import rule_facts
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine, Serial, track
from recaudit.errors import InputError
from recaudit.interventions import Actions, Future, GivenItems, Past
from recaudit.metrics.tables import SERIES_SCHEMA, SUMMARY_SCHEMA
from recaudit.models.base import FittedModel, Recommender
from recaudit.policies import Softmax
from recaudit.registry import AUDITS
from recaudit.status import Status

HORIZONS = (1, 2, 3, 4, 5)
BETAS = (0.2, 0.5, 0.8, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)

_DEFAULT = Reachability(actions=Past(5))


@final
class AuditRunner:
    """Runs reachability and instability of one log, each on the model that its actions are about."""

    def __init__(self, subject: Subject, data: Interactions, context: Context) -> None:
        self.data, self.context = data, context
        self._subject, self._model = subject, subject.model
        self._fits = None if subject.recommender is None else Fits(subject.recommender, [subject.model], context.rng)

    def run(self, audit: Reachability | Instability) -> Any:
        """The audit's answer, of its own class."""
        model = self._of(audit)
        audit = audit.model_copy(update={"refits": 0})  # many are run: their promises are tested once, by who asks
        return audit.run(Subject(model=model, data=self.data), rng=self.context.rng, engine=self.context.engine)

    def _of(self, audit: Reachability | Instability) -> FittedModel:
        if self._fits is not None:
            return self._fits.before(free_ratings_of(audit), self.data)
        assert self._model is not None
        return self._model

    def rule(self, audit: Reachability | Instability, refits: int) -> dict[str, Any]:
        """The rule that the audit's answer rests on, tested by so many refits."""
        model = self._of(audit)
        return rule_facts(audit.model_copy(update={"refits": refits}), self._subject, model, self.data, self.context)

    def curve(self, audit: Reachability | Instability, over: str, points: Sequence[float]) -> pl.DataFrame:
        """The audit's overall rows at each point, as in SERIES_SCHEMA."""
        frames = [pl.DataFrame(schema=SERIES_SCHEMA)]
        for at in track(points, f"{AUDITS.kind_of(audit)} by {over}", len(points)):
            frames.append(point(over, at, self.run(_varied(audit, over, at)).frame))
        return pl.concat(frames)


def free_ratings_of(audit: Reachability | Instability) -> Actions | Future:
    """The ratings that are free: the user's own, or the editor's."""
    return audit.actions if isinstance(audit, Reachability) else audit.edits


def point(over: str, at: float, summary: pl.DataFrame) -> pl.DataFrame:
    """The rows of a summary as one point of a curve."""
    return summary.select(pl.lit(over).alias("over"), pl.lit(float(at)).alias("at"), *SUMMARY_SCHEMA)


def _varied(audit: Reachability | Instability, over: str, at: float) -> Reachability | Instability:
    if over == "beta":
        return audit.model_copy(update={"policy": Softmax(beta=at)})
    free = replace(free_ratings_of(audit), k=at)  # type: ignore[type-var]  # every kind of actions is a dataclass
    return audit.model_copy(update={"actions" if isinstance(audit, Reachability) else "edits": free})


@final
class Sweep(Result):
    """The overall values of one audit at each point of a curve: `series` has a row a point and metric."""

    def curve(self, metric: str) -> pl.DataFrame:
        """The points of one metric."""
        rows = self.series.filter(pl.col("metric") == metric)
        if rows.is_empty():
            known = ", ".join(self.series["metric"].unique(maintain_order=True))
            raise InputError("metric", received=metric, expected=f"a metric of {self.kind}: {known}")
        return rows

    def summary(self) -> str:
        """A line a point, a column a metric."""
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        over = self.series["over"][0]
        metrics = self.series["metric"].unique(maintain_order=True).to_list()
        head = f"  {over:>8}" + "".join(f"  {self.metrics[name].label:>28}" for name in metrics)
        lines = [f"{self.kind} over {over} ({settings})", head]
        for (at,), rows in self.series.group_by("at", maintain_order=True):
            cells = "".join(f"  {_cell(row):>28}" for row in rows.iter_rows(named=True))
            lines.append(f"  {at:>8g}{cells}")
        return "\n".join(lines)


@checked
def sweep_horizon(
    recommender: Recommender | FittedModel | Subject,
    data: Interactions,
    *,
    audit: Reachability | Instability | None = None,
    horizons: Sequence[int] = HORIZONS,
    rng: int = 0,
    engine: Engine | None = None,
) -> Sweep:
    """The audit with one rating that is free, with two, and so on (default: reachability in the past).

    In the past, the model of horizon k is the one fitted without everybody's last k ratings: the recommender is fitted
    once a horizon, save where a `Subject` has the model of that very log. Otherwise one model fitted to all of `data`
    serves every horizon, and may be given in place of the recommender.
    """
    for horizon in horizons:
        check_count("horizons", horizon)
    audit = audit or _DEFAULT
    if isinstance(free_ratings_of(audit), GivenItems):
        raise InputError("audit", received="given items", expected="actions with a number of ratings, such as Past(5)")
    if isinstance(recommender, FittedModel) and isinstance(free_ratings_of(audit), Past):
        raise InputError(
            "recommender",
            received=f"a fitted {type(recommender).__name__}",
            expected="a recommender, such as ALS(), that can be fitted without the last ratings",
            remedy="For the future, a fitted model will do.",
        )
    return _sweep(recommender, data, audit, "horizon", horizons, Context(rng, engine or Serial()))


@checked
def sweep_beta(
    model: Recommender | FittedModel | Subject,
    data: Interactions | None = None,
    *,
    audit: Reachability | Instability | None = None,
    betas: Sequence[float] = BETAS,
    rng: int = 0,
    engine: Engine | None = None,
) -> Sweep:
    """The audit under softmax with each beta: small, anything may be shown; large, the top item.

    The default is reachability in the past. A recommender in place of the model is fitted to `data`, for `Past(k)`
    without everybody's last k ratings.
    """
    return _sweep(model, data, audit or _DEFAULT, "beta", betas, Context(rng, engine or Serial()))


def _sweep(
    given: Recommender | FittedModel | Subject,
    data: Interactions | None,
    audit: Reachability | Instability,
    over: str,
    points: Sequence[float],
    context: Context,
) -> Sweep:
    if not len(points):
        expected = "at least one" if over == "horizon" else "at least one number above 0"
        raise InputError(f"{over}s", received="none", expected=expected)
    if isinstance(given, Recommender | FittedModel):
        given = Subject(recommender=given) if isinstance(given, Recommender) else Subject(model=given)
    logs = data, given.data, None if given.model is None else given.model.data
    log = next((log for log in logs if log is not None), None)
    if log is None:
        raise InputError("data", received="None", expected="the log to fit the recommender to")
    series = AuditRunner(given, log, context).curve(audit.model_copy(update={"by": ()}), over, points)
    return Sweep(audit, {"series": series}, rng=context.rng)


def _cell(row: Mapping[str, Any]) -> str:
    if row["value"] is None:
        return str(row["status"])
    interval = "" if row["lower"] is None else f" [{row['lower']:.4f}, {row['upper']:.4f}]"
    bound = ">= " if row["status"] == Status.BOUNDED else ""
    return f"{bound}{row['value']:.4f}{interval}"
