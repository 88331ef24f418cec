"""Small catalogues and a plain greedy for the tests of calibrated lists."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy import sparse

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.solvers.lists.calibrated import CalibratedLists, calibrated_lists
from recaudit.solvers.lists.objective import CategoryVectors
from recaudit.ties import TIE


@dataclass(frozen=True, eq=False)
class Case:
    """One user."""

    scores: FloatArray
    shares: FloatArray
    interests: FloatArray
    weight: float | FloatArray
    size: int
    allowed: BoolArray | None = None
    rank_weights: FloatArray | None = None
    smoothing: float = 0.01
    importance: FloatArray | None = None
    caps: IntArray | None = None
    must: BoolArray | None = None
    horizon: Literal["prefix", "list"] = "prefix"

    def free(self) -> BoolArray:
        return np.ones(len(self.scores), dtype=bool) if self.allowed is None else self.allowed

    def vectors(self) -> CategoryVectors:
        return CategoryVectors.of(sparse.csr_array(self.shares))

    def solve(self, **change: Any) -> CalibratedLists:
        case = replace(self, **{name: value for name, value in change.items() if name != "certify"})
        return calibrated_lists(
            case.scores[None],
            case.free()[None],
            case.vectors(),
            case.interests[None],
            weight=case.weight,
            size=case.size,
            rank_weights=case.rank_weights,
            smoothing=case.smoothing,
            importance=case.importance,
            caps=case.caps,
            must=None if case.must is None else case.must[None],
            horizon=case.horizon,
            certify=bool(change.get("certify", False)),
        )

    def list(self, **change: Any) -> list[int]:
        items: list[int] = self.solve(**change).lists[0].tolist()
        return items


def random_case(draw: np.random.Generator, items: int = 30, genres: int = 5, size: int = 8, **fixed: Any) -> Case:
    """Scores with ties, items with none to three genres, an interest that is sometimes zero."""
    has = draw.random((items, genres)) < draw.uniform(0.1, 0.6)
    shares = has / np.maximum(has.sum(axis=1, keepdims=True), 1)
    interests = draw.dirichlet(np.full(genres, 0.5)) * (draw.random(genres) < 0.8)
    interests = interests / interests.sum() if interests.sum() > 0 else interests
    scores = draw.integers(-4, 5, items) / 4 if draw.random() < 0.5 else draw.standard_normal(items)
    weight = draw.choice([0.0, 0.3, 0.9, 0.99, 1.0])
    return replace(Case(scores, shares, interests, float(weight), size), **fixed)


def first_of_the_best(values: dict[int, float], scores: FloatArray, weight: float, largest: float) -> int:
    """Of the items with tied values the one with the highest score, of tied scores the first of the catalogue."""
    highest = max(values.values())
    tied = [i for i, value in values.items() if value >= highest - TIE * max(abs(highest), (1 - weight) * largest)]
    top = max(scores[i] for i in tied)
    return min(i for i in tied if scores[i] >= top - TIE * largest)


def plain_greedy(case: Case) -> list[int]:
    """The readable twin: every candidate's gain at every rank (mathematics.md, section 5)."""
    n, genres = case.size, len(case.interests)
    weights = np.broadcast_to(case.weight, n)
    w = np.ones(n) if case.rank_weights is None else case.rank_weights
    m = np.ones(genres) if case.importance is None else case.importance
    caps = np.full(genres, n) if case.caps is None else case.caps
    due = np.zeros(len(case.scores), dtype=bool) if case.must is None else case.must
    alpha, p = case.smoothing, case.interests
    used = ((case.shares > 0) & due[:, None]).sum(axis=0)
    chosen: list[int] = []
    for rank in range(n):
        held = sum((w[r] * case.shares[i] for r, i in enumerate(chosen)), np.zeros(genres))
        total = w.sum() if case.horizon == "list" else w[: rank + 1].sum()
        forced = n - rank == due.sum() - due[chosen].sum()
        found: dict[int, float] = {}
        for i in np.flatnonzero(case.free()).tolist():
            full = any(case.shares[i, g] > 0 and used[g] >= caps[g] for g in range(genres))
            if i in chosen or (not due[i] and (forced or full)):
                continue
            gain = sum(
                m[g] * p[g] * math.log1p((1 - alpha) * w[rank] * share / ((1 - alpha) * held[g] + alpha * total * p[g]))
                for g, share in enumerate(case.shares[i])
                if share > 0 and p[g] > 0
            )
            found[i] = (1 - weights[rank]) * case.scores[i] + weights[rank] * gain
        if not found:
            break
        best = first_of_the_best(found, case.scores, weights[rank], np.abs(case.scores[case.free()]).max())
        chosen.append(best)
        if not due[best]:
            used = used + (case.shares[best] > 0)
    return chosen + [-1] * (n - len(chosen))
