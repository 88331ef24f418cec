"""The benchmark that is carried to a machine with a GPU says what that machine must have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "reachability_gpu.py"
PRESENT = {"numpy", "scipy", "numba", "llvmlite", "torch"}

WITHOUT = """
import re, runpy, sys
from importlib.machinery import PathFinder
from importlib.metadata import requires
named = {re.split("[^A-Za-z0-9_.-]", line)[0].replace("-", "_") for line in requires("recaudit") or []}
absent = (named | {"vl_convert"}) - {"recaudit"} - %r
assert {"polars", "pydantic"} <= absent
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name.split(".")[0] in absent else find(name, *rest)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_it_runs_with_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    users, items, seen = 6, 30, 4
    np.savez(
        tmp_path / "problem.npz",
        P=0.3 * draw.normal(size=(users, 5)),
        Q=0.3 * draw.normal(size=(items, 5)),
        offset=np.full((users, 1), 3.0),
        item_bias=0.3 * draw.normal(size=items),
        indptr=seen * np.arange(users + 1),
        items=np.concatenate([draw.permutation(items)[:seen] for _ in range(users)]),
    )
    command = [sys.executable, "-c", WITHOUT % PRESENT, str(SCRIPT), "run", str(tmp_path / "problem.npz"), "4", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pairs = users * (items - seen - 10)
    assert f"{pairs} pairs, {pairs} solved" in done.stdout
    told = SCRIPT.read_text(encoding="utf-8").split('"""')[1]
    assert all(name in told for name in PRESENT - {"llvmlite"})  # which comes with numba
