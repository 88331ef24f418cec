"""The folder of a simulation: whose it is, and that nobody else is at work in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recaudit import atomic, lock
from recaudit.errors import InputError
from recaudit.version import __version__

MANIFEST = "simulation.json"


@contextmanager
def claimed(out: Path, signature: str) -> Iterator[None]:
    """Hold the folder for the simulation with this signature: a new one, or the one that is in it already.

    How many trials there are, and how work is spread, may differ from the last time.
    """
    new: dict[str, object] = {
        "recaudit": __version__,
        "hash": hashlib.sha256(signature.encode()).hexdigest(),
        "settings": signature.splitlines(),
    }
    out.mkdir(parents=True, exist_ok=True)
    with lock.alone(out):
        path = out / MANIFEST
        if path.is_file():
            _check_same(out, _read(path), new)
        else:
            others = [p.name for p in out.iterdir() if p.name != lock.NAME and not p.name.startswith(atomic.PREFIX)]
            if others:
                raise InputError(
                    "out",
                    received=f"{out}, which holds {others[0]!r} and no simulation",
                    expected="a new or empty folder, or one with this very simulation in it",
                )
            atomic.write(path, json.dumps(new, indent=2).encode() + b"\n")
        yield


def _read(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError("out", received=f"{path}, which is no manifest", expected="a folder of recaudit's making")
    return found


def _check_same(out: Path, former: dict[str, object], new: dict[str, object]) -> None:
    if former.get("recaudit") != new["recaudit"]:
        other = f"made by recaudit {former.get('recaudit')} (this is {new['recaudit']})"
    elif former.get("hash") != new["hash"]:
        old, now = former.get("settings"), new["settings"]
        lines = zip(old, now, strict=False) if isinstance(old, list) and isinstance(now, list) else ()
        differ = next((f" (it has {a!r}, this has {b!r})" for a, b in lines if a != b), "")
        other = f"with other settings{differ}"
    else:
        return
    raise InputError(
        "out",
        received=f"{out}, which holds a simulation {other}",
        expected="a new folder, or one with this very simulation in it",
        remedy="Choose another folder, or remove this one (on the command line: --fresh).",
    )
