"""Open hostile run folders with every command that reads one, under limits, and count what goes wrong.

Makes run folders of an audit, and from them:

- manifests with correct digests in which one value is false: of another type, deleted, twice, nested 100,000 deep, of
  10^9, no UTF-8, a path out of the folder, and files of the folder replaced by links, pipes and devices;
- configurations that name code, hosts and files, with a correct hash of the configuration;
- damaged tables, with correct digests in four of five cases;
- tables of at most 6 MB that are huge once they are decoded, or whose headers lie (`hostile_tables.py`).

On each of them `verify`, `report`, `compare`, `check`, `history` and `explore` are run, each in a process of its own
that may use 2 GiB of memory more than it has after its imports, and 20 seconds. A fault is an unexpected error or a
signal; a hang is a command that needs longer. An audit hook in the process records every file, process, connection and
module that is opened: a violation is one that a run folder must not lead to. Some of the cases run under strace as
well, which sees what libraries do without Python. No command may have a fault, a hang or a violation.

    python scripts/hostile_folders.py --seed 0
    python scripts/hostile_folders.py --only 17            # one case again, with all that the commands print

The processes are forked from one that has imported everything and has done nothing yet, since the imports take longer
than the commands. The limit is RLIMIT_DATA (private memory that can be written), not RLIMIT_AS: libraries reserve many
times the address space that they use.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import hashlib
import importlib
import json
import os
import pkgutil
import re
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

MEMORY = 2 * 2**30
COMMANDS = ("verify", "report", "compare", "check", "history", "explore")
MANIFESTS, CONFIGURATIONS, TABLES, BOMBS, TRACED = 500, 60, 200, 50, 50
MAX_BOMB = 6 * 10**6
EXPECTED_CODES = {0, 1, 2, 3, 4, 5}
"""1 is a broken rule where `check` ends with it, and a fault everywhere else."""
CANARY = "hostile_canary"
"""A module that folders name and nobody may import."""
_UNEXPECTED = re.compile(
    rb"Unexpected error|Traceback \(most recent call last\)|panicked at|stack overflow|RUST_BACKTRACE"
)
_THREADS = ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

WIDE = """
seed = {seed}
[data]
file = "ratings.csv"
time = "time"
items = "items.csv"
title = "name"
categories = {{genre = "genres"}}
users = "users.csv"
attributes = ["region", "age"]
[split]
kind = "leave-last"
k = 3
[[model]]
kind = "als"
label = "ALS"
factors = 4
[[model]]
kind = "ease"
label = "EASE"
[audits.accuracy]
k = 5
[audits.exposure]
k = 5
"""
EVERYTHING = """
[audits.reachability]
actions = {{kind = "next-k", k = 3}}
users = 4
[audits.recourse]
actions = {{kind = "next-k", k = 3, ratings = {{kind = "stars"}}}}
users = 6
items = 4
refits = 2
[audits.calibration]
k = 5
tested = 5
[audits.reranking]
k = 5
tested = 5
[audits.instability]
viewers = 10
editors = 4
refits = 2
[audits.agency]
k = 3
horizons = [1, 2]
betas = [1, 4]
users = 8
followed = 3
targets = 6
editors = 5
[audits.mitigation]
weights = [0.5]
unobserved_weights = [0.1]
beta_factors = [0.5]
users = 6
targets = 4
editors = 3
[audits.folding]
relatedness = ["genre", "log"]
"""
GATE = """
[[rule]]
metric = "ndcg"
at_least = 0.01
[[rule]]
metric = "recall"
by = "region"
not_worse_by = 0.5
[[rule]]
metric = "coverage"
not_worse_by = "50%"
"""


# ---- the folders that cases are made from --------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """Where everything of one run of this script is."""

    root: Path

    @property
    def data(self) -> Path:
        """The files of ratings, items and users."""
        return self.root / "data"

    @property
    def outside(self) -> Path:
        """Files that no folder may lead to."""
        return self.root / "outside"

    @property
    def marker(self) -> Path:
        """A file that appears if code of a folder runs."""
        return self.root / "outside" / "code-ran"

    def base(self, name: str) -> Path:
        """A good run folder."""
        return self.root / "base" / name


def make_world(root: Path) -> World:
    """Write data, run the audits that cases are made from, and put files where none may be read."""
    world = World(root)
    for folder in (world.data, world.outside, root / "base", root / "cases", root / "pages", root / "tmp"):
        folder.mkdir(parents=True)
    (world.outside / f"{CANARY}.py").write_text(
        f"from pathlib import Path\nPath({str(world.marker)!r}).write_text('imported')\n"
        "def fit(*a, **k): Path(__file__).with_name('code-ran').write_text('called')\n",
        encoding="utf-8",
    )
    (world.outside / "secret.txt").write_text("nobody may read this\n", encoding="utf-8")
    (root / "gate.toml").write_text(GATE, encoding="utf-8")
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import hostile_folders; hostile_folders.write_data(sys.argv[2])"
    )
    here = str(Path(__file__).parent)
    subprocess.run([sys.executable, "-c", script, here, str(world.data)], check=True)
    for name, text, seed in (("wide", WIDE + EVERYTHING, 0), ("narrow", WIDE, 0), ("before", WIDE + EVERYTHING, 1)):
        config = world.data / f"{name}.toml"
        config.write_text(text.format(seed=seed), encoding="utf-8")
        command = [sys.executable, "-m", "recaudit", "audit", str(config), "--out", str(world.base(name))]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return world


def write_data(folder: str) -> None:
    """Write a part of the built-in data as files."""
    import polars as pl  # noqa: PLC0415  starts threads, and so never in a process that forks

    from recaudit.data.synthetic import demo_world  # noqa: PLC0415

    log, to = demo_world(0, users=40, items=50).data, Path(folder)
    columns = {"user": log.user_ids.gather(log.users), "item": log.item_ids.gather(log.items), "rating": log.ratings}
    pl.DataFrame({**columns, "time": log.times}).write_csv(to / "ratings.csv")
    pl.DataFrame({"user": log.user_ids}).hstack(log.attributes).write_csv(to / "users.csv")
    genres = log.categories["genre"]
    names = np.array(genres.names)
    texts = ["|".join(names[genres.weights[[item]].nonzero()[1]]) for item in range(log.n_items)]
    pl.DataFrame({"item": log.item_ids, "name": log.titles, "genres": texts}).write_csv(to / "items.csv")


def digest_of(path: Path) -> dict[str, Any]:
    """A file's record in a manifest."""
    content = path.read_bytes()
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def read_manifest(folder: Path) -> dict[str, Any]:
    """A manifest without its digest."""
    content: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    del content["sha256"]
    return content


