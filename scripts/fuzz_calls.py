"""Cases for `fuzz.py`: configurations, calls of public functions, settings, environments."""

from __future__ import annotations

import copy
import datetime as dt
import inspect
import json
import random
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from fuzz_data import JUNK, Case, Stage

import recaudit as ra
from recaudit.audits.samples import resolve_users
from recaudit.data import synthetic
from recaudit.data.sources import OwnData
from recaudit.interventions import FutureEdits, GivenItems, HistoryEdits, Interval, NextK, Past, Stars
from recaudit.policies.calibrated import Calibrated
from recaudit.registry import MODELS
from recaudit.runs import configuration, simulation
from recaudit.runs.gate import parse_gate
from recaudit.studies.own.config import parse_own

_AUDITED: dict[str, Any] = {
    "seed": 0,
    "data": {"name": "demo"},
    "split": {"kind": "random", "fraction": 0.1},
    "model": [{"kind": "als", "label": "one"}],
    "audits": {
        "accuracy": {"k": 5, "relevant": 4, "by": []},
        "exposure": {"k": 5},
        "reachability": {
            "actions": {"kind": "next-k", "k": 3, "ratings": {"kind": "stars", "low": 1, "high": 5}},
            "policy": {"kind": "softmax", "beta": 2.0},
            "users": 3,
        },
        "folding": {"relatedness": ["log"]},
        "calibration": {"k": 5},
        "agency": {"users": 3},
    },
    "engine": {"kind": "threads", "workers": 2},
}
_ASKED: dict[str, Any] = {
    "title": "A question",
    "base": _AUDITED,
    "models": ["one"],
    "ladder": "cumulative",
    "repeat": 2,
    "metric": [
        {"audit": "accuracy", "name": "ndcg", "published": 0.3, "low": 0.1, "high": 0.4},
        {"audit": "reachability", "name": "lift", "model": "one", "above": 1.0, "claim": "more"},
    ],
    "change": [
        {"name": "one", "set": {"model.one.factors": 3, "audits": {"accuracy": {"k": 3}}}},
        {
            "name": "two",
            "set": {"audits.reachability.policy": {"kind": "top-1"}},
            "unset": ["audits.reachability.users"],
        },
        {"name": "three", "set": {"data.name": "demo", "seed": 4}, "cumulative": False},
    ],
}
_SIMULATED: dict[str, Any] = {
    "seed": 0,
    "trials": 1,
    "policy": {"kind": "top-1"},
    "environment": [
        {"name": "topics-static", "users": 20, "items": 30, "users_per_step": 5, "ratings": 50, "steps": 2}
    ],
    "recommender": [{"kind": "als", "factors": 2, "tune": {"factors": [1, 2]}}],
    "audits": {"every": 1},
    "engine": {"kind": "serial"},
}
_GATED: dict[str, Any] = {
    "confidence": 0.95,
    "rule": [
        {"metric": "ndcg", "at_least": 0.1, "people": 10, "confidence": 0.9},
        {"metric": "ndcg", "audit": "accuracy", "model": "A", "by": "region", "group": "North", "not_worse_by": "2%"},
        {"metric": "novelty", "not_lower_by": 0.1, "failures": "accept", "bounds": "accept"},
    ],
}


