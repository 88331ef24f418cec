"""The cases whose numbers are frozen, in the names of the start commit.

Audits mostly run on vectors, weights and functions that are made here, and a change of training leaves them alone.
The recommenders that are trained have cases of their own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import polars as pl
from frozen_package import NotAvailableError, Package, Tables, solution_tables
from scipy import sparse

SEEDS = 20
"""Trainings whose mean RMSE and nDCG a new training algorithm must keep."""


@final
@dataclass(frozen=True)
class Case:
    """A function from the package to named tables."""

    family: str
    """Name of its tables in the declared changes: the audit, "scores", "lists", "solver", ..."""
    make: Callable[[Package], Tables]
    is_sample: bool = False
    """If True, the case is in the sample that is committed and compared by a test."""


class Data(NamedTuple):
    """A dataset, and its split."""

    whole: Any
    train: Any
    test: Any


LEFT_OUT_OF_SAMPLE = ("people", "terms")
"""Tables that are large, and that the tables of the sample are made of."""


def kinds_in(value: Any) -> set[str]:
    """Return the kinds of all parts in settings."""
    if isinstance(value, Mapping):
        kind = {value["kind"]} if "kind" in value else set()
        return kind.union(*map(kinds_in, value.values()))
    return set().union(*map(kinds_in, value)) if isinstance(value, list | tuple) else set()


# Datasets


def split_last(package: Package, whole: Any, k: int) -> Data:
    """Hold out the last k ratings of every user."""
    return Data(whole, *package.call("splits.leave_last", whole, k=k))


@cache
def demo(package: Package) -> Data:
    """The built-in data."""
    return split_last(package, package.call("datasets.load", "demo"), 5)


@cache
def small(package: Package) -> Data:
    """The world of the built-in data with 60 users and 50 items."""
    world = package.call("data.synthetic.demo_world", rng=1, users=60, items=50)
    return split_last(package, world.data, 3)


@cache
def movielens(package: Package) -> Data:
    """200 users of MovieLens 100K, with genres and titles."""
    if "RECAUDIT_DATA" not in os.environ:
        raise NotAvailableError("RECAUDIT_DATA is not set")
    folder = Path(os.environ["RECAUDIT_DATA"]) / "ml-100k"
    if not folder.is_dir():
        raise NotAvailableError(f"the folder {folder} does not exist")
    ratings = package.call("datasets.load", "ml-100k", folder).frame()
    users = ratings["user"].unique().sort().gather_every(4).head(200)
    ratings = ratings.filter(pl.col("user").is_in(users.to_list()))
    whole = package.call("Interactions.from_frame", ratings, time="time", scale=(1, 5))
    rows = [line.split("|") for line in (folder / "u.item").read_text(encoding="latin-1").splitlines()]
    ids = [int(row[0]) for row in rows]
    genres = ["|".join(f"genre {at}" for at, flag in enumerate(row[5:24]) if flag == "1") for row in rows]
    items = pl.DataFrame({"item": ids, "title": [row[1] for row in rows], "genres": genres})
    items = items.with_columns(pl.col("item").cast(ratings.schema["item"]))
    whole = package.call(
        "Interactions.with_items", whole, items, title="title", categories={"genre": "genres"}, unknown="ignore"
    )
    return split_last(package, whole, 3)


def events(seed: int = 5, users: int = 40, items: int = 30) -> pl.DataFrame:
    """Generate users, items, whole ratings from 1 to 5 and times; about a third of all pairs."""
    draw = np.random.default_rng(seed)
    pairs = [(u, i) for u in range(users) for i in range(items) if draw.random() < 0.35]
    return pl.DataFrame(
        {
            "user": [f"u{u:02d}" for u, _ in pairs],
            "item": [f"i{i:02d}" for _, i in pairs],
            "rating": draw.integers(1, 6, len(pairs)).astype(float),
            "time": draw.permutation(len(pairs)),
        }
    )


@cache
def clicks(package: Package) -> Data:
    """Interactions without ratings."""
    frame = events().drop("rating")
    whole = package.call("Interactions.from_frame", frame, rating=None, time="time")
    return split_last(package, whole, 2)


@cache
def cold(package: Package) -> Data:
    """Ratings of 40 users, then five users with one rating each and three users and two items without any."""
    frame = events()
    lonely = pl.DataFrame(
        {"user": [f"x{u}" for u in range(5)], "item": ["i00", "i01", "i02", "i03", "i04"], "rating": [5.0] * 5}
    ).with_columns(time=pl.lit(-1, frame.schema["time"]))
    frame = pl.concat([frame, lonely])
    users = [*frame["user"].unique().sort(), "y0", "y1", "y2"]
    items = [*frame["item"].unique().sort(), "z0", "z1"]
    whole = package.call("Interactions.from_frame", frame, time="time", scale=(1, 5), users=users, items=items)
    return split_last(package, whole, 2)


@cache
def repeated(package: Package, duplicates: str) -> Data:
    """Ratings of which every third is given twice, the second time with another value."""
    frame = events()
    again = frame.gather_every(3).with_columns(rating=6 - pl.col("rating"), time=pl.col("time") + len(frame))
    whole = package.call(
        "Interactions.from_frame", pl.concat([frame, again]), time="time", scale=(1, 5), duplicates=duplicates
    )
    return split_last(package, whole, 2)


DATA: Mapping[str, Callable[[Package], Data]] = {
    "demo": demo,
    "small": small,
    "ml-100k": movielens,
    "clicks": clicks,
    "cold": cold,
    "repeated-last": partial(repeated, duplicates="last"),
    "repeated-mean": partial(repeated, duplicates="mean"),
}

# Models that are made here


def vectors(package: Package, data: Any, update: Any = None, *, is_tied: bool = False) -> Any:
    """Make a factor model from generated vectors; scores of a tied one are multiples of a quarter."""
    draw = np.random.default_rng(11)
    user, item = (draw.normal(scale=0.6, size=(count, 4)) for count in (data.n_users, data.n_items))
    bias = draw.normal(scale=0.4, size=data.n_items)
    if is_tied:
        user, item, bias = np.round(user), np.round(item), np.round(4 * bias) / 4
    return package.call(
        "models.from_factors", user, item, data, item_bias=bias, mean=3.25, update=update, predicts_ratings=True
    )


def item_weights(data: Any) -> np.ndarray[Any, Any]:
    """Generate weights between items, none from an item to itself."""
    weights = np.random.default_rng(12).normal(scale=0.1, size=(data.n_items, data.n_items))
    np.fill_diagonal(weights, 0.0)
    return weights


@final
class ItemScores:
    """Scores from a history of item ids and ratings, as a system that can only be queried computes them."""

    def __init__(self, data: Any) -> None:
        self.items = data.item_ids.to_list()
        self.position = {str(item): at for at, item in enumerate(self.items)}
        self.weights = item_weights(data)

    def of(self, items: Any, ratings: Any) -> np.ndarray[Any, Any]:
        """Return a score for every item."""
        rows = [self.position[str(item)] for item in items]
        scores = np.zeros(len(self.items))
        for row, rating in zip(rows, ratings, strict=True):
            scores += float(rating) * self.weights[row]
        return scores

    def ranked(self, items: Any, ratings: Any, count: int) -> list[Any]:
        """Return the ids of the unseen items with the highest scores."""
        seen = {str(item) for item in items}
        order = np.argsort(-self.of(items, ratings), kind="stable")
        return [self.items[at] for at in order if str(self.items[at]) not in seen][:count]


def als_update(package: Package) -> Any:
    """Return the update rule of alternating least squares."""
    return package.call("models.AlsSolve", regularization=0.5, per_rating=False)


def given_vectors(package: Package, data: Any) -> Any:
    """Make a factor model whose vectors are solved again."""
    return vectors(package, data, als_update(package))


def given_vectors_sgd(package: Package, data: Any) -> Any:
    """Make a factor model whose vectors take gradient steps."""
    return vectors(package, data, package.call("models.SgdStep", step=0.1))


def given_vectors_tied(package: Package, data: Any) -> Any:
    """Make a factor model with many equal scores."""
    return vectors(package, data, als_update(package), is_tied=True)


def given_weights(package: Package, data: Any) -> Any:
    """Make a linear model from weights between items."""
    return package.call("models.from_weights", item_weights(data), data, predicts_ratings=False)


def given_lists(package: Package, data: Any) -> Any:
    """Make a model from lists, some of them short; two users have none."""
    model = vectors(package, data)
    lists = package.recommend(model, 10)["lists"].select("user", "item", "rank")
    in_length = pl.col("rank") <= 10 - pl.col("user").rank("dense") % 4
    users = lists["user"].unique(maintain_order=True).slice(2)
    return package.call("models.from_lists", lists.filter(in_length, pl.col("user").is_in(users.to_list())), data)


def given_scores(package: Package, data: Any) -> Any:
    """Make a model from a function that returns scores."""
    scores = ItemScores(data)
    return package.call("models.from_system", data, scores=lambda history: scores.of(history.items, history.ratings))


def given_list_function(package: Package, data: Any) -> Any:
    """Make a model from a function that returns a list."""
    scores = ItemScores(data)
    return package.call(
        "models.from_system", data, lists=lambda history: scores.ranked(history.items, history.ratings, 10), repeats=1
    )


GIVEN: Mapping[str, Callable[[Package, Any], Any]] = {
    "vectors": given_vectors,
    "vectors-sgd": given_vectors_sgd,
    "vectors-tied": given_vectors_tied,
    "weights": given_weights,
    "lists": given_lists,
    "scores": given_scores,
    "list-function": given_list_function,
}

# Recommenders that are fitted


@final
@dataclass(frozen=True)
class Recommender:
    """Settings of a recommender, and which audits its models allow."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    kind: str = ""
    """The registered kind, where the name of the case is another."""
    responds: bool = True
    """If True, reachability is recorded."""
    moves_items: bool = False
    """If True, instability is recorded."""
    data: str = "small"
    seeds: bool = False
    """If True, RMSE and nDCG over 20 seeds are recorded: for iterative training."""
    is_sample: bool = True


