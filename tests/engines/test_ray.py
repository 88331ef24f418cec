"""Work on a Ray cluster of two nodes on this machine: nothing is lost, nothing is done twice, the bits are the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recaudit as ra
from engines.two_nodes import NODE
from models.loopback import log, serving, well
from recaudit import simulate
from recaudit.cli.doctor import examine
from recaudit.data.splits import Split
from recaudit.data.synthetic import World
from recaudit.engines import Ray, Serial, with_workers
from recaudit.engines import cluster as engine_room
from recaudit.engines.base import check_written
from recaudit.errors import InputError, MachineError, NotSupportedError
from recaudit.models import from_http
from recaudit.models.given.http_cache import AnswerCache
from recaudit.testing import EngineContract

ray = pytest.importorskip("ray", reason="Ray has no wheel for this machine")

RUNNING = 300.0
"""Seconds after which a test gives up: no time that is tested."""


pytestmark = [
    pytest.mark.cluster,
    pytest.mark.usefixtures("cluster"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class TestOnACluster(EngineContract):
    engine = Ray()


class TestOneWorker(EngineContract):
    engine = Ray(workers=1)


def begun(folder: Path) -> Counter[str]:
    return Counter(folder.joinpath("begun").read_text().split())


def note(folder: Path, piece: int) -> int:
    """How often this piece has been begun, this time included."""
    with folder.joinpath("begun").open("a") as file:
        file.write(f"{piece}\n")
    return begun(folder)[str(piece)]


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + RUNNING
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def node_of(_: object = None) -> str:
    return str(ray.get_runtime_context().get_node_id())


def meet(folder: Path, piece: int) -> str:
    """Waits for another piece, which only another node has room for."""
    note(folder, piece)
    until(lambda: len(begun(folder)) >= 2)
    return node_of()


def test_both_nodes_work(tmp_path: Path) -> None:
    assert len(set(Ray().map(partial(meet, tmp_path), range(2)))) == 2


class TestTheSameBits:
    @pytest.mark.parametrize(
        "audit",
        [
            ra.Accuracy(),
            ra.Exposure(),
            ra.Reachability(users=30, targets=5),
            ra.Instability(viewers=20, editors=20),
            ra.Agency(users=10, targets=3),
        ],
        ids=lambda audit: type(audit).__name__,
    )
    def test_audits(self, world: World, split: Split, audit: ra.Audit) -> None:
        recommender = ra.models.ALS(factors=4)
        subject = ra.Subject(recommender.fit(split.train), recommender, world.data, split.test)
        serial, spread = (audit.run(subject, rng=3, engine=engine) for engine in (Serial(), Ray()))
        assert serial.facts == spread.facts
        for name, table in serial.tables.items():
            assert table.equals(spread.tables[name]), name

    def test_matrix_products_have_one_thread_in_every_engine(self) -> None:
        pieces = [np.random.default_rng(size).normal(size=(size, size)) for size in (100, 257, 400)]
        for serial, spread in zip(Serial().map(np.linalg.inv, pieces), Ray().map(np.linalg.inv, pieces), strict=True):
            assert serial.tobytes() == spread.tobytes()

    def test_a_simulation(self, tmp_path: Path) -> None:
        kind = simulate.Topics(users=30, items=40, topics=4, users_per_step=10)
        found = [
            simulate.run(kind, ra.models.ALS(factors=2), ratings=200, steps=3, trials=2, out=out, engine=engine).steps
            for engine, out in ((None, tmp_path / "serial"), (Ray(), tmp_path / "ray"))
        ]
        assert found[0].equals(found[1])
        assert files(tmp_path / "serial") == files(tmp_path / "ray")


def files(folder: Path) -> dict[str, bytes]:
    """The tables of a run folder; its manifests have times."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.parquet"))}


def dies_at_first(folder: Path, piece: int) -> int:
    if note(folder, piece) == 1 and piece in (2, 5):
        os.kill(os.getpid(), signal.SIGKILL)
    return piece**2


