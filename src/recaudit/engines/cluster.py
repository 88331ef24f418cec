"""The engine for more than one machine: pieces of work as tasks of a Ray cluster."""

from __future__ import annotations

import logging
import os
import pickle
import platform
import socket
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from recaudit.arguments import check_argument, check_count
from recaudit.engines.base import Answer, Engine, Piece
from recaudit.engines.local import block_sigint
from recaudit.engines.progress import track
from recaudit.engines.steady import one_blas_thread, own_process, steadily
from recaudit.errors import InputError, MachineError, NotSupportedError

_TRIES = 4
"""How often a piece is begun whose worker or machine is lost."""
_SHARED = 4096
"""Bytes from which a read-only array is kept once a machine, not once a worker."""
_LOOK = 10.0
"""Seconds after which it is seen that a cluster has grown."""
_ANSWERS = 60.0
"""Seconds within which a machine says what it has."""
_SAME = ("recaudit", "numpy", "scipy", "numba", "polars", "torch")
"""Packages whose versions are those of this process on every machine: others would give other numbers."""


@final
@dataclass(frozen=True)
class Ray(Engine):
    """Several pieces at a time, on all machines of a Ray cluster; the extra `ray`.

    The function, with the model and the log in it, goes into the cluster's object store once, and answers come back
    through it. Pieces whose worker or machine is lost are done again elsewhere. Ctrl-C ends what is under way.
    """

    address: str | None = None
    """The cluster: "auto" for the one that this machine is part of, or "host:port". Where nothing is said, one of this
    machine's cores is started, and ends with the process."""
    workers: int | None = None
    """How many pieces are worked on at a time, each with its share of the cores; one on each core where nothing is
    said."""
    ahead: int = 8
    """How many pieces for each worker may be under way; their answers wait in the object store for the slowest before
    them. The more workers there are, the slower is the slowest."""

    parts: str | None = None
    """Where workers write tables of more than 25 million rows, a file for each part: a folder that all machines see
    under the same path. By default, the run folder."""

    def __post_init__(self) -> None:
        check_argument("address", self.address, str | None)
        check_argument("parts", self.parts, str | None)
        if self.parts is not None and "://" in self.parts:
            raise InputError(
                "parts",
                received=self.parts,
                expected="a folder, such as '/shared/runs'",
                remedy="Mount remote storage as a folder that all machines see under the same path, and name that.",
            )
        for name in ("workers", "ahead"):
            check_argument(name, getattr(self, name), int | None if name == "workers" else int)
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))

    def map(self, function: Callable[[Piece], Answer], pieces: Sequence[Piece], label: str = "") -> Iterator[Answer]:
        """The answers in order; the function is sent to each machine once."""
        answers = self._answers(function, pieces) if len(pieces) else iter(())
        with one_blas_thread():
            yield from track(answers, label, len(pieces))

    def _answers(self, function: Callable[[Piece], Answer], pieces: Sequence[Piece]) -> Iterator[Answer]:
        ray = connected(self.address)
        packed, stays = _packed(function)
        plan = _Plan.of(ray, self.workers, stays=stays)
        work = ray.put(packed)
        task = ray.remote(_run).options(
            num_cpus=plan.cores, max_retries=_TRIES - 1, retry_exceptions=False, scheduling_strategy=plan.where
        )
        workers, seen = plan.workers, time.monotonic()
        under_way: deque[Any] = deque()
        try:
            for piece in pieces:
                if time.monotonic() - seen > _LOOK:
                    workers, seen = _Plan.of(ray, self.workers, stays=stays).workers, time.monotonic()
                while len(under_way) >= self.ahead * workers:
                    yield _opened(ray, under_way.popleft())
                if plan.limited and len(under_way) >= workers:
                    ray.wait(list(under_way), num_returns=len(under_way) - workers + 1, fetch_local=False)
                under_way.append(task.remote(work.binary(), work, _dumped(piece), plan.cores))
            while under_way:
                yield _opened(ray, under_way.popleft())
        except BaseException:
            for answer in under_way:  # nobody waits for them any more
                with suppress(Exception):
                    ray.cancel(answer, force=True)
            raise


