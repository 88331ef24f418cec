"""Hand recaudit what people hand in by mistake: every case must end in a value or in an error that explains itself.

    python scripts/fuzz.py --cases 5000 --seed 0
    python scripts/fuzz.py --only files

A case may end in a value, in a `RecauditError`, in pydantic's `ValidationError`, or in the `TypeError` with which Python
itself refuses a call (an unknown keyword, a missing argument). Anything else is a finding: another exception, a panic of
a library, a warning that recaudit did not mean to give, no answer within some seconds. Findings are counted by class:
the exception and the innermost line of recaudit that it came through. Exit code 1 where there is any.

A case follows from the seed, its class and its number alone.
"""

from __future__ import annotations

import argparse
import copy
import datetime as dt
import inspect
import io
import json
import random
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any, final

import gymnasium
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from pydantic import ValidationError

import recaudit as ra
from recaudit.audits.calibration.lists import ListColumns
from recaudit.audits.samples import asked_users
from recaudit.data import synthetic
from recaudit.data.readers import read_table
from recaudit.errors import RecauditError
from recaudit.interventions import FutureEdits, GivenItems, HistoryEdits, Interval, NextK, Past, Stars
from recaudit.policies.calibrated import Calibrated
from recaudit.runs import configuration, simulation
from recaudit.runs.inputs import load_data
from recaudit.runs.recommenders import KINDS

PATIENCE = 60
"""Seconds after which a case counts as hanging; the small cases here take well under one."""

_MEMORY = 12 * 2**30
"""Bytes that a case may ask for, so that an absurd size is told and takes no machine down."""

Case = Callable[[], object]


class Hanging(BaseException):
    """No answer in time."""


# ---- what people hand in -------------------------------------------------------------------------------

JUNK: list[Any] = [
    None, True, False, 0, 1, -1, 2, 1.5, 0.0, -0.5, float("nan"), float("inf"), 1e308, 5e-324, 10**12, 10**30, -(2**63),
    "", "bogus", "15", "123", "user-001", "\x00", "__proto__", b"bytes", [], {}, (), [None], [1.7], [True], ["user-001"],
    ["a", 1], [[1]], {"a": 1}, {"genre": "genre"}, (1, 5), (5, 1), (1, 5, 9), (1,), ("1", "5"), {1}, range(3), object,
    dt.date(1970, 1, 2), dt.timedelta(days=1), Decimal("1.5"), 1j, np.int32(3), np.float32(0.5), np.bool_(True),
    np.array([1, 2]), np.array([[1.0, np.nan]]), np.array(["a"]), np.datetime64("2020-01-01"), pl.Series([1, 2]),
    pl.DataFrame({"a": [1]}), pd.DataFrame({"a": [1]}), Path("no such file"), lambda *_: None, iter([1]),
]  # fmt: skip


def _columns(draw: random.Random, n: int) -> dict[str, Any]:
    """Kinds of columns (n,), each drawn anew: good ones and odd ones."""
    whole = [draw.randrange(5) for _ in range(n)]
    text = [f"x{value}" for value in whole]

    def some(bad: object) -> list[Any]:
        return [bad if draw.random() < 0.3 else value for value in whole]

    return {
        "whole": whole,
        "text": text,
        "distinct": list(range(n)),
        "floats": [value + draw.choice([0.0, 0.5]) for value in whole],
        "nulls": some(None),
        "nan": [float(value) for value in some(float("nan"))],
        "infinite": [float(value) for value in some(float("-inf"))],
        "all null": [None] * n,
        "huge floats": [1e308] * n,
        "huge": [2**63 + value for value in whole],
        "beyond": [10**30 + value for value in whole],
        "negative": [-(2**63) + value for value in whole],
        "dates": [dt.date(2020, 1, 1 + value) for value in whole],
        "moments": [dt.datetime(2020, 1, 1 + value, tzinfo=draw.choice([None, dt.UTC])) for value in whole],
        "times": [dt.time(value) for value in whole],
        "durations": [dt.timedelta(days=value) for value in whole],
        "booleans": [value > 2 for value in whole],
        "bytes": [name.encode() for name in text],
        "decimals": [Decimal(value) for value in whole],
        "categories": pl.Series(text, dtype=pl.Categorical),
        "whole categories": pd.Categorical(whole),
        "enum": pl.Series(text, dtype=pl.Enum([f"x{value}" for value in range(5)])),
        "unsigned": np.array(whole, dtype=np.uint8),
        "single": np.array(whole, dtype=np.float32),
        "complex": np.array(whole, dtype=np.complex128),
        "lists": [[value] for value in whole],
        "tables": [{"a": value} for value in whole],
        "mixed": [draw.choice([1, "a", 2.5, None, b"x", (1,)]) for _ in range(n)],
        "objects": [object() for _ in range(n)],
        "spaces": [draw.choice(["", " ", "a", "\ufeffb", "\x00"]) for _ in range(n)],
        "digits": [draw.choice(["7", "007", "1.0", "1e5", "nan", "-1"]) for _ in range(n)],
    }


