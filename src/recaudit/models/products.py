"""The items with the highest products, when scores are products of vectors: single precision selects, double decides.

Scores of every item are never held together. Items go by in tiles, in single precision, and a user keeps those that may
still be among the n best; these alone are scored in double precision, and `recaudit.ties` orders them.

What may be dropped. With c_k the largest |q_ik| of any item, B the largest |g_i| and `S = sum |p_k| c_k + B`, vectors
are scaled to `p'_k = p_k c_k / S`, `q'_ik = q_ik / c_k`, and offsets alike, so that `sum |p'_k q'_ik| + |g'_i| <= 1`:
a score less the user's level is S times a scaled one. Two factors rounded to single precision and d + 1 products summed
in any order differ from the exact sum by at most `(d + 4) 2^-24` (Higham, Accuracy and Stability, section 3.1);
`E = (d + 8) 2^-24` leaves room for rounding in double precision, and for numbers too small for single. So an item that
was passed over at a single-precision score of t scores at most `level + S (t + E)`. The list is decided where that is
more than a gap below its last place, and below whatever is tied to that; a gap is at most TIE times `|level| + S`, and
at least TIE times the largest score seen. Items are passed over from 2 E and two gaps below the n-th highest so far.
Where it is not decided (too many are left, a chain of ties reaches far down, or two scores are tied or not depending on
the row's largest score, of which only these bounds are known), who asks looks at every score of the row.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import njit, prange

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.engines.parallel import parallel_njit
from recaudit.models.rows import Indices, Singles
from recaudit.ranking import descending, nth_highest
from recaudit.ties import TIE, Keys, TieKeys, sort_tied

_TILE = 512
"""Items in a tile: what four users' scores and four factors of it take stays in the nearest cache."""
_STRIDE = _TILE // 8
"""Of eight items of a tile that stand so far apart, the highest is looked at first."""
_TOGETHER = 64
"""Users of a thread's piece of work, to whom a tile is shown while it is near."""
_ROOM = 64
"""Places for candidates beyond four for each place of the list."""
_WIDEST = 1.01
"""By how much the bound of a gap is taken wider: for rounding in double precision, far below a hundredth of a gap."""
_UNIT = 2.0**-24
"""Half the distance of 1 to the next number in single precision."""
_SMALLEST, _LARGEST = 1e-280, 1e280
"""Scores of another size are left undecided: scaling would lose digits."""


class ScoreVectors(NamedTuple):
    """Scores that are products: of user u and item i, `users[u] . items[i] + level[u] + offset[i]`, all finite."""

    users: FloatArray
    """(users, factors)"""
    items: FloatArray
    """(items, factors)"""
    level: FloatArray
    """(users,)"""
    offset: FloatArray
    """(items,)"""

    @property
    def finite(self) -> bool:
        """Whether every score is a number."""
        return all(bool(np.isfinite(part).all()) for part in self)


class ProductLists(NamedTuple):
    """Lists of the items with the highest products. What is said of a user who is not decided means nothing."""

    items: IntArray
    """Positions, best first, -1 for none, shape (users, n)."""
    scores: FloatArray
    """Scores of the items, NaN for none, shape (users, n)."""
    decided: BoolArray
    """Whether the list is known, shape (users,)."""
    untied: IntArray
    """Number of the first items whose position does not depend on a tie, shape (users,); n if none does."""


