"""What is measured: lifts and distances of every user at each beta, held-out error, and what three methods find."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

import numpy as np
import polars as pl
from scipy.special import softmax

from recaudit.audits import instability, item_tiers, reachability, user_tiers
from recaudit.data import Interactions, datasets
from recaudit.interventions import Future, Interval, NextK, Past
from recaudit.models import AlsSolve, FactorVectors, FittedModel
from recaudit.plugins import Baseline, BoolArray, Candidates, derive, resolve_items, resolve_users, search_distance
from recaudit.policies import Softmax
from recaudit.registry import MODELS
from recaudit_papers.access import compare_access, compare_access_instability
from recaudit_papers.models.recurrent import RecurrentModel

Model = Mapping[str, Any]
"""A recommender's `kind` and settings; `solve`, where given, are those of the least-squares solve after an edit."""
When = Literal["past", "future"]


@cache
def log_of(data: str) -> Interactions:
    """A data set by name."""
    return datasets.load(data)


def fitted(data: str, model: Model, leave_out: int, seed: int) -> FittedModel:
    """The model of the log without everybody's last so many ratings."""
    return _fitted(data, json.dumps(dict(model), sort_keys=True), leave_out, seed)


@cache
def _fitted(data: str, model: str, leave_out: int, seed: int) -> FittedModel:
    settings = json.loads(model)
    if "solve" in settings:
        solve = settings.pop("solve")
        found = fitted(data, settings, leave_out, seed)
        assert isinstance(found, FactorVectors)
        return found.with_update(AlsSolve(**solve))
    log = log_of(data)
    recommender = MODELS[settings.pop("kind")](**settings)
    made: FittedModel = recommender.fit(Past(leave_out).before(log) if leave_out else log, seed)
    return made


def ratings(
    data: str,
    model: Model,
    when: When,
    ks: Sequence[int],
    seed: int,
    own: Mapping[str, Any] | None = None,
    others: Mapping[str, Any] | None = None,
    error: bool = False,
) -> pl.DataFrame:
    """What users can do to their own recommendations and others to them, with each k; a row a user, beta and group.

    `own` and `others` are what `own_ratings` and `others_ratings` are asked; `error` adds the held-out error of a model
    that has not seen the last k. The column `of` says which it is.
    """
    rows = []
    for k in ks:
        shared: dict[str, Any] = {"data": data, "model": model, "when": when, "k": k, "seed": seed}
        parts = []
        if own is not None:
            parts.append(own_ratings(**shared, **own).with_columns(of=pl.lit("own")))
        if others is not None:
            parts.append(others_ratings(**shared, **others).with_columns(of=pl.lit("others")))
        if error:
            parts.append(held_out_error(data, model, k, seed).with_columns(of=pl.lit("error")))
        rows.append(pl.concat(parts, how="diagonal").with_columns(k=pl.lit(k)))
    return pl.concat(rows, how="diagonal")


def own_ratings(
    data: str,
    model: Model,
    when: When,
    k: int,
    seed: int,
    *,
    betas: Sequence[float],
    users: int,
    targets: int,
    block: Sequence[int] = (0, 1),
    tiers: bool = False,
    solver: Literal["exact", "gradient"] = "exact",
    candidates: Candidates = "unseen",
) -> pl.DataFrame:
    """Past-k or future-k reachability: a row for each beta, group of items and user.

    `users` and `targets` are drawn; `block` says which part of how many of the users is asked about here. With `tiers`
    popular and intermediate items are groups beside the "drawn" ones.
    """
    log, found = log_of(data), fitted(data, model, k if when == "past" else 0, seed)
    asked = np.array_split(resolve_users(users, log, seed), block[1])[block[0]]
    groups: dict[str, list[object]] = {"drawn": log.item_ids.gather(resolve_items(targets, log, seed)).to_list()}
    if tiers:
        made = item_tiers(log, seed)
        groups |= {"popular": list(made.first), "intermediate": list(made.second)}
    rows = []
    for beta in betas:
        pairs = reachability(
            found,
            log,
            rng=seed,
            actions=Past(k) if when == "past" else Future(k),
            policy=Softmax(beta=beta),
            users=tuple(log.user_ids.gather(asked).to_list()),
            targets=tuple(dict.fromkeys(item for group in groups.values() for item in group)),
            solver=solver,
            candidates=candidates,
            refits=0,
        ).pairs.filter(pl.col("lift").is_finite() & (pl.col("lift") > 0))
        for group, items in groups.items():
            of_user = pairs.filter(pl.col("item").is_in(items)).group_by("user", maintain_order=True)
            rows.append(of_user.agg(_lifts()).with_columns(beta=pl.lit(float(beta)), group=pl.lit(group)))
    return pl.concat(rows).with_columns(pl.col("user").cast(pl.String))


