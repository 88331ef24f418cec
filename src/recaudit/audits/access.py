"""What an auditor finds with how much access: exactly, by gradients, or only by asking (paper 001, Figure 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import polars as pl
import torch

from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.asking import Visit, check_budget
from recaudit.audits.audit import Subject
from recaudit.audits.instability.ask import ANSWERS, ask_distance
from recaudit.audits.instability.audit import instability
from recaudit.audits.logs import observed_log
from recaudit.audits.reachability.audit import USERS, Reachability
from recaudit.audits.reachability.search import SearchMethod, refuse_many, search_distance
from recaudit.audits.samples import candidate_items, resolve_users
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine, Serial
from recaudit.engines.base import blocks
from recaudit.errors import NotSupportedError
from recaudit.interventions import Actions, Past
from recaudit.interventions.ratings import free_ratings
from recaudit.models.base import FittedModel
from recaudit.models.given.black_box import as_black_box
from recaudit.models.response import AffineResponse
from recaudit.policies import Policy, Softmax
from recaudit.registry import ACTIONS, POLICIES
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
    actions: Actions | None = None,
    policy: Policy | None = None,
    budget: int = 200,
    rng: int = 0,
    engine: Engine | None = None,
) -> Access:
    """Reachability of the same pairs by three methods: exact, by gradient ascent, and by asking.

    Exact is `reachability`. Gradient is the paper's Algorithm 1: ascent on the log-probability from the unchanged
    ratings, clamped. Black box sees the same model from outside and has `budget` queries for each pair, the baseline
    among them. The arguments are those of `reachability`; `actions` are the last 5 ratings where nothing is said. The
    model must have an exact answer: BiasedMF, ALS, ItemKNN, EASE and SLIM have one.
    """
    check_exact(model)
    asked: dict[str, Any] = {"users": users, "targets": targets, "budget": budget}
    audit = Reachability(actions=actions or Past(5), policy=policy or Softmax(), **asked)
    log, engine = observed_log(model, data, audit.actions), engine or Serial()
    positions = resolve_users(audit.users, log, rng)
    methods = {
        "gradient": audit.model_copy(update={"solver": "gradient"}).method(model, log, rng),
        "black_box": audit.method(as_black_box(model), log, rng),
    }
    for method in methods.values():
        assert isinstance(method, SearchMethod)
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
    edits, policy = edits or Past(5), policy or Softmax()
    check_exact(model)
    if edits.changes is not None or not isinstance(policy, Softmax):
        raise NotSupportedError(f"Ascent and black-box search take Softmax and no limit on changes, not {edits}.")
    log = observed_log(model, data, edits)
    looking, editing = np.unique(log.users_at(viewers)), np.unique(log.users_at(editors))
    refuse_many(len(looking) * len(editing), "viewers, editors", model)
    check_budget(as_black_box(model), budget, ANSWERS)
    engine = engine or Serial()
    exact = instability(
        model,
        data,
        edits=edits,
        viewers=log.user_ids.gather(looking),
        editors=log.user_ids.gather(editing),
        distance=distance,
        policy=policy,
        pairs=True,
        rng=rng,
        engine=engine,
    ).pairs
    work = _SearchDistances(model, log, edits, editing, distance, policy.beta, budget, rng)
    found = pl.concat(engine.map(work, blocks(looking, 4), "search"))
    frame = exact.select("viewer", "editor", exact="value").with_columns(found)
    settings = {"edits": as_data(edits, ACTIONS), "policy": as_data(policy, POLICIES), "distance": distance}
    return Access("instability", {**settings, "budget": budget, "rng": rng}, frame, exceeding(frame, exact["upper"]))


@final
@dataclass(frozen=True, eq=False)
class _SearchDistances:
    """A block of viewers in, what the two searches find for each of their pairs out; pure and picklable."""

    model: FittedModel
    log: Interactions
    edits: Actions
    editors: IntArray
    distance: Distance
    beta: float
    budget: int
    rng: int

    def __call__(self, viewers: IntArray) -> pl.DataFrame:
        items = self.edits.items(self.model, self.editors, self.rng, self.log)
        factual = isinstance(self.edits, Past)
        given = self.edits.unchanged(self.model, self.editors, items, self.log) if factual else None
        allowed = torch.from_numpy(candidate_items(self.log, viewers, np.empty((len(viewers), 0), np.int64), "unseen"))
        scores = self.model.scores(viewers)
        rows: list[tuple[float, float, int] | tuple[None, None, None]] = []
        for row, viewer in enumerate(viewers.tolist()):
            for column, editor in enumerate(self.editors.tolist()):
                free = items[column] >= 0
                if viewer != editor and free.any() and allowed[row].any():
                    start = None if given is None else given[column, free]
                    rows.append(self._pair((viewer, editor, items[column, free]), scores[row], allowed[row], start))
                elif viewer != editor:
                    rows.append((None, None, None))
        schema = {"gradient": pl.Float64, "black_box": pl.Float64, "queries": pl.Int32}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def _pair(
        self, pair: tuple[int, int, IntArray], scores: torch.Tensor, allowed: torch.Tensor, start: FloatArray | None
    ) -> tuple[float, float, int]:
        seed = derive(self.rng, "search", *(self.log.user_ids[person] for person in pair[:2]))
        response, visit = self.model.respond(*pair), Visit.of(as_black_box(self.model), self.budget)
        before = scores if start is None else response.scores(start)
        asked = (allowed, self.beta, free_ratings(self.edits.ratings, self.log.scale), self.distance)
        climbed = search_distance(response, before, *asked, start=start, restarts=2, polish=False, rng=seed)
        found = ask_distance(visit, pair, start, *asked, seed)
        return float(climbed.value[0]), found.value, found.asked.queries


def exceeding(frame: pl.DataFrame, upper: pl.Series) -> int:
    """How many values of the searches are above the certified bound `upper` (rows,) by more than rounding."""
    limit = upper * (1 + _ROUNDING) + 1e-12
    return sum(int((frame[name] > limit).sum()) for name in METHODS[1:])


def check_exact(model: FittedModel) -> None:
    """Refuse a model that has no exact answer to compare with."""
    if not issubclass(model.response, AffineResponse):
        raise NotSupportedError(
            f"{type(model).__name__} has no exact answer to compare the others with. Models that have one: BiasedMF, "
            "ALS, ItemKNN, EASE, SLIM, and what models.from_factors and models.from_weights return."
        )