def configurations(draw: random.Random, stage: Stage) -> Case:
    """A TOML file with a wrong value, key or form."""
    parse, whole = draw.choice([
        (configuration.parse, _AUDITED), (simulation.parse_simulation, _SIMULATED), (_parse_gate, _GATED),
        (parse_own, _ASKED),
    ])  # fmt: skip
    table = json.loads(json.dumps(whole))
    if parse is configuration.parse and draw.random() < 0.3:
        (stage.folder / "own.csv").write_bytes(stage.data.frame().write_csv().encode())
        columns = {"user": "user", "item": "item", "rating": "rating", "time": "time", "scale": [1, 5]}
        table["data"] = {"file": "own.csv", **columns, "duplicates": "error", "items": "own.csv", "users": "own.csv"}
    if draw.random() < 0.5 and whole is _ASKED:
        table["base"]["model"][0] = _any_model(draw) | {"label": "one"}
    elif draw.random() < 0.5 and whole is not _GATED and whole is not _ASKED:
        table["model" if "model" in table else "recommender"][0] = _any_model(draw)
    for _ in range(draw.choice([1, 1, 2])):
        _spoil(draw, table)
    text = _toml(table)
    if draw.random() < 0.15:
        text = draw.choice([
            "a = " + "[" * 5000, "a = " + "{a=" * 3000, ".".join("a" * 3000) + " = 1", text[: len(text) // 2], text * 2,
            "\x00", "\ufeff" + text, "[[a]]\n" * 2000, "[" + ".".join("b" * 2000) + "]",
        ])  # fmt: skip
    return partial(_configured, parse, text, stage.folder)


def _parse_gate(text: str, *, source: str, folder: Path) -> object:
    return parse_gate(text, source=source)


def _configured(parse: Callable[..., Any], text: str, folder: Path) -> object:
    made = parse(text, source="fuzzed.toml", folder=folder)
    if isinstance(made, configuration.Configuration):
        if isinstance(made.data, OwnData):
            return made.data.load()
        return made.hash
    return made


def _any_model(draw: random.Random) -> dict[str, Any]:
    kind = draw.choice(list(MODELS))
    names = list(MODELS[kind].model_fields)
    return {
        "kind": kind,
        **{name: _tomlable(draw) for name in draw.sample(names, min(len(names), draw.choice([0, 1])))},
    }


def _spoil(draw: random.Random, table: Any) -> None:
    """Put something wrong somewhere below this table."""
    while True:
        keys = list(table) if isinstance(table, dict) else list(range(len(table)))
        if isinstance(table, dict) and draw.random() < 0.15:
            keys = ["unknown"] if draw.random() < 0.5 else [draw.choice(["kind", "users", "k", "scale", "by", "label"])]
        key = draw.choice(keys or [None])
        if key is None:
            return
        inner = table.get(key) if isinstance(table, dict) else table[key]
        if isinstance(inner, dict | list) and inner and draw.random() < 0.8:
            table = inner
            continue
        table[key] = _tomlable(draw)
        return


def _tomlable(draw: random.Random) -> Any:
    pool = [value for value in JUNK if type(value) in (bool, int, float, str, list, dict, dt.date)]
    return copy.deepcopy(draw.choice([*pool, [{}], {"kind": []}, {"kind": {"kind": "top-1"}}, [["a"]], [{"kind": 1}]]))


def _toml(value: Any, top: bool = True) -> str:
    if isinstance(value, dict):
        pairs = [
            f"{json.dumps(str(key))} = {_toml(inner, top=False)}" for key, inner in value.items() if inner is not None
        ]
        return "\n".join(pairs) if top else "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(inner, top=False) for inner in value if inner is not None) + "]"
    if isinstance(value, float):
        return repr(value)
    return value.isoformat() if isinstance(value, dt.date) else json.dumps(value)


# ---- calls ---------------------------------------------------------------------------------------------


