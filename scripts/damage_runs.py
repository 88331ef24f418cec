"""Damages run folders at random, and checks that nothing false comes of it.

Makes a finished and an interrupted run of an audit and of a simulation. Each damage is done to a fresh copy of one of
them: a bit flipped, a file cut short, deleted or swapped with another. Then `recaudit verify`, `recaudit report` and
the command that made the run are run on the copy. Whatever the damage: verify finds it, no page is made from damaged
tables, the run is mended to the numbers of the undamaged one or refused with what to do, and nothing ends in a fault.

    python scripts/damage_runs.py --damages 300 --seed 0
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from recaudit import audits
from recaudit.cli import app
from recaudit.folders import MANIFEST, REPORT
from recaudit.simulate.loop import trial
from recaudit.simulate.loop.trial import slates

AUDIT = """
[data]
file = "ratings.csv"
[split]
kind = "random"
fraction = 0.2
[[model]]
kind = "als"
factors = 2
[[model]]
kind = "top-pop"
[audits.accuracy]
k = 5
by = []
[audits.exposure]
k = 5
by = []
"""
SIMULATION = """
trials = 2
folds = 2
k = 5
steps = 4
warm = true
[[environment]]
name = "topics-dynamic"
users = 30
items = 40
users_per_step = 8
ratings = 200
[[recommender]]
kind = "als"
factors = 2
tune = {regularization = [0.1, 1.0]}
[[recommender]]
kind = "random"
[audits]
every = 2
[audits.exposure]
k = 3
"""
OK, BAD_INPUT, DAMAGED = 0, 2, 4
COPY = "copy"
Numbers = dict[str, pl.DataFrame]


@dataclass(frozen=True)
class Case:
    """A run folder to be damaged, and what its command makes of it when nothing is."""

    name: str
    folder: Path
    command: tuple[str, ...]
    numbers: Numbers
    page: str | None
    """What `recaudit report` makes of it; None for a simulation, whose own command makes the page."""


class ViolationError(Exception):
    """Something false came of a damage."""


def recaudit(*arguments: object) -> tuple[int, str]:
    """The exit code of a command and all that it said."""
    with warnings.catch_warnings():
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise ViolationError(f"{arguments[0]}: {result.exception!r}")
    if "Traceback" in result.output or result.exit_code == 1:
        raise ViolationError(f"{arguments[0]}: exit code {result.exit_code}: {result.output}")
    return result.exit_code, result.output


def make_cases(root: Path) -> list[Case]:
    """Four run folders, with the numbers that each must end with."""
    draw = np.random.default_rng(0)
    pairs = draw.choice(40 * 30, 500, replace=False)
    frame = pl.DataFrame({"user": pairs // 30, "item": pairs % 30, "rating": draw.integers(1, 6, 500)})
    frame.write_csv(root / "ratings.csv")
    (root / "audit.toml").write_text(AUDIT, encoding="utf-8")
    (root / "simulation.toml").write_text(SIMULATION, encoding="utf-8")
    cases = []
    for name, verb, stop in (("audit", "audit", stopped_audit), ("simulation", "simulate", stopped_simulation)):
        command = (verb, str(root / f"{name}.toml"))
        whole = root / f"{name} finished"
        code, said = recaudit(*command, "--out", whole)
        if code != OK:
            raise ViolationError(f"{name} cannot be run: {said}")
        part = root / f"{name} interrupted"
        with stop():
            recaudit(*command, "--out", part)
        for folder in (whole, part):
            cases.append(Case(folder.name, folder, command, numbers_in(whole), page_of(folder, root / COPY)))
    return cases


@contextmanager
def stopped_audit() -> Iterator[None]:
    """Ctrl-C in the fourth audit."""
    with mock.patch.object(audits, "exposure", stopping(audits.exposure, at=1)):
        yield


@contextmanager
def stopped_simulation() -> Iterator[None]:
    """Ctrl-C in the third trial, which has a checkpoint by then."""
    stop = stopping(slates, at=2 * 4 + 2)
    with mock.patch.object(trial, "slates", stop), mock.patch.object(trial, "SAVE_SECONDS", -1.0):
        yield


def stopping(real: Callable[..., Any], *, at: int) -> Callable[..., Any]:
    """The function, until it is called so often."""
    calls = itertools.count()

    def call(*args: object, **kwargs: object) -> object:
        if next(calls) == at:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    return call


def page_of(folder: Path, copy: Path) -> str | None:
    """The page that `recaudit report` makes of a copy, whose name is on the page of an unfinished run."""
    shutil.copytree(folder, copy)
    try:
        code, _ = recaudit("report", copy)
        return (copy / REPORT).read_text(encoding="utf-8") if code == OK else None
    finally:
        shutil.rmtree(copy)


def numbers_in(folder: Path) -> Numbers:
    """Every table of a folder; what a trial has shown as one table, however often it was saved."""
    tables: dict[str, list[pl.DataFrame]] = {}
    for file in sorted(folder.rglob("*.parquet")):
        inside = file.relative_to(folder)
        name = inside.parent if inside.parent.name == "parts" else inside
        tables.setdefault(name.as_posix(), []).append(pl.read_parquet(file, glob=False))
    return {name: pl.concat(parts) for name, parts in tables.items()}


# ---- damages -----------------------------------------------------------------------------------------


def flip(path: Path, draw: np.random.Generator, files: list[Path]) -> str:
    """One bit."""
    content = bytearray(path.read_bytes())
    place = int(draw.integers(len(content)))
    content[place] ^= 1 << int(draw.integers(8))
    path.write_bytes(content)
    return f"bit flipped in byte {place}"


def cut(path: Path, draw: np.random.Generator, files: list[Path]) -> str:
    """The end is gone."""
    size = int(draw.integers(path.stat().st_size))
    os.truncate(path, size)
    return f"cut to {size} bytes"


def delete(path: Path, draw: np.random.Generator, files: list[Path]) -> str:
    """All of it is gone."""
    path.unlink()
    return "deleted"


def swap(path: Path, draw: np.random.Generator, files: list[Path]) -> str:
    """Two files under each other's names, of one kind where there is one."""
    others = [file for file in files if file.read_bytes() != path.read_bytes()]
    alike = [file for file in others if file.suffix == path.suffix] or others
    other = alike[int(draw.integers(len(alike)))]
    mine, theirs = path.read_bytes(), other.read_bytes()
    path.write_bytes(theirs)
    other.write_bytes(mine)
    return f"swapped with {other}"