RECOMMENDERS: Mapping[str, Recommender] = {
    "als": Recommender({"factors": 4, "iterations": 5}, moves_items=True, seeds=True),
    "wals": Recommender({"factors": 4, "iterations": 5, "regularization": 1.0}, moves_items=True, seeds=True),
    "wals-rank-one": Recommender(
        {"factors": 4, "iterations": 5, "weighting": "rank-one", "unobserved_weight": 0.05},
        kind="wals",
        moves_items=True,
    ),
    "wals-clicks": Recommender(
        {"factors": 4, "iterations": 5, "values": "ones", "center": "none"}, kind="wals", responds=False, data="clicks"
    ),
    "biased-mf": Recommender({"factors": 4, "epochs": 8}, moves_items=True, seeds=True),
    "item-knn": Recommender({"neighbours": 10, "shrinkage": 5.0}),
    "item-knn-pearson": Recommender({"neighbours": 10, "similarity": "pearson"}, kind="item-knn"),
    "user-knn": Recommender({"neighbours": 10, "shrinkage": 5.0}, responds=False),
    "ease": Recommender({"regularization": 20.0}),
    "ease-clicks": Recommender({"regularization": 5.0}, kind="ease", data="clicks"),
    "slim": Recommender({}, seeds=True),
    "top-pop": Recommender(responds=False),
    "top-pop-mean": Recommender({"by": "mean", "damping": 2.0}, kind="top-pop", responds=False),
    "random": Recommender(responds=False),
    "bayes-mf": Recommender({"factors": 3, "iterations": 12, "burn_in": 4}, responds=False, is_sample=False),
    "llorma": Recommender({"anchors": 2, "rank": 3, "epochs": 3, "pre_steps": 5}, responds=False, is_sample=False),
    "autorec": Recommender({"hidden": 6, "epochs": 4, "batch": 20}, responds=False, is_sample=False),
    "cf-nade": Recommender({"hidden": 6, "epochs": 2}, responds=False, is_sample=False),
    "recurrent": Recommender({"hidden": 4, "epochs": 2}, is_sample=False),
}

RECOMMENDERS_WITHOUT_A_CASE: Mapping[str, str] = {
    "factors": "reads the arrays of from_factors, which has cases, from a file",
    "lists": "reads the lists of from_lists, which has cases, from a file",
    "python": "imports an object that is one of the others",
    "http": "has cases of its own, by from_http",
}


def fitted(package: Package, name: str, data: Data | None = None) -> Any:
    """Fit a recommender of the table to its training data."""
    entry = RECOMMENDERS[name]
    train = (DATA[entry.data](package) if data is None else data).train
    return package.fit(entry.kind or name, train, 3, **entry.settings)


def recommender_of(package: Package, name: str) -> Any:
    """Make a recommender of the table, without fitting it."""
    entry = RECOMMENDERS[name]
    return package.part("models", entry.kind or name, **entry.settings)


def score_table(package: Package, name: str) -> Tables:
    """Record scores of a fitted recommender."""
    return package.scores(fitted(package, name), DATA[RECOMMENDERS[name].data](package).train)


def fitted_audit(package: Package, name: str, kind: str, settings: Mapping[str, Any]) -> Tables:
    """Record an audit of a fitted recommender."""
    test = DATA[RECOMMENDERS[name].data](package).test
    return package.run_audit(kind, fitted(package, name), test=test, settings=settings)


