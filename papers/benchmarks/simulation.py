"""The closed loop beside RecLab's: CPU seconds a step, topics-static, 1000 x 1700, 200 users a step, fitted each step.

RecLab cannot be installed any more; its numbers were measured on a 2-core machine like this one and are given here.
`python papers/benchmarks/simulation.py [name ...]` measures all recommenders, or those named; `--steps` of them after
one to warm up. Where the log grows, as it does from 100,000 ratings on, so does the work: see the column at
200,000. One thread, as trials have that run side by side: a second one that waits counts as busy. What the slower ones
must cost: neural.py; on a GPU: simulation_gpu.py.

`--large` measures a world of a million users and 20,000 items instead, 1,000 users a step, after ten million ratings,
each row in a process of its own: the most memory that it took, and seconds of CPU, of all threads together.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from itertools import pairwise
from statistics import median
from typing import Any

import numba
from threadpoolctl import threadpool_limits

from recaudit import simulate
from recaudit.engines.progress import Step, listening
from recaudit.models import ALS, BiasedMF, Recommender, TopPop
from recaudit_papers.recommenders import paper_recommenders

RECLAB = {"TopPop": 2.46, "ItemKNN": 12.4, "UserKNN": 10.8, "EASE": 2.1, "SGD MF": 10.7, "Bayes MF": 22.4}
"""CPU seconds a step at 100,000 ratings. ItemKNN: its dense path; its usual one takes 60.4."""
GOALS = {"TopPop": 100, "ItemKNN": 100, "UserKNN": 100, "EASE": 100, "SGD MF": 20, "Bayes MF": 20}

SIZE: dict[str, Any] = {"users": 1_000_000, "items": 20_000, "users_per_step": 1000, "ratings": 10_000_000}
LARGE: dict[str, tuple[str, Recommender, int, int]] = {
    "topics-static, TopPop fitted each step": ("topics-static", TopPop(by="mean"), 1, 20),
    "topics-dynamic, TopPop fitted each step": ("topics-dynamic", TopPop(by="mean"), 1, 20),
    "topics-dynamic, SGD MF fitted once": ("topics-dynamic", BiasedMF(factors=16, epochs=3), 0, 20),
    "topics-dynamic, ALS fitted once": ("topics-dynamic", ALS(factors=16, iterations=3), 0, 20),
    "latent-dynamic, TopPop fitted each step": ("latent-dynamic", TopPop(by="mean"), 1, 20),
    "latent-dynamic, Oracle": ("latent-dynamic", simulate.Oracle(), 0, 10),
}
"""World, recommender, how often it is fitted, and steps."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--row", help="measure this row of --large, in this process")
    arguments = parser.parse_args()
    if arguments.large or arguments.row:
        print(json.dumps(_large(arguments.row)) if arguments.row else _large_table(arguments.names))
        return
    threadpool_limits(1)
    numba.set_num_threads(1)
    start = time.perf_counter()
    env = simulate.paper("topics-static").make()
    env.reset(seed=0)
    print(f"reset {time.perf_counter() - start:.4f} s; ", end="")
    start = time.perf_counter()
    simulate.Topics().offline(100_000)
    print(f"drawing 100,000 ratings {time.perf_counter() - start:.3f} s")
    print(f"{'':10} {'ours, s':>9} {'at 200k':>9} {'RecLab, s':>10} {'times':>7}   goal")
    for name, recommender in paper_recommenders("topics-static").items():
        if not arguments.names or name in arguments.names:
            small, large = (_cpu_seconds(recommender, ratings, arguments.steps) for ratings in (100_000, 200_000))
            peer = RECLAB.get(name)
            ratio = f"{peer:10.2f} {peer / small:7.1f}   {GOALS[name]}" if peer else ""
            print(f"{name:10} {small:9.4f} {large:9.4f} {ratio}", flush=True)


def _cpu_seconds(recommender: Recommender, ratings: int, steps: int) -> float:
    """A step, everything in it: the difference between a longer and a shorter run, the first having warmed up."""
    times = []
    for count in (1, 1, 1 + steps):
        start = time.process_time()
        simulate.run("topics-static", recommender, ratings=ratings, steps=count, population_every=0)
        times.append(time.process_time() - start)
    return (times[2] - times[1]) / steps


def _large_table(names: list[str]) -> str:
    lines = [f"{'':40} {'peak, GiB':>10} {'begin, s':>9} {'fit, s':>7} {'step, s':>8} {'on clock':>9} {'error, s':>9}"]
    for row in LARGE:
        if not names or any(name in row for name in names):
            done = subprocess.run([sys.executable, __file__, "--row", row], capture_output=True, text=True, check=True)
            found = json.loads(done.stdout.splitlines()[-1])
            lines.append(
                f"{row:40} {found['peak']:10.2f} {found['begin']:9.1f} {found['fit']:7.1f} {found['step']:8.3f} "
                f"{found['clock']:9.3f} {found['error']:9.1f}"
            )
            print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def _large(row: str) -> dict[str, float]:
    """Memory in GiB, and seconds: until the first step, of the first fit, of a step, of the error at the end."""
    name, recommender, retrain, steps = LARGE[row]
    marks = [(time.process_time(), time.perf_counter())]

    def hear(step: Step) -> None:
        if step.label == "trial 0" and step.done == len(marks) - 1:
            marks.append((time.process_time(), time.perf_counter()))

    with listening(hear):
        simulate.run(simulate.paper(name, **SIZE, steps=steps), recommender, retrain=retrain)
    begin, first, *others, last = (after[0] - before[0] for before, after in pairwise(marks))
    step, clock = median(others), median(after[1] - before[1] for before, after in pairwise(marks[2:-1]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"peak": peak, "begin": begin, "fit": first - step, "step": step, "clock": clock, "error": last - step}


if __name__ == "__main__":
    main()