def manifest_text(content: dict[str, Any], *replacements: tuple[str, str]) -> bytes:
    """The file with its digest; placeholders are replaced in what is digested, and in the file.

    Lone surrogates that come with a replacement become bytes that are no UTF-8.
    """
    compact = json.dumps(content)
    for old, new in replacements:
        compact = compact.replace(old, new)
    digest = hashlib.sha256(compact.encode("utf-8", "surrogateescape")).hexdigest()
    text = json.dumps({**content, "sha256": digest}, indent=2)
    for old, new in replacements:
        text = text.replace(old, new)
    return text.encode("utf-8", "surrogateescape") + b"\n"


def write_manifest(folder: Path, content: dict[str, Any], *replacements: tuple[str, str]) -> None:
    """Put a manifest with a correct digest into a folder."""
    (folder / "manifest.json").write_bytes(manifest_text(content, *replacements))


# ---- cases ---------------------------------------------------------------------------------------------------------


@dataclass
class Case:
    """A hostile folder: how it is made from which good one."""

    number: int
    kind: str
    base: str
    make: Callable[[Path, np.random.Generator, World], str]
    """Changes a copy of the base; returns what was done."""
    done: str = ""
    results: list[dict[str, Any]] = field(default_factory=list)


Place = tuple[str | int, ...]


def places(value: object, at: Place = ()) -> Iterator[Place]:
    """Every value in a manifest, by the keys that lead to it."""
    if at:
        yield at
    if isinstance(value, dict):
        for key, own in value.items():
            yield from places(own, (*at, key))
    elif isinstance(value, list):
        for number, own in enumerate(value):
            yield from places(own, (*at, number))


def field_of(place: Place) -> str:
    """The field that a place is an instance of: list elements, files and models are all one field."""
    parts = ["*" if isinstance(part, int) else part for part in place]
    if len(parts) > 1 and parts[0] in ("files", "folders", "elsewhere"):
        parts[1] = "*"
    return ".".join(parts)


def get_at(content: Any, place: Place) -> Any:
    """The value at a place."""
    for part in place:
        content = content[part]
    return content


def set_at(content: Any, place: Place, value: object) -> None:
    """Replace the value at a place."""
    get_at(content, place[:-1])[place[-1]] = value


_MARK = "hostile-placeholder"
_TYPES: tuple[Any, ...] = (None, True, 0, -1, 1.5, "", "x", [], {}, [[]], {"a": {}}, ["x", 1], {"kind": "x"})
_NUMBERS: tuple[Any, ...] = (10**9, -(10**9), 10**30, 2**63, 1e308, -1e308, 5e-324, float("nan"), float("inf"), 0)
_TEXTS = (
    "\ud800",
    "\x00",
    "\x1b[2J\x1b]52;c;aGk=\x07",
    "\u202egnp.exe\u2066",
    "<script>alert(1)</script>",
    "{{ 7 * 7 }} {% for x in y %}",
    "x" * 10**5,
    "=cmd|' /C calc'!A0",
    "a\nb\r\n| c | d |\n\n# e",
    "%s %d {0} {x}",
)
_PATHS = (
    "../../outside/secret.txt",
    "/etc/passwd",
    "..",
    ".",
    "/",
    "a/../../b",
    "C:\\x",
    "file:///etc/passwd",
    "https://127.0.0.1:9/x",
    "s3://bucket/x",
    "manifest.json",
    "a" * 5000,
    "/dev/zero",
    "/proc/self/environ",
    "con.parquet\x00x",
)


def mutate(content: dict[str, Any], place: Place, how: str, draw: np.random.Generator) -> bytes:
    """A manifest in which the value at one place is false."""
    value = get_at(content, place)

    def pick(values: Sequence[Any]) -> Any:
        return values[int(draw.integers(len(values)))]

    replacements: list[tuple[str, str]] = []
    match how:
        case "type":
            set_at(content, place, pick([own for own in _TYPES if type(own) is not type(value)]))
        case "delete":
            del get_at(content, place[:-1])[place[-1]]
        case "twice":
            set_at(content, place, _MARK)
            one = json.dumps(value)
            key = json.dumps(place[-1]) if isinstance(place[-1], str) else ""
            replacements.append((json.dumps(_MARK), f"{one}, {key}: null" if key else f"{one}, null"))
        case "nested":
            depth, pair = pick([60, 900, 10**5]), pick([("[", "]"), ('{"a": ', "}")])
            set_at(content, place, _MARK)
            inner = "[]" if pair[0] == "[" else "{}"
            replacements.append((json.dumps(_MARK), pair[0] * depth + inner + pair[1] * depth))
        case "number":
            number = pick(_NUMBERS)
            set_at(content, place, [number] * 3 if isinstance(value, list) else number)
        case "text":
            set_at(content, place, pick(_TEXTS))
        case "bytes":
            set_at(content, place, _MARK)
            replacements.append((_MARK, pick(["\udcff\udcfe", "\udc80", "\udcc0\udcaf", "x\udced\udca0\udc80"])))
        case "path":
            _set_path(content, place, pick(_PATHS))
        case "key":
            parent = get_at(content, place[:-1])
            if isinstance(parent, dict):
                parent[pick([*_TEXTS[:4], *_PATHS[:3], "__proto__", "kind"])] = parent.pop(place[-1])
            else:
                parent.append(copy.deepcopy(value))
        case "longer":
            set_at(content, place, [value] * 1000 if not isinstance(value, dict) else {**value, **_many(value)})
    return manifest_text(content, *replacements)