def accuracy_by_seed(package: Package, name: str) -> Tables:
    """Record RMSE and nDCG of trainings with different seeds."""
    entry, data = RECOMMENDERS[name], small(package)
    rows = []
    for seed in range(SEEDS):
        model = package.fit(entry.kind or name, data.train, seed, **entry.settings)
        frame = package.run_audit("accuracy", model, test=data.test, settings={"by": []})["summary"]
        values = dict(zip(frame["metric"], frame["value"], strict=True))
        rows.append({"seed": seed, "rmse": values["rmse"], "ndcg": values["ndcg"]})
    return {"seeds": pl.DataFrame(rows, schema={"seed": pl.Int64, "rmse": pl.Float64, "ndcg": pl.Float64})}


# Audits

NEXT = {"kind": "next-k", "k": 3}
STARS = {"kind": "stars", "low": 1, "high": 5}
HISTORY: Mapping[str, Any] = {"kind": "history-edits", "k": 3}
NEXT_STARS = {**NEXT, "ratings": STARS}
SOFTMAX = {"kind": "softmax", "beta": 2.0}
SOME = {"users": 4, "targets": 8}
PAIRS = {"viewers": 6, "editors": 5}
NEXT_INTERVAL = {**NEXT, "ratings": {"kind": "interval", "low": 1, "high": 5}}
HISTORY_INTERVAL = {**HISTORY, "ratings": {"kind": "interval", "low": 1, "high": 5}}
HISTORY_STARS = {"kind": "history-edits", "k": 3, "ratings": STARS}
CALIBRATED = {"kind": "calibrated", "weight": 0.9, "transform": "minmax"}


@final
@dataclass(frozen=True)
class AuditCase:
    """An audit with its settings, and what it is run on."""

    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    model: str | None = "vectors"
    """A key of GIVEN, or "fitted" for the model of `recommender`."""
    data: str = "small"
    recommender: str | None = None
    is_sample: bool = False

    def run(self, package: Package) -> Tables:
        """Run the audit."""
        data = DATA[self.data](package)
        recommender = None if self.recommender is None else recommender_of(package, self.recommender)
        if self.model == "fitted":
            assert self.recommender is not None
            model = fitted(package, self.recommender, data)
        else:
            model = None if self.model is None else GIVEN[self.model](package, data.train)
        # Past ratings are those that the model has not seen; otherwise the data are the model's own.
        needs_whole = self.kind in {"agency", "fidelity"} or '"past"' in json.dumps(self.settings)
        whole = data.whole if needs_whole else None
        return package.run_audit(
            self.kind, model, recommender=recommender, data=whole, test=data.test, settings=self.settings
        )


def reach(actions: Mapping[str, Any] = NEXT, policy: Mapping[str, Any] = SOFTMAX, **more: Any) -> dict[str, Any]:
    """Return settings of reachability for a few pairs."""
    return {"actions": actions, "policy": policy, **SOME, **more}


def move(edits: Mapping[str, Any] = NEXT, **more: Any) -> dict[str, Any]:
    """Return settings of instability for a few pairs."""
    return {"edits": edits, "policy": SOFTMAX, **PAIRS, **more}


def least(goal: Mapping[str, Any], actions: Mapping[str, Any] = NEXT_STARS, **more: Any) -> dict[str, Any]:
    """Return settings of recourse for a few outcomes."""
    return {"goal": goal, "actions": actions, "users": 5, "items": 4, **more}


