"""What an auditor finds with how much access: exactly, by gradients, or only by asking (paper 001, Figure 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import polars as pl
import torch

from recaudit.arrays import IntArray
from recaudit.audits.asking import Visit, check_budget
from recaudit.audits.audit import Context, Subject
from recaudit.audits.instability.audit import Instability
from recaudit.audits.instability.solvers import ANSWERS, PairwiseSolver, ask_distance
from recaudit.audits.logs import observed_log
from recaudit.audits.reachability.audit import USERS, Reachability
from recaudit.audits.reachability.search import SearchMethod, refuse_many, search_distance
from recaudit.audits.samples import resolve_users
from recaudit.audits.spread import resolved
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine, Serial
from recaudit.engines.base import blocks
from recaudit.errors import NotSupportedError
from recaudit.interventions import Actions, Future, Past
from recaudit.models.base import FittedModel, makers
from recaudit.models.given.black_box import as_black_box
from recaudit.models.response import AffineResponse
from recaudit.policies import Policy, Softmax
from recaudit.seeding import derive
from recaudit.solvers.distance.distances import Distance
from recaudit.specification import as_data

METHODS = ("exact", "gradient", "black_box")
_ROUNDING = 1e-6
"""By which share a value may pass the exact one's certified bound: rounding, not a better answer."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Access:
    """The same pairs, answered with three kinds of access."""

    audit: Literal["reachability", "instability"]
    settings: Mapping[str, object]
    frame: pl.DataFrame
    """One row a pair, null where the question does not apply: `exact`, `gradient` and `black_box` are the values found,
    `queries` how often the black box was asked. Reachability: user and item, the `baseline`, and the lift of each value
    over it. Instability: viewer and editor; the baseline is 0, and nothing is divided by it."""
    exceeding: int
    """How many values, of either search, are above the exact one's certified upper bound: 0, unless something is
    wrong."""

    def shares(self) -> dict[str, float]:
        """How much of the exact value each method reaches, averaged over the pairs whose exact value is above 0."""
        known = self.frame.filter(pl.col("exact") > 0)
        return {name: float((known[name] / known["exact"]).to_numpy().mean()) for name in METHODS} if len(known) else {}

    def summary(self) -> str:
        """What each method finds on average, how much of the exact value that is, and at which price."""
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        known = self.frame.drop_nulls("exact")
        left_out = f", {len(self.frame) - len(known):,} not applicable" if len(known) < len(self.frame) else ""
        lines = [f"access, {self.audit} ({settings})", f"  {len(known):,} pairs{left_out}"]
        if len(known):
            column, what = ("{}_lift", "lift") if self.audit == "reachability" else ("{}", "value")
            shares = self.shares()
            for name in METHODS:
                mean = float(known[column.format(name)].to_numpy().mean())
                share = f"  {shares[name]:7.2%} of the exact value" if name != "exact" and shares else ""
                lines.append(f"  {name.replace('_', ' '):<9}  mean {what} {mean:8.4g}{share}")
            queries = known["queries"].to_numpy()
            lines.append(f"  queries    {queries.mean():.0f} a pair, {queries.max()} at most")
            lines.append(f"  above the exact value's bound: {self.exceeding or 'none'}")
        return "\n".join(lines)

    __repr__ = summary


def compare_access(
    model: FittedModel,
    data: Interactions | None = None,
    *,
    users: Iterable[object],
    targets: Iterable[object],
    actions: Actions | Future | None = None,
    policy: Policy | None = None,
    budget: int = 200,
    rng: int = 0,
    engine: Engine | None = None,
) -> Access:
    """Reachability of the same pairs by three methods: exact, by gradient ascent, and by asking.

    Exact is `reachability`. Gradient is the paper's Algorithm 1: ascent on the log-probability from the unchanged
    ratings, clamped; for the future its Algorithm 2. Black box sees the same model from outside and has `budget`
    queries for each pair, the baseline among them. The arguments are those of `reachability`; `actions` are the last 5
    ratings where nothing is said. The model's response must be affine.
    """
    check_exact(model)
    asked: dict[str, Any] = {"users": users, "targets": targets, "budget": budget}
    audit = Reachability(actions=actions or Past(5), policy=policy or Softmax(), **asked)
    audit, _ = resolved(audit, Subject(model), Context(rng))
    log, engine = observed_log(model, data, audit.actions), engine or Serial()
    positions = resolve_users(audit.users, log, rng)
    methods = {
        "gradient": audit.model_copy(update={"solver": "gradient"}).method(model, log, rng),
        "black_box": audit.method(as_black_box(model), log, rng),
    }
    for method in methods.values():
        if isinstance(method, SearchMethod):
            method.check_pairs(positions)
    exact = audit.run(Subject(model, data=data), rng=rng, engine=engine).pairs
    found = {name: pl.concat(engine.map(method, blocks(positions, USERS), name)) for name, method in methods.items()}
    frame = exact.select("user", "item", "baseline", exact="value").with_columns(
        *(rows["value"].alias(name) for name, rows in found.items()),
        queries=pl.when(exact["value"].is_not_null()).then(found["black_box"]["queries"]),
        exact_lift=exact["lift"],
        **{f"{name}_lift": rows["lift"] for name, rows in found.items()},
    )
    settings = {name: as_data(audit)[name] for name in ("actions", "policy", "budget")}
    return Access("reachability", {**settings, "rng": rng}, frame, exceeding(frame, exact["upper"]))


