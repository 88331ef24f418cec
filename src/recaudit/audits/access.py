"""What an auditor finds with how much access: exactly, by gradients, or only by asking (paper 001, Figure 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, final

import numpy as np
import polars as pl
import torch

from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.asking import Visit, check_budget
from recaudit.audits.candidates import candidate_items
from recaudit.audits.instability.ask import ANSWERS, ask_distance
from recaudit.audits.instability.audit import instability
from recaudit.audits.logs import observed_log
from recaudit.audits.reachability.ask import Ask
from recaudit.audits.reachability.audit import reachability
from recaudit.audits.reachability.inquiry import Inquiry
from recaudit.audits.reachability.search import Search, check_pairs, refuse_many, search_distance
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine, Serial
from recaudit.engines.base import blocks
from recaudit.errors import NotSupportedError
from recaudit.interventions import Actions, Past
from recaudit.interventions.ratings import free_ratings
from recaudit.models.base import FittedModel, makers
from recaudit.models.given.black_box import as_black_box
from recaudit.models.response import AffineResponse
from recaudit.policies import Policy, Softmax
from recaudit.seeding import derive
from recaudit.solvers.distance.distances import Distance

if TYPE_CHECKING:
    import pandas as pd

METHODS = ("exact", "gradient", "black_box")
_LABELS = {"exact": "exact", "gradient": "gradient", "black_box": "black box"}
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

    def to_pandas(self) -> pd.DataFrame:
        """The `frame` as a pandas frame (needs the `pandas` extra)."""
        return self.frame.to_pandas()

    def shares(self) -> dict[str, float]:
        """How much of the exact value each method reaches, averaged over the pairs whose exact value is above 0."""
        known = self.frame.filter(pl.col("exact") > 0)
        return {name: float((known[name] / known["exact"]).to_numpy().mean()) for name in METHODS} if len(known) else {}

    def summary(self) -> str:
        """What each method finds on average, how much of the exact value that is, and at which price."""
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        known = self.frame.drop_nulls("exact")
        lines = [f"access, {self.audit} ({settings})"]
        left_out = len(self.frame) - len(known)
        lines.append(f"  {len(known):,} pairs" + (f", {left_out:,} not applicable" if left_out else ""))
        if not len(known):
            return lines[0] + "\n" + lines[1]
        lifts = self.audit == "reachability"
        shares = self.shares()
        for name in METHODS:
            mean = float(known[f"{name}_lift" if lifts else name].to_numpy().mean())
            share = f"  {shares[name]:7.2%} of the exact value" if name != "exact" and shares else ""
            lines.append(f"  {_LABELS[name]:<9}  mean {'lift' if lifts else 'value'} {mean:8.4g}{share}")
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
    model's response must be affine.
    """
    actions, policy = actions or Past(5), policy or Softmax()
    check_exact(model)
    log = observed_log(model, data, actions)
    positions, wanted = np.unique(log.users_at(users)), log.items_at(targets)
    baseline: Literal["factual", "scores"] = "factual" if isinstance(actions, Past) else "scores"
    inquiry = Inquiry(model, log, actions, policy, wanted, "unseen", baseline, 1, 1e-6, False, rng, "cpu")
    check_pairs(inquiry, positions)
    searches: dict[str, Ask | Search] = {
        "gradient": Search(inquiry, actions, restarts=0, polish=False),
        "black_box": Ask(replace(inquiry, model=as_black_box(model)), actions, budget),
    }
    engine = engine or Serial()
    exact = reachability(
        model,
        data,
        actions=actions,
        policy=policy,
        users=log.user_ids.gather(positions),
        targets=log.item_ids.gather(wanted),
        baseline=baseline,
        rng=rng,
        engine=engine,
    ).frame
    found = {name: pl.concat(engine.map(work, blocks(positions, 16), name)) for name, work in searches.items()}
    frame = exact.select("user", "item", "baseline", exact="value").with_columns(
        *(rows["value"].alias(name) for name, rows in found.items()),
        queries=pl.when(exact["value"].is_not_null()).then(found["black_box"]["queries"]),
        exact_lift=exact["lift"],
        **{f"{name}_lift": rows["lift"] for name, rows in found.items()},
    )
    settings = {"actions": repr(actions), "policy": repr(policy), "budget": budget, "rng": rng}
    return Access("reachability", settings, frame, exceeding(frame, exact["upper"]))


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
    ).frame
    work = _SearchDistances(model, log, edits, editing, distance, policy.beta, budget, rng)
    found = pl.concat(engine.map(work, blocks(looking, 4), "search"))
    frame = exact.select("viewer", "editor", exact="value").with_columns(found)
    settings = {"edits": repr(edits), "policy": repr(policy), "distance": distance, "budget": budget, "rng": rng}
    return Access("instability", settings, frame, exceeding(frame, exact["upper"]))


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
        allowed = candidate_items(self.log, viewers, np.empty((len(viewers), 0), dtype=np.int64), "unseen")
        scores = self.model.scores(viewers)
        rows: list[tuple[float | None, float | None, int | None]] = []
        for row, viewer in enumerate(viewers):
            for column, editor in enumerate(self.editors):
                if viewer == editor:
                    continue
                free = items[column] >= 0
                if not (free.any() and allowed[row].any()):
                    rows.append((None, None, None))
                    continue
                start = None if given is None else given[column, free]
                pair = int(viewer), int(editor), items[column, free]
                rows.append(self._pair(pair, scores[row], torch.from_numpy(allowed[row]), start))
        schema = {"gradient": pl.Float64, "black_box": pl.Float64, "queries": pl.Int32}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def _pair(
        self, pair: tuple[int, int, IntArray], scores: torch.Tensor, allowed: torch.Tensor, start: FloatArray | None
    ) -> tuple[float, float, int]:
        ids, ratings = self.log.user_ids, free_ratings(self.edits.ratings, self.log.scale)
        seed = derive(self.rng, "search", ids[pair[0]], ids[pair[1]])
        response = self.model.respond(*pair)
        gradient = search_distance(
            response,
            scores if start is None else response.scores(start),
            allowed,
            self.beta,
            ratings,
            self.distance,
            start=start,
            restarts=2,
            polish=False,
            rng=seed,
        )
        visit = Visit.of(as_black_box(self.model), self.budget)
        asked = ask_distance(visit, pair, start, allowed, self.beta, ratings, self.distance, seed)
        return gradient.value, asked.value, asked.asked.queries


def exceeding(frame: pl.DataFrame, upper: pl.Series) -> int:
    """How many values of the searches are above the certified bound `upper` (rows,) by more than rounding."""
    limit = upper * (1 + _ROUNDING) + 1e-12
    return sum(int((frame[name] > limit).sum()) for name in METHODS[1:])


def check_exact(model: FittedModel) -> None:
    """Refuse a model that has no exact answer to compare with."""
    if model.response is not AffineResponse:
        raise NotSupportedError(
            f"{type(model).__name__} has no exact answer to compare the others with. Models that have one: "
            f"{makers(lambda made: made.response is AffineResponse)}."
        )
