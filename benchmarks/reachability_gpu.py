"""Every user and every unseen item of MovieLens 1M on one GPU: Next-10, beta = 2, bounds 1e-6 apart.

    RECAUDIT_DATA=/folder/with/ml-1m python benchmarks/reachability_gpu.py [USERS] [DEVICE]

What is timed is what people call: `ra.reachability`, from the fitted model to the pairs with their bounds, baselines
and rank gains, and the averages with their intervals. Before that the same for a few users, which compiles and warms
up; after it the same for 100 users on the CPU, whose numbers must be the same.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import recaudit as ra


def main(users: int | None, device: str) -> None:
    model = ra.models.BiasedMF(factors=64).fit(ra.datasets.load("ml-1m"))
    for label, some in (("warm-up", 50), ("timed", users)):
        start = time.perf_counter()
        found = ra.reachability(model, users=some, device=device, refits=0)
        pairs = time.perf_counter() - start
        print(found.frame.select("metric", "value", "lower", "upper", "status"))
        all_of_it = time.perf_counter() - start
        each = all_of_it / len(found.pairs) * 1e6
        print(f"{label}: {len(found.pairs):,} pairs {found.counts()}, {all_of_it:.1f} s ({pairs:.1f} s without the")
        print(f"  averages), {each:.2f} us a pair")
    here = ra.reachability(model, users=100, refits=0).pairs
    there = ra.reachability(model, users=100, device=device, refits=0).pairs
    apart = max(
        np.abs(there[name].to_numpy() / here[name].to_numpy() - 1).max() for name in ("value", "lower", "upper")
    )
    same = (there["status"] == here["status"]).all() and (there["rank_gain"] == here["rank_gain"]).all()
    print(
        f"100 users on the CPU: apart by {apart:.0e}, statuses and rank gains {'the same' if same else 'NOT the same'}"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else None, sys.argv[2] if len(sys.argv) > 2 else "cuda")