def _lifts() -> list[pl.Expr]:
    """What a user's pairs come to."""
    lift, gained = pl.col("lift"), pl.col("value") - pl.col("baseline")
    return [
        pl.len().alias("pairs"),
        lift.mean().alias("mean_lift"),
        lift.log().mean().alias("log_lift"),
        lift.median().alias("median_lift"),
        lift.max().alias("max_lift"),
        (lift >= 1000).sum().alias("thousandfold"),
        pl.col("value").mean().alias("best"),
        pl.col("baseline").mean().alias("baseline"),
        pl.corr("lift", "baseline", method="spearman").alias("lift_with_baseline"),
        pl.corr(gained, "baseline", method="spearman").alias("gain_with_baseline"),
        (pl.col("status") == "bounded").mean().alias("bounded"),
    ]


def others_ratings(
    data: str,
    model: Model,
    when: When,
    k: int,
    seed: int,
    *,
    betas: Sequence[float],
    users: int,
    editors: int,
    tiers: bool = False,
    baseline: Baseline | None = None,
) -> pl.DataFrame:
    """Past-k or future-k instability: a row for each beta, group of editors and viewer.

    With `tiers` active and intermediate editors are groups beside the "drawn" ones.
    """
    log, found = log_of(data), fitted(data, model, k if when == "past" else 0, seed)
    groups: dict[str, list[object]] = {
        "drawn": log.user_ids.gather(resolve_users(editors, log, seed, "editors")).to_list()
    }
    if tiers:
        made = user_tiers(log, seed)
        groups |= {"active": list(made.first), "intermediate": list(made.second)}
    rows = []
    for beta in betas:
        pairs = instability(
            found,
            log,
            rng=seed,
            edits=Past(k) if when == "past" else Future(k),
            policy=Softmax(beta=beta),
            viewers=users,
            editors=tuple(dict.fromkeys(editor for group in groups.values() for editor in group)),
            baseline=baseline,
            pairs=True,
            refits=0,
        ).pairs.drop_nulls("value")
        for group, ids in groups.items():
            of_user = pairs.filter(pl.col("editor").is_in(ids)).group_by("viewer", maintain_order=True)
            rows.append(of_user.agg(_moves()).with_columns(beta=pl.lit(float(beta)), group=pl.lit(group)))
    return pl.concat(rows).rename({"viewer": "user"}).with_columns(pl.col("user").cast(pl.String))


def _moves() -> list[pl.Expr]:
    """What a viewer's pairs come to."""
    moved = pl.col("value")
    return [
        pl.len().alias("pairs"),
        moved.mean().alias("instability"),
        (moved < 0.1).mean().alias("near_0"),
        (moved > 0.9).mean().alias("near_1"),
    ]


def access(
    data: str, model: Model, when: When, k: int, betas: Sequence[float], users: int, others: int, budget: int, seed: int
) -> pl.DataFrame:
    """Exact answers, ascent and questions alone, on the same pairs: a row for each beta, metric and user.

    Another's next k items do not depend on their ratings (Algorithm 4), so that those of the future are `NextK(k)`.
    `as_printed`, of past lifts: the estimate of Section 5.2 as it is printed, see `_same_step`.
    """
    log, found = log_of(data), fitted(data, model, k if when == "past" else 0, seed)
    people, editors = (
        log.user_ids.gather(resolve_users(n, log, seed, label)).to_list()
        for n, label in ((users, "users"), (others, "editors"))
    )
    targets = log.item_ids.gather(resolve_items(others, log, seed)).to_list()
    rows = []
    for beta in betas:
        shared: dict[str, Any] = {"policy": Softmax(beta=beta), "budget": budget, "rng": seed}
        actions, edits = (Past(k), Past(k)) if when == "past" else (Future(k), NextK(k))
        own = compare_access(found, log, users=people, targets=targets, actions=actions, **shared).frame
        moved = compare_access_instability(found, log, viewers=people, editors=editors, edits=edits, **shared).frame
        own = own.drop_nulls("exact")
        if when == "past":
            own = own.with_columns(as_printed_lift=_same_step(found, log, k, beta, own) / own["baseline"])
        moved = moved.drop_nulls("exact").rename({"viewer": "user"})
        for metric, frame, suffix in (("lift", own, "_lift"), ("instability", moved, "")):
            methods = [name for name in METHODS if f"{name}{suffix}" in frame.columns]
            found_by = [pl.col(f"{name}{suffix}").mean().alias(name) for name in methods]
            of_user = frame.group_by("user", maintain_order=True).agg(pl.len().alias("pairs"), *found_by)
            rows.append(of_user.with_columns(beta=pl.lit(float(beta)), metric=pl.lit(metric)))
    return pl.concat(rows, how="diagonal").with_columns(pl.col("user").cast(pl.String))