TOP = {"kind": "top", "n": 5}
AUDITS: Mapping[str, AuditCase] = {
    # Lists
    "accuracy-vectors": AuditCase("accuracy", {"k": 5, "relevant": 4}, is_sample=True),
    "accuracy-demo": AuditCase("accuracy", {"k": 10}, data="demo"),
    "accuracy-softmax": AuditCase("accuracy", {"k": 5, "policy": SOFTMAX}, is_sample=True),
    "accuracy-tied": AuditCase("accuracy", {"k": 5}, "vectors-tied", is_sample=True),
    "accuracy-lists": AuditCase("accuracy", {"k": 5}, "lists", is_sample=True),
    "accuracy-function": AuditCase("accuracy", {"k": 5}, "list-function"),
    "accuracy-scores": AuditCase("accuracy", {"k": 5}, "scores"),
    "accuracy-clicks": AuditCase("accuracy", {"k": 5}, "weights", "clicks", is_sample=True),
    "accuracy-cold": AuditCase("accuracy", {"k": 5}, data="cold", is_sample=True),
    "accuracy-repeated-last": AuditCase("accuracy", {"k": 5}, "weights", "repeated-last", is_sample=True),
    "accuracy-repeated-mean": AuditCase("accuracy", {"k": 5}, "weights", "repeated-mean"),
    "accuracy-refits": AuditCase("accuracy", {"k": 5, "refits": 4}, "fitted", recommender="als"),
    "accuracy-ml-100k": AuditCase("accuracy", {"k": 10, "relevant": 4}, data="ml-100k"),
    "exposure-vectors": AuditCase("exposure", {"k": 5}, is_sample=True),
    "exposure-demo": AuditCase("exposure", {"k": 10}, data="demo"),
    "exposure-tied": AuditCase("exposure", {"k": 5}, "vectors-tied"),
    "exposure-lists": AuditCase("exposure", {"k": 5}, "lists"),
    "exposure-calibrated": AuditCase("exposure", {"k": 5, "policy": CALIBRATED}),
    "exposure-clicks": AuditCase("exposure", {"k": 5}, "weights", "clicks"),
    "exposure-cold": AuditCase("exposure", {"k": 5}, data="cold"),
    "exposure-ml-100k": AuditCase("exposure", {"k": 10}, data="ml-100k"),
    # Reachability
    "reachability-vectors": AuditCase("reachability", reach(), is_sample=True),
    "reachability-auto": AuditCase("reachability", {**SOME, "actions": NEXT}),
    "reachability-perplexity": AuditCase("reachability", reach(policy={"kind": "softmax", "perplexity": 8})),
    "reachability-sgd": AuditCase("reachability", reach(), "vectors-sgd", is_sample=True),
    "reachability-tied": AuditCase("reachability", reach(policy={"kind": "top-1"}), "vectors-tied", is_sample=True),
    "reachability-weights": AuditCase("reachability", reach(HISTORY), "weights"),
    "reachability-history": AuditCase("reachability", reach(HISTORY)),
    "reachability-unseen": AuditCase("reachability", reach({"kind": "future-edits", "k": 3})),
    "reachability-given-items": AuditCase(
        "reachability", reach({"kind": "given-items", "ids": ["film-001", "film-002", "film-003"]})
    ),
    "reachability-past": AuditCase("reachability", reach({"kind": "past", "k": 3})),
    "reachability-future": AuditCase("reachability", reach({"kind": "future", "k": 2})),
    "reachability-future-top-1": AuditCase("reachability", reach({"kind": "future", "k": 2}, {"kind": "top-1"})),
    "reachability-future-stars": AuditCase("reachability", reach({"kind": "future", "k": 2, "ratings": STARS})),
    "reachability-future-drawn": AuditCase(
        "reachability", reach({"kind": "future", "k": 1, "follows": SOFTMAX}, users=2, targets=3)
    ),
    "reachability-future-drawn-2": AuditCase(
        "reachability", reach({"kind": "future", "k": 2, "follows": SOFTMAX}, users=1, targets=2)
    ),
    "reachability-future-drawn-3": AuditCase(
        "reachability", reach({"kind": "future", "k": 3, "follows": SOFTMAX}, users=1, targets=2, sequences=50)
    ),
    "reachability-future-drawn-demo": AuditCase(
        "reachability",
        reach({"kind": "future", "k": 1, "follows": {"kind": "softmax", "beta": 0.5}}, users=1, targets=3),
        data="demo",
    ),
    "reachability-future-few": AuditCase(
        "reachability", reach({"kind": "future", "k": 3}, users=2, targets=6, sequences=2)
    ),
    "reachability-future-few-top-1": AuditCase(
        "reachability", reach({"kind": "future", "k": 3}, {"kind": "top-1"}, users=2, targets=6, sequences=2)
    ),
    "reachability-future-gradient": AuditCase(
        "reachability", reach({"kind": "future", "k": 2}, users=2, targets=4, solver="gradient")
    ),
    "reachability-future-demo": AuditCase(
        "reachability", reach({"kind": "future", "k": 2}, users=2, targets=20), data="demo"
    ),
    "reachability-stars": AuditCase("reachability", reach(NEXT_STARS), is_sample=True),
    "reachability-changes": AuditCase(
        "reachability", reach({**HISTORY_STARS, "changes": 1}, best_actions=True), is_sample=True
    ),
    "reachability-top-1": AuditCase("reachability", reach(policy={"kind": "top-1"}), is_sample=True),
    "reachability-epsilon-greedy": AuditCase("reachability", reach(policy={"kind": "epsilon-greedy", "epsilon": 0.2})),
    "reachability-power": AuditCase("reachability", reach(policy={"kind": "power", "power": 2.0})),
    "reachability-slate": AuditCase("reachability", reach(slate=3)),
    "reachability-best-actions": AuditCase("reachability", reach(best_actions=True)),
    "reachability-predicted": AuditCase("reachability", reach(baseline="predicted", candidates="all")),
    "reachability-gradient": AuditCase("reachability", reach(solver="gradient")),
    "reachability-queried": AuditCase("reachability", reach(budget=30), "scores"),
    "reachability-queried-lists": AuditCase(
        "reachability", reach(policy={"kind": "top-1"}, budget=30), "list-function"
    ),
    "reachability-queried-future": AuditCase(
        "reachability", reach({"kind": "future", "k": 2}, budget=30, users=2), "scores"
    ),
    "reachability-clicks": AuditCase("reachability", reach(HISTORY), "weights", "clicks"),
    "reachability-cold": AuditCase("reachability", reach(users=["x0", "x1", "y0", "u00"]), data="cold"),
    "reachability-refits": AuditCase("reachability", reach(refits=2), "fitted", recommender="als"),
    "reachability-demo": AuditCase(
        "reachability", reach({"kind": "next-k", "k": 10}, users=20, targets=20), data="demo"
    ),
    "reachability-ml-100k": AuditCase("reachability", reach({"kind": "next-k", "k": 10}), data="ml-100k"),
    # Instability
    "instability-vectors": AuditCase("instability", move(), is_sample=True),
    "instability-past": AuditCase("instability", move({"kind": "past", "k": 3}), is_sample=True),
    "instability-sgd": AuditCase("instability", move(), "vectors-sgd"),
    "instability-history": AuditCase("instability", move(HISTORY)),
    "instability-future": AuditCase("instability", move({"kind": "future", "k": 3})),
    "instability-future-drawn": AuditCase("instability", move({"kind": "future", "k": 2, "follows": SOFTMAX})),
    "instability-future-drawn-1": AuditCase("instability", move({"kind": "future", "k": 1, "follows": SOFTMAX})),
    "instability-stars": AuditCase("instability", move({**HISTORY_STARS, "changes": 1}, baseline="factual")),
    "instability-kl": AuditCase("instability", move(distance="kl", best_ratings=True)),
    "instability-l2": AuditCase("instability", move(distance="l2")),
    "instability-tv": AuditCase("instability", move(distance="tv", candidates="all"), is_sample=True),
    "instability-item": AuditCase("instability", move(item="film-001", candidates="all")),
    "instability-own-history": AuditCase("instability", move(), "scores"),
    "instability-demo": AuditCase(
        "instability", {**move({"kind": "next-k", "k": 5}), "viewers": 50, "editors": 50}, data="demo"
    ),
    "instability-ml-100k": AuditCase("instability", move({"kind": "next-k", "k": 5}), data="ml-100k"),
    # Recourse
    "recourse-stars": AuditCase("recourse", least(TOP), is_sample=True),
    "recourse-interval": AuditCase("recourse", least(TOP, NEXT_INTERVAL)),
    "recourse-total": AuditCase("recourse", least(TOP, effort={"kind": "total"})),
    "recourse-costs": AuditCase(
        "recourse", least(TOP, effort={"kind": "costs", "by_item": {"film-001": 2.0}, "otherwise": 1.0})
    ),
    "recourse-out": AuditCase("recourse", least({"kind": "out", "n": 5}, HISTORY_STARS), is_sample=True),
    "recourse-out-interval": AuditCase("recourse", least({"kind": "out", "n": 5}, HISTORY_INTERVAL)),
    "recourse-likely": AuditCase("recourse", least({"kind": "likely", "p": 0.05, "beta": 2.0})),
    "recourse-likely-interval": AuditCase("recourse", least({"kind": "likely", "p": 0.05, "beta": 2.0}, NEXT_INTERVAL)),
    "recourse-share": AuditCase(
        "recourse", least({"kind": "share", "category": "Drama", "at_least": 0.4, "n": 5}, HISTORY_STARS)
    ),
    "recourse-share-interval": AuditCase(
        "recourse",
        least({"kind": "share", "category": "Drama", "at_least": 0.4, "n": 5}, HISTORY_INTERVAL),
    ),
    "recourse-calibrated": AuditCase("recourse", least({"kind": "calibrated", "c": 0.6, "n": 5}, HISTORY_STARS)),
    "recourse-total-interval": AuditCase("recourse", least(TOP, NEXT_INTERVAL, effort={"kind": "total"})),
    "recourse-calibrated-interval": AuditCase(
        "recourse", least({"kind": "calibrated", "c": 0.6, "n": 5}, HISTORY_INTERVAL, users=3)
    ),
    "recourse-queried": AuditCase("recourse", least(TOP, HISTORY_STARS, budget=40), "scores"),
    "recourse-tied": AuditCase("recourse", least(TOP), "vectors-tied"),
    # The other audits
    "agency-als": AuditCase(
        "agency",
        {
            "k": 2,
            "horizons": [1, 2],
            "betas": [1.0, 2.0],
            "policy": SOFTMAX,
            "users": 5,
            "followed": 2,
            "targets": 5,
            "editors": 5,
            "refits": 1,
        },
        "fitted",
        recommender="als",
    ),
    "folding-vectors": AuditCase("folding", {"k": 5}, is_sample=True),
    "folding-genre": AuditCase("folding", {"k": 5, "relatedness": ["genre", "log"], "similarity": "dot"}),
    "folding-ml-100k": AuditCase("folding", {"k": 10, "relatedness": ["genre"]}, data="ml-100k"),
    "calibration-vectors": AuditCase("calibration", {"k": 10, "tested": 20}, is_sample=True),
    "calibration-policy": AuditCase(
        "calibration", {"k": 10, "tested": 20, "policy": CALIBRATED, "history_weights": "rating"}
    ),
    "calibration-lists": AuditCase("calibration", {"k": 10, "tested": 20, "rank_weights": "ndcg"}, "lists"),
    "calibration-recency": AuditCase(
        "calibration", {"k": 10, "tested": 20, "history_weights": "recency", "half_life": 3e7}
    ),
    "calibration-ml-100k": AuditCase(
        "calibration", {"k": 10, "tested": 20, "prior_weight": 0.2, "smoothing": 0.05}, data="ml-100k"
    ),
    "reranking-vectors": AuditCase(
        "reranking", {"k": 10, "tested": 20, "weight": 0.9, "relevant": 4, "curve": [0.0, 0.9]}, is_sample=True
    ),
    "calibration-curve-vectors": AuditCase(
        "calibration-curve", {"k": [5, 10], "weights": [0.0, 0.5, 0.99]}, is_sample=True
    ),
    "calibration-curve-prefix": AuditCase(
        "calibration-curve",
        {"k": [5, 10], "weights": [0.0, 0.9], "policy": {"horizon": "prefix"}},
    ),
    "fidelity-reachability": AuditCase(
        "fidelity",
        {"audit": {"kind": "reachability", **reach(users=2, targets=2)}, "top": 1, "other_rng": 5},
        "fitted",
        recommender="als",
    ),
    "fidelity-instability": AuditCase(
        "fidelity",
        {"audit": {"kind": "instability", **move({"kind": "past", "k": 3}, viewers=2, editors=2)}},
        "fitted",
        recommender="als",
    ),
    "mitigation-wals": AuditCase(
        "mitigation",
        {
            "k": 5,
            "weights": [0.9],
            "unobserved_weights": [0.1],
            "beta_factors": [2.0],
            "policy": SOFTMAX,
            "relevant": 4,
            "users": 5,
            "targets": 4,
            "editors": 3,
        },
        "fitted",
        recommender="wals",
    ),
    "composed-prediction": AuditCase(
        "composed",
        {
            "intervention": {"kind": "others", "actions": {"kind": "past", "k": 3}},
            "outcome": {"kind": "predicted-rating"},
            "functional": {"kind": "change"},
            "over": {"kind": "max"},
            **PAIRS,
        },
        is_sample=True,
    ),
    "composed-own": AuditCase(
        "composed",
        {
            "intervention": {"kind": "own", "actions": NEXT},
            "outcome": {"kind": "probability"},
            "functional": {"kind": "lift"},
            "over": {"kind": "max"},
            "policy": SOFTMAX,
            "viewers": 3,
        },
    ),
    "composed-own-prediction": AuditCase(
        "composed",
        {
            "intervention": {"kind": "own", "actions": NEXT},
            "outcome": {"kind": "predicted-rating"},
            "functional": {"kind": "change"},
            "over": {"kind": "max"},
            "viewers": 3,
        },
    ),
    "composed-at": AuditCase(
        "composed",
        {
            "intervention": {"kind": "own", "actions": NEXT},
            "outcome": {"kind": "probability"},
            "functional": {"kind": "lift"},
            "over": {"kind": "at", "ratings": 5},
            "policy": SOFTMAX,
            "viewers": 5,
        },
    ),
    "composed-list": AuditCase(
        "composed",
        {
            "intervention": {"kind": "own", "actions": NEXT},
            "outcome": {"kind": "recommended-list", "k": 5},
            "functional": {"kind": "replaced"},
            "over": {"kind": "at", "ratings": 1},
            "policy": {"kind": "top-1"},
            "viewers": 5,
        },
    ),
    "composed-distribution": AuditCase(
        "composed",
        {
            "intervention": {"kind": "others", "actions": NEXT},
            "outcome": {"kind": "distribution"},
            "functional": {"kind": "moved", "name": "tv"},
            "over": {"kind": "max"},
            "policy": SOFTMAX,
            **PAIRS,
        },
    ),
    "composed-probability": AuditCase(
        "composed",
        {
            "intervention": {"kind": "others", "actions": NEXT},
            "outcome": {"kind": "probability"},
            "functional": {"kind": "lift"},
            "over": {"kind": "max"},
            "policy": SOFTMAX,
            **PAIRS,
        },
    ),
}

