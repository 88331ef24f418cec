"""Agency over time on MovieLens 1M: exact answers beside the obvious way, as ratios in one run.

    RECAUDIT_DATA=/folder/with/ml-1m python benchmarks/agency.py [VIEWERS]

Past-5 instability of every pair of users, 100 factors, softmax with beta = 0.8 and 5: the exact solver on all editors
of VIEWERS viewers (default: all 6,040), everything included, beside the whole softmax at each of the 32 vertices of
some pairs whose responses are already there, a thread on every core. The values must agree.
"""

from __future__ import annotations

import itertools
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numba import get_num_threads
from rich.console import Console
from rich.table import Table
from scipy.special import log_softmax
from threadpoolctl import threadpool_limits

import recaudit as ra
from recaudit.arrays import FloatArray
from recaudit.audits.instability.audit import instability
from recaudit.data import Interactions
from recaudit.interventions import Past
from recaudit.models import FactorModel
from recaudit.policies import Softmax
from recaudit.solvers.distance.distances import distance_between

BETAS = (0.8, 5.0)
SAMPLE = 200
EDITS = Past(5)


@dataclass(frozen=True)
class Pair:
    """A viewer's scores of the candidates as the editor's ratings move them, ready to be evaluated."""

    slope: FloatArray
    intercept: FloatArray
    ratings: FloatArray
    """(33, actions): the factual ratings, then every vertex."""

    @classmethod
    def of(cls, model: FactorModel, log: Interactions, viewer: int, editor: int) -> Pair:
        items = EDITS.items(model, np.array([editor]), 0, log)
        factual = EDITS.unchanged(model, np.array([editor]), items, log)
        vertices = np.array(list(itertools.product(log.scale, repeat=items.shape[1])))
        candidates = ~log.seen(np.array([viewer]))[0]
        response = model.respond(viewer, editor, items[0])
        return cls(response.slope[candidates].T, response.intercept[candidates], np.concatenate([factual, vertices]))

    def at_every_vertex(self, beta: float) -> float:
        """The largest Hellinger distance, by the whole softmax at each vertex."""
        logs = log_softmax(beta * (self.ratings @ self.slope + self.intercept), axis=1)
        return float(distance_between("hellinger", logs[:1], logs[1:]).max())


def past_instability(console: Console, viewers: int | None) -> None:
    data = ra.datasets.load("ml-1m")
    model = ra.models.ALS(factors=100, iterations=5).fit(EDITS.before(data))
    ids = data.user_ids.to_list()
    chosen = ids[:viewers]
    table = Table("beta", "solver", "pairs", "seconds", "us a pair", "times ours", title="ML-1M, past-5 instability")
    for beta in BETAS:
        policy = Softmax(beta=beta)
        # Compiles, and is compared below.
        sample = instability(model, data, edits=EDITS, policy=policy, viewers=ids[:20], editors=ids[-20:])
        start = time.perf_counter()
        result = instability(model, data, edits=EDITS, policy=policy, viewers=chosen, pairs=False)
        seconds = time.perf_counter() - start
        pairs = result.counts()["solved"]
        ours = seconds / pairs
        table.add_row(f"{beta}", "recaudit", f"{pairs:,}", f"{seconds:.1f}", f"{ours * 1e6:.2f}", "")

        rows = np.random.default_rng(0).choice(len(sample.pairs), SAMPLE, replace=False)
        named = sample.pairs[rows.tolist()]
        positions = zip(data.users_at(named["viewer"]), data.users_at(named["editor"]), strict=True)
        ready = [Pair.of(model, data, int(viewer), int(editor)) for viewer, editor in positions]
        with threadpool_limits(1), ThreadPoolExecutor(get_num_threads()) as pool:
            start = time.perf_counter()
            theirs = list(pool.map(Pair.at_every_vertex, ready, [beta] * SAMPLE))
            each = (time.perf_counter() - start) / SAMPLE
        np.testing.assert_allclose(theirs, named["value"].to_numpy(), atol=1e-9)
        cells = f"{SAMPLE}", f"{each * SAMPLE:.1f}", f"{each * 1e6:,.0f}", f"{each / ours:,.0f}"
        table.add_row(f"{beta}", "whole softmax at 32 vertices", *cells)
        console.print(result.summary())
        console.print(result.histogram(20))
    console.print(table)
    console.print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


def main() -> None:
    past_instability(Console(), int(sys.argv[1]) if len(sys.argv) > 1 else None)


if __name__ == "__main__":
    main()