METHODS = ("exact", "gradient", "black_box", "as_printed")


def _same_step(found: FittedModel, log: Interactions, k: int, beta: float, pairs: pl.DataFrame) -> pl.Series:
    """The best probability of each pair where every step adds the same to all ratings, from those that were given.

    The two-sided difference without its sign and direction is one number above 0 for all ratings alike.
    """
    low, high = log.scale
    actions, best = Past(k), []
    for (user,), targets in pairs.group_by("user", maintain_order=True):
        at = log.users_at([user])
        items = actions.items(found, at, 0, log)
        acted = items[:, items[0] >= 0]
        start = actions.unchanged(found, at, acted, log)[0]
        response = found.respond(int(at[0]), int(at[0]), acted[0])
        path = [np.minimum(start + step, high) for step in np.linspace(0, high - low, 41)]
        scores = np.stack([response.scores(point) for point in path])
        scores[:, log.history(int(at[0]))[0]] = -np.inf
        shown = softmax(beta * scores, axis=1).max(axis=0)
        best.append(shown[log.items_at(targets["item"])])
    return pl.Series(np.concatenate(best))


def algorithm_3(
    data: str, model: Model, k: int, betas: Sequence[float], users: int, editors: int, baseline: Baseline, seed: int
) -> pl.DataFrame:
    """Past-k instability by the paper's Algorithm 3: ascent from the factual ratings alone; a row a beta and viewer."""
    log, found = log_of(data), fitted(data, model, k, seed)
    actions = Past(k)
    viewers, rating = resolve_users(users, log, seed), resolve_users(editors, log, seed, "editors")
    items = actions.items(found, rating, seed, log)
    given = actions.unchanged(found, rating, items, log)
    scores = found.scores(viewers)
    box = Interval(*log.scale)
    rows = []
    for beta in betas:
        for row, viewer in enumerate(viewers.tolist()):
            unseen: BoolArray = np.ones(log.n_items, dtype=bool)
            unseen[log.history(viewer)[0]] = False
            values = []
            for column, editor in enumerate(rating.tolist()):
                free = items[column] >= 0
                if editor == viewer or not free.any():
                    continue
                response = found.respond(viewer, editor, items[column, free])
                start = given[column, free]
                before = scores[row] if baseline == "scores" else response.scores(start)
                climbed = search_distance(
                    response,
                    before,
                    unseen,
                    beta,
                    box,
                    "hellinger",
                    start=start,
                    restarts=0,
                    polish=False,
                    rng=derive(seed, "algorithm 3"),
                )
                values.append(float(climbed.value[0]))
            near = np.array(values)
            rows.append(
                {
                    "user": str(log.user_ids[viewer]),
                    "pairs": len(values),
                    "instability": near.mean(),
                    "near_0": (near < 0.1).mean(),
                    "near_1": (near > 0.9).mean(),
                    "beta": float(beta),
                    "group": "drawn",
                }
            )
    return pl.DataFrame(rows)


def held_out_error(data: str, model: Model, leave_out: int, seed: int) -> pl.DataFrame:
    """The squared error of the ratings that were left out, a row a user.

    `next_squared`, of the recurrent model: each rating predicted from all that stands before it, as it is trained to.
    """
    log, found = log_of(data), fitted(data, model, leave_out, seed)
    seen = np.zeros((log.n_users, log.n_items), dtype=bool)
    seen[found.data.users, found.data.items] = True
    left = ~seen[log.users, log.items]
    users, items, ratings = log.users[left].astype(np.int64), log.items[left].astype(np.int64), log.ratings[left]
    predicted = {"squared": np.clip(found.pair_scores(users, items), *log.scale)}
    if isinstance(found, RecurrentModel):
        predicted["next_squared"] = found.next_ratings(log)[left]
    errors = {name: (values - ratings) ** 2 for name, values in predicted.items()}
    frame = pl.DataFrame({"user": log.user_ids.gather(users).cast(pl.String), **errors})
    return frame.group_by("user", maintain_order=True).agg(pl.col(*errors).mean())


def shape_of(data: str) -> pl.DataFrame:
    """How large a log is."""
    log = log_of(data)
    counts = {"Users": log.n_users, "Items": log.n_items, "Ratings": len(log)}
    return pl.DataFrame(
        {
            "name": [*counts, "Density (%)"],
            "value": [*map(float, counts.values()), 100 * len(log) / (log.n_users * log.n_items)],
        }
    )
