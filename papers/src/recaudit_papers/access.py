"""What an auditor finds with how much access: exactly, by gradients, or only by queries (paper 001, Figure 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, final

import numpy as np
import polars as pl

import recaudit as ra
from recaudit.data import Interactions
from recaudit.engines import Engine, Serial
from recaudit.errors import NotSupportedError
from recaudit.interventions import Actions, Future, Interval, Past
from recaudit.models import AffineResponse, FittedModel, as_black_box
from recaudit.plugins import IntArray, as_data, blocks, candidate_items, derive, resolve_users, search_distance
from recaudit.policies import Policy, Softmax

Distance = Literal["hellinger", "tv", "l2"]
"""Of two distributions over a viewer's candidates, as `recaudit.Instability` has them."""

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
    """Compare the reachability of the same pairs by three methods: exact, gradient ascent, and queries alone.

    Exact is `recaudit.reachability`. Gradient is the paper's Algorithm 1: ascent on the log-probability from the
    unchanged ratings, clamped; for the future its Algorithm 2. Black box sees the same model from outside and has
    `budget` queries for each pair, the baseline among them. The arguments are those of `recaudit.reachability`.

    Args:
        model: A model whose response is affine.
        data: The interactions, if the model was fitted without each user's last ratings.
        users: Ids of the users.
        targets: Ids of the target items.
        actions: Which ratings may change; by default the last 5.
        policy: How scores become probabilities; by default softmax.
        budget: Queries for each pair.
        rng: Seed.
        engine: What computes.
    """
    _check_exact(model)
    shared: dict[str, Any] = {"users": tuple(users), "targets": tuple(targets), "actions": actions or Past(5)}
    shared |= {"rng": rng, "engine": engine, "refits": 0}
    result = ra.reachability(model, data, policy=policy or Softmax(), **shared)
    assert isinstance(result.audit, ra.Reachability)
    exact, shared["policy"] = result.pairs, result.audit.policy  # the policy with a number for beta
    found = {
        "gradient": ra.reachability(model, data, solver="gradient", **shared).pairs,
        "black_box": ra.reachability(as_black_box(model), data, budget=budget, **shared).pairs,
    }
    frame = exact.select("user", "item", "baseline", exact="value").with_columns(
        *(rows["value"].alias(name) for name, rows in found.items()),
        queries=pl.when(exact["value"].is_not_null()).then(found["black_box"]["queries"]),
        exact_lift=exact["lift"],
        **{f"{name}_lift": rows["lift"] for name, rows in found.items()},
    )
    settings = {name: as_data(result.audit)[name] for name in ("actions", "policy")}
    return Access("reachability", {**settings, "budget": budget, "rng": rng}, frame, exceeding(frame, exact["upper"]))