def compare_access_instability(
    model: FittedModel,
    data: Interactions | None = None,
    *,
    viewers: Iterable[object],
    editors: Iterable[object],
    edits: Actions | None = None,
    distance: Distance = "hellinger",
    policy: Policy | None = None,
    budget: int = 200,
    rng: int = 0,
    engine: Engine | None = None,
) -> Access:
    """Instability of the same pairs by three methods: exact, by gradient ascent, and by asking.

    Exact is `instability`, the paper's oracle. Gradient is the paper's Algorithm 3, which starts at the factual
    ratings; where they are the baseline the distance has no slope there, so that it starts at the centre and at a
    random point as well. Black box sees the same model from outside and has `budget` queries for each pair, the
    baseline among them. The arguments are those of `instability`; `edits` are the last 5 ratings where nothing is said.
    """
    check_exact(model)
    asked: dict[str, Any] = {"viewers": viewers, "editors": editors, "distance": distance, "budget": budget}
    audit = Instability(edits=edits or Past(5), policy=policy or Softmax(), pairs=True, **asked)
    audit, _ = resolved(audit, Subject(model), Context(rng))
    actions, engine = audit.edits, engine or Serial()
    if not isinstance(actions, Actions) or actions.changes is not None or not isinstance(audit.policy, Softmax):
        raise NotSupportedError(f"Ascent and black-box search take Softmax and no limit on changes, not {actions}.")
    log = observed_log(model, data, actions)
    looking, editing = (resolve_users(getattr(audit, side), log, rng, side) for side in ("viewers", "editors"))
    refuse_many(len(looking) * len(editing), "viewers, editors", model)
    check_budget(as_black_box(model), budget, ANSWERS)
    exact = audit.run(Subject(model, data=data), rng=rng, engine=engine).pairs
    searches = _Searches(audit, model, log, editing, rng)
    found = pl.concat(engine.map(searches.find, blocks(looking, 4), "search"))
    frame = exact.select("viewer", "editor", exact="value").with_columns(found)
    settings = {name: as_data(audit)[name] for name in ("edits", "policy", "distance", "budget")}
    return Access("instability", {**settings, "rng": rng}, frame, exceeding(frame, exact["upper"]))


@final
class _Searches(PairwiseSolver):
    """What the two searches find for each pair of a block of viewers; pure and picklable."""

    def find(self, viewers: IntArray) -> pl.DataFrame:
        scores, allowed = self.model.scores(viewers), torch.from_numpy(self.allowed(viewers))
        rows: list[tuple[float, float, int] | tuple[None, None, None]] = []
        for row, column in np.argwhere(viewers[:, None] != self.editors):
            free = self.items[column] >= 0
            if not (free.any() and allowed[row].any()):
                rows.append((None, None, None))
                continue
            pair = int(viewers[row]), int(self.editors[column]), self.items[column, free]
            start = None if self.before is None else self.before[column, free]
            seed = derive(self.rng, "search", *(self.log.user_ids[person] for person in pair[:2]))
            response, visit = self.model.respond(*pair), Visit.of(as_black_box(self.model), self.audit.budget)
            before = scores[row] if start is None else response.scores(start)
            asked = allowed[row], self.beta, self.ratings, self.audit.distance
            climbed = search_distance(response, before, *asked, start=start, restarts=2, polish=False, rng=seed)
            spent, value, _ = ask_distance(visit, pair, start, *asked, seed)
            rows.append((float(climbed.value[0]), value, spent.queries))
        schema = {"gradient": pl.Float64, "black_box": pl.Float64, "queries": pl.Int32}
        return pl.DataFrame(rows, schema=schema, orient="row")


def exceeding(frame: pl.DataFrame, upper: pl.Series) -> int:
    """How many values of the searches are above the certified bound `upper` (rows,) by more than rounding."""
    limit = upper * (1 + _ROUNDING) + 1e-12
    return sum(int((frame[name] > limit).sum()) for name in METHODS[1:])


def check_exact(model: FittedModel) -> None:
    """Refuse a model that has no exact answer to compare with."""
    if model.response is not AffineResponse:
        raise NotSupportedError(
            f"{model.called} has no exact answer to compare the others with. Models that have one: "
            f"{makers(lambda made: made.response is AffineResponse)}."
        )