def _frame(draw: random.Random, names: list[str]) -> object:
    """A frame of any library with odd columns; None where the library itself does not take them."""
    n = draw.choice([0, 1, 3, 12, 12, 12])
    kinds = {}
    for name in names:
        drawn = _columns(draw, n)
        good = "text" if name in ("user", "category") else "distinct" if name == "item" else "whole"
        kinds[name] = drawn[good if draw.random() < 0.5 else draw.choice(list(drawn))]
    if draw.random() < 0.1:
        kinds.pop(draw.choice(names))
    library = draw.choice(["polars", "polars", "lazy", "pandas", "pandas", "pyarrow", "object"])
    try:
        if library == "pandas":
            frame = pd.DataFrame({name: _values(column) for name, column in kinds.items()})
            repeated = draw.random() < 0.1
            return pd.concat([frame, frame.iloc[:, :1]], axis=1) if repeated else frame
        if library == "pyarrow":
            table = pa.table({name: pa.array(_values(column)) for name, column in kinds.items()})
            return table.append_column(table.column_names[0], table.column(0)) if draw.random() < 0.1 else table
        if library == "object":
            return pl.DataFrame({name: pl.Series(_values(c), dtype=pl.Object) for name, c in kinds.items()})
        frame = pl.DataFrame({name: c if isinstance(c, pl.Series) else _values(c) for name, c in kinds.items()})
        return frame.lazy() if library == "lazy" else frame
    except Exception:
        return None


def _values(column: Any) -> Any:
    return column.to_list() if isinstance(column, pl.Series) else list(column)


# ---- what it is handed to ------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class _Stage:
    """A small log with everything, models of it, and a folder for files."""

    folder: Path
    data: ra.Interactions = field(default_factory=lambda: synthetic.demo_world(users=24, items=30).data)

    @property
    def numbered(self) -> ra.Interactions:
        """The same log under whole numbers."""
        frame = self.data.frame().with_columns(pl.col("user", "item").rank("dense").cast(pl.Int64))
        return ra.Interactions.from_frame(frame, time="time", scale=(1, 5))

    @cache  # noqa: B019  one stage a process
    def model(self, kind: str) -> Any:
        recommenders: dict[str, Any] = {
            "als": ra.models.ALS(factors=2, iterations=2),
            "ease": ra.models.EASE(),
            "item-knn": ra.models.ItemKNN(),
            "top-pop": ra.models.TopPop(),
        }
        if kind == "system":
            return ra.models.from_system(self.data, scores=lambda _: np.arange(float(self.data.n_items)))
        return recommenders[kind].fit(self.data)


def frames(draw: random.Random, stage: _Stage) -> Case | None:
    """A log, or what is known about items and users, from an odd frame."""
    what = draw.choice(["log", "log", "log", "items", "users", "categories", "lists"])
    log = draw.choice([stage.data, stage.numbered])
    if what == "log":
        frame = _frame(draw, ["user", "item", "rating", "time"])
        options = {"rating": ["rating", None], "time": [None, "time"], "duplicates": ["last", "mean", "error"]}
        chosen = {name: draw.choice(values) for name, values in options.items()}
        chosen["scale"] = draw.choice([None, None, None, (1, 5), (0, 1e308), (-1e308, 1e308)])
        case: Case = partial(_fitted, frame, **chosen)
    elif what == "items":
        frame = _frame(draw, ["item", "title", "genre"])
        case = partial(log.with_items, frame, title="title", categories={"genre": "genre"}, unknown="ignore")
    elif what == "users":
        frame = _frame(draw, ["user", "age"])
        case = partial(_grouped, log, frame)
    elif what == "categories":
        frame = _frame(draw, ["item", "category", "weight"])
        weight = draw.choice([None, "weight"])
        case = partial(log.with_categories, "genre", frame, weight=weight, unknown="ignore")
    else:
        frame = _frame(draw, ["user", "item", "rank", "score"])
        case = partial(ra.rerank, frame, stage.data, unknown=draw.choice(["error", "ignore"]))
    return None if frame is None else case


