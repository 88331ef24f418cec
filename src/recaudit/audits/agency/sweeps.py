"""How agency grows with the horizon, and how it follows the policy's beta: one audit at each point of a curve.

Paper 001, section 6: horizons of 1 to 5 ratings (Figure 3) and betas from 0.2 to 6 (Figures 4 and 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import polars as pl

from recaudit.arguments import check_count, checked
from recaudit.audits.agency.fits import Fits
from recaudit.audits.instability.audit import instability
from recaudit.audits.instability.definitions import INSTABILITY
from recaudit.audits.instability.result import Instability
from recaudit.audits.reachability.audit import reachability
from recaudit.audits.reachability.definitions import REACHABILITY
from recaudit.audits.samples import SomeIds, resolve_items, resolve_users
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine, track
from recaudit.errors import InputError
from recaudit.interventions import Actions, Future, Past
from recaudit.metrics.intervals import Bootstrap
from recaudit.metrics.tables import SERIES_SCHEMA, SUMMARY_SCHEMA
from recaudit.models.base import FittedModel, Recommender
from recaudit.policies import Policy, Softmax
from recaudit.solvers.distance.distances import Distance
from recaudit.status import Status

AuditName = Literal["reachability", "instability"]
Kind = Literal["past", "future"]

HORIZONS = (1, 2, 3, 4, 5)
BETAS = (0.2, 0.5, 0.8, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)

_LABELS = {metric.name: metric.label for metric in (*REACHABILITY, *INSTABILITY)}


@final
@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """The summary of one audit at each point of a curve."""

    audit: AuditName
    settings: Mapping[str, object]
    frame: pl.DataFrame
    """One row a point and metric, columns as in SERIES_SCHEMA; intervals are bootstrapped over users."""

    def curve(self, metric: str) -> pl.DataFrame:
        """The points of one metric."""
        rows = self.frame.filter(pl.col("metric") == metric)
        if rows.is_empty():
            known = ", ".join(self.frame["metric"].unique(maintain_order=True))
            raise InputError("metric", received=metric, expected=f"a metric of {self.audit}: {known}")
        return rows

    def summary(self) -> str:
        """A line a point, a column a metric."""
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        over = self.frame["over"][0]
        metrics = self.frame["metric"].unique(maintain_order=True).to_list()
        head = f"  {over:>8}" + "".join(f"  {_LABELS[name]:>28}" for name in metrics)
        lines = [f"{self.audit} over {over} ({settings})", head]
        for (at,), rows in self.frame.group_by("at", maintain_order=True):
            cells = "".join(f"  {_cell(row):>28}" for row in rows.iter_rows(named=True))
            lines.append(f"  {at:>8g}{cells}")
        return "\n".join(lines)

    __repr__ = summary


@checked
def sweep_horizon(
    recommender: Recommender | FittedModel,
    data: Interactions,
    *,
    audit: AuditName = "reachability",
    kind: Kind = "past",
    horizons: Sequence[int] = HORIZONS,
    policy: Policy | None = None,
    users: SomeIds = None,
    targets: SomeIds = None,
    editors: SomeIds = None,
    distance: Distance = "hellinger",
    fitted: Iterable[FittedModel] = (),
    confidence: float = 0.95,
    samples: int = 1000,
    rng: int = 0,
    engine: Engine | None = None,
) -> Sweep:
    """Reachability or instability with one rating that is free, with two, and so on.

    In the past, the model of horizon k is the one fitted without everybody's last k ratings: the recommender is fitted
    once a horizon, save where one of the `fitted` models has that very log. In the future, one model fitted to all of
    `data` serves every horizon, and may be given in place of the recommender.

    `users` are those whose recommendations are looked at (the viewers of instability), `targets` the items of
    reachability, `editors` those who rate in instability: ids, or how many to draw at random, or None for all.
    """
    for horizon in horizons:
        check_count("horizons", horizon)
    kinds: dict[Kind, type[Past | Future]] = {"past": Past, "future": Future}
    if kind not in kinds:
        raise InputError("kind", received=kind, expected="'past' or 'future'")
    if isinstance(recommender, FittedModel) and kind == "past":
        raise InputError(
            "recommender",
            received=f"a fitted {type(recommender).__name__}",
            expected="a recommender, such as ALS(), that can be fitted without the last ratings",
            remedy="For the future, a fitted model will do.",
        )
    models = recommender if isinstance(recommender, FittedModel) else Fits(recommender, fitted, rng)
    others = _others(data, audit, targets, editors, rng)
    bootstrap = Bootstrap(confidence, samples, rng)
    chosen = data.user_ids.gather(resolve_users(users, data, rng)).to_list()
    asked = _Asked(audit, chosen, others, distance, bootstrap, engine)

    def points() -> Iterator[tuple[float, pl.DataFrame]]:
        for horizon in track(horizons, f"{kind} {audit} by horizon", len(horizons)):
            actions = kinds[kind](horizon)
            log = actions.before(data) if isinstance(actions, Past) else data
            model = models if isinstance(models, FittedModel) else models.of(log)
            yield horizon, asked.summary(model, data, actions, policy)

    settings = {"kind": kind, "policy": repr(policy or Softmax()), **asked.told}
    return Sweep(audit, settings, _curves("horizon", points()))


@checked
def sweep_beta(
    model: Recommender | FittedModel,
    data: Interactions | None = None,
    *,
    audit: AuditName = "reachability",
    actions: Actions | Future | None = None,
    betas: Sequence[float] = BETAS,
    users: SomeIds = None,
    targets: SomeIds = None,
    editors: SomeIds = None,
    distance: Distance = "hellinger",
    confidence: float = 0.95,
    samples: int = 1000,
    rng: int = 0,
    engine: Engine | None = None,
) -> Sweep:
    """Reachability or instability under softmax with each beta: small, anything may be shown; large, the top item.

    `actions` are the ratings that are free, the user's own or the editor's (default: the last 5), and `data` the log
    with them, as in `reachability` and `instability`; the rest as in `sweep_horizon`. A recommender in place of the
    model is fitted to `data`, for `Past(k)` without everybody's last k ratings.
    """
    free = actions or Past(5)
    if isinstance(model, Recommender):
        if data is None:
            raise InputError("data", received="None", expected="the log to fit the recommender to")
        fitted = model.fit(free.before(data) if isinstance(free, Past) else data, rng)
    else:
        fitted = model
    log = fitted.data if data is None else data
    others = _others(log, audit, targets, editors, rng)
    bootstrap = Bootstrap(confidence, samples, rng)
    chosen = log.user_ids.gather(resolve_users(users, log, rng)).to_list()
    asked = _Asked(audit, chosen, others, distance, bootstrap, engine)

    def points() -> Iterator[tuple[float, pl.DataFrame]]:
        for beta in track(betas, f"{audit} by beta", len(betas)):
            yield beta, asked.summary(fitted, data, free, Softmax(beta=beta))

    return Sweep(audit, {"actions": repr(free), **asked.told}, _curves("beta", points()))


def _curves(over: str, points: Iterable[tuple[float, pl.DataFrame]]) -> pl.DataFrame:
    rows = [
        frame.select(pl.lit(over).alias("over"), pl.lit(float(at)).alias("at"), *SUMMARY_SCHEMA) for at, frame in points
    ]
    if not rows:
        expected = "at least one" if over == "horizon" else "at least one number above 0"
        raise InputError(f"{over}s", received="none", expected=expected)
    return pl.concat(rows).select(SERIES_SCHEMA.keys())


def _cell(row: Mapping[str, Any]) -> str:
    if row["value"] is None:
        return str(row["status"])
    interval = "" if row["lower"] is None else f" [{row['lower']:.4f}, {row['upper']:.4f}]"
    bound = ">= " if row["status"] == Status.BOUNDED else ""
    return f"{bound}{row['value']:.4f}{interval}"


@final
@dataclass(frozen=True, eq=False)
class _Asked:
    """Whom to ask, the same at every point."""

    audit: AuditName
    users: list[object]
    others: list[object]
    """The targets of reachability, the editors of instability."""
    distance: Distance
    bootstrap: Bootstrap
    engine: Engine | None

    @property
    def told(self) -> dict[str, object]:
        """What the numbers depend on."""
        if self.audit == "reachability":
            return {"users": len(self.users), "targets": len(self.others), "rng": self.bootstrap.rng}
        return {
            "distance": self.distance,
            "users": len(self.users),
            "editors": len(self.others),
            "rng": self.bootstrap.rng,
        }

    def summary(
        self, model: FittedModel, data: Interactions | None, actions: Actions | Future, policy: Policy | None
    ) -> pl.DataFrame:
        """The overall rows of the audit."""
        if self.audit == "reachability":
            solved = reachability(
                model,
                data,
                actions=actions,
                policy=policy or Softmax(),
                users=self.users,
                targets=self.others,
                by=(),
                confidence=self.bootstrap.confidence,
                samples=self.bootstrap.samples,
                rng=self.bootstrap.rng,
                engine=self.engine,
            )
            return solved.frame
        moved = instability(
            model,
            data,
            edits=actions,
            policy=policy,
            viewers=self.users,
            editors=self.others,
            distance=self.distance,
            pairs=False,
            rng=self.bootstrap.rng,
            engine=self.engine,
        )
        return self._aggregated(moved)

    def _aggregated(self, found: Instability) -> pl.DataFrame:
        made = self.bootstrap
        return found.aggregate(by=[], confidence=made.confidence, samples=made.samples, rng=made.rng).frame


def _others(data: Interactions, audit: AuditName, targets: SomeIds, editors: SomeIds, rng: int) -> list[object]:
    """The other side of each pair: items, or users."""
    if audit not in ("reachability", "instability"):
        raise InputError("audit", received=audit, expected="'reachability' or 'instability'")
    own = audit == "reachability"
    argument, stray = ("editors", editors) if own else ("targets", targets)
    if stray is not None:
        raise InputError(
            argument,
            received=f"{argument} beside audit={audit!r}",
            expected="targets for reachability, editors for instability",
        )
    if own:
        return data.item_ids.gather(resolve_items(targets, data, rng)).to_list()
    return data.user_ids.gather(resolve_users(editors, data, rng, "editors")).to_list()