# Policies

POLICIES: Mapping[str, Mapping[str, Any]] = {
    "top-1": {"kind": "top-1"},
    "softmax": {"kind": "softmax", "beta": 1.5},
    "epsilon-greedy": {"kind": "epsilon-greedy", "epsilon": 0.3},
    "power": {"kind": "power", "power": 2.0},
    "calibrated": {"kind": "calibrated", "weight": 0.8, "transform": "minmax", "at_most": {"Drama": 2}},
    "calibrated-prefix": {"kind": "calibrated", "weight": 0.8, "horizon": "prefix", "rank_weights": "mrr"},
}


def policy_lists(package: Package, policy: Mapping[str, Any], model: str = "vectors") -> Tables:
    """Record the lists of a policy."""
    return package.recommend(GIVEN[model](package, small(package).train), 6, policy, seed=7)


# Adapters


def needs(*libraries: str) -> None:
    """Raise `NotAvailableError` if a library is not installed."""
    missing = [library for library in libraries if importlib.util.find_spec(library) is None]
    if missing:
        raise NotAvailableError(f"{', '.join(missing)} is not installed")


def implicit_als(package: Package, data: Any) -> Any:
    """Adapt alternating least squares of implicit."""
    needs("implicit")
    from implicit.als import AlternatingLeastSquares  # noqa: PLC0415  optional

    model = AlternatingLeastSquares(factors=4, iterations=5, alpha=2.0, random_state=0, num_threads=1)
    model.fit(data.matrix(), show_progress=False)
    return package.adapt(model, data)


