"""The vertices of one pair's box of scores, and the distance at each; the formulas are in `own_item`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from recaudit.arrays import FloatArray, IntArray

# Places in LARGEST, which numba cannot look up.
_HELLINGER, _TV, _L2 = 0, 1, 2

# The sums stay exact to 12 digits while the unedited items hold this share of the mass before, ...
_SHARE = 1e-3
# ... and finite, squares included, while no item weighs more than exp of this, the best unedited one weighing 1.
_HIGHEST = 300.0


class Vertices(NamedTuple):
    """The vertices that a pair with m edited items can take: the first `counts[m]`. Each comes from an earlier one, its
    parent, by moving one item; the first is all lowest or, where only some may move, nothing moved."""

    codes: IntArray
    """(vertices,): two bits an item, the first item lowest: 1 for lowest, 2 for highest, 0 for as before."""
    parent: IntArray  # (vertices,)
    item: IntArray  # (vertices,): the item that has moved
    option: IntArray  # (vertices,): where to
    counts: IntArray  # (items + 1,)

    @classmethod
    def of(cls, items: int, changes: int | None) -> Vertices:
        """All of `items` at one end or the other, or at most `changes` of them moved."""
        first = sum(1 << (2 * s) for s in range(items)) if changes is None else 0
        rows = [(first, 0, 0, 0, 0)]
        counts = [1]
        for s in range(items):
            for at, (code, _, _, _, moved) in enumerate(rows.copy()):
                if changes is None:
                    rows.append((code + (1 << (2 * s)), at, s, 2, 0))
                elif moved < changes:
                    rows += [(code + (option << (2 * s)), at, s, option, moved + 1) for option in (1, 2)]
            counts.append(len(rows))
        codes, parent, item, option, _ = np.array(rows, dtype=np.int64).T.copy()
        return cls(codes, parent, item, option, np.array(counts, dtype=np.int64))


@njit(nogil=True, cache=True, forceinline=True)
def largest_at_vertices(
    kind: int,
    m: int,
    rest: float,
    squares: float,
    limited: bool,
    vertices: Vertices,
    logit: FloatArray,
    root: FloatArray,
    part: FloatArray,
    sums: FloatArray,
    after: FloatArray,
) -> tuple[float, int]:
    """The largest distance over the vertices of one pair, and the place of the vertex that reaches it.

    `logit` (3, items): of its `m` edited items before, at their lowest and at their highest; `rest`, `squares`: sums
    of the unedited masses and of their squares; `limited`: whether only some items may move. To work in: `root`
    (3, items), `part` (3, 3, items) and `sums` (3, vertices) as in the functions below, `after` (items,).
    """
    codes, count = vertices.codes, vertices.counts[m]
    before, highest = rest, -np.inf
    for s in range(m):
        highest = max(highest, logit[0, s], logit[1, s], logit[2, s])
    if highest <= _HIGHEST:
        for s in range(m):
            for o in range(3):
                root[o, s] = math.exp(logit[o, s] / 2.0)
            before += root[0, s] * root[0, s]
        if rest > 0.0 and rest >= _SHARE * before:  # with nothing unedited all masses may be as small as they like
            _terms(kind, m, 1.0 / before, logit, root, part)
            _add_up(kind, m, limited, vertices, part, sums)
            return _largest_by_sums(kind, m, count, rest / before, squares / before**2, before, codes, root, sums)

    log_rest, concentration = (math.log(rest), squares / rest**2) if rest > 0.0 else (-np.inf, 0.0)
    best, at = -1.0, 0
    for i in range(count):
        for s in range(m):
            after[s] = logit[(codes[i] >> (2 * s)) & 3, s]
        value = distance_at(kind, logit[0], after, m, log_rest, concentration)
        if value > best:
            best, at = value, i
    return best, at


@njit(nogil=True, cache=True, forceinline=True)
def _terms(kind: int, m: int, scale: float, logit: FloatArray, root: FloatArray, part: FloatArray) -> None:
    """Each option's terms of the sums, in units of the total before: masses times `scale`.
    Hellinger: d sqrt p and d^2, of which E is made. The others: e; L2: also e p and e^2; KL: also w log(w / p)."""
    for s in range(m):
        before = root[0, s]
        for o in range(1, 3):
            d = root[o, s] - before
            if kind == _HELLINGER:
                part[0, o, s], part[1, o, s] = d * before * scale, d * d * scale
                continue
            e = d * (root[o, s] + before) * scale
            part[0, o, s] = e
            if kind == _L2:
                part[1, o, s], part[2, o, s] = e * before * before * scale, e * e
            elif kind != _TV:
                part[1, o, s] = root[o, s] * root[o, s] * scale * (logit[o, s] - logit[0, s])


@njit(nogil=True, cache=True, forceinline=True)
def _add_up(kind: int, m: int, limited: bool, vertices: Vertices, part: FloatArray, sums: FloatArray) -> None:
    """The sums of every vertex: its parent's and what the moved item changes."""
    for j in range(1 if kind == _TV else 3 if kind == _L2 else 2):
        if limited:
            _, parent, item, option, counts = vertices
            sums[j, 0] = 0.0
            for i in range(1, counts[m]):
                sums[j, i] = sums[j, parent[i]] + part[j, option[i], item[i]]
            continue
        first = 0.0
        for s in range(m):
            first += part[j, 1, s]
        sums[j, 0] = first
        n = 1
        for s in range(m):
            step = part[j, 2, s] - part[j, 1, s]
            for i in range(n):
                sums[j, n + i] = sums[j, i] + step
            n *= 2


