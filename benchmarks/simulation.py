"""The closed loop beside RecLab's: CPU seconds a step, topics-static, 1000 x 1700, 200 users a step, fitted each step.

RecLab cannot be installed any more; its numbers were measured on a 2-core machine like this one and are given here.
`python benchmarks/simulation.py [name ...]` measures all recommenders, or those named; `--steps` of them after one to
warm up. Where the log grows, as it does from 100,000 ratings on, so does the work: see the column at 200,000. One
thread, as trials have that run side by side: a second one that waits counts as busy. What the slower ones must cost:
neural.py; on a GPU: simulation_gpu.py.
"""

from __future__ import annotations

import argparse
import time

import numba
import torch

from recaudit import simulate
from recaudit.models import Recommender

RECLAB = {"TopPop": 2.46, "ItemKNN": 12.4, "UserKNN": 10.8, "EASE": 2.1, "SGD MF": 10.7, "Bayes MF": 22.4}
"""CPU seconds a step at 100,000 ratings. ItemKNN: its dense path; its usual one takes 60.4."""
GOALS = {"TopPop": 100, "ItemKNN": 100, "UserKNN": 100, "EASE": 100, "SGD MF": 20, "Bayes MF": 20}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--steps", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    start = time.perf_counter()
    env = simulate.paper("topics-static").make()
    env.reset(seed=0)
    print(f"reset {time.perf_counter() - start:.4f} s; ", end="")
    start = time.perf_counter()
    simulate.Topics().offline(100_000)
    print(f"drawing 100,000 ratings {time.perf_counter() - start:.3f} s")
    print(f"{'':10} {'ours, s':>9} {'at 200k':>9} {'RecLab, s':>10} {'times':>7}   goal")
    for name, recommender in simulate.paper_recommenders("topics-static").items():
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


if __name__ == "__main__":
    main()