def implicit_cosine(package: Package, data: Any) -> Any:
    """Adapt the neighborhood model of implicit."""
    needs("implicit")
    from implicit.nearest_neighbours import CosineRecommender  # noqa: PLC0415  optional

    model = CosineRecommender(K=10, num_threads=1)
    model.fit(data.matrix(), show_progress=False)
    return package.adapt(model, data)


def surprise_model(package: Package, data: Any, algorithm: str, **settings: Any) -> Any:
    """Adapt an algorithm of Surprise."""
    needs("surprise", "pandas")
    import surprise  # noqa: PLC0415  optional

    rows = data.frame().select("user", "item", "rating").to_pandas()
    ratings = surprise.Dataset.load_from_df(rows, surprise.Reader(rating_scale=data.scale))
    model = getattr(surprise, algorithm)(**settings).fit(ratings.build_full_trainset())
    return package.adapt(model, data)


def cornac_model(package: Package, data: Any, algorithm: str, **settings: Any) -> Any:
    """Adapt a model of Cornac."""
    needs("cornac")
    import cornac  # noqa: PLC0415  optional

    rows = data.frame().select("user", "item", "rating").rows()
    model = getattr(cornac.models, algorithm)(verbose=False, **settings)
    return package.adapt(model.fit(cornac.data.Dataset.from_uir(rows, seed=0)), data)


def lightfm_model(package: Package, data: Any) -> Any:
    """Adapt a model of LightFM."""
    needs("lightfm")
    from lightfm import LightFM  # noqa: PLC0415  optional

    model = LightFM(no_components=4, loss="warp", random_state=0)
    model.fit(data.matrix(), epochs=5, num_threads=1)
    return package.adapt(model, data, epochs=5)


def torch_module(package: Package, data: Any) -> Any:
    """Adapt an autoencoder with generated weights."""
    needs("torch")
    import torch  # noqa: PLC0415  optional

    draw = np.random.default_rng(13)
    module = torch.nn.Sequential(torch.nn.Linear(data.n_items, 5), torch.nn.Tanh(), torch.nn.Linear(5, data.n_items))
    with torch.no_grad():
        for weights in module.parameters():
            weights.copy_(torch.from_numpy(draw.normal(scale=0.2, size=tuple(weights.shape))))
    return package.adapt(module, data, predicts_ratings=False)


@final
@dataclass(frozen=True)
class Adapter:
    """A model of another library, and which audits it allows."""

    make: Callable[[Package, Any], Any]
    responds: bool = True
    moves_items: bool = False


ADAPTERS: Mapping[str, Adapter] = {
    "implicit": Adapter(implicit_als, moves_items=True),
    "implicit-cosine": Adapter(implicit_cosine),
    "surprise": Adapter(
        partial(surprise_model, algorithm="SVD", n_factors=4, n_epochs=5, random_state=0), moves_items=True
    ),
    "surprise-knn": Adapter(
        partial(surprise_model, algorithm="KNNBaseline", sim_options={"user_based": False}, verbose=False)
    ),
    "cornac": Adapter(partial(cornac_model, algorithm="EASE", seed=0)),
    "cornac-mf": Adapter(partial(cornac_model, algorithm="MF", k=4, max_iter=5, seed=0), responds=False),
    "lightfm": Adapter(lightfm_model, responds=False),
    "torch": Adapter(torch_module),
}

ADAPTERS_WITHOUT_A_CASE: Mapping[str, str] = {
    "river": "the next version has no adapter of river",
    "sklearn": "the next version has no adapter of scikit-learn",
    "lenskit": "needs pandas 2 and with it an environment of its own",
}


def adapted_scores(package: Package, name: str) -> Tables:
    """Record scores of an adapted model."""
    data = small(package).train
    return package.scores(ADAPTERS[name].make(package, data), data)


def adapted_audit(package: Package, name: str, kind: str, settings: Mapping[str, Any]) -> Tables:
    """Record an audit of an adapted model."""
    data = small(package)
    return package.run_audit(kind, ADAPTERS[name].make(package, data.train), test=data.test, settings=settings)


# A service