@njit(nogil=True, cache=True, forceinline=True)
def _largest_by_sums(
    kind: int,
    m: int,
    count: int,
    share: float,
    squares: float,
    before: float,
    codes: IntArray,
    root: FloatArray,
    sums: FloatArray,
) -> tuple[float, int]:
    """The largest distance over the first `count` vertices, and its place; what is compared may be simpler.
    `share` is the rest's share of the mass before, `squares` the sum of its items' squared shares."""
    best, at = 0.0, 0  # a distance of 0 may come out below it by rounding
    if kind == _HELLINGER:
        for i in range(count):
            F, Q = sums[0, i], sums[1, i]
            value = (Q - F * F) / (1.0 + 2.0 * F + Q)
            if value > best:
                best, at = value, i
        return math.sqrt(best / (1.0 + math.sqrt(max(1.0 - best, 0.0)))), at
    if kind == _L2:
        for s in range(m):
            squares += (root[0, s] * root[0, s] / before) ** 2
        for i in range(count):
            E, F, Q = sums[0, i], sums[1, i], sums[2, i]
            value = (Q - 2.0 * E * F + E * E * squares) / ((1.0 + E) * (1.0 + E))
            if value > best:
                best, at = value, i
        return math.sqrt(best), at
    for i in range(count):
        E = sums[0, i]
        if kind == _TV:
            value = share * abs(E) / (1.0 + E)
            for s in range(m):
                after = root[(codes[i] >> (2 * s)) & 3, s]
                value += abs(after * after / (1.0 + E) - root[0, s] * root[0, s]) / before
            value /= 2.0
        else:
            value = sums[1, i] / (1.0 + E) - math.log1p(E)
        if value > best:
            best, at = value, i
    return best, at


@njit(nogil=True, cache=True)
def distance_at(
    kind: int, before: FloatArray, after: FloatArray, m: int, log_rest: float, concentration: float
) -> float:
    """The distance of two distributions from log-masses (m,) of any size before and after, and of a rest that does not
    move. `concentration` is the sum of the rest's squared masses over the square of their sum."""
    norm_before, norm_after = log_sum(before, m, log_rest), log_sum(after, m, log_rest)
    p, q = math.exp(log_rest - norm_before), math.exp(log_rest - norm_after)
    if kind == _HELLINGER:
        total = (math.sqrt(p) - math.sqrt(q)) ** 2
    elif kind == _TV:
        total = abs(p - q)
    elif kind == _L2:
        total = (p - q) ** 2 * concentration
    else:
        total = q * (norm_before - norm_after)
    for s in range(m):
        log_p, log_q = before[s] - norm_before, after[s] - norm_after
        p, q = math.exp(log_p), math.exp(log_q)
        if kind == _HELLINGER:
            total += (math.exp(log_p / 2.0) - math.exp(log_q / 2.0)) ** 2
        elif kind == _TV:
            total += abs(p - q)
        elif kind == _L2:
            total += (p - q) ** 2
        elif q > 0.0:
            total += q * (log_q - log_p)
    if kind == _HELLINGER:
        return math.sqrt(total / 2.0)
    if kind == _TV:
        return total / 2.0
    return math.sqrt(total) if kind == _L2 else max(total, 0.0)


@njit(nogil=True, cache=True)
def log_sum(logs: FloatArray, m: int, other: float) -> float:
    """log(exp(other) + sum of exp(logs[:m])); -inf entries do not count."""
    top = other
    for s in range(m):
        top = max(top, logs[s])
    if top == -np.inf:
        return top
    total = math.exp(other - top)
    for s in range(m):
        total += math.exp(logs[s] - top)
    return top + math.log(total)