class _Plan(NamedTuple):
    """How pieces are laid out over the cluster as it is now."""

    workers: int  # how many pieces at a time
    cores: int  # of each
    where: Any  # a scheduling strategy of Ray's
    limited: bool  # whether the cluster has room for more

    @classmethod
    def of(cls, ray: Any, workers: int | None, *, stays: bool) -> _Plan:
        """One piece a core, or so many with equal shares; on the driver's machine alone where the work stays there."""
        here = ray.get_runtime_context().get_node_id()
        nodes = {
            node["NodeID"]: int(node["Resources"].get("CPU", 0))
            for node in ray.nodes()
            if node["Alive"] and (not stays or node["NodeID"] == here)
        }
        most = max(nodes.values(), default=0)
        if stays:
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as Here  # noqa: PLC0415

            cores = most // (workers or most) if most else 0
            return cls(workers or most or 1, cores, Here(here, soft=False), limited=True)
        if not most:  # none yet: a cluster that grows when there is work
            return cls(workers or 1, 1, "DEFAULT", limited=workers is not None)
        if workers is None:
            return cls(sum(nodes.values()), 1, "DEFAULT", limited=False)
        return cls(workers, max(1, min(sum(nodes.values()) // workers, most)), "DEFAULT", limited=True)


_starting = threading.Lock()


def connected(address: str | None) -> Any:
    """Ray, connected to the cluster at the address or to one that is started; a connection there is, is used."""
    try:
        import ray  # noqa: PLC0415  optional: the extra `ray`
    except ImportError:
        raise NotSupportedError(
            "Ray is not installed. Install it with pip install 'recaudit[ray]'; the engines threads and processes "
            "spread work over the cores of this machine without it."
        ) from None
    with _starting, block_sigint(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not ray.is_initialized():
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # of what is started: nothing leaves the machine
            os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
            os.environ.setdefault("RAY_task_oom_retries", str(_TRIES - 1))  # else for ever
            logging.getLogger("ray").setLevel(logging.ERROR)
            own = {"include_dashboard": False} if address is None else {}
            try:
                if address is not None:
                    _check_address(_noted_address() if address == "auto" else address)
                ray.init(address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
            except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
                raise InputError(
                    "address",
                    received=f"{address!r} ({str(error).splitlines()[0]})",
                    expected="a Ray cluster that runs: 'auto' on one of its machines, or 'host:port'",
                    remedy="Start one with 'ray start --head', or leave the address out to use this machine alone. A "
                    "cluster started with RAY_AUTH_MODE=token is reached by 'host:port' with that set here too.",
                ) from error
    return ray


def describe() -> tuple[str, list[str]]:
    """What `address = "auto"` means on this machine, in words, and what its machines lack; no cluster is started."""
    try:
        ray = connected("auto")
    except InputError:
        if os.environ.get("RAY_ADDRESS"):
            raise
        return "no cluster runs here: without an address, one of this machine's cores is started", []
    nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
    cores, store = (
        sum(node["Resources"].get(name, 0) for node in nodes.values()) for name in ("CPU", "object_store_memory")
    )
    problems = [
        f"{nodes[node]['NodeManagerHostname']} ({nodes[node]['NodeManagerAddress']}), a machine of the Ray cluster, "
        f"{fault}: install the same as here on all of them."
        for node, fault in _faults(ray, list(nodes)).items()
    ]
    size = f"nodes {len(nodes):,}, cores {cores:,.0f}, object store {store / 2**30:,.1f} GiB"
    return f"a cluster: {size}" + ("" if problems else ", the same versions on all"), problems


def _faults(ray: Any, nodes: list[str]) -> dict[str, str]:
    """What is wrong with the packages of each of these nodes, if anything is; every node is asked."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as There  # noqa: PLC0415  optional

    names = _SAME

    def versions() -> dict[str, str]:
        # It travels as it stands, without this module: recaudit may be what is missing there.
        from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

        found = {}
        for name in names:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                found[name] = "missing"
        return found

    task = ray.remote(versions)
    asked = {node: task.options(num_cpus=0, scheduling_strategy=There(node, soft=False)).remote() for node in nodes}
    faults: dict[str, str] = {}
    for node, answer in asked.items():
        try:
            there = ray.get(answer, timeout=_ANSWERS)
        except ray.exceptions.RayError as error:
            faults[node] = f"did not say what it has ({type(error).__name__})"
            continue
        other = [f"{name} {there[name]}, not {here}" for name, here in _versions().items() if there[name] != here]
        if other:
            faults[node] = f"has {', '.join(other)}"
    return faults


def _noted_address() -> str:
    """Of the cluster that "auto" means, as Ray looks for it: in the environment, and where the last one was noted."""
    noted = Path(os.environ.get("RAY_TMPDIR", tempfile.gettempdir())) / "ray" / "ray_current_cluster"
    with suppress(OSError):
        return os.environ.get("RAY_ADDRESS") or noted.read_text(encoding="utf-8").strip()
    return ""


def _check_address(address: str) -> None:
    """That somebody listens there: Ray itself would try for minutes."""
    if address and address not in ("auto", "local"):
        host, separator, port = address.rpartition(":")
        if not separator or not port.isdigit():
            raise ValueError("it is no host:port")
        socket.create_connection((host, int(port)), timeout=5).close()


def _packed(function: Callable[[Any], Any]) -> tuple[list[Any], bool]:
    """What a worker needs to have the function, as arrays of bytes; and whether it stays on this machine.

    Arrays that are read-only, as a log's are, go by themselves: workers of a machine share them where they lie.
    """
    from ray import cloudpickle  # noqa: PLC0415  optional

    stays, buffers = False, list[Any]()

    class Packer(cloudpickle.Pickler):  # type: ignore[misc]  # has no types
        def reducer_override(self, part: object) -> Any:
            nonlocal stays
            stays = stays or getattr(type(part), "one_machine", False) is True
            return super().reducer_override(part)

    def inline(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.readonly and raw.nbytes >= _SHARED:
            buffers.append(np.frombuffer(raw, np.uint8))
            return False
        return True

    with BytesIO() as file:
        Packer(file, protocol=5, buffer_callback=inline).dump(function)
        contents = _dumped((_versions(), sys.path, str(Path.cwd()))), file.getvalue()
    return [*(np.frombuffer(content, np.uint8) for content in contents), *buffers], stays


def _dumped(value: object) -> bytes:
    from ray import cloudpickle  # noqa: PLC0415  takes functions of a script too

    content: bytes = cloudpickle.dumps(value, protocol=5)
    return content


class _Told(NamedTuple):
    """What a worker says of a piece."""

    answer: Any
    error: Exception | None
    where: str  # it was raised
    warned: list[tuple[Warning | str, type[Warning], str, int]]


_work: tuple[bytes, Callable[[Any], Any]] | None = None


def _run(key: bytes, packed: list[Any], piece: bytes, cores: int) -> bytes:
    """In a worker: the answer of a piece, what it warned of, or the error it raised."""
    own_process(cores)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answer, error, where = None, None, ""
        try:
            answer = steadily(_function(key, packed), pickle.loads(piece))
        except Exception as raised:
            error, where = raised, traceback.format_exc()
    warned = [(one.message, one.category, one.filename, one.lineno) for one in caught]
    return _dumped(_Told(answer, error, where, warned))


def _function(key: bytes, packed: list[Any]) -> Callable[[Any], Any]:
    """The function of this map, unpacked once a worker."""
    global _work  # noqa: PLW0603  the last one alone is kept
    if _work is None or _work[0] != key:
        _work = None
        (versions, path, folder), here = pickle.loads(packed[0]), _versions()
        other = [
            f"{name} {here.get(name, 'missing')}, not {there}"
            for name, there in versions.items()
            if here.get(name) != there
        ]
        if other:
            raise MachineError(
                f"A machine of the cluster ({platform.node()}) has other versions than this one, and would give "
                f"other numbers: {', '.join(other)}. Install the same everywhere."
            )
        sys.path += [place for place in path if place not in sys.path and Path(place).exists()]
        if Path(folder).is_dir():  # so that relative paths mean the same
            os.chdir(folder)
        _work = key, pickle.loads(packed[1], buffers=packed[2:])
    return _work[1]


@cache
def _versions() -> dict[str, str]:
    """Return the versions of the packages in `_SAME` that are installed here."""
    found = {}
    for name in _SAME:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


_shown: dict[Any, Any] = {}


def _opened(ray: Any, reference: Any) -> Any:
    """The answer of a piece; what was warned of and raised in the worker is here too."""
    try:
        told: _Told = pickle.loads(ray.get(reference))
    except ray.exceptions.RayError as error:
        cause = str(getattr(error, "cause", None) or error).strip().splitlines()[0]
        raise MachineError(
            f"A piece of work was lost on the cluster, begun {_TRIES} times at most: {type(error).__name__}, {cause}. "
            "Workers that are lost mostly ran out of memory: use fewer workers, or ask for less. A run resumes."
        ) from error
    for message, category, file, line in told.warned:
        warnings.warn_explicit(message, category, file, line, registry=_shown)
    if told.error is not None:
        told.error.add_note(f"In a worker of Ray:\n{told.where}")
        raise told.error
    return told.answer
