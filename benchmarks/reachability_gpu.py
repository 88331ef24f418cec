"""Every user and every unseen item of MovieLens 1M on one GPU: Next-10, beta = 2, bounds 1e-6 apart.

    RECAUDIT_DATA=/folder/with/ml-1m python benchmarks/reachability_gpu.py prepare problem.npz
    python benchmarks/reachability_gpu.py run problem.npz [USERS A CALL] [DEVICE]

`prepare` fits the model; `run` needs nothing of recaudit but its solvers, so that it works on a machine that has numpy,
scipy, numba and torch and nothing else that recaudit depends on. Timed: the responses, the best probability of every
pair with its certificate, the baseline and the aggregates.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import torch

from recaudit.solvers import Solution, maximize_softmax_batch

BETA, STEP, LOW, HIGH, ACTIONS = 2.0, 0.1, 1.0, 5.0, 10


def prepare(path: Path) -> None:
    import recaudit as ra  # noqa: PLC0415  `run` must work without what this imports

    model = ra.models.BiasedMF(factors=64).fit(ra.datasets.load("ml-1m"))
    np.savez(
        path,
        P=model.user_factors,
        Q=model.item_factors,
        offset=model.mean + model.user_bias[:, None],
        item_bias=model.item_bias,
        indptr=model.data.indptr,
        items=model.data.items,
    )


class Tally:
    """What is added up over the blocks of users: the counts, and the aggregates of paper 000."""

    def __init__(self, items: int) -> None:
        self.pairs = self.solved = self.evaluations = 0
        self.gap = 0.0
        self.best, self.base, self.users = np.zeros(items), np.zeros(items), np.zeros(items)
        self.discovery: list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]] = []

    def add(self, found: Solution, candidates: torch.Tensor, log_baseline: torch.Tensor) -> None:
        value, items = np.exp(found.value), len(self.best)
        self.pairs += len(value)
        self.solved += int(found.solved.sum())
        self.evaluations += int(found.evaluations.sum())
        self.gap = max(self.gap, float(np.max(found.upper - found.lower)))
        uniform = 1 / candidates.sum(dim=1).cpu().numpy()
        user, item = candidates.nonzero().cpu().numpy().T
        self.discovery.append(np.bincount(user, value > uniform[user], len(uniform)) * uniform)
        self.best += np.bincount(item, value, items)
        self.base += np.bincount(item, log_baseline[candidates].exp().cpu().numpy(), items)
        self.users += np.bincount(item, minlength=items)

    def __str__(self) -> str:
        best, base = np.nanmean(self.best / self.users), np.nanmean(self.base / self.users)
        return (
            f"{self.pairs:,} pairs, {self.solved:,} solved, widest gap {self.gap:.2e}, "
            f"{self.evaluations / self.pairs:.2f} evaluations a pair\n  discovery "
            f"{np.concatenate(self.discovery).mean():.4f}, availability {best:.3e} (baseline {base:.3e})"
        )


def run(path: Path, users_a_call: int, device: str) -> None:
    stored = np.load(path)
    P, Q, offset, g = (torch.from_numpy(stored[name]).to(device) for name in ("P", "Q", "offset", "item_bias"))
    seen = torch.zeros(len(P), len(Q), dtype=torch.bool)
    rows = np.repeat(np.arange(len(P)), np.diff(stored["indptr"]))
    seen[torch.from_numpy(rows), torch.from_numpy(stored["items"].astype(np.int64))] = True
    seen = seen.to(device)
    for label, count in (("warm-up", min(len(P), users_a_call)), ("all users", len(P))):
        start = time.perf_counter()
        tally = Tally(len(Q))
        for first in range(0, count, users_a_call):
            block = slice(first, min(first + users_a_call, count))
            scores = P[block] @ Q.T + offset[block] + g
            acted = scores.masked_fill(seen[block], -torch.inf).topk(ACTIONS, dim=1).indices
            candidates = (~seen[block]).scatter(1, acted, value=False)
            # One gradient step on the acted-on ratings: recaudit.models.SgdStep.
            moved = P[block] - STEP * torch.einsum("uad,ua->ud", Q[acted], scores.gather(1, acted))
            slope = STEP * torch.einsum("id,uad->uia", Q, Q[acted])
            intercept = (moved @ Q.T + offset[block] + g).masked_fill(~candidates, -torch.inf)
            found = maximize_softmax_batch(slope, intercept, candidates, BETA, LOW, HIGH, device=device)
            tally.add(found, candidates, (BETA * scores).masked_fill(~candidates, -torch.inf).log_softmax(dim=1))
        # The tally is on the host, so everything that was asked of the device has come back.
        seconds = time.perf_counter() - start
        print(f"{label}: {seconds:.1f} s, {seconds / tally.pairs * 1e6:.2f} us a pair, {tally}")
    if device == "cuda":
        print(f"  peak memory {torch.cuda.max_memory_allocated() / 1e9:.1f} GB")


if __name__ == "__main__":
    _, command, file, *rest = sys.argv
    if command == "prepare":
        prepare(Path(file))
    else:
        run(Path(file), int(rest[0]) if rest else 512, rest[1] if len(rest) > 1 else "cuda")