def _set_path(content: dict[str, Any], place: Place, path: str) -> None:
    """A path in the place of a value; of a file, as its name, and elsewhere as where parts are."""
    if place[0] == "files" and len(place) > 1:
        content["files"][path] = content["files"].pop(place[1])
    elif place[0] == "elsewhere":
        content["elsewhere"] = {next(iter(content["files"])).rpartition("/")[0]: path}
    elif place[0] == "folders":
        content["folders"] = {path: None}
    else:
        set_at(content, place, path)


def _many(value: dict[str, Any]) -> dict[str, Any]:
    first = next(iter(value.values()), 0)
    return {f"key {number}": first for number in range(1000)}


HOWS = ("type", "delete", "number", "path", "text", "nested", "bytes", "twice", "key", "longer")


def manifest_cases(world: World, count: int, draw: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """Each field at least once with each of the first ways in turn, then fields at random; every tenth has links."""
    fields: dict[str, list[Place]] = {}
    for place in places(read_manifest(world.base("wide"))):
        fields.setdefault(field_of(place), []).append(place)
    names = list(fields)
    if count >= MANIFESTS and len(names) > count * 9 // 10:
        print(f"{len(names)} fields, and only {count * 9 // 10} mutations", file=sys.stderr)
    draw.shuffle(names)
    turn = 0
    for number in range(count):
        if number % 10 == 9:
            yield "wide" if number % 20 == 9 else "narrow", replace_file
            continue
        name = names[turn] if turn < len(names) else names[int(draw.integers(len(names)))]
        how = HOWS[turn % len(HOWS)] if turn < len(names) else HOWS[int(draw.integers(len(HOWS)))]
        some = fields[name]
        place = some[int(draw.integers(len(some)))]
        turn += 1

        def make(folder: Path, draw: np.random.Generator, world: World, place: Place = place, how: str = how) -> str:
            content = read_manifest(folder)
            (folder / "manifest.json").write_bytes(mutate(content, place, how, draw))
            return f"{'.'.join(map(str, place))}: {how}"

        yield "wide", make


def replace_file(folder: Path, draw: np.random.Generator, world: World) -> str:
    """Put a link, a pipe, a device or a folder in the place of a file, or beside it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix == ".parquet")
    special = [
        folder / "manifest.json",
        folder / ".lock",
        folder / "report.html",
        folder / "explore.html",
        folder / "x",
    ]
    target = [*special, files[int(draw.integers(len(files)))]][int(draw.integers(len(special) + 1))]
    kinds = ("link", "dangling link", "device", "pipe", "folder", "linked parent", "hidden")
    kind = kinds[int(draw.integers(len(kinds)))]
    if kind == "linked parent":
        moved = world.outside / f"moved-{draw.integers(2**31)}"
        shutil.move(folder / "results", moved)
        (folder / "results").symlink_to(moved)
        return "results is a link to a folder outside"
    content = target.read_bytes() if target.is_file() else b"nothing"
    target.unlink(missing_ok=True)
    match kind:
        case "link":
            copied = world.outside / f"copy-{draw.integers(2**31)}"
            copied.write_bytes(content)
            target.symlink_to(copied)
        case "dangling link":
            target.symlink_to(world.outside / f"new-{draw.integers(2**31)}")
        case "device":
            target.symlink_to("/dev/zero")
        case "pipe":
            os.mkfifo(target)
        case "folder":
            target.mkdir()
        case "hidden":
            (folder / ".recaudit-x-1-0").symlink_to(world.outside)
            target.write_bytes(content)
    return f"{target.relative_to(folder)} is a {kind}"


def configuration_cases(world: World, count: int, draw: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """Configurations that name code, hosts, files and sizes, with a correct hash."""
    canary = {"kind": "python", "object": f"{CANARY}:fit", "label": "ALS", "arguments": {}}
    opens = {"kind": "python", "object": "pydoc:pipepager", "label": "ALS"}
    command = f"echo x > {world.marker}"
    changes: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
        ("python object", lambda own: own["model"].__setitem__(0, canary)),
        (
            "python command",
            lambda own: own["model"].__setitem__(0, {**opens, "arguments": {"text": "", "cmd": command}}),
        ),
        (
            "os.system",
            lambda own: own["model"].__setitem__(
                0, {"kind": "python", "object": "os:system", "label": "ALS", "arguments": {"command": command}}
            ),
        ),
        ("kind that is a path", lambda own: own["model"].__setitem__(0, {"kind": f"{CANARY}:fit", "label": "ALS"})),
        (
            "service",
            lambda own: own["model"].__setitem__(
                0, {"kind": "http", "url": "http://127.0.0.1:9/", "label": "ALS", "budget": 10}
            ),
        ),
        ("device in the place of data", lambda own: own["data"].__setitem__("file", "/dev/zero")),
        ("password file as data", lambda own: own["data"].__setitem__("file", "/etc/passwd")),
        ("secret as data", lambda own: own["data"].__setitem__("file", str(world.outside / "secret.txt"))),
        ("secret as items", lambda own: own["data"].__setitem__("items", str(world.outside / "secret.txt"))),
        ("address as data", lambda own: own["data"].__setitem__("file", "http://127.0.0.1:9/ratings.csv")),
        ("data to be downloaded", lambda own: own.__setitem__("data", {"name": "ml-100k"})),
        ("factors file", lambda own: own["model"].__setitem__(0, _factors(world.outside / "secret.txt"))),
        ("lists file", lambda own: own["model"].__setitem__(0, _lists(world.outside / "secret.txt"))),
        ("audit of a stranger", lambda own: own["audits"].__setitem__(f"{CANARY}:fit", {})),
        ("engine of a cluster", lambda own: own.__setitem__("engine", {"kind": "ray", "address": "127.0.0.1:9"})),
        ("processes", lambda own: own.__setitem__("engine", {"kind": "processes", "workers": 4})),
        ("GPU", lambda own: own.__setitem__("device", "cuda")),
        ("factors of 1e9", lambda own: own["model"][0].__setitem__("factors", 10**9)),
        ("k of 1e9", lambda own: own["audits"]["accuracy"].__setitem__("k", 10**9)),
        ("seed of 1e9", lambda own: own.__setitem__("seed", 10**9)),
        ("seed of 1e30", lambda own: own.__setitem__("seed", 10**30)),
        (
            "many models",
            lambda own: own.__setitem__("model", [{**own["model"][0], "label": str(n)} for n in range(300)]),
        ),
    ]
    for number in range(count):
        name, change = changes[number % len(changes)]

        def make(folder: Path, draw: np.random.Generator, world: World, name: str = name, change: Any = change) -> str:
            content = read_manifest(folder)
            config = content["record"]["config"]
            change(config)
            content["record"]["config_hash"] = content["plan"]["settings"] = _hash_of(config, world)
            write_manifest(folder, content)
            return name

        yield "wide" if number % 3 == 0 else "narrow", make


def _labelled(model: dict[str, Any], number: int) -> dict[str, Any]:
    return {**model, "label": f"model {number}"}


def _factors(path: Path) -> dict[str, Any]:
    return {"kind": "factors", "path": str(path), "predicts_ratings": False, "label": "ALS"}


def _lists(path: Path) -> dict[str, Any]:
    return {"kind": "lists", "path": str(path), "label": "ALS"}


def _hash_of(config: dict[str, Any], world: World) -> str:
    """The hash that a run of this configuration would have; of one that cannot be run, that of its text."""
    from recaudit.errors import RecauditError  # noqa: PLC0415  the process that forks does not need it
    from recaudit.runs import Configuration  # noqa: PLC0415

    try:
        return Configuration.model_validate(config, context={"folder": world.data, "source": "x"}).hash
    except (ValueError, RecauditError):
        return hashlib.sha256(json.dumps(config).encode()).hexdigest()


def table_cases(world: World, count: int, draw: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """Tables that are not what they were, four of five with a digest that says that they are."""
    for number in range(count):
        damage = list(TABLE_DAMAGES)[number % len(TABLE_DAMAGES)]

        def make(
            folder: Path, draw: np.random.Generator, world: World, damage: str = damage, number: int = number
        ) -> str:
            content = read_manifest(folder)
            names = [name for name in content["files"] if name.endswith(".parquet")]
            name = names[int(draw.integers(len(names)))]
            TABLE_DAMAGES[damage](folder / name, draw, [folder / other for other in names])
            if number % 5 != 4:
                content["files"][name] = digest_of(folder / name)
                write_manifest(folder, content)
            return f"{name}: {damage}{'' if number % 5 != 4 else ', digest as it was'}"

        yield "wide" if number % 4 else "narrow", make


def bomb_cases(world: World, count: int, draw: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """Tables that are huge once decoded: each bomb in a table that all commands read, then in others at random."""
    import hostile_tables  # noqa: PLC0415  imports polars, which starts threads

    bombs = list(hostile_tables.BOMBS.items())
    usual = ("terms", "summary", "people", "lists", "groups", "users", "items", "pairs")
    for number in range(count):
        what, bomb = bombs[number % len(bombs)]
        table = usual[number % len(usual)] if number >= len(bombs) else usual[number % 4]

        def make(
            folder: Path,
            draw: np.random.Generator,
            world: World,
            what: str = what,
            bomb: Any = bomb,
            table: str = table,
        ) -> str:
            import polars as pl  # noqa: PLC0415  as above

            content = read_manifest(folder)
            names = [name for name in content["files"] if name.endswith(f"/{table}.parquet")]
            hit = names[: len(names) // 2 + 1] if what == "1e+06 rows" else [names[int(draw.integers(len(names)))]]
            for name in hit:
                rows = pl.read_parquet(folder / name, glob=False)
                plain = {own: kind for own, kind in rows.schema.items() if not kind.is_nested()}
                first = rows.row(0, named=True) if len(rows) else {}
                made = bomb((plain, {own: first.get(own) for own in plain if first.get(own) is not None}))
                if len(made) > MAX_BOMB:
                    raise AssertionError(f"{what} has {len(made)} bytes")
                (folder / name).write_bytes(made)
                content["files"][name] = digest_of(folder / name)
            write_manifest(folder, content)
            return f"{', '.join(hit)}: {what}"

        yield "wide" if table in ("groups", "pairs") else "narrow", make


# ---- damages of tables ---------------------------------------------------------------------------------------------

Damage = Callable[[Path, np.random.Generator, list[Path]], None]


def _rewritten(change: Callable[[Any, np.random.Generator], Any]) -> Damage:
    """A damage that reads the table, changes it, and writes it again."""

    def damage(path: Path, draw: np.random.Generator, others: list[Path]) -> None:
        import polars as pl  # noqa: PLC0415  starts threads

        change(pl.read_parquet(path, glob=False), draw).write_parquet(path)

    return damage


def _flip(path: Path, draw: np.random.Generator, others: list[Path]) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(int(draw.integers(1, 12))):
        content[int(draw.integers(len(content)))] ^= 1 << int(draw.integers(8))
    path.write_bytes(content)


def _flip_footer(path: Path, draw: np.random.Generator, others: list[Path]) -> None:
    content = bytearray(path.read_bytes())
    length = int.from_bytes(content[-8:-4], "little")
    for _ in range(int(draw.integers(1, 6))):
        content[len(content) - 8 - length + int(draw.integers(length))] = int(draw.integers(256))
    path.write_bytes(content)


def _cut(path: Path, draw: np.random.Generator, others: list[Path]) -> None:
    os.truncate(path, int(draw.integers(path.stat().st_size)))


def _swap(path: Path, draw: np.random.Generator, others: list[Path]) -> None:
    path.write_bytes(others[int(draw.integers(len(others)))].read_bytes())


def _noise(path: Path, draw: np.random.Generator, others: list[Path]) -> None:
    path.write_bytes(b"PAR1" + draw.bytes(int(draw.integers(1, 5000))) + b"\x40\0\0\0PAR1")


def _random_column(frame: Any, draw: np.random.Generator) -> str:
    return str(frame.columns[int(draw.integers(frame.width))])


def _drop(frame: Any, draw: np.random.Generator) -> Any:
    return frame.drop(_random_column(frame, draw))


def _retype(frame: Any, draw: np.random.Generator) -> Any:
    import polars as pl  # noqa: PLC0415  starts threads

    name = _random_column(frame, draw)
    kinds: list[Any] = [
        pl.String,
        pl.Float64,
        pl.Int64,
        pl.Boolean,
        pl.List(pl.Int64),
        pl.Date,
        pl.Binary,
        pl.UInt64,
        pl.Float32,
    ]
    kind = kinds[int(draw.integers(len(kinds)))]
    rows = len(frame)
    values: dict[Any, list[Any]] = {pl.String: ["x"], pl.Boolean: [True], pl.List(pl.Int64): [[1, 2]]}
    values |= {pl.Date: [10], pl.Binary: [b"\xff"]}
    return frame.with_columns(pl.Series(name, values.get(kind, [1]) * rows, kind, strict=False))


def _null(frame: Any, draw: np.random.Generator) -> Any:
    import polars as pl  # noqa: PLC0415  starts threads

    name = _random_column(frame, draw)
    some = pl.Series(draw.random(len(frame)) < draw.choice([0.2, 1.0]))
    return frame.with_columns(pl.when(some).then(None).otherwise(pl.col(name)).alias(name))


def _extreme(frame: Any, draw: np.random.Generator) -> Any:
    import polars as pl  # noqa: PLC0415  starts threads

    numbers = [name for name, kind in frame.schema.items() if kind.is_numeric()]
    if not numbers:
        return frame.clear()
    name = numbers[int(draw.integers(len(numbers)))]
    whole = frame.schema[name].is_integer()
    values = [-1, 0, 2**31 - 1, -(2**31)] if whole else [float("nan"), float("inf"), -1e308, 1e308, 5e-324, -1.0]
    if frame.schema[name] == pl.Int64:
        values = [*values, 10**9, 2**63 - 1, -(2**63)]
    value = values[int(draw.integers(len(values)))]
    some = pl.Series(draw.random(len(frame)) < draw.choice([0.2, 1.0]))
    lit = pl.lit(value, frame.schema[name])
    return frame.with_columns(pl.when(some).then(lit).otherwise(pl.col(name)).alias(name))


def _words(frame: Any, draw: np.random.Generator) -> Any:
    import polars as pl  # noqa: PLC0415  starts threads

    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    if not texts:
        return frame.clear()
    name = texts[int(draw.integers(len(texts)))]
    words = ["", "\x1b[2J\x1b[31m", "\u202eabc", "x" * 3000, "<b>&amp;", "nan", "'; drop", "\x00", "🎬" * 50]
    word = words[int(draw.integers(len(words)))]
    some = pl.Series(draw.random(len(frame)) < draw.choice([0.1, 1.0]))
    return frame.with_columns(pl.when(some).then(pl.lit(word)).otherwise(pl.col(name)).alias(name))


def _empty(frame: Any, draw: np.random.Generator) -> Any:
    return frame.clear() if draw.random() < 0.7 else frame.select([])


def _repeat(frame: Any, draw: np.random.Generator) -> Any:
    import polars as pl  # noqa: PLC0415  starts threads

    return pl.concat([frame] * int(draw.integers(2, 20)))


def _shuffle(frame: Any, draw: np.random.Generator) -> Any:
    """Values of each column in an order of their own."""
    return frame.with_columns(frame[name].shuffle(seed=int(draw.integers(2**31))) for name in frame.columns)


def _more(frame: Any, draw: np.random.Generator) -> Any:
    import polars as pl  # noqa: PLC0415  starts threads

    names = [f"{word} {number}" for number in range(50) for word in ("\x1b[2J", "value", "<i>")]
    return frame.with_columns(pl.lit(1.0).alias(name) for name in names)


def _part(frame: Any, draw: np.random.Generator) -> Any:
    return frame.sample(n=max(1, len(frame) // 3), seed=int(draw.integers(2**31))) if len(frame) else frame


TABLE_DAMAGES: dict[str, Damage] = {
    "bits flipped": _flip,
    "footer overwritten": _flip_footer,
    "cut": _cut,
    "another table": _swap,
    "noise": _noise,
    "a column dropped": _rewritten(_drop),
    "a column of another type": _rewritten(_retype),
    "nulls": _rewritten(_null),
    "extreme numbers": _rewritten(_extreme),
    "odd texts": _rewritten(_words),
    "no rows": _rewritten(_empty),
    "rows repeated": _rewritten(_repeat),
    "columns shuffled": _rewritten(_shuffle),
    "more columns": _rewritten(_more),
    "some rows": _rewritten(_part),
}


# ---- the process that forks ----------------------------------------------------------------------------------------


def import_everything() -> None:
    """Import all modules of recaudit, and what they import when they run; no thread starts, which a fork would lose."""
    import recaudit  # noqa: PLC0415  only in the process that forks

    skipped = ("recaudit.testing", "recaudit.__main__", "recaudit.engines.cluster", "recaudit.models.adapters")
    for module in pkgutil.walk_packages(recaudit.__path__, "recaudit."):
        if not module.name.startswith(skipped):
            importlib.import_module(module.name)
    for name in ("altair", "jinja2", "vl_convert", "polars", "rich.progress", "scipy.stats", "numpy.random", "zipfile"):
        with suppress(ImportError):
            importlib.import_module(name)


def zygote(root: str) -> NoReturn:
    """Read cases from stdin, a line of JSON each, and answer with a line: what each command did."""
    import_everything()
    world, answers = World(Path(root)), os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        case = json.loads(line)
        print(json.dumps(run_command(world, **case)), file=answers, flush=True)
    sys.exit(0)


def run_command(world: World, name: str, arguments: list[str], folder: str, log: str, seconds: float) -> dict[str, Any]:
    """Run one command in a fork of this process, within the limits."""
    started = time.monotonic()
    report = Path(f"{log}.json")
    child = os.fork()
    if child == 0:
        _child(world, name, arguments, Path(folder), Path(log), report)
    deadline, status, usage = started + seconds, 0, None
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done or time.monotonic() > deadline:
            break
        time.sleep(0.005)
    hung = not done
    if hung:
        os.kill(child, signal.SIGKILL)
        _, status, usage = os.wait4(child, 0)
    said = Path(log).read_bytes()[-20000:] if Path(log).exists() else b""
    noted = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    code = os.waitstatus_to_exitcode(status)
    fault = code < 0 or code not in EXPECTED_CODES or bool(_UNEXPECTED.search(said))
    fault = fault or (code == 1 and name != "check")
    return {
        "command": name,
        "code": code,
        "hung": hung,
        "fault": fault and not hung,
        "violations": noted.get("violations", []),
        "seconds": round(time.monotonic() - started, 2),
        "memory": usage.ru_maxrss // 1024,
        "said": said.decode("utf-8", "replace")[-1500:],
    }


def _child(world: World, name: str, arguments: list[str], folder: Path, log: Path, report: Path) -> NoReturn:
    """Limits, hook, command; never returns."""
    code = 70
    violations: list[str] = []
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # ends with the process that forked it
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        used = re.search(r"^VmData:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"), re.MULTILINE)
        assert used is not None
        limit = int(used[1]) * 1024 + MEMORY
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.environ["COLUMNS"] = "120"
        os.chdir(world.data)
        with suppress(OSError):
            Path(f"/hostile-case/{log.name}").stat()  # strace shows which case the process is of
        from recaudit.cli import app  # noqa: PLC0415  is imported already

        sys.addaudithook(Watch(world, folder, violations))
        try:
            app(arguments)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        import traceback  # noqa: PLC0415  is imported already

        traceback.print_exc()
        code = 71
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        with suppress(BaseException):
            report.write_text(json.dumps({"violations": violations[:20]}), encoding="utf-8")
        os._exit(code)


_CHANGING = {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.chmod"}
_RUNNING = {
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "os.forkpty",
    "pty.spawn",
}
_CONNECTING = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.bind"}


class Watch:
    """An audit hook that notes what a command that reads a run folder must not do."""

    def __init__(self, world: World, folder: Path, found: list[str]) -> None:
        self.found, self.rules = found, Rules(world, folder)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note one event."""
        try:
            if event == "open":
                path, _, flags = arguments
                if isinstance(path, str | bytes | os.PathLike):
                    self._opened(Path(os.fsdecode(path)), flags or 0)
            elif event in _CHANGING:
                for path in arguments[: 2 if event in ("os.rename", "os.link", "os.symlink") else 1]:
                    if isinstance(path, str | bytes | os.PathLike) and (
                        why := self.rules.writing(Path(os.fsdecode(path)))
                    ):
                        self.found.append(f"{event} {why}")
            elif event in _RUNNING or event in _CONNECTING:
                self.found.append(f"{event} {str(arguments)[:200]}")
            elif event == "import" and (arguments[0] or "").split(".")[0] in (CANARY, "pydoc_data"):
                self.found.append(f"import {arguments[0]}")
            elif event == "ctypes.dlopen" and arguments[0] and (why := self.rules.reading(Path(str(arguments[0])))):
                self.found.append(f"dlopen {why}")
        except RecursionError:
            pass

    def _opened(self, path: Path, flags: int) -> None:
        if not path.is_absolute() and flags & os.O_NOFOLLOW:
            return  # relative to a folder that is open already; strace sees it whole
        follow = not flags & os.O_NOFOLLOW
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        why = self.rules.writing(path, follow=follow) if writes else self.rules.reading(path, follow=follow)
        if why:
            self.found.append(f"open {'to write ' if writes else ''}{why}")


class Rules:
    """What a command may open."""

    def __init__(self, world: World, folder: Path) -> None:
        self.folder = Path(os.path.realpath(folder))
        root = Path(os.path.realpath(world.root))
        self.outside = root / "outside"
        code = {Path(os.path.realpath(path)) for path in (sys.prefix, sys.base_prefix, *sys.path) if path}
        self.code = {path for path in code if path != self.outside}
        system = map(Path, ("/proc", "/sys/fs/cgroup", "/sys/devices/system", "/usr", "/lib", "/lib64", "/etc"))
        self.read = (
            self.folder,
            root / "data",
            root / "base",
            root / "gate.toml",
            root / "pages",
            root / "tmp",
            *self.code,
            *system,
        )
        self.write = (self.folder, root / "pages", root / "tmp", Path("/dev/null"), *self.code)

    def reading(self, path: Path, *, follow: bool = True) -> str:
        """Why a file may not be read; empty where it may be."""
        real = self._real(path, follow=follow)
        if real.parts[:2] == ("/", "proc") and real.name in ("kmsg", "environ", "mem", "kcore"):
            return str(real)
        if str(real) in ("/etc/passwd", "/etc/shadow"):
            return str(real)
        if str(real) in ("/dev/null", "/dev/urandom", "/dev/random", "/"):
            return ""
        return "" if any(real.is_relative_to(own) for own in self.read) or real in self._parents() else str(real)

    def writing(self, path: Path, *, follow: bool = False) -> str:
        """The same of a file that is written, made or removed."""
        real = self._real(path, follow=follow)
        return "" if any(real.is_relative_to(own) for own in self.write) else str(real)

    def _parents(self) -> set[Path]:
        return {parent for own in self.read for parent in own.parents}

    @staticmethod
    def _real(path: Path, *, follow: bool) -> Path:
        if follow:
            return Path(os.path.realpath(path))
        return Path(os.path.realpath(path.parent)) / path.name


# ---- running the cases ---------------------------------------------------------------------------------------------


class Worker:
    """A process that forks, and the pipe to it."""

    def __init__(self, world: World, trace: Path | None = None) -> None:
        calls = "trace=network,execve,open,openat,openat2,creat,stat,newfstatat"
        tracer = ["strace", "-f", "-qq", "-y", "--seccomp-bpf", "-e", calls, "-e", "signal=none", "-o", str(trace)]
        before = tracer if trace else []
        self.process = subprocess.Popen(
            [*before, sys.executable, __file__, "--zygote", str(world.root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                **dict.fromkeys(_THREADS, "1"),
                "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(world.outside)]).lstrip(
                    os.pathsep
                ),
                "PYTHONDONTWRITEBYTECODE": "1",
                "TMPDIR": str(world.root / "tmp"),
            },
        )
        self._answer(600)

    def run(self, **case: Any) -> dict[str, Any]:
        """The answer about one command."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        return self._answer(case["seconds"] * 2 + 60)

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            if not ready.select(seconds):
                raise TimeoutError("the process that forks does not answer")
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


def arguments_of(command: str, case: Case, folder: Path, world: World) -> list[str]:
    """What a command is called with; the good run is once the first and once the second of two."""
    number, pages = case.number, world.root / "pages"
    first, second = (str(own) for own in ((folder, world.base("before"))[:: 1 if number % 2 else -1]))

    def page(name: str, wanted: bool) -> list[str]:
        return ["--out", str(pages / f"{number}-{name}")] if wanted else []

    statement = ["--format", "md", *page("statement.md", wanted=True)] if number % 5 == 0 else []
    data = ["--users", "2", "--paths", str(world.data)]
    own = {
        "verify": [str(folder)],
        "report": [str(folder), *statement],
        "compare": [first, second, *page("compare.html", number % 3 == 0)],
        "check": [second, "--baseline", first, "--rules", str(world.root / "gate.toml")],
        "history": [first, second, *page("history.html", number % 3 == 1)],
        "explore": [str(folder), *data, *page("explore.html", number % 4 > 0)],
    }
    return [command, *own[command]]


def carry_out(case: Case, worker: Worker, world: World, seed: int, seconds: float) -> None:
    """Make the folder of a case, run all commands on it, and take it away."""
    folder = world.root / "cases" / f"{case.number:04}"
    draw = np.random.default_rng([seed, case.number])
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(world.base(case.base), folder)
    case.done = case.make(folder, draw, world)
    for command in COMMANDS:
        log = world.root / "pages" / f"{case.number:04}-{command}.log"
        arguments = arguments_of(command, case, folder, world)
        answer = worker.run(name=command, arguments=arguments, folder=str(folder), log=str(log), seconds=seconds)
        if world.marker.exists():
            answer["violations"].append(f"code ran: {world.marker.read_text(encoding='utf-8')}")
            world.marker.unlink()
        case.results.append(answer)
    shutil.rmtree(folder, ignore_errors=True)


def make_cases(world: World, counts: dict[str, int], seed: int) -> list[Case]:
    """All cases in their order."""
    makers = {
        "manifest": manifest_cases,
        "configuration": configuration_cases,
        "table": table_cases,
        "bomb": bomb_cases,
    }
    cases: list[Case] = []
    for at, (kind, maker) in enumerate(makers.items()):
        for base, make in maker(world, counts[kind], np.random.default_rng([seed, at])):
            cases.append(Case(len(cases), kind, base, make))
    return cases


def run_all(cases: Sequence[Case], world: World, given: argparse.Namespace, trace: Path | None = None) -> None:
    """Carry out cases on some workers."""
    left, lock = list(reversed(cases)), threading.Lock()
    errors: list[BaseException] = []

    def work() -> None:
        try:
            worker = Worker(world, trace)
            while True:
                with lock:
                    if not left:
                        break
                    case = left.pop()
                carry_out(case, worker, world, given.seed, given.seconds)
                with lock:
                    print_case(case, verbose=bool(given.only))
            worker.close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(1 if trace else given.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


_CALL = re.compile(r'^(\d+) (\w+)\((?:AT_FDCWD(?:<[^>]*>)?|\d+<([^>]*)>)?(?:, )?"((?:[^"\\]|\\.)*)"(?:\.\.\.)?(.*)$')


def traced_violations(log: Path, cases: Sequence[Case], world: World) -> list[str]:
    """What strace saw that a command must not do, by case and command."""
    of: dict[str, tuple[str, Rules]] = {}
    found: list[str] = []
    folders = {f"{case.number:04}": world.root / "cases" / f"{case.number:04}" for case in cases}
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        process, _, rest = line.partition(" ")
        if "/hostile-case/" in line and (name := re.search(r"/hostile-case/(\d+)-(\w+)\.log", line)):
            of[process] = (f"{int(name[1])} {name[2]}", Rules(world, folders[name[1]]))
            continue
        if process not in of:
            continue
        what, rules = of[process]
        rest = rest.lstrip()
        if rest.startswith(("execve(", "connect(", "bind(", "sendto(")) or (
            rest.startswith("socket(") and "AF_UNIX" not in rest and "AF_NETLINK" not in rest
        ):
            found.append(f"{what}: {rest[:200]}")
        elif rest.startswith(("open(", "openat(", "openat2(", "creat(")) and (call := _CALL.match(f"{process} {rest}")):
            path = Path(call[3] or world.data, call[4].encode().decode("unicode_escape", "replace"))
            if "= -1" in call[5] or path.name == "hostile-case":
                continue
            opened = re.search(r"= \d+<([^>]*)>", call[5])
            real = Path(opened[1]) if opened else path
            writes = any(flag in call[5] for flag in ("O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"))
            logged = real.parent == world.root / "pages"
            why = "" if logged else rules.writing(real) if writes else rules.reading(real)
            if why:
                found.append(f"{what}: open {'to write ' if writes else ''}{why}")
    return found


def print_case(case: Case, *, verbose: bool = False) -> None:
    """Print what went wrong, or everything."""
    for own in case.results:
        wrong = wrongs(own)
        if not wrong and not verbose:
            continue
        print(f"case {case.number} ({case.kind}, {case.base}) {case.done[:200]!r}")
        ended = f"exit code {own['code']}, {own['seconds']} s, {own['memory']} MiB"
        print(f"  {own['command']}: {', '.join(wrong) or 'as expected'}; {ended}")
        for line in [*own["violations"], *own["said"].strip().splitlines()[-40 if verbose else -6 :]]:
            print(f"    {line[:300]!r}", flush=True)


def wrongs(answer: dict[str, Any]) -> list[str]:
    """What a command must not have done."""
    return [word for word in ("fault", "hung") if answer[word]] + ["violation"] * bool(answer["violations"])


def summarize(cases: Sequence[Case]) -> Counter[str]:
    """Print how the commands ended, and count what went wrong."""
    totals: Counter[str] = Counter()
    codes: Counter[tuple[str, str, int]] = Counter()
    for case in cases:
        for own in case.results:
            totals["commands"] += 1
            codes[case.kind, own["command"], own["code"]] += 1
            totals.update(wrongs(own))
    for (kind, command, code), count in sorted(codes.items()):
        print(f"{kind:14} {command:8} exit code {code:4} {count:5}")
    every = [own for case in cases for own in case.results]
    if every:
        slow, large = max(every, key=lambda own: own["seconds"]), max(every, key=lambda own: own["memory"])
        print(f"slowest {slow['seconds']} s ({slow['command']}), largest {large['memory']} MiB ({large['command']})")
    return totals


def main(given: argparse.Namespace) -> int:
    """Make, run, count; 1 where anything went wrong."""
    started = time.monotonic()
    counts = {
        "manifest": given.manifests,
        "configuration": given.configurations,
        "table": given.tables,
        "bomb": given.bombs,
    }
    with tempfile.TemporaryDirectory(prefix="hostile-") as temporary:
        root = given.world or Path(temporary) / "world"
        world = World(root) if root.exists() else make_world(root)
        for page in (root / "pages").iterdir():
            page.unlink()
        cases = make_cases(world, counts, given.seed)
        if given.only:
            cases = [case for case in cases if case.number in given.only]
        made = time.monotonic()
        run_all(cases, world, given)
        totals = summarize(cases)
        if shutil.which("strace") is None:
            print("strace is not installed: no case ran under it.")
        elif given.traced:
            step = max(1, len(cases) // given.traced)
            again = [Case(case.number, case.kind, case.base, case.make) for case in cases[::step][: given.traced]]
            log = Path(temporary) / "strace"
            run_all(again, world, given, log)
            seen = traced_violations(log, again, world)
            totals["violation"] += len(seen)
            totals["traced"] = sum(len(case.results) for case in again)
            for line in dict.fromkeys(seen):
                print(f"strace: {line}")
    print(
        f"{len(cases)} folders, {totals['commands']} commands ({totals['traced']} again under strace): "
        f"{totals['fault']} faults, {totals['hung']} hangs, {totals['violation']} violations; "
        f"{time.monotonic() - made:.0f} s, after {made - started:.0f} s to make the run folders"
    )
    return 1 if totals["fault"] or totals["hung"] or totals["violation"] else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--zygote", help=argparse.SUPPRESS)
    parser.add_argument("--data", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--manifests", type=int, default=MANIFESTS)
    parser.add_argument("--configurations", type=int, default=CONFIGURATIONS)
    parser.add_argument("--tables", type=int, default=TABLES)
    parser.add_argument("--bombs", type=int, default=BOMBS)
    parser.add_argument("--traced", type=int, default=TRACED)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20, help="A command that needs longer hangs.")
    parser.add_argument("--world", type=Path, help="Keep the run folders here, and use those that are here.")
    parser.add_argument("--only", type=int, nargs="*", default=[])
    parsed = parser.parse_args()
    if parsed.zygote:
        zygote(parsed.zygote)
    if parsed.data:
        write_data(parsed.data)
        sys.exit(0)
    sys.exit(main(parsed))
