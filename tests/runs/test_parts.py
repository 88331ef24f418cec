"""Tables of millions of rows: whoever works a part out writes it, and the run folder knows every part."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import recaudit as ra
from recaudit import runs
from recaudit.audits import spill
from recaudit.audits.spill import Part, PartFolder, SpilledRows
from recaudit.data import datasets
from recaudit.data.synthetic import World
from recaudit.engines import Engine, Serial, Threads
from recaudit.engines.base import Answer, Piece
from recaudit.errors import DamagedError, DamageWarning, InputError, MachineError, NotSupportedError
from recaudit.folders import FileRecord, verify
from recaudit.folders.places import place_of
from recaudit.runs import Configuration, Run, execute
from recaudit.runs.timing import Sampled

CONFIG = """
seed = 3
floors = false
[data]
name = "demo"
[[model]]
kind = "als"
factors = 3
[audits.reachability]
users = 50
samples = 5
refits = 0
[audits.instability]
edits = {kind = "next-k", k = 2}
viewers = 70
pairs = true
samples = 5
refits = 0
"""
WHERE = "results/ALS/reachability"


@dataclass(frozen=True)
class Elsewhere(Engine):
    """One piece after the other, whose rows go to a place that is named; so many pieces, then it is stopped."""

    parts: str | None = None
    stops: int | None = None

    def map(self, function: Callable[[Piece], Answer], pieces: Sequence[Piece], label: str = "") -> Iterator[Answer]:
        for number, piece in enumerate(pieces):
            if number == self.stops and label == "reachability":
                raise KeyboardInterrupt
            yield pickle.loads(pickle.dumps(function))(piece)  # as one that leaves the process has it


@pytest.fixture
def config(world: World, monkeypatch: pytest.MonkeyPatch) -> Configuration:
    monkeypatch.setattr(datasets, "load", lambda name, path=None: world.data)
    return runs.parse(CONFIG, source="run.toml", folder=Path())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "MOST_ROWS", 500)
    monkeypatch.setattr(spill, "PART_ROWS", 1000)
    monkeypatch.setattr(spill, "_NOTED", 0.0)


def by(config: Configuration, engine: Engine) -> Configuration:
    return config.model_copy(update={"engine": engine})


def whole(folder: Path) -> bool:
    found = verify(folder)
    return not found.lost and not found.unknown


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.parquet"))}


@pytest.mark.usefixtures("small")
def test_every_engine_writes_the_same_files(config: Configuration, tmp_path: Path) -> None:
    found = []
    for engine in (Serial(), Threads(3), Elsewhere()):
        run = execute(by(config, engine), tmp_path / type(engine).__name__)
        found.append(files(run.path))
        assert whole(run.path)
    assert found[0] == found[1] == found[2]
    assert [name for name in found[0] if "pairs" in name][-4:] == [
        f"{WHERE}/pairs/{part:06}.parquet" for part in range(4)
    ]
    assert not list(tmp_path.rglob(".recaudit-*"))


def test_the_numbers_are_those_of_tables_in_memory(
    config: Configuration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = execute(config, tmp_path / "held")
    monkeypatch.setattr(spill, "MOST_ROWS", 500)
    monkeypatch.setattr(spill, "PART_ROWS", 1000)
    parted = execute(config, tmp_path / "parted")
    for audit in ("reachability", "instability"):
        whole, some = (run.result("ALS", audit) for run in (held, parted))
        assert whole.tables.keys() == some.tables.keys()
        for name, table in whole.tables.items():
            assert_frame_equal(some.tables[name], table, rel_tol=1e-12)
            assert_frame_equal(parted.table("ALS", audit, name), table, rel_tol=1e-12)
        assert isinstance(some._rows("pairs"), SpilledRows)
        some.save(tmp_path / audit)
        assert_frame_equal(type(some).load(tmp_path / audit).pairs, whole.pairs)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("address", [None, "memory://bucket/run", "file"])
def test_a_stopped_step_goes_on_with_its_parts(config: Configuration, tmp_path: Path, address: str | None) -> None:
    parts = f"file://{tmp_path}/parts" if address == "file" else address
    serial = files(execute(config, tmp_path / "serial").path)
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        execute(by(config, Elsewhere(parts, stops=2)), out)
    begun = Run.open(out).folder.manifest.files
    assert list(begun) == [f"{WHERE}/pairs/{part:06}.parquet" for part in range(2)]
    assert verify(out).lost == ()
    run = execute(by(config, Elsewhere(parts, stops=2)), out)  # two more are all that is left
    assert whole(out)
    at = run.folder.manifest.elsewhere.get(f"{WHERE}/pairs")
    assert (at is None) == (address is None)
    here = {name: content for name, content in serial.items() if address is None or "pairs" not in name}
    assert files(out) == here
    if at is not None:
        for part in range(4):
            with fsspec.open(f"{at}/{part:06}.parquet") as file:
                assert file.read() == serial[f"{WHERE}/pairs/{part:06}.parquet"]


@pytest.mark.usefixtures("small")
def test_parts_elsewhere_are_read_checked_and_made_again(config: Configuration, tmp_path: Path) -> None:
    there = by(config, Elsewhere("memory://bucket/again"))
    run = execute(there, tmp_path / "out")
    pairs = run.table("ALS", "reachability", "pairs")
    column = run.scan("ALS", "reachability", "pairs").select("user", "value").filter(pl.col("value") > 0.1)
    assert_frame_equal(column.head(3).collect(), pairs.select("user", "value").filter(pl.col("value") > 0.1).head(3))
    assert_frame_equal(execute(config, tmp_path / "here").table("ALS", "reachability", "pairs"), pairs)
    memory, path = fsspec.core.url_to_fs(f"{run.folder.manifest.elsewhere[f'{WHERE}/pairs']}/000002.parquet")
    content = memory.cat_file(path)
    memory.pipe_file(path, content[:-1] + b"x")
    assert [(finding.name, finding.fault) for finding in verify(run.path).lost] == [
        (f"{WHERE}/pairs/000002.parquet", "damaged")
    ]
    with pytest.raises(DamagedError, match="memory://bucket/again"):
        Run.open(run.path).table("ALS", "reachability", "pairs")
    memory.rm(path)
    assert [finding.fault for finding in verify(run.path).lost] == ["missing"]
    with pytest.warns(DamageWarning, match="000002"):
        execute(there, run.path)
    assert memory.cat_file(path) == content
    assert verify(run.path).lost == ()


@pytest.mark.usefixtures("small")
def test_a_run_that_goes_on_in_another_place_leaves_nothing_behind(config: Configuration, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        execute(by(config, Elsewhere("memory://bucket/first", stops=2)), out)
    run = execute(config, out)
    assert run.folder.manifest.elsewhere == {}
    assert verify(out).lost == ()
    assert files(out) == files(execute(config, tmp_path / "whole").path)


@pytest.mark.usefixtures("small")
def test_a_verb_has_its_rows_where_the_engine_says_until_nobody_holds_them(world: World) -> None:
    model = ra.models.ALS(factors=3, iterations=2).fit(world.data)
    asked: dict[str, Any] = {"users": 20, "samples": 5, "refits": 0}
    memory = fsspec.filesystem("memory")
    found = ra.reachability(model, **asked, engine=Elsewhere("memory://bucket/verb"))
    assert len(memory.find("/bucket/verb")) == 2
    assert found.scan("pairs").collect().equals(ra.reachability(model, **asked).pairs)
    del found
    assert memory.find("/bucket/verb") == []


@pytest.mark.usefixtures("small")
def test_an_estimate_works_out_one_part_and_counts_it_for_all(world: World) -> None:
    model = ra.models.ALS(factors=3, iterations=2).fit(world.data)
    engine = Sampled(Serial())
    found = ra.reachability(model, users=96, samples=5, refits=0, engine=engine)
    assert isinstance(found._rows("pairs"), SpilledRows)
    assert len(found.users) == 96
    assert engine.left_out > 0


def test_a_machine_that_does_not_see_the_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"has no folder .*not_here.* all machines see"):
        PartFolder(tmp_path / "not_here").check()
    table = SpilledRows(tmp_path)
    with pytest.raises(MachineError, match=r"A worker on far wrote .*000000.* is not there"):
        table.add(Part("000000.parquet", FileRecord(bytes=3, sha256=""), "far"))


def test_places() -> None:
    assert place_of("file:///a/b%20c") == Path("/a/b c")
    assert place_of("a") == Path("a").absolute()
    assert place_of("s3://bucket/run/") == "s3://bucket/run"
    with pytest.raises(InputError, match="one address"):
        place_of("simplecache::s3://bucket/run")
    with pytest.raises(NotSupportedError, match=r"nobody://x.* cannot be opened"):
        PartFolder("nobody://x").write(0, pl.DataFrame({"a": [1]}))


@pytest.mark.usefixtures("small")
def test_a_lost_part_is_made_again_with_its_step(config: Configuration, tmp_path: Path) -> None:
    run = execute(config, tmp_path / "out")
    before = files(run.path)
    shutil.rmtree(run.path / WHERE / "pairs")
    with pytest.warns(DamageWarning, match="pairs/000000"):
        execute(config, run.path)
    assert files(run.path) == before