@contextmanager
def service(data: Any) -> Iterator[str]:
    """Serve lists on this machine and yield the address; histories are posted."""
    scores = ItemScores(data)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            items, ratings = ([each[name] for each in sent["history"]] for name in ("item", "rating"))
            body = json.dumps([{"id": item} for item in scores.ranked(items, ratings, sent["n"])]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class names it
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/recommend"
        finally:
            server.shutdown()
            thread.join()


def served_audit(package: Package, kind: str, settings: Mapping[str, Any]) -> Tables:
    """Record an audit of a service."""
    needs("httpx")
    data = small(package)
    with service(data.train) as address, tempfile.TemporaryDirectory() as folder:
        model = package.call(
            "models.from_http",
            address,
            data.train,
            request={"history": "{history}", "n": "{k}"},
            answer="[].id",
            k=20,
            users=20,
            rate=None,
            concurrency=1,
            cache=folder,
        )
        return package.run_audit(kind, model, test=data.test, settings=settings)


SERVICE: Mapping[str, Mapping[str, Any]] = {
    "accuracy": {"k": 5},
    "exposure": {"k": 5},
    "reachability": reach({"kind": "history-edits", "k": 2}, {"kind": "top-1"}, users=4, targets=8, budget=25),
}

# Solvers


def affine(seed: int = 21, items: int = 15, actions: int = 3) -> tuple[Any, Any]:
    """Generate slopes (items, actions) and intercepts (items,)."""
    draw = np.random.default_rng(seed)
    return draw.normal(scale=0.5, size=(items, actions)), draw.normal(size=items)


def solver_softmax(package: Package) -> Tables:
    """Maximize probabilities over a box."""
    slope, intercept = affine()
    return package.solve("maximize_softmax", slope, intercept, np.arange(15), 2.0, -1.0, 1.0)


def solver_softmax_sharp(package: Package) -> Tables:
    """Maximize probabilities of a sharp policy over a box whose sides differ."""
    slope, intercept = affine(22)
    lower, upper = np.array([-1.0, 0.0, 0.5]), np.array([1.0, 2.0, 0.5])
    return package.solve("maximize_softmax", slope, intercept, np.arange(15), 30.0, lower, upper)


def solver_batch(package: Package) -> Tables:
    """Maximize probabilities in several problems."""
    parts = [affine(seed) for seed in (23, 24)]
    slope, intercept = (np.stack(each) for each in zip(*parts, strict=True))
    intercept[1, 3] = -np.inf
    targets = np.zeros((2, 15), dtype=bool)
    targets[:, [0, 5, 9]] = True
    return package.solve("maximize_softmax_batch", slope, intercept, targets, 2.0, 1.0, 5.0, actions=True)


def solver_discrete(package: Package) -> Tables:
    """Maximize probabilities over whole ratings, at most two of them changed."""
    slope, intercept = affine()
    return package.solve(
        "maximize_softmax_discrete",
        slope,
        intercept,
        np.arange(8),
        2.0,
        np.arange(1.0, 6.0),
        start=np.array([3.0, 3.0, 2.0]),
        changes=2,
    )


def solver_slate(package: Package) -> Tables:
    """Bound the probability of being among three items."""
    slope, intercept = affine()
    return package.solve("bound_slate", slope, intercept, np.arange(8), 2.0, 3, -1.0, 1.0)


def solver_power(package: Package) -> Tables:
    """Maximize probabilities of a power policy."""
    slope, intercept = affine()
    return package.solve("maximize_power", 0.2 * slope, 3 + 0.5 * intercept, np.arange(8), 2.0, -1.0, 1.0)


def solver_beta(package: Package) -> Tables:
    """Find the best beta of some items."""
    slope, intercept = affine()
    tables = [package.solve("best_beta", slope, intercept, target, -1.0, 1.0) for target in (0, 3, 7)]
    return {name: pl.concat([table[name] for table in tables]) for name in tables[0]}


def solver_top1(package: Package) -> Tables:
    """Maximize margins."""
    slope, intercept = affine()
    return package.solve("top1_margin", slope, intercept, np.arange(15), -1.0, 1.0, exact=True)


def solver_hull(package: Package) -> Tables:
    """Find the vertices of a hull."""
    return package.solve("hull_vertices", affine()[0], np.arange(15))


def solver_lists(package: Package) -> Tables:
    """Make calibrated lists, with a bound on what any list could have."""
    draw = np.random.default_rng(26)
    shares = draw.dirichlet(np.full(4, 0.3), size=25).round(1)
    shares[:, 0] += 1 - shares.sum(axis=1)
    lists = package.find("solvers.calibrated_lists")
    categories = package.find("solvers.CategoryVectors").of(sparse.csr_array(np.maximum(shares, 0.0)))
    solution = lists(
        draw.normal(size=(6, 25)),
        np.ones((6, 25), dtype=bool),
        categories,
        draw.dirichlet(np.ones(4), size=6),
        **package.names.renamed_settings(
            "calibrated_lists", {"weight": 0.7, "size": 6, "horizon": "list", "certify": True}
        ),
    )
    return solution_tables(solution)


SOLVERS: Mapping[str, tuple[Callable[[Package], Tables], bool]] = {
    "maximize_softmax": (solver_softmax, True),
    "maximize_softmax-sharp": (solver_softmax_sharp, False),
    "maximize_softmax_batch": (solver_batch, False),
    "maximize_softmax_discrete": (solver_discrete, True),
    "bound_slate": (solver_slate, False),
    "maximize_power": (solver_power, False),
    "best_beta": (solver_beta, False),
    "top1_margin": (solver_top1, True),
    "hull_vertices": (solver_hull, True),
    "calibrated_lists": (solver_lists, True),
}
"""Cases of solvers by name of the function, and whether they are in the sample."""

# Functions that vary a setting, and other functions of audits


def sweep_horizon(package: Package) -> Tables:
    """Vary how many ratings are free."""
    audit = package.part("audits", "reachability", **reach({"kind": "past", "k": 2}))
    recommender = recommender_of(package, "als")
    package.trained.add("als")
    swept = package.call("sweep_horizon", recommender, small(package).whole, audit=audit, horizons=(1, 2))
    return dict(swept.tables)


def sweep_beta(package: Package) -> Tables:
    """Vary the sharpness of the policy."""
    audit = package.part("audits", "reachability", **reach())
    model = given_vectors(package, small(package).train)
    return dict(package.call("sweep_beta", model, audit=audit, betas=(0.5, 2.0, 8.0)).tables)


def folding_tradeoff(package: Package) -> Tables:
    """Vary dimensions and weights of WALS."""
    data = small(package)
    package.trained.add("wals")
    tradeoff = package.call(
        "folding_tradeoff",
        data.train,
        test=data.test,
        factors=(2, 4),
        unobserved_weights=(0.0, 0.1),
        recommender=package.part("models", "wals", iterations=3),
        k=5,
    )
    return {"cells": tradeoff.cells}


def geometry(package: Package) -> Tables:
    """Record which items can be the top one."""
    data = small(package).train
    result = package.call("audits.geometry", given_vectors(package, data), users=data.user_ids.head(3).to_list())
    return {"pairs": result.frame, "users": result.users}


def reranked(package: Package) -> Tables:
    """Make the lists of a system again, calibrated."""
    data = small(package).train
    lists = package.recommend(vectors(package, data), 15)["lists"]
    policy = package.policy({"kind": "calibrated", "weight": 0.9, "size": 5})
    return {"lists": package.call("rerank", lists, data, policy, certify=True)}


def given_lists_calibration(package: Package) -> Tables:
    """Record calibration of lists without their model."""
    data = small(package).train
    lists = package.recommend(vectors(package, data), 8)["lists"]
    return package.run_audit("calibration", lists=lists, history=data, settings={"k": 8, "tested": 20})


def access(package: Package, kind: str) -> Tables:
    """Compare exact solvers, gradients and queries on the same pairs."""
    data = small(package).train
    model, policy = given_vectors(package, data), package.policy(SOFTMAX)
    users = data.user_ids.head(3).to_list()
    actions = package.part("actions", **HISTORY)
    if kind == "reachability":
        items = data.item_ids.gather_every(8).to_list()
        result = package.call(
            "audits.compare_access", model, users=users, targets=items, actions=actions, policy=policy, budget=20
        )
    else:
        editors = data.user_ids.slice(3, 3).to_list()
        result = package.call(
            "audits.compare_access_instability",
            model,
            viewers=users,
            editors=editors,
            edits=actions,
            policy=policy,
            budget=20,
        )
    return {"pairs": result.frame}


def offline_online(package: Package) -> Tables:
    """Record metrics on the data and in the loop."""
    world = package.call("simulate.paper", "topics-static", **TINY)
    recommenders = {name: recommender_of(package, name) for name in ("top-pop", "item-knn", "random")}
    result = package.call("simulate.offline_online", [world], recommenders, 2, folds=3, steps=3)
    return {"folds": result.folds, "points": result.points()}


FUNCTIONS: Mapping[str, tuple[str, Callable[[Package], Tables]]] = {
    "sweep-horizon": ("sweep", sweep_horizon),
    "sweep-beta": ("sweep", sweep_beta),
    "folding-tradeoff": ("folding-tradeoff", folding_tradeoff),
    "geometry": ("geometry", geometry),
    "rerank": ("lists", reranked),
    "calibration-given-lists": ("calibration", given_lists_calibration),
    "access-reachability": ("access", partial(access, kind="reachability")),
    "access-instability": ("access", partial(access, kind="instability")),
    "offline-online": ("offline-online", offline_online),
}

# Simulations


@final
@dataclass(frozen=True)
class SimulationCase:
    """A simulation of a few steps."""

    environment: str
    """The kind of environment."""
    scenario: str | None
    settings: Mapping[str, Any]
    recommender: str = "item-knn"
    policy: Mapping[str, Any] | None = None
    run: Mapping[str, Any] = field(default_factory=dict)
    is_sample: bool = False

    def simulate(self, package: Package) -> Tables:
        """Run the simulation."""
        recommender = recommender_of(package, self.recommender)
        package.trained.add(RECOMMENDERS[self.recommender].kind or self.recommender)
        run = {"steps": 4, "trials": 2, "rng": 2, **self.run}
        if self.scenario is not None:
            return package.simulate(self.scenario, recommender, self.policy, self.settings, **run)
        world = package.part("environments", self.environment, **self.settings)
        return package.simulate_in(world, recommender, self.policy, **run)


TINY = {"users": 40, "items": 30, "users_per_step": 10, "ratings": 300}
SIMULATIONS: Mapping[str, SimulationCase] = {
    "topics-static": SimulationCase("topics", "topics-static", TINY, is_sample=True),
    "topics-dynamic": SimulationCase(
        "topics", "topics-dynamic", TINY, "als", SOFTMAX, {"population_every": 2, "retrain": 2}
    ),
    "latent-dynamic": SimulationCase(
        "latent", "latent-dynamic", {**TINY, "factors": 5, "slate": 2, "choice": {"kind": "takes-all"}}, "ease"
    ),
    "latent-score": SimulationCase(
        "latent-score",
        "latent-score",
        {**TINY, "slate": 5, "choice": {"kind": "picks-best", "trust": 1.0}},
        "user-knn",
        is_sample=True,
    ),
    "beta-rank": SimulationCase("beta-rank", "beta-rank", {**TINY, "slate": 5}, "top-pop"),
    "logit": SimulationCase(
        "topics",
        "topics-static",
        {**TINY, "slate": 4, "choice": {"kind": "logit", "temperature": 0.5}},
        "random",
        {"kind": "epsilon-greedy", "epsilon": 0.2},
    ),
}


OTHER_SIMULATIONS = ("from-data",)
"""Environments of the two functions below."""


def simulated_data(package: Package) -> Tables:
    """Simulate users who are fitted to data."""
    world = package.part("environments", "from-data", data=small(package).train, factors=4, users_per_step=10)
    run = {"ratings": 300, "steps": 3, "trials": 2, "rng": 2}
    return package.simulate_in(world, recommender_of(package, "top-pop"), None, **run)


def simulated_oracle(package: Package) -> Tables:
    """Simulate a recommender that knows the users' tastes."""
    oracle = package.part("simulated_models", "oracle")
    return package.simulate("topics-dynamic", oracle, None, TINY, steps=4, trials=2, rng=2)


# The table of cases

FITTED_AUDITS: Mapping[str, Mapping[str, Any]] = {"accuracy": {"k": 5}, "exposure": {"k": 5}}


def cases() -> dict[str, Case]:
    """Return all cases by name."""
    table = {name: Case(entry.kind, entry.run, entry.is_sample) for name, entry in AUDITS.items()}
    table |= _recommender_cases() | _adapter_cases()
    for (name, policy), model in product(POLICIES.items(), ("vectors", "vectors-tied")):
        is_sample = model == "vectors" and name != "calibrated-prefix"
        table[f"lists-{name}-{model}"] = Case("lists", partial(policy_lists, policy=policy, model=model), is_sample)
    for kind, settings in SERVICE.items():
        table[f"{kind}-service"] = Case(kind, partial(served_audit, kind=kind, settings=settings))
    for name, (make, is_sample) in SOLVERS.items():
        table[f"solver-{name}"] = Case("solver", make, is_sample)
    for name, (family, make) in FUNCTIONS.items():
        table[name] = Case(family, make)
    for name, simulation in SIMULATIONS.items():
        table[f"simulation-{name}"] = Case("simulation", simulation.simulate, simulation.is_sample)
    table["simulation-from-data"] = Case("simulation", simulated_data)
    table["simulation-oracle"] = Case("simulation", simulated_oracle)
    return table


def _recommender_cases() -> dict[str, Case]:
    table = {}
    for name, recommender in RECOMMENDERS.items():
        audits = dict(FITTED_AUDITS)
        if recommender.responds:
            audits["reachability"] = reach(NEXT if _predicts_unseen(name) else HISTORY, refits=0)
        if recommender.moves_items:
            audits["instability"] = move(refits=0)
        table[f"scores-{name}"] = Case("scores", partial(score_table, name=name), recommender.is_sample)
        for kind, settings in audits.items():
            make = partial(fitted_audit, name=name, kind=kind, settings=settings)
            table[f"{kind}-{name}"] = Case(kind, make, recommender.is_sample and kind == "accuracy")
        if recommender.seeds:
            table[f"seeds-{name}"] = Case("seeds", partial(accuracy_by_seed, name=name))
    return table


def _adapter_cases() -> dict[str, Case]:
    table = {}
    for name, adapter in ADAPTERS.items():
        audits = dict(FITTED_AUDITS)
        if adapter.responds:
            audits["reachability"] = reach(HISTORY, refits=0)
        if name == "torch":
            audits["recourse"] = least(TOP, HISTORY_STARS, users=2)
        if adapter.moves_items:
            audits["instability"] = move(HISTORY, refits=0)
        table[f"scores-adapted-{name}"] = Case("scores", partial(adapted_scores, name=name))
        for kind, settings in audits.items():
            make = partial(adapted_audit, name=name, kind=kind, settings=settings)
            table[f"{kind}-adapted-{name}"] = Case(kind, make)
    return table


def _predicts_unseen(name: str) -> bool:
    """Return whether ratings of unseen items can be free: not where scores only rank, or where data are clicks."""
    return name in {"als", "wals", "wals-rank-one", "biased-mf", "item-knn", "item-knn-pearson"}