def dies(piece: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return piece


class TestLosses:
    def test_a_killed_worker_costs_its_piece_and_no_other(self, tmp_path: Path) -> None:
        assert list(Ray().map(partial(dies_at_first, tmp_path), range(8))) == [piece**2 for piece in range(8)]
        assert begun(tmp_path) == {str(piece): 2 if piece in (2, 5) else 1 for piece in range(8)}

    def test_a_piece_that_kills_every_worker_ends_the_run_and_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(engine_room, "_TRIES", 2)
        with pytest.raises(MachineError, match="lost on the cluster"):
            list(Ray().map(dies, [0]))

    def test_a_lost_node(self, cluster: Any, tmp_path: Path) -> None:
        """Its answers, which lie in its memory, and the piece that it had under way are made again."""
        other = next(node for node in cluster.list_all_nodes() if not node.head)
        answers = Ray(ahead=4).map(partial(large, tmp_path, node_of()), range(8))
        first = next(answers)
        until(lambda: elsewhere(tmp_path) > 1)
        cluster.remove_node(other, allow_graceful=False)
        found = [first, *answers]
        cluster.add_node(**NODE)
        assert [array.tobytes() for array in found] == [large(tmp_path, "", piece).tobytes() for piece in range(8)]
        assert max(begun(tmp_path).values()) > 2  # this process has just begun each once more

    def test_a_killed_driver_and_a_resumed_run(self, cluster: Any, tmp_path: Path) -> None:
        (tmp_path / "work.py").write_text(LOOP)
        script = [sys.executable, "work.py", cluster.address]
        with subprocess.Popen(script, cwd=tmp_path) as killed:
            try:
                until(lambda: killed.poll() is not None or bool(files(tmp_path / "ray")))
            finally:
                killed.kill()
        assert killed.returncode == -signal.SIGKILL
        before = files(tmp_path / "ray")
        until(lambda: ray.available_resources().get("CPU") == 2)  # what it had under way has ended too
        found: dict[str, Any] = {"address": cluster.address}
        exec(LOOP.replace("sys.argv[1]", "address").replace('"ray"', f'"{tmp_path}/ray"'), found)
        exec(LOOP.replace("Ray(sys.argv[1])", "None").replace('"ray"', f'"{tmp_path}/serial"'), found)
        after = files(tmp_path / "ray")
        assert after == files(tmp_path / "serial")
        assert 0 < len(before) < len(after)
        assert before.items() & after.items()  # what was kept was not made again


LOOP = """
import sys
import recaudit as ra
from recaudit import simulate
from recaudit.cli.doctor import examine
from recaudit.engines import Ray

kind = simulate.Topics(users=30, items=40, topics=4, users_per_step=10)
model = ra.models.ALS(factors=2)
simulate.run(kind, model, ratings=200, steps=20, trials=16, out="ray", engine=Ray(sys.argv[1]))
"""


def large(folder: Path, first: str, piece: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A megabyte, where it was made. The other node makes one, and never ends its second; the first waits for that."""
    note(folder, piece)
    if first and node_of() != first:
        if elsewhere(folder, "x") > 1:
            time.sleep(600)
    elif first:
        until(lambda: elsewhere(folder) > 1)
    return np.random.default_rng(piece).normal(size=2**17)


def elsewhere(folder: Path, more: str = "") -> int:
    """How many pieces the other node has begun."""
    with folder.joinpath("elsewhere").open("a+") as file:
        file.write(more)
        file.flush()
        file.seek(0)
        return len(file.read())


ENDLESS = """
import sys
import time
from pathlib import Path
from recaudit.engines import Ray

def endless(piece):
    Path(f"FOLDER/started-{piece}").touch()
    time.sleep(600)

try:
    list(Ray(sys.argv[1]).map(endless, range(6)))
except KeyboardInterrupt:
    print("stopped")
"""


def test_ctrl_c_ends_what_is_under_way(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(ENDLESS.replace("FOLDER", str(tmp_path)))
    run = subprocess.Popen(
        [sys.executable, "work.py", cluster.address],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        until(lambda: run.poll() is not None or len(list(tmp_path.glob("started-*"))) == 2)
        os.killpg(run.pid, signal.SIGINT)
        out, err = run.communicate(timeout=RUNNING)
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
    # Before it Ray may tell of the node that another test has lost.
    assert (out.splitlines()[-1:], err) == (["stopped"], "")
    until(lambda: ray.available_resources().get("CPU") == 2)
    assert len(list(tmp_path.glob("started-*"))) == 2


def test_pieces_wait_until_answers_are_read(tmp_path: Path) -> None:
    answers = Ray(ahead=2).map(partial(note, tmp_path), range(20))
    assert next(answers) == 1
    until(lambda: len(begun(tmp_path)) == 4)
    time.sleep(0.3)
    assert len(begun(tmp_path)) == 4  # two for each of two cores
    assert list(answers) == [1] * 19


def test_so_many_at_a_time_and_no_more(tmp_path: Path) -> None:
    found = list(Ray(workers=1, ahead=6).map(partial(alone, tmp_path), range(6)))
    assert found == [True] * 6


def alone(folder: Path, piece: int) -> bool:
    """Whether nobody else was here."""
    mine = folder / f"{piece}"
    mine.touch()
    time.sleep(0.1)
    found = len(list(folder.iterdir()))
    mine.unlink()
    return found == 1


class OneMachine:
    """Has its state in a folder."""

    one_machine = True

    def __call__(self, piece: int) -> str:
        return node_of()


def test_what_must_stay_on_a_machine_stays_on_the_drivers() -> None:
    assert set(Ray().map(OneMachine(), range(6))) == {node_of()}


def test_the_budget_of_a_service_is_shared(tmp_path: Path) -> None:
    with serving(well) as service:
        how: dict[str, Any] = {"rate": None, "cache": tmp_path, "answer": "recommendations[].id"}
        model = from_http(f"{service.url}/?user={{user}}", log(48), budget=11, **how)
        result = ra.exposure(model, engine=Ray())
    assert service.asked == AnswerCache(tmp_path).queries == 11
    assert sum(result.facts["failed"].values()) == 48 - 11


class Holder:
    """Has an array that nobody may change, and one that anybody may."""

    def __init__(self) -> None:
        self.fixed, self.free = np.arange(10_000.0), np.arange(10_000.0)
        self.fixed.flags.writeable = False

    def __call__(self, piece: int) -> tuple[bool, bool, bool, float]:
        self.free += piece
        return self.fixed.flags.writeable, self.free.flags.writeable, self.fixed.flags.owndata, self.fixed.sum()


def test_read_only_arrays_are_shared_and_others_are_the_workers_own() -> None:
    assert set(Ray().map(Holder(), range(4))) == {(False, True, False, 49_995_000.0)}


def warns(piece: int) -> int:
    warnings.warn(f"piece {piece}", UserWarning, stacklevel=2)
    return piece


def refuses(piece: int) -> int:
    raise InputError("piece", received=piece, expected="another")


def test_warnings_and_errors_come_back() -> None:
    with pytest.warns(UserWarning, match="piece") as caught:
        assert list(Ray().map(warns, [1, 2])) == [1, 2]
    assert {str(one.message) for one in caught} == {"piece 1", "piece 2"}
    with pytest.raises(InputError, match="piece: received 7; expected another") as refused:
        list(Ray().map(refuses, [7]))
    assert "In a worker of Ray" in refused.value.__notes__[0]


def test_other_versions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_room, "_versions", lambda: {"recaudit": ra.__version__, "numpy": "0.1"})
    with pytest.raises(MachineError, match=rf"numpy {np.__version__}, not 0\.1"):
        list(Ray().map(abs, [1]))


def test_more_workers_are_still_rays() -> None:
    assert with_workers(Ray("auto"), 3) == Ray("auto", workers=3)


def test_what_a_worker_writes_must_be_seen_here(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="all of its machines see"):
        check_written(tmp_path / "elsewhere")


def where(_: int) -> str:
    return str(Path.cwd())


def test_relative_paths_mean_the_same_in_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert set(Ray().map(where, range(3))) == {str(tmp_path)}


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"ahead": 0}, {"address": 7}])
def test_settings_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        Ray(**wrong)


def test_doctor_says_what_it_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    same = "a cluster: nodes 2, cores 2, object store 0.2 GiB, the same versions on all"
    assert engine_room.describe() == (same, [])
    monkeypatch.setattr(engine_room, "_versions", lambda: {"numpy": "0.1"})
    assert len([one for one in examine().problems if f"has numpy {np.__version__}, not 0.1" in one]) == 2
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    assert [problem for problem in examine().problems if "expected a Ray cluster that runs" in problem]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nowhere"])
def test_an_address_where_no_cluster_is(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(InputError, match="expected a Ray cluster that runs"):
        list(Ray(address).map(abs, [1]))


def test_without_ray_an_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NotSupportedError, match=r"recaudit\[ray\]"):
        list(Ray().map(abs, [1]))
