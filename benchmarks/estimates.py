"""What a run says beforehand beside what it then took: estimate / truth for every step that takes a second.

    python benchmarks/estimates.py [--data demo|ml-1m|sparse] [--config my.toml] [--cpu]

The promise is a factor of two. MovieLens 1M must lie in RECAUDIT_DATA; `sparse` is the log of `futures.py`, with the
default audits of five models, which are to end in ten minutes. On a machine that others use, --cpu counts the
time of one core (OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1) instead of the clock's.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from futures import sparse_log  # type: ignore[import-not-found]  # beside this script

from recaudit import runs
from recaudit.cli.audits import DEMO

MOVIELENS = """
[data]
name = "ml-1m"
[split]
kind = "leave-last"
k = 5
[[model]]
kind = "als"
[[model]]
kind = "biased-mf"
[[model]]
kind = "item-knn"
[[model]]
kind = "ease"
[audits.accuracy]
[audits.exposure]
[audits.calibration]
[audits.reachability]
users = 48
policy = {kind = "softmax", beta = 2.0}
"""
SPARSE = """
[data]
file = "sparse.parquet"
time = "time"
scale = [0, 10]
[split]
kind = "leave-last"
k = 5
[[model]]
kind = "als"
[[model]]
kind = "biased-mf"
[[model]]
kind = "item-knn"
[[model]]
kind = "ease"
[[model]]
kind = "wals"
[audits.accuracy]
[audits.exposure]
[audits.reachability]
[audits.instability]
[audits.folding]
[audits.agency]
"""
_SHORT = 1.0
"""Seconds: shorter steps are added up, not shown."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=["demo", "ml-1m", "sparse"], default="demo")
    parser.add_argument("--config", type=Path)
    parser.add_argument("--cpu", action="store_true")
    asked = parser.parse_args()
    if asked.cpu:
        time.perf_counter = time.process_time
    with tempfile.TemporaryDirectory() as folder:
        compared(configuration(asked.data, Path(folder)) if asked.config is None else runs.read(asked.config))


def configuration(data: str, folder: Path) -> runs.Configuration:
    """The run on this data, whose files go into the folder."""
    if data == "sparse":
        sparse_log().frame().write_parquet(folder / "sparse.parquet")
    text = {"demo": DEMO.read_text(encoding="utf-8"), "ml-1m": MOVIELENS, "sparse": SPARSE}[data]
    return runs.parse(text, source="benchmark", folder=folder)


def compared(config: runs.Configuration) -> None:
    """Tell, run, and print both."""
    begun = time.perf_counter()
    told = runs.estimate(config)
    spent = time.perf_counter() - begun
    print(f"estimate: {told.seconds:.1f} s, made in {spent:.1f} s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        manifest = runs.execute(config, Path(folder) / "out").manifest
    took = {(step.model, step.audit): step.seconds for step in manifest.steps}
    took |= {(model.label, "fit"): model.fit_seconds or 0.0 for model in manifest.models}
    said = {(step.model, step.step): step.seconds for step in told.steps}
    print(f"{'step':40} {'estimate':>9} {'truth':>9} {'ratio':>6}")
    rest = [0.0, 0.0]
    for step, truth in sorted(took.items(), key=lambda entry: -entry[1]):
        own = said.get(step)
        if own is None or max(own, truth) < _SHORT:
            rest = [rest[0] + (own or 0.0), rest[1] + truth]
            continue
        print(f"{', '.join(step):40} {own:8.1f}s {truth:8.1f}s {own / truth:6.2f}")
    print(f"{'all shorter ones':40} {rest[0]:8.1f}s {rest[1]:8.1f}s {rest[0] / rest[1]:6.2f}")
    total = sum(took.values())
    print(f"{'the run':40} {told.seconds:8.1f}s {total:8.1f}s {told.seconds / total:6.2f}")
    print(f"The run ended after {manifest.seconds:.1f} s. Without a result: {len(manifest.skipped)} steps.")
    for skip in manifest.skipped:
        print(f"  {skip.model}, {skip.audit}: {skip.reason}")
    print(f"The estimate took {spent:.1f} s, reading the data included. Largest step: {told.memory / 2**20:,.0f} MiB.")
    print("\n".join(told.advice))


if __name__ == "__main__":
    main()