def compare_access_instability(
    model: FittedModel,
    data: Interactions | None = None,
    *,
    viewers: Iterable[object],
    editors: Iterable[object],
    edits: Actions | Future | None = None,
    distance: Distance = "hellinger",
    policy: Policy | None = None,
    budget: int = 200,
    rng: int = 0,
    engine: Engine | None = None,
) -> Access:
    """Compare the instability of the same pairs by three methods: exact, gradient ascent, and queries alone.

    Exact is `recaudit.instability`, the paper's oracle. Gradient is the paper's Algorithm 3, which starts at the
    factual ratings; where they are the baseline the distance has no slope there, so it starts at the center and at a
    random point as well. Black box sees the same model from outside and has `budget` queries for each pair, the
    baseline among them. The arguments are those of `recaudit.instability`.

    Args:
        model: A model whose response is affine.
        data: The interactions, if the model was fitted without each user's last ratings.
        viewers: Ids of the users whose recommendations are compared.
        editors: Ids of the users whose ratings change.
        edits: Which ratings may change; by default the last 5.
        distance: Of the distributions before and after.
        policy: How scores become probabilities; by default softmax.
        budget: Queries for each pair.
        rng: Seed.
        engine: What computes.
    """
    _check_exact(model)
    edits, engine = edits or Past(5), engine or Serial()
    if not isinstance(edits, Actions) or edits.changes is not None or not isinstance(policy or Softmax(), Softmax):
        raise NotSupportedError(f"Ascent and black-box search take Softmax and no limit on changes, not {edits}.")
    shared: dict[str, Any] = {"viewers": tuple(viewers), "editors": tuple(editors), "distance": distance}
    shared |= {"edits": edits, "pairs": True, "rng": rng, "engine": engine, "refits": 0}
    result = ra.instability(model, data, policy=policy or Softmax(), **shared)
    assert isinstance(result.audit, ra.Instability)
    exact, shared["policy"] = result.pairs, result.audit.policy
    asked = ra.instability(as_black_box(model), data, budget=budget, **shared).pairs
    log = model.data if data is None else data
    looking = resolve_users(shared["viewers"], log, rng, "viewers")
    climb = partial(_climb, model, log, resolve_users(shared["editors"], log, rng, "editors"), result.audit, rng)
    climbed = np.concatenate(list(engine.map(climb, blocks(looking, 4), "gradient")))
    known = exact["value"].is_not_null()
    frame = exact.select("viewer", "editor", exact="value").with_columns(
        gradient=pl.Series(climbed).fill_nan(None),
        black_box=asked["value"],
        queries=pl.when(known).then(asked["queries"]),
    )
    settings = {name: as_data(result.audit)[name] for name in ("edits", "policy", "distance")}
    return Access("instability", {**settings, "budget": budget, "rng": rng}, frame, exceeding(frame, exact["upper"]))


def _climb(
    model: FittedModel, log: Interactions, editors: IntArray, audit: ra.Instability, rng: int, viewers: IntArray
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Largest distance that ascent finds for each pair of different users, viewer by viewer; NaN where none applies."""
    edits = audit.edits
    assert isinstance(edits, Actions)
    assert isinstance(audit.policy, Softmax)
    beta = float(audit.policy.beta)
    items = edits.items(model, editors, rng, log)
    factual = edits.unchanged(model, editors, items, log) if audit.resolved_baseline == "factual" else None
    scores = model.scores(viewers)
    allowed = candidate_items(log, viewers, None, audit.candidates)
    ratings = edits.ratings or Interval(*log.scale)
    found = []
    for row, column in np.argwhere(viewers[:, None] != editors):
        free = items[column] >= 0
        if not (free.any() and allowed[row].any()):
            found.append(np.nan)
            continue
        viewer, editor = int(viewers[row]), int(editors[column])
        start = None if factual is None else factual[column, free]
        response = model.respond(viewer, editor, items[column, free])
        before = scores[row] if start is None else response.scores(start)
        solution = search_distance(
            response,
            before,
            allowed[row],
            beta,
            ratings,
            audit.distance,
            start=start,
            restarts=2,
            polish=False,
            rng=derive(rng, "search", log.user_ids[viewer], log.user_ids[editor]),
        )
        found.append(float(solution.value[0]))
    return np.array(found)


def exceeding(frame: pl.DataFrame, upper: pl.Series) -> int:
    """How many values of the searches are above the certified bound `upper` (rows,) by more than rounding."""
    limit = upper * (1 + _ROUNDING) + 1e-12
    return sum(int((frame[name] > limit).sum()) for name in METHODS[1:])


def _check_exact(model: FittedModel) -> None:
    """Refuse a model that has no exact answer to compare with."""
    if model.response is not AffineResponse:
        raise NotSupportedError(
            f"{model.called} has no exact answer to compare the others with. Models that have one are those whose "
            "scores are affine in the ratings: ALS, WALS, BiasedMF, ItemKNN, EASE, SLIM, models.from_factors, "
            "models.from_weights."
        )
