"""Tables of millions of rows: whoever works a part out writes it, and the run folder knows every part."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import recaudit as ra
from recaudit import runs
from recaudit.audits import spill
from recaudit.audits.spill import Part, PartFolder, SpilledRows
from recaudit.data import datasets
from recaudit.data.synthetic import World
from recaudit.engines import Engine, Ray, Serial, Threads
from recaudit.engines.base import Answer, Piece
from recaudit.errors import DamagedError, DamageWarning, InputError, MachineError
from recaudit.folders import FileRecord, verify
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
refits = 0
[audits.instability]
edits = {kind = "next-k", k = 2}
viewers = 70
pairs = true
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


def whole(folder: Path, parts: Path | None = None) -> bool:
    found = verify(folder, parts)
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
@pytest.mark.parametrize("outside", [False, True])
def test_a_stopped_step_goes_on_with_its_parts(config: Configuration, tmp_path: Path, *, outside: bool) -> None:
    folder = tmp_path / "parts" if outside else None
    parts = str(folder) if outside else None
    serial = files(execute(config, tmp_path / "serial").path)
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        execute(by(config, Elsewhere(parts, stops=2)), out)
    begun = [name for name in Run.open(out).folder.manifest.files if name.startswith(WHERE)]
    assert begun == [f"{WHERE}/pairs/{part:06}.parquet" for part in range(2)]
    assert verify(out, folder).lost == ()
    run = execute(by(config, Elsewhere(parts, stops=2)), out)  # two more are all that is left
    assert whole(out, folder)
    at = run.folder.manifest.elsewhere.get(f"{WHERE}/pairs")
    assert (at is not None) == outside
    here = {name: content for name, content in serial.items() if not outside or "pairs" not in name}
    assert files(out) == here
    if at is not None:
        for part in range(4):
            assert Path(at, f"{part:06}.parquet").read_bytes() == serial[f"{WHERE}/pairs/{part:06}.parquet"]


@pytest.mark.usefixtures("small")
def test_parts_elsewhere_are_read_checked_and_made_again(config: Configuration, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    there = by(config, Elsewhere(str(parts)))
    run = execute(there, tmp_path / "out")
    pairs = run.table("ALS", "reachability", "pairs")
    column = run.scan("ALS", "reachability", "pairs").select("user", "value").filter(pl.col("value") > 0.1)
    assert_frame_equal(column.head(3).collect(), pairs.select("user", "value").filter(pl.col("value") > 0.1).head(3))
    assert_frame_equal(execute(config, tmp_path / "here").table("ALS", "reachability", "pairs"), pairs)
    path = Path(run.folder.manifest.elsewhere[f"{WHERE}/pairs"], "000002.parquet")
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"x")
    assert [(finding.name, finding.fault) for finding in verify(run.path, parts).lost] == [
        (f"{WHERE}/pairs/000002.parquet", "damaged")
    ]
    with pytest.raises(DamagedError, match=str(path)):
        Run.open(run.path, parts=parts).table("ALS", "reachability", "pairs")
    path.unlink()
    assert [finding.fault for finding in verify(run.path, parts).lost] == ["missing"]
    with pytest.warns(DamageWarning, match="000002"):
        execute(there, run.path)
    assert path.read_bytes() == content
    assert verify(run.path, parts).lost == ()


@pytest.mark.usefixtures("small")
def test_parts_outside_are_read_only_below_a_folder_that_the_caller_names(
    config: Configuration, tmp_path: Path
) -> None:
    parts, out = tmp_path / "shared" / "parts", tmp_path / "out"
    execute(by(config, Elsewhere(str(parts))), out)
    instability = f"{WHERE.replace('reachability', 'instability')}/pairs"
    for named in (None, tmp_path / "other", parts / "deeper", Path("shared")):
        lost = verify(out, named).lost
        assert {finding.fault for finding in lost} == {"outside"}
        assert {finding.file.rpartition("/")[0] for finding in lost} == {f"{WHERE}/pairs", instability}
        with pytest.raises(InputError, match="--parts FOLDER") as refused:
            Run.open(out, parts=named).table("ALS", "reachability", "pairs")
        assert refused.value.argument == "parts"
        assert Run.open(out, parts=named).table("ALS", "reachability", "summary").height
    link = tmp_path / "link"
    link.symlink_to(parts)
    for named in (parts, parts.parent, tmp_path, link):
        assert verify(out, named).lost == ()
        assert Run.open(out, parts=named).table("ALS", "reachability", "pairs").height
    # Finished steps are not computed again only because the folder is not named.
    with pytest.raises(InputError, match=r"Set parts of \[engine\]"):
        execute(config, out)
    assert verify(out, parts).lost == ()


@pytest.mark.usefixtures("small")
def test_no_link_is_followed_below_the_folder_of_parts(config: Configuration, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    run = execute(by(config, Elsewhere(str(parts))), tmp_path / "out")
    path = Path(run.folder.manifest.elsewhere[f"{WHERE}/pairs"], "000002.parquet")
    path.rename(tmp_path / "secret")
    path.symlink_to(tmp_path / "secret")
    assert [(finding.name, finding.fault) for finding in verify(run.path, parts).lost] == [
        (f"{WHERE}/pairs/000002.parquet", "link")
    ]
    with pytest.raises(DamagedError, match="symbolic link"):
        Run.open(run.path, parts=parts).table("ALS", "reachability", "pairs")


@pytest.mark.usefixtures("small")
def test_a_run_that_goes_on_in_another_place_leaves_nothing_behind(config: Configuration, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        execute(by(config, Elsewhere(str(tmp_path / "parts"), stops=2)), out)
    run = execute(config, out)
    assert run.folder.manifest.elsewhere == {}
    assert verify(out).lost == ()
    assert files(out) == files(execute(config, tmp_path / "whole").path)


@pytest.mark.usefixtures("small")
def test_a_verb_has_its_rows_where_the_engine_says_until_nobody_holds_them(world: World, tmp_path: Path) -> None:
    model = ra.models.ALS(factors=3, iterations=2).fit(world.data)
    asked: dict[str, Any] = {"users": 20, "refits": 0}
    found = ra.reachability(model, **asked, engine=Elsewhere(str(tmp_path / "parts")))
    assert len(files(tmp_path / "parts")) == 2
    assert found.scan("pairs").collect().equals(ra.reachability(model, **asked).pairs)
    del found
    assert list((tmp_path / "parts").iterdir()) == []


@pytest.mark.usefixtures("small")
def test_an_estimate_works_out_one_part_and_counts_it_for_all(world: World) -> None:
    model = ra.models.ALS(factors=3, iterations=2).fit(world.data)
    engine = Sampled(Serial())
    found = ra.reachability(model, users=96, refits=0, engine=engine)
    assert isinstance(found._rows("pairs"), SpilledRows)
    assert len(found.users) == 96
    assert engine.left_out > 0


def test_a_machine_that_does_not_see_the_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"has no folder .*not_here.* all machines see"):
        PartFolder(tmp_path / "not_here").check()
    table = SpilledRows(tmp_path)
    with pytest.raises(MachineError, match=r"A worker on far wrote .*000000.* is not there"):
        table.add(Part("000000.parquet", FileRecord(bytes=3, sha256="0" * 64), "far"))


def test_parts_are_written_in_a_folder_and_never_at_a_remote_address() -> None:
    for address in ("s3://bucket/run", "file:///a/b", "simplecache::s3://bucket/run"):
        with pytest.raises(InputError, match="Mount remote storage") as refused:
            Ray(parts=address)
        assert refused.value.argument == "parts"
    assert Ray(parts="/shared/runs").parts == "/shared/runs"


@pytest.mark.usefixtures("small")
def test_a_lost_part_is_made_again_with_its_step(config: Configuration, tmp_path: Path) -> None:
    run = execute(config, tmp_path / "out")
    before = files(run.path)
    shutil.rmtree(run.path / WHERE / "pairs")
    with pytest.warns(DamageWarning, match="pairs/000000"):
        execute(config, run.path)
    assert files(run.path) == before
