"""AutoRec, CF-NADE and LLORMA in the closed loop on a GPU, trials side by side: how well they do, how long it takes.

`python papers/benchmarks/simulation_gpu.py --environment topics-static --trials 2 --out DIR --tables DIR` keeps the
study in the one folder, so that it can go on after a stop, and writes folds and steps as Parquet to the other;
`--device cpu` needs patience.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import polars as pl

from recaudit import simulate
from recaudit.engines import Processes
from recaudit_papers.recommenders import paper_recommenders

NAMES = ("AutoRec", "CF-NADE", "LLORMA")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--environment", default="topics-static")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--retrain", type=int, default=1)
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tables", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.tables.mkdir(parents=True, exist_ok=True)
    environment = arguments.environment
    recommenders = {name: paper_recommenders(environment, device=arguments.device)[name] for name in arguments.names}
    start = time.perf_counter()
    found = simulate.offline_online(
        [environment],
        recommenders,
        arguments.trials,
        steps=arguments.steps,
        retrain=arguments.retrain,
        out=arguments.out,
        engine=Processes(arguments.workers),
    )
    stem = f"{environment}.{'-'.join(arguments.names)}"
    found.folds.write_parquet(arguments.tables / f"{stem}.folds.parquet")
    loops = found.comparisons[environment].simulations
    steps = [loop.steps.with_columns(recommender=pl.lit(name)) for name, loop in loops.items()]
    pl.concat(steps).write_parquet(arguments.tables / f"{stem}.steps.parquet")
    print(found.summary())
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