class TopProducts:
    """Finds the items with the highest products for each user, seen ones left out."""

    def __init__(self, vectors: ScoreVectors, indptr: IntArray, seen: Indices, ties: TieKeys) -> None:
        """User u has seen the items `seen[indptr[u]:indptr[u + 1]]`, ascending; `ties` are of all users and items."""
        self.vectors = vectors
        self.indptr = indptr
        self.seen = seen
        self.ties = ties

    @cached_property
    def _columns(self) -> tuple[FloatArray, float]:
        """(factors,): the largest size of each factor of an item, 1 where all are 0; and of an offset."""
        items, offset = self.vectors.items, self.vectors.offset
        sizes = np.maximum(items.max(axis=0, initial=0.0), -items.min(axis=0, initial=0.0))
        return np.where(sizes > 0, sizes, 1.0), float(np.abs(offset).max(initial=0.0))

    @cached_property
    def _tiles(self) -> Singles:
        """(tiles, 1 + factors in fours, _TILE): scaled offsets and vectors, factor by factor; zeros fill up."""
        items, (sizes, largest) = self.vectors.items, self._columns
        count, factors = items.shape
        tiles = np.zeros((-(-count // _TILE), 1 + -(-max(1, factors) // 4) * 4, _TILE), dtype=np.float32)
        for tile, first in zip(tiles, range(0, count, _TILE), strict=True):
            part = slice(first, first + _TILE)
            width = len(items[part])
            tile[0, :width] = self.vectors.offset[part] / (largest or 1.0)
            tile[1 : 1 + factors, :width] = (items[part] / sizes).T
        return tiles

    def lists(self, users: IntArray, n: int) -> ProductLists:
        """Find the lists of these users (positions)."""
        (sizes, largest), tiles, factors = self._columns, self._tiles, self.vectors.items.shape[1]
        P, level = np.ascontiguousarray(self.vectors.users[users]), self.vectors.level[users]
        with np.errstate(over="ignore", invalid="ignore"):
            weighed = P * sizes
            size = np.abs(weighed).sum(axis=1) + largest
            gap = _WIDEST * TIE * (np.abs(level) + size)
            sound = (size > _SMALLEST) & (size < _LARGEST) & (gap < _LARGEST)
        size, gap = np.where(sound, size, 1.0), np.where(sound, gap, 1.0)
        scaled = np.zeros((-(-len(users) // 4) * 4, tiles.shape[1]), dtype=np.float32)
        scaled[: len(users), 0] = np.where(sound, largest / size, 0.0)
        scaled[: len(users), 1 : 1 + factors] = np.where(sound[:, None], weighed / size[:, None], 0.0)
        error = (factors + 8) * _UNIT
        found, counts, passed = _candidates(
            scaled, tiles, len(self.vectors.items), users, self.indptr, self.seen, n, 2 * error + 2 * gap / size, sound
        )
        # No score of an item that was passed over, less the level, is above this.
        highest = size * (passed + error)
        ties = self.ties.rows(users)
        lists, scores, decided, untied = _decided(
            found, counts, highest, gap, n, P, level, self.vectors.items, self.vectors.offset, *ties
        )
        for row in np.flatnonzero(~P.any(axis=1)).tolist() if largest == 0 else ():
            # Nothing is known of the user, and every score is the level: all are tied.
            own = self.seen[self.indptr[users[row]] : self.indptr[users[row] + 1]]
            free = np.delete(np.arange(len(self.vectors.items)), own)
            count = min(n, len(free))
            sort_tied(free, count, *ties, row)
            lists[row, :count], scores[row, :count], decided[row] = free[:count], level[row], True
            untied[row] = 0 if len(free) > 1 else n
        return ProductLists(lists, scores, decided, untied)


@parallel_njit(fastmath={"contract", "nnan", "nsz"})
def _candidates(
    scaled: Singles,
    tiles: Singles,
    n_items: int,
    users: IntArray,
    indptr: IntArray,
    seen: Indices,
    n: int,
    margin: FloatArray,
    sound: BoolArray,
) -> tuple[Indices, IntArray, FloatArray]:
    """(users, room) positions, how many there are, -1 for too many; and (users,) below what others were passed over."""
    room = 4 * n + _ROOM
    found = np.empty((len(users), room), dtype=np.int32)
    counts = np.zeros(len(users), dtype=np.int64)
    passed = np.full(len(users), -np.inf, dtype=np.float32)
    for piece in prange((len(users) + _TOGETHER - 1) // _TOGETHER):
        begin, end = piece * _TOGETHER, min(len(users), (piece + 1) * _TOGETHER)
        kept = np.empty((end - begin, room), dtype=np.float32)
        products = np.empty((4, _TILE), dtype=np.float32)
        best = np.empty(_STRIDE, dtype=np.float32)
        for user in range(begin, end):
            if not sound[user]:
                counts[user], passed[user] = -1, np.inf
        for tile in range(len(tiles)):
            for first in range(begin, end, 4):
                _multiply(scaled[first : first + 4], tiles[tile], products)
                for user in range(first, min(first + 4, end)):
                    above = _highest_of_eight(products[user - first], best, passed[user])
                    if above:
                        own = seen[indptr[users[user]] : indptr[users[user] + 1]]
                        counts[user], passed[user] = _keep(
                            products[user - first],
                            best,
                            min(n_items - tile * _TILE, _TILE),
                            tile * _TILE,
                            own,
                            n,
                            margin[user],
                            found[user],
                            kept[user - begin],
                            counts[user],
                            passed[user],
                        )
    return found, counts, passed.astype(np.float64)


@njit(fastmath={"contract", "nnan", "nsz"}, cache=True)
def _multiply(p: Singles, tile: Singles, out: Singles) -> None:
    """`out` (4, items) becomes the scores of four users p (4, 1 + factors) in the tile (1 + factors, items)."""
    o0, o1, o2, o3 = out[0], out[1], out[2], out[3]
    g = tile[0]
    w0, w1, w2, w3 = p[0, 0], p[1, 0], p[2, 0], p[3, 0]
    for j in range(_TILE):
        o0[j], o1[j], o2[j], o3[j] = w0 * g[j], w1 * g[j], w2 * g[j], w3 * g[j]
    for k in range(1, len(tile), 4):
        y0, y1, y2, y3 = tile[k], tile[k + 1], tile[k + 2], tile[k + 3]
        a0, a1, a2, a3 = p[0, k], p[0, k + 1], p[0, k + 2], p[0, k + 3]
        b0, b1, b2, b3 = p[1, k], p[1, k + 1], p[1, k + 2], p[1, k + 3]
        c0, c1, c2, c3 = p[2, k], p[2, k + 1], p[2, k + 2], p[2, k + 3]
        d0, d1, d2, d3 = p[3, k], p[3, k + 1], p[3, k + 2], p[3, k + 3]
        for j in range(_TILE):
            q0, q1, q2, q3 = y0[j], y1[j], y2[j], y3[j]
            o0[j] = o0[j] + a0 * q0 + a1 * q1 + a2 * q2 + a3 * q3
            o1[j] = o1[j] + b0 * q0 + b1 * q1 + b2 * q2 + b3 * q3
            o2[j] = o2[j] + c0 * q0 + c1 * q1 + c2 * q2 + c3 * q3
            o3[j] = o3[j] + d0 * q0 + d1 * q1 + d2 * q2 + d3 * q3


@njit(fastmath={"contract", "nnan", "nsz"}, cache=True)
def _highest_of_eight(scores: Singles, best: Singles, bar: np.float32) -> int:
    """`best` (stride,) becomes the highest of the scores that stand a stride apart. How many are above the bar."""
    s0, s1, s2, s3 = scores[:_STRIDE], scores[_STRIDE:], scores[2 * _STRIDE :], scores[3 * _STRIDE :]
    s4, s5, s6, s7 = (scores[4 * _STRIDE :], scores[5 * _STRIDE :], scores[6 * _STRIDE :], scores[7 * _STRIDE :])
    for j in range(_STRIDE):
        a = s0[j] if s0[j] > s1[j] else s1[j]
        b = s2[j] if s2[j] > s3[j] else s3[j]
        c = s4[j] if s4[j] > s5[j] else s5[j]
        d = s6[j] if s6[j] > s7[j] else s7[j]
        a = a if a > b else b
        c = c if c > d else d
        best[j] = a if a > c else c
    above = 0
    for j in range(_STRIDE):
        if best[j] > bar:
            above += 1
    return above


@njit(fastmath={"contract", "nnan", "nsz"}, cache=True)
def _keep(
    scores: Singles,
    best: Singles,
    width: int,
    first: int,
    own: Indices,
    n: int,
    margin: float,
    found: Indices,
    kept: Singles,
    count: int,
    bar: np.float32,
) -> tuple[int, np.float32]:
    """Add the items of a tile that may be among the n best to `found` and their scores to `kept` (room,).

    How many there are now, -1 where there is no room for them; and the score up to which items were passed over.
    """
    for column in range(_STRIDE):
        if best[column] <= bar:
            continue
        for j in range(column, width, _STRIDE):
            at = np.searchsorted(own, first + j) if scores[j] > bar else 0
            if scores[j] <= bar or (at < len(own) and own[at] == first + j):
                continue
            if count == len(found):
                # Lower by a unit for rounding: what is that close to the n-th highest stays.
                bar = np.float32(nth_highest(kept, n) - margin - _UNIT)
                count = 0
                for place in range(len(found)):
                    if kept[place] > bar:
                        found[count], kept[count] = found[place], kept[place]
                        count += 1
                if 2 * count > len(found):
                    return -1, np.float32(np.inf)
                if scores[j] <= bar:
                    continue
            found[count], kept[count] = first + j, scores[j]
            count += 1
    return count, bar


@njit(fastmath={"contract"}, cache=True, nogil=True)
def _decided(
    found: Indices,
    counts: IntArray,
    highest: FloatArray,
    gap: FloatArray,
    n: int,
    P: FloatArray,
    level: FloatArray,
    Q: FloatArray,
    offset: FloatArray,
    user_keys: Keys,
    item_keys: Keys,
) -> tuple[IntArray, FloatArray, BoolArray, IntArray]:
    """The parts of `ProductLists`, from the candidates `found`."""
    lists = np.full((len(found), n), -1, dtype=np.int64)
    scores = np.full((len(found), n), np.nan)
    decided = np.zeros(len(found), dtype=np.bool_)
    untied = np.full(len(found), n, dtype=np.int64)
    for user in range(len(found)):
        count = counts[user]
        if count < 0:
            continue
        values = np.empty(count)
        for place in range(count):
            item, total = found[user, place], 0.0
            for k in range(P.shape[1]):
                total += P[user, k] * Q[item, k]
            values[place] = total + level[user] + offset[item]
        order = descending(values)
        # The widest gap that ties is TIE times the row's largest absolute score: between these.
        narrow = TIE * np.abs(values).max() if count else 0.0
        wide = gap[user]
        start, sure = 0, True
        for end in range(1, count + 1):
            if end < count:
                apart = values[order[end - 1]] - values[order[end]]
                if apart <= narrow:
                    continue
                sure = sure and apart > wide
            if end - start > 1:
                untied[user] = min(untied[user], start)
                sort_tied(order[start:end], min(end, n) - start, user_keys, item_keys[found[user, :count]], user)
            start = end
            if start >= n or not sure:
                break
        if count:
            last = values[order[start - 1]]
            for place in order[:start]:
                last = min(last, values[place])
            # Whatever was passed over is apart from the last place.
            sure = sure and last - wide - level[user] > highest[user]
        decided[user] = sure
        for place in range(min(n, count)):
            lists[user, place] = found[user, order[place]]
            scores[user, place] = values[order[place]]
    return lists, scores, decided, untied
