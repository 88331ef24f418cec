"""Cases for `fuzz.py`: odd frames and damaged files, and the small log that everything is tried on."""

from __future__ import annotations

import datetime as dt
import io
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import recaudit as ra
from recaudit.data import synthetic
from recaudit.data.lists import ListColumns
from recaudit.data.readers import read_table

Case = Callable[[], object]

JUNK: list[Any] = [
    None, True, False, 0, 1, -1, 2, 1.5, 0.0, -0.5, float("nan"), float("inf"), 1e308, 5e-324, 10**12, 10**30,
    -(2**63), "", "bogus", "15", "123", "user-001", "\x00", "__proto__", b"bytes", [], {}, (), [None], [1.7], [True],
    ["user-001"], ["a", 1], [[1]], {"a": 1}, {"genre": "genre"}, (1, 5), (5, 1), (1, 5, 9), (1,), ("1", "5"), {1},
    range(3), object, dt.date(1970, 1, 2), dt.timedelta(days=1), Decimal("1.5"),
    1j, np.int32(3), np.float32(0.5), np.bool_(True),
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
            frame: Any = pd.DataFrame({name: _values(column) for name, column in kinds.items()})
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
class Stage:
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
        """A fitted model, or a system that can only be asked."""
        recommenders: dict[str, Any] = {
            "als": ra.models.ALS(factors=2, iterations=2),
            "ease": ra.models.EASE(),
            "item-knn": ra.models.ItemKNN(),
            "top-pop": ra.models.TopPop(),
        }
        if kind == "system":
            return ra.models.from_system(self.data, scores=lambda _: np.arange(float(self.data.n_items)))
        return recommenders[kind].fit(self.data)


def frames(draw: random.Random, stage: Stage) -> Case | None:
    """A log, or what is known about items and users, from an odd frame."""
    what = draw.choice(["log", "log", "log", "items", "users", "categories", "lists"])
    log = draw.choice([stage.data, stage.numbered])
    if what == "log":
        frame = _frame(draw, ["user", "item", "rating", "time"])
        options: dict[str, list[Any]] = {
            "rating": ["rating", None],
            "time": [None, "time"],
            "duplicates": ["last", "mean", "error"],
        }
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
    return ra.exposure(ra.models.TopPop().fit(data), k=2)


def _grouped(log: ra.Interactions, frame: object) -> object:
    data = log.with_users(frame, attributes=["age"], unknown="ignore")
    return ra.exposure(ra.models.TopPop().fit(data), k=2)


def files(draw: random.Random, stage: Stage) -> Case:
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
    columns: dict[str, Any] = {"time": draw.choice([None, "time"]), "duplicates": draw.choice(["error", "last"])}
    cases: list[Case] = [
        partial(ra.data.read, path, **columns),
        partial(ra.data.read, path, **columns),
        lambda: stage.data.with_items(
            read_table(path, {"item": stage.data.item_ids}), title="rating", unknown="ignore"
        ),
        partial(ra.rerank_file, path, stage.data, stage.folder / "out.parquet", columns=ListColumns(score="rating")),
        partial(ra.rerank, path, stage.data, columns=ListColumns(score="rating"), unknown="ignore"),
    ]
    return draw.choice(cases)


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