def _calls(stage: Stage) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Public functions, each with arguments that it takes."""
    data, als = stage.data, stage.model("als")
    split = ra.splits.leave_last(data, k=2)
    fitted = ra.models.ALS(factors=2, iterations=2).fit(split.train)
    P, Q = als.user_factors, als.item_factors
    ids = data.user_ids[:2].to_list()
    W = np.eye(data.n_items)
    lists = ra.recommend(als, n=5)
    few = {"users": ids, "actions": NextK(2), "targets": data.item_ids[:3].to_list()}
    tiny = ra.simulate.Topics(users=10, items=12, users_per_step=3)
    loop = {"environment": tiny, "recommender": ra.models.TopPop(), "ratings": 20, "steps": 2}
    quick: dict[str, object] = {}
    runs = _runs(stage)
    return {
        "users_at": (data.users_at, {"ids": ids}),
        "users_at (numbers)": (stage.numbered.users_at, {"ids": [1, 2]}),
        "items_at": (data.items_at, {"ids": data.item_ids[:2].to_list()}),
        "resolve_users": (partial(resolve_users, data=data, rng=0), {"some": 3}),
        "from_frame": (
            ra.Interactions.from_frame,
            {"frame": data.frame(), "user": "user", "item": "item", "rating": "rating", "time": "time", "scale": (1, 5),
             "duplicates": "last", "items": ["another"], "users": None},
        ),
        "with_items": (
            data.with_items,
            {"frame": data.frame().unique("item"), "item": "item", "title": "user", "categories": {"a": "user"},
             "separator": "|", "unknown": "error"},
        ),
        "with_users": (
            data.with_users,
            {"frame": data.frame().unique("user"), "user": "user", "attributes": ["rating"], "unknown": "error"},
        ),
        "with_categories": (
            data.with_categories,
            {"name": "a", "frame": data.frame(), "item": "item", "category": "user", "weight": "rating",
             "unknown": "error"},
        ),
        "read": (
            ra.data.read,
            {"path": "no.csv", "user": "user", "scale": (1, 5), "duplicates": "last", "separator": "::",
             "header": False, "encoding": "latin-1", "quotes": True, "on_error": "skip",
             "catalogue": "rated", "items": None, "attributes": {}},
        ),
        "demo_world": (synthetic.demo_world, {"rng": 0, "users": 12, "items": 25}),
        "blocks": (
            synthetic.blocks,
            {"users": 20, "items": 20, "user_groups": 2, "item_groups": 2, "on_share": 0.5, "cuts": 2, "stars": (1, 5),
             "on_density": 0.5, "off_density": 0.1, "held_out": 0.2, "rng": 0},
        ),
        "datasets.load": (ra.datasets.load, {"name": "demo", "path": None}),
        "datasets.info": (ra.datasets.info, {"name": "demo"}),
        "splits.random": (ra.splits.random, {"data": data, "fraction": 0.1, "rng": 0}),
        "splits.leave_last": (ra.splits.leave_last, {"data": data, "k": 2}),
        "splits.by_time": (ra.splits.by_time, {"data": data, "fraction": 0.1}),
        "splits.folds": (ra.splits.folds, {"data": data, "n": 3, "rng": 0}),
        "from_factors": (
            ra.models.from_factors,
            {"user_factors": P, "item_factors": Q, "data": data, "user_bias": P[:, 0], "item_bias": Q[:, 0],
             "mean": 3.0, "update": ra.models.SgdStep(), "predicts_ratings": False, "user_ids": data.user_ids.to_list(),
             "item_ids": data.item_ids.to_list()},
        ),
        "from_weights": (
            ra.models.from_weights,
            {"weights": W, "data": data, "offset": W[0], "predicts_ratings": False, "item_ids": None},
        ),
        "from_lists": (
            ra.models.from_lists,
            {"lists": lists, "data": data, "user": "user", "item": "item", "rank": "rank", "score": "score",
             "unknown": "ignore"},
        ),
        "from_http": (
            ra.models.from_http,
            {"url": "http://127.0.0.1:9/{user}", "data": data, "request": {"who": "{user}", "items": "{items}"},
             "answer": "found[].id", "score": None, "gives": "list", "headers": {"Accept": "x"}, "users": 3,
             "budget": 5, "rate": None, "retries": 0, "read_timeout": 0.1, "max_age": 1.0, "rng": 0},
        ),
        "adapt": (
            ra.models.adapt,
            {"model": torch.nn.Linear(data.n_items, data.n_items), "data": data, "item_ids": None,
             "predicts_ratings": False},
        ),
        "splits.from_logs": (ra.splits.from_logs, {"train": split.train, "test": split.test}),
        "from_system": (
            _asked_system,
            {"data": data, "scores": lambda _: np.ones(data.n_items), "probabilities": None, "lists": None,
             "repeats": 3, "places": 1},
        ),
        "recommend": (ra.recommend, {"model": als, "n": 3, "policy": None, "users": ids, "rng": 0, "engine": None}),
        "accuracy": (
            ra.accuracy,
            {"model": fitted, "test": split.test, "k": 3, "relevant": 4, "by": ["region"], "confidence": 0.9, "rng": 0,
             "policy": None, "engine": None, **quick},
        ),
        "exposure": (
            ra.exposure, {"model": als, "k": 3, "by": ["region"], "confidence": 0.9, "rng": 0, "policy": None, **quick}
        ),
        "reachability": (
            ra.reachability,
            {"model": als, "policy": ra.policies.Softmax(beta=1.0), "candidates": "unseen", "baseline": "scores",
             "slate": 1,
             "tolerance": 1e-3, "solver": "exact", "best_actions": False, "threshold": 0.1, "rng": 0, "device": "cpu",
             "data": None, "budget": 5, **few},
        ),
        "instability": (
            ra.instability,
            {"model": als, "edits": Past(2), "viewers": ids, "editors": ids, "distance": "tv", "rng": 0,
             "item": None, "candidates": "unseen", "baseline": None, "threshold": 0.5, "pairs": True,
             "best_ratings": False, "budget": 5},
        ),
        "folding": (
            ra.folding,
            {"model": als, "relatedness": "log", "similarity": "cosine", "k": 3, "unrelated": 0.1, "similar": 0.5,
             "sample": 5, "by": None, "confidence": 0.9, "rng": 0, **quick},
        ),
        "calibration": (
            ra.calibration,
            {"model": als, "k": 3, "policy": ra.policies.Top1(), "categories": "genre", "history_weights": None,
             "half_life": None,
             "prior_weight": 0.1, "prior": "uniform", "rank_weights": "none", "smoothing": 0.01, "tested": 10,
             "by": None, "confidence": 0.9, "rng": 0, **quick},
        ),
        "mitigation": (
            ra.mitigation,
            {"model": fitted, "test": split.test, "k": 2, "weights": (0.5,), "transform": "minmax",
             "unobserved_weights": (0.1,), "beta_factors": (2.0,), "policy": ra.policies.Softmax(beta=2.0),
             "relevant": None, "users": ids, "targets": 2, "editors": 2, "budget": 3, "categories": "genre",
             "by": None, "confidence": 0.9, "rng": 0, **quick},
        ),
        "compare": (
            ra.compare,
            {"before": runs[0], "after": runs[1], "models": ("A", "A"), "confidence": 0.9, "correction": "holm",
             "rng": 0, **quick},
        ),
        "history": (
            ra.history,
            {"runs": runs, "as_given": False, "confidence": 0.9, "correction": "none", "rng": 0, **quick},
        ),
        "check": (
            ra.check,
            {"run": runs[1], "rules": ra.Gate(rule=(ra.Rule(metric="ndcg", not_worse_by=0.1),)), "baseline": runs[0]},
        ),
        "rerank": (
            ra.rerank,
            {"lists": lists, "data": data, "policy": Calibrated(size=3), "columns": None, "unknown": "error",
             "certify": False},
        ),
        "simulate.run": (
            ra.simulate.run,
            {"policy": None, "trials": 1, "retrain": 1, "warm": False, "audits": None, "audit_every": 0,
             "population_every": 0, "same_people": True, "rng": 0, "engine": None, **loop},
        ),
    }  # fmt: skip


def _runs(stage: Stage) -> list[Path]:
    """The folders of two small runs."""
    (stage.folder / "runs.csv").write_bytes(stage.data.frame().write_csv().encode())
    found = []
    for by in ("count", "mean"):
        table = {
            "data": {"file": "runs.csv", "user": "user", "item": "item", "rating": "rating", "time": "time"},
            "model": [{"kind": "top-pop", "by": by, "label": "A"}],
            "audits": {"accuracy": {}, "exposure": {}},
        }
        config = configuration.parse(_toml(table), source="runs.toml", folder=stage.folder)
        found.append(ra.runs.execute(config, stage.folder / by).path)
    return found


def _asked_system(**arguments: Any) -> object:
    return ra.models.from_system(**arguments).scores(np.arange(2))


def calls(draw: random.Random, stage: Stage) -> Case:
    """A public function with one or two wrong arguments."""
    table = _prepared(stage)
    name = draw.choice(list(table))
    function, arguments = table[name]
    given = dict(arguments)
    for wrong in draw.sample(list(given), min(len(given), draw.choice([1, 1, 2]))):
        alike = [value for value in JUNK if type(value) is type(given[wrong])]
        given[wrong] = draw.choice(alike if alike and draw.random() < 0.5 else JUNK)
    if "model" in given and draw.random() < 0.2 and given["model"] is arguments["model"]:
        given["model"] = stage.model(draw.choice(["ease", "item-knn", "top-pop", "system"]))
    if draw.random() < 0.05:
        given["bogus"] = 1
    return partial(function, **given)


@cache
def _prepared(stage: Stage) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    return _calls(stage)


_MADE: list[Callable[..., Any]] = [
    *MODELS.values(), Calibrated, ra.policies.Softmax, ra.policies.EpsilonGreedy, ra.policies.Power, NextK, Past,
    HistoryEdits, FutureEdits, GivenItems, Interval, Stars, ra.interventions.Future, ra.models.SgdStep,
    ra.models.AlsSolve, ra.simulate.Topics, ra.simulate.Latent, ra.simulate.LatentScore, ra.simulate.BetaRank,
    ra.simulate.Logit, ra.engines.Threads, ra.engines.Processes, ra.Rule, ra.Gate, ra.audits.Mitigation,
]  # fmt: skip


_QUICK = {"epochs", "iterations", "pre_steps", "factors", "hidden", "rank", "pre_rank", "anchors"}
"""Settings of models that cost time: low where nothing odd is drawn for them."""


def made(draw: random.Random, stage: Stage) -> Case:
    """A model, policy, action, environment or engine with a wrong setting; a model is then fitted."""
    kind = draw.choice(_MADE)
    names = [name for name in inspect.signature(kind).parameters if name not in ("path", "checkpoint", "device")]
    given = {name: draw.choice(JUNK) for name in draw.sample(names, min(len(names), draw.choice([1, 1, 2])))}
    for name in _QUICK & set(names):
        given.setdefault(name, 2)
    return partial(_used, kind, given, stage)


def _used(kind: Callable[..., Any], given: dict[str, Any], stage: Stage) -> object:
    thing = kind(**given)
    if isinstance(thing, ra.models.Recommender) and hasattr(thing, "fit"):
        large = any(isinstance(value, int) and value > 1000 for value in given.values())  # right, and would take long
        return thing if large else thing.fit(stage.data).scores(np.arange(3))
    if isinstance(thing, GivenItems):
        return thing.items(stage.model("als"), np.arange(2), 0)
    return thing


def environments(draw: random.Random, stage: Stage) -> Case:
    """Gymnasium's calls in any order with any action."""
    choice = draw.choice([ra.simulate.TakesAll(), ra.simulate.Logit()])
    environment = ra.simulate.Topics(users=10, items=12, users_per_step=3, slate=2, choice=choice)
    scenario = ra.simulate.Scenario(name="fuzzed", environment=environment, ratings=10, steps=3)
    calls = [draw.choice(["reset", "step", "step", "state", "restore", "junk", "seed"]) for _ in range(4)]
    values = [draw.choice(JUNK) for _ in calls]

    def played() -> object:
        env: gymnasium.Env[Any, Any] = scenario.make()
        seen: Any = None
        for call, value in zip(calls, values, strict=True):
            if call == "reset":
                seen = env.reset(seed=1)
            elif call == "seed":
                seen = env.reset(seed=value, options=draw.choice([None, {"initial": value}]))
            elif call == "step":
                seen = env.step(env.action_space.sample())
            elif call == "junk":
                seen = env.step(draw.choice([value, {"items": value, "scores": value}]))
            elif call == "state":
                seen = env.state()  # type: ignore[attr-defined]
            else:
                seen = env.restore(value)  # type: ignore[attr-defined]
        return seen

    return played