DAMAGES = {"flip": flip, "cut": cut, "delete": delete, "swap": swap}


def outcome(case: Case, copy: Path, kind: str, draw: np.random.Generator) -> tuple[str, str]:
    """What was done to the copy, and how it ended."""
    files = sorted(path for path in copy.rglob("*") if path.is_file())
    target = files[int(draw.integers(len(files)))]
    done = f"{target.relative_to(copy)} {DAMAGES[kind](target, draw, files)}"
    root_hit = target == copy / MANIFEST or str(copy / MANIFEST) in done
    try:
        code, said = recaudit("verify", copy)
        if code != DAMAGED:
            raise ViolationError(f"verify found nothing: {said}")
        if case.page is not None:
            _check_report(case, copy)
        code, said = recaudit(*case.command, "--out", copy)
        if code in (BAD_INPUT, DAMAGED) and root_hit and "Error: " in said:
            return done, "refused: no manifest"
        if code != OK:
            raise ViolationError(f"exit code {code}: {said}")
        if "not as it was written" not in said:
            raise ViolationError(f"mended without a word: {said}")
        found = numbers_in(copy)
        if found.keys() != case.numbers.keys():
            raise ViolationError(f"tables {sorted(found.keys() ^ case.numbers.keys())}")
        for name, table in case.numbers.items():
            assert_frame_equal(found[name], table, rel_tol=1e-9, abs_tol=0)
        if recaudit("verify", copy)[0] != OK:
            raise ViolationError("mended, and still damaged")
    except (ViolationError, AssertionError) as error:
        return done, f"VIOLATION: {error}"
    return done, "mended: same numbers"


def _check_report(case: Case, copy: Path) -> None:
    """A page is that of the undamaged tables, or none is made."""
    code, said = recaudit("report", copy)
    if code == OK and (copy / REPORT).read_text(encoding="utf-8") != case.page:
        raise ViolationError("another page was made")
    if code not in (OK, BAD_INPUT, DAMAGED):
        raise ViolationError(f"report: exit code {code}: {said}")
    if code == OK:  # so that the damage of a page is still there to be mended
        (copy / REPORT).write_text("not the page", encoding="utf-8")


def main(damages: int, seed: int) -> int:
    """Damage, check, count; 1 where anything false came of it."""
    draw = np.random.default_rng(seed)
    counts: Counter[tuple[str, str, str]] = Counter()
    with tempfile.TemporaryDirectory() as temporary:
        cases = make_cases(Path(temporary))
        for number in range(damages):
            case, kind = cases[number % len(cases)], list(DAMAGES)[number // len(cases) % len(DAMAGES)]
            copy = Path(temporary) / COPY
            shutil.copytree(case.folder, copy)
            done, ended = outcome(case, copy, kind, draw)
            shutil.rmtree(copy)
            if ended.startswith("VIOLATION"):
                print(f"{case.name}: {done}\n  {ended}", file=sys.stderr)
            counts[case.name, kind, ended.split(":")[0]] += 1
    for (name, kind, ended), count in sorted(counts.items()):
        print(f"{name:24} {kind:8} {ended:10} {count:5}")
    totals = Counter(ended for _, _, ended in counts.elements())
    print(", ".join(f"{count} {ended}" for ended, count in sorted(totals.items())))
    return 1 if totals["VIOLATION"] else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--damages", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    sys.exit(main(given.damages, given.seed))