def _fitted(frame: object, **options: Any) -> object:
    data = ra.Interactions.from_frame(frame, **options)
    data.fingerprint, data.frame(), repr(data)
    return ra.exposure(ra.models.TopPop().fit(data), k=2, samples=2)


def _grouped(log: ra.Interactions, frame: object) -> object:
    data = log.with_users(frame, attributes=["age"], unknown="ignore")
    return ra.exposure(ra.models.TopPop().fit(data), k=2, samples=2)


def files(draw: random.Random, stage: _Stage) -> Case:
    """A file of ratings, items or lists with something wrong in it."""
    suffix = draw.choice([".csv", ".csv", ".tsv", ".parquet", ".parquet"])
    table = stage.data.frame().head(60)
    if draw.random() < 0.3:
        table = table.with_columns(
            pl.Series("user", [draw.choice(["007", "7", "1.0", "1e5", "1"]) for _ in table["user"]])
        )
    if suffix == ".parquet":
        sink = io.BytesIO()
        table.write_parquet(sink, compression=draw.choice(["zstd", "uncompressed", "snappy"]))
        content = _damaged(draw, sink.getvalue())
    else:
        content = table.write_csv(separator="," if suffix == ".csv" else "\t").encode()
        content = _damaged(draw, draw.choice(_TEXT_FAULTS)(draw, content) if draw.random() < 0.8 else content)
    path = stage.folder / f"fuzzed{suffix}"
    path.write_bytes(content)
    columns = {"time": draw.choice([None, "time"]), "duplicates": draw.choice(["error", "last"])}
    return draw.choice(
        [
            partial(ra.data.read, path, **columns),
            partial(ra.data.read, path, **columns),
            lambda: stage.data.with_items(read_table(path), title="rating", unknown="ignore"),
            partial(
                ra.rerank_file, path, stage.data, stage.folder / "out.parquet", columns=ListColumns(score="rating")
            ),
            partial(ra.rerank, path, stage.data, columns=ListColumns(score="rating"), unknown="ignore"),
        ]
    )


def _damaged(draw: random.Random, content: bytes) -> bytes:
    how = draw.choice(["not", "not", "flip", "flip", "cut", "insert", "empty"])
    if how == "empty" or not content:
        return b""
    place = draw.randrange(len(content))
    if how == "flip":
        changed = bytearray(content)
        for _ in range(draw.choice([1, 4, 30])):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        return bytes(changed)
    extra = bytes(draw.randrange(256) for _ in range(draw.choice([1, 50])))
    return {"not": content, "cut": content[:place], "insert": content[:place] + extra + content[place:]}[how]


def _header(name: bytes) -> Callable[[random.Random, bytes], bytes]:
    return lambda _, content: name + b"\n" + content.partition(b"\n")[2]


_TEXT_FAULTS: list[Callable[[random.Random, bytes], bytes]] = [
    lambda _, content: b"\xef\xbb\xbf" + content,
    lambda _, content: content.decode().encode("utf-16"),
    lambda _, content: content.replace(b"film", b"f\xeflm"),
    lambda _, content: content.replace(b"\n", b"\r\n"),
    lambda _, content: content.replace(b"\n", b"\r"),
    lambda _, content: content.replace(b"\n", b"\n\n"),
    lambda draw, content: content.replace(b"film", b'"film', draw.choice([1, -1])),
    lambda draw, content: content.replace(b"5.0", draw.choice([b"", b"NaN", b"five", b"5,0", b"1e999", b"inf"])),
    lambda _, content: content.replace(b",", b";"),
    lambda _, content: content.replace(b"-0", b""),
    lambda _, content: b"\n" * 3 + content,
    lambda _, content: b"x" * 100_000 + content,
    lambda _, content: content.replace(b"film", b"\x00"),
    _header(b"user,user,rating,time"),
    _header(b"user,item,ratings,time"),
    _header(b",,,"),
    _header(b"user,item,rating,"),
    _header(b'"user,item,rating,time'),
    _header(b"User,Item,Rating,Time"),
    _header(b"1,2,3,4"),
]


