"""Numbers that must stay equal while the code changes.

    python scripts/frozen_numbers.py record OUT [--sample] [--only PATTERN] [--old-names]
    python scripts/frozen_numbers.py compare OLD NEW
    python scripts/frozen_numbers.py start-commit OUT [--sample]

`record` runs audits, solvers, recommenders, adapters, policies and simulations with fixed seeds and writes every result
table to OUT/case/table.parquet. Cases on MovieLens 100K need the environment variable RECAUDIT_DATA. `compare` prints
what differs between two recordings: floats may be 1e-9 relative plus 1e-12 absolute apart, everything else must be
equal. `start-commit` records the numbers of the commit that is named in `frozen_names.py`, which also has the renamed
names and the differences that are intended. Exit code 1: a case failed, or something differs that is not declared.

The committed sample in tests/frozen is made by `record tests/frozen --sample --old-names` on the start commit.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

# One thread, before numpy and numba are imported, which read these.
os.environ["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "1")
os.environ["MKL_NUM_THREADS"] = os.environ.get("MKL_NUM_THREADS", "1")
os.environ["OPENBLAS_NUM_THREADS"] = os.environ.get("OPENBLAS_NUM_THREADS", "1")
os.environ["NUMBA_NUM_THREADS"] = os.environ.get("NUMBA_NUM_THREADS", "1")

from frozen_cases import LEFT_OUT_OF_SAMPLE, cases
from frozen_comparison import INDEX, Declared, Recording, compare_recordings
from frozen_names import INTENDED_CHANGES, NAMES, OLD, REPLACED_SOLVERS, REPLACED_TRAINING, START_COMMIT
from frozen_package import NotAvailableError, Package

ROOT = Path(__file__).resolve().parents[1]


def record(out: Path, *, is_sample: bool = False, only: str = "*", has_old_names: bool = False) -> int:
    """Run the cases and write their tables; return the exit code."""
    if out.exists() and any(out.iterdir()) and not (out / INDEX).is_file():
        print(f"{out} is not empty and not a recording. Name a new folder.")
        return 2
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    package = Package(OLD if has_old_names else NAMES)
    index: dict[str, Any] = {"names": "old" if has_old_names else "new", "cases": {}, "skipped": {}, "failed": {}}
    chosen = {
        name: case for name, case in cases().items() if fnmatchcase(name, only) and (case.is_sample or not is_sample)
    }
    for name, case in chosen.items():
        package.trained.clear()
        begun = time.perf_counter()
        try:
            tables = case.make(package)
        except NotAvailableError as reason:
            index["skipped"][name] = str(reason)
            print(f"{name}: skipped, {reason}", flush=True)
            continue
        except Exception as error:  # one broken case must not hide the others
            traceback.print_exc()
            index["failed"][name] = f"{type(error).__name__}: {error}"
            print(f"{name}: failed", flush=True)
            continue
        (out / name).mkdir()
        if is_sample:
            tables = {table: frame for table, frame in tables.items() if table not in LEFT_OUT_OF_SAMPLE}
        for table, frame in tables.items():
            frame.write_parquet(out / name / f"{table}.parquet", compression="zstd", statistics=False)
        index["cases"][name] = {
            "family": case.family,
            "tables": sorted(tables),
            "trained": sorted(package.trained),
        }
        print(f"{name}: {len(tables)} tables, {time.perf_counter() - begun:.2f} s", flush=True)
    (out / INDEX).write_text(json.dumps(index, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    counts = {name: len(index[name]) for name in ("cases", "skipped", "failed")}
    print(f"{counts['cases']} cases recorded, {counts['skipped']} skipped, {counts['failed']} failed; {size:,} bytes")
    return 1 if index["failed"] else 0


def compare(old: Path, new: Path) -> int:
    """Print what differs between two recordings; return the exit code."""
    declared = Declared(REPLACED_SOLVERS, REPLACED_TRAINING, INTENDED_CHANGES)
    result = compare_recordings(Recording.read(old), Recording.read(new), NAMES, declared)
    for note in result.notes:
        print(f"note: {note}")
    for difference in result.differences:
        print(f"DIFFERENT: {difference}")
    print(f"{result.compared} tables compared, {len(result.differences)} differences")
    return 1 if result.differences else 0


def record_start_commit(out: Path, *, is_sample: bool = False) -> int:
    """Record the numbers of the start commit, in a worktree and an environment that are removed afterwards."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    with tempfile.TemporaryDirectory(prefix="recaudit-start-") as folder:
        tree, python = Path(folder) / "tree", Path(folder) / "environment" / "bin" / "python"
        subprocess.run(["git", "worktree", "add", "--detach", str(tree), START_COMMIT], cwd=ROOT, check=True)
        try:
            subprocess.run([sys.executable, "-m", "venv", str(python.parents[1])], check=True, env=environment)
            install = [str(python), "-m", "pip", "install", "--quiet", "-c", "constraints.txt", "-e"]
            subprocess.run([*install, ".[test]"], cwd=tree, check=True, env=environment)
            # LightFM needs a compiler: without one its cases are skipped.
            subprocess.run([*install, ".[lightfm]"], cwd=tree, check=False, env=environment)
            # The script of today runs in the old environment: the start commit may not have it.
            command = [str(python), str(Path(__file__).resolve()), "record", str(out.resolve()), "--old-names"]
            command += ["--sample"] if is_sample else []
            return subprocess.run(command, cwd=tree, check=False, env=environment).returncode
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=False)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(description="Record and compare numbers that must stay equal.")
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="Run the cases and write their tables.")
    recording.add_argument("out", type=Path)
    recording.add_argument("--sample", action="store_true", help="Run the committed sample only.")
    recording.add_argument("--only", default="*", help="Run the cases whose names match this pattern.")
    recording.add_argument("--old-names", action="store_true", help="Use the names of the start commit.")
    comparing = commands.add_parser("compare", help="Print what differs between two recordings.")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    starting = commands.add_parser("start-commit", help="Record the numbers of the start commit.")
    starting.add_argument("out", type=Path)
    starting.add_argument("--sample", action="store_true", help="Run the committed sample only.")
    options = parser.parse_args(arguments)
    if options.command == "record":
        return record(options.out, is_sample=options.sample, only=options.only, has_old_names=options.old_names)
    if options.command == "compare":
        return compare(options.old, options.new)
    return record_start_commit(options.out, is_sample=options.sample)


if __name__ == "__main__":
    sys.exit(main())