# ---- configurations ------------------------------------------------------------------------------------

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


def configurations(draw: random.Random, stage: _Stage) -> Case:
    """A TOML file with a wrong value, key or form."""
    parse, whole = draw.choice([(configuration.parse, _AUDITED), (simulation.parse_simulation, _SIMULATED)])
    table = json.loads(json.dumps(whole))
    if parse is configuration.parse and draw.random() < 0.3:
        (stage.folder / "own.csv").write_bytes(stage.data.frame().write_csv().encode())
        columns = {"user": "user", "item": "item", "rating": "rating", "time": "time", "scale": [1, 5]}
        table["data"] = {"file": "own.csv", **columns, "duplicates": "error", "items": "own.csv", "users": "own.csv"}
    if draw.random() < 0.5:
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


def _configured(parse: Callable[..., Any], text: str, folder: Path) -> object:
    made = parse(text, source="fuzzed.toml", folder=folder)
    if isinstance(made, configuration.Configuration):
        if isinstance(made.data, configuration.OwnData):
            return load_data(made.data)
        return made.hash
    return made


def _any_model(draw: random.Random) -> dict[str, Any]:
    kind = draw.choice(list(KINDS))
    names = list(KINDS[kind].model_fields)
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


def _calls(stage: _Stage) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
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
    quick = {"samples": 5}
    return {
        "users_at": (data.users_at, {"ids": ids}),
        "users_at (numbers)": (stage.numbered.users_at, {"ids": [1, 2]}),
        "items_at": (data.items_at, {"ids": data.item_ids[:2].to_list()}),
        "asked_users": (partial(asked_users, data), {"asked": 3, "rng": 0}),
        "from_frame": (
            ra.Interactions.from_frame,
            {"frame": data.frame(), "user": "user", "item": "item", "rating": "rating", "time": "time", "scale": (1, 5),
             "duplicates": "last"},
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
        "read": (ra.data.read, {"path": "no.csv", "user": "user", "scale": (1, 5), "duplicates": "last"}),
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
            {"user_factors": P, "item_factors": Q, "data": data, "user_bias": P[:, 0], "item_bias": Q[:, 0], "mean": 3.0,
             "update": None},
        ),
        "from_weights": (
            ra.models.from_weights, {"weights": W, "data": data, "offset": W[0], "predicts_ratings": False}
        ),
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
            {"model": als, "policy": None, "candidates": "unseen", "baseline": "scores", "slate": 1, "tolerance": 1e-3,
             "solver": "exact", "best_actions": False, "rng": 0, "device": "cpu", "data": None, "budget": 5, **few},
        ),
        "instability": (
            ra.instability,
            {"model": als, "edits": Past(2), "viewers": ids, "editors": ids, "distance": "tv", "policy": None, "rng": 0,
             "item": None, "candidates": "unseen", "baseline": None, "threshold": 0.5, "pairs": True,
             "best_ratings": False, "budget": 5},
        ),
        "folding": (
            ra.folding,
            {"model": als, "relatedness": None, "similarity": "cosine", "k": 3, "unrelated": 0.1, "similar": 0.5,
             "sample": 5, "by": None, "confidence": 0.9, "rng": 0, **quick},
        ),
        "calibration": (
            ra.calibration,
            {"model": als, "k": 3, "policy": None, "categories": "genre", "weights": None, "half_life": None,
             "prior_weight": 0.1, "prior": "uniform", "rank_weights": "none", "smoothing": 0.01, "tested": 10,
             "by": None, "confidence": 0.9, "rng": 0, **quick},
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


def _asked_system(**arguments: Any) -> object:
    return ra.models.from_system(**arguments).scores(np.arange(2))


def calls(draw: random.Random, stage: _Stage) -> Case:
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
def _prepared(stage: _Stage) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    return _calls(stage)


_MADE: list[Callable[..., Any]] = [
    *KINDS.values(), Calibrated, ra.policies.Softmax, ra.policies.EpsilonGreedy, ra.policies.Power, NextK, Past,
    HistoryEdits, FutureEdits, GivenItems, Interval, Stars, ra.interventions.Future, ra.models.SgdStep,
    ra.models.AlsSolve, ra.simulate.Topics, ra.simulate.Latent, ra.simulate.LatentScore, ra.simulate.BetaRank,
    ra.simulate.Logit, ra.engines.Threads, ra.engines.Processes,
]  # fmt: skip


_QUICK = {"epochs", "iterations", "pre_steps", "factors", "hidden", "rank", "pre_rank", "anchors"}
"""Settings of models that cost time: low where nothing odd is drawn for them."""


def made(draw: random.Random, stage: _Stage) -> Case:
    """A model, policy, action, environment or engine with a wrong setting; a model is then fitted."""
    kind = draw.choice(_MADE)
    names = [name for name in inspect.signature(kind).parameters if name not in ("path", "checkpoint", "device")]
    given = {name: draw.choice(JUNK) for name in draw.sample(names, min(len(names), draw.choice([1, 1, 2])))}
    for name in _QUICK & set(names):
        given.setdefault(name, 2)
    return partial(_used, kind, given, stage)


def _used(kind: Callable[..., Any], given: dict[str, Any], stage: _Stage) -> object:
    thing = kind(**given)
    if isinstance(thing, ra.models.Recommender) and hasattr(thing, "fit"):
        large = any(isinstance(value, int) and value > 1000 for value in given.values())  # right, and would take long
        return thing if large else thing.fit(stage.data).scores(np.arange(3))
    if isinstance(thing, GivenItems):
        return thing.items(stage.model("als"), np.arange(2), 0)
    return thing


def environments(draw: random.Random, stage: _Stage) -> Case:
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


CLASSES: dict[str, Callable[[random.Random, _Stage], Case | None]] = {
    "frames": frames,
    "files": files,
    "configurations": configurations,
    "calls": calls,
    "made": made,
    "environments": environments,
}


# ---- judging -------------------------------------------------------------------------------------------


@contextmanager
def _patience() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise Hanging(f"no answer in {PATIENCE} s")

    former = signal.signal(signal.SIGALRM, ring)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)


def judged(case: Case) -> tuple[str, str] | None:
    """(class, message) of a finding; None for a case that ended as it should."""
    try:
        with _patience(), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", module=r"gymnasium\.")
            case()
    except (RecauditError, ValidationError):
        return None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if "/recaudit/" in frame.filename]
        if isinstance(error, TypeError) and frames[-1].filename.endswith(("fuzz.py", "arguments.py")):
            return None  # Python itself refuses the call
        if isinstance(error, gymnasium.error.Error) and "/gymnasium/" in frames[-1].filename:
            return None  # Gymnasium's own rules, in its own words
        if isinstance(error, Warning) and own and "warn(" in _statement(frames[-1]):  # given on purpose
            return None
        where = f"{own[-1].filename.rpartition('/recaudit/')[2]}:{own[-1].name}" if own else "outside recaudit"
        return f"{type(error).__name__} in {where}", str(error).split("\n", 1)[0][:150]
    return None


def _statement(frame: traceback.FrameSummary) -> str:
    return f"{frame.line}"


def fuzz(cases: int, seed: int, only: str | None = None) -> dict[tuple[str, str], list[str]]:
    """(class of case, class of finding) to the case numbers and messages."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    names = [only] if only else list(CLASSES)
    with tempfile.TemporaryDirectory() as folder:
        stage = _Stage(Path(folder))
        for number in range(cases):
            name = names[number % len(names)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                case = CLASSES[name](random.Random(f"{seed} {name} {number // len(names)}"), stage)
            finding = None if case is None else judged(case)
            if finding is not None:
                found[name, finding[0]].append(f"case {number // len(names)}: {_told(case)}: {finding[1]}")
    return dict(found)


def _told(case: Case | None) -> str:
    if isinstance(case, partial):
        name = getattr(case.func, "__name__", repr(case.func))
        return f"{name}({', '.join(f'{key}={value!r}'[:60].replace(chr(10), ' ') for key, value in case.keywords.items())})"[
            :300
        ]
    return ""


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(CLASSES))
    parser.add_argument("--examples", type=int, default=1, help="how many cases of each finding to show")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    found = fuzz(options.cases, options.seed, options.only)
    for (name, finding), examples in sorted(found.items(), key=lambda entry: (entry[0][0], -len(entry[1]))):
        print(f"{len(examples):5}  {name}: {finding}")
        for example in examples[: options.examples]:
            print(f"         {example}")
    print(f"{options.cases:,} cases, {sum(map(len, found.values())):,} findings in {len(found)} classes")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
