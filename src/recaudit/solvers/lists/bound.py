"""How good the best possible calibrated list can be: an upper bound for each user, from two arguments.

Relaxation. With x_ir the (fractional) choice of item i for rank r, the objective of Equation 6 for a list of k items is

    f = (1 - lambda) t - lambda sum_g m_g p_g log(p_g / ((1 - alpha) S_g / W + alpha p_g)),

which depends on x only through t = sum of s and S_g = sum of w_r p(g|i), and is concave in them. So at any point x,
with c the gradient in S, no list is above f(x) + max over lists y of (1 - lambda) (t_y - t) + c.(S_y - S). Frank and
Wolfe's steps towards the maximising y make it tighter. A list y is worth the sum of a_i + w_r(i) b_i, with
a = (1 - lambda) s and b_i = c.p(.|i) >= 0; with equal rank weights the maximum is the k largest. Otherwise, for any
level v,

    sum of a_i + w_r b_i <= (k largest a_i + v b_i) + sum_r max(0, w_r - v) b_(r),    b_(r) the r-th largest b,

of which the smallest over a few levels is taken.

Submodularity (equal rank weights). With W fixed and scores shifted so that the list's lowest is 0, adding items of the
list never hurts, and gains only fall: no list is above f(list) + the k largest positive gains of the other items.
"""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from torch import Tensor

from recaudit.arithmetic import aligned
from recaudit.arrays import FloatArray, IntArray
from recaudit.solvers.lists.objective import CategoryVectors, ListObjective, ListUsers

ROUNDS = 12
"""Steps of Frank and Wolfe: with 21,000 items and lists of 50, a hundred steps lower the bound by another 2%."""
_SEARCH = 20
"""Halvings of a step's length."""
_CHUNK = 4_000_000
"""(user, item) pairs at a time."""


def upper_bound(users: ListUsers, vectors: CategoryVectors, objective: ListObjective, lists: IntArray) -> FloatArray:
    """(users,): no list of as many items as the given one, with all that must be in it, has a higher objective.

    `lists` (users, n). One number lambda. Caps are left out: with them it is still a bound.
    """
    count, items = users.scores.shape
    step = max(1, _CHUNK // max(1, items))
    chunks = [slice(start, start + step) for start in range(0, max(1, count), step)]
    bounds = [_Relaxation(users.take(rows), vectors, objective, lists[rows]).bound().numpy() for rows in chunks]
    return np.concatenate(bounds)


@final
class _Relaxation:
    """Some users' lists and candidates; k, the length of a list, may differ between them."""

    def __init__(self, users: ListUsers, vectors: CategoryVectors, objective: ListObjective, lists: IntArray) -> None:
        self.weight, self.alpha = float(objective.weights[0]), objective.alpha
        self.p, self.must = aligned(users.interests), torch.from_numpy(users.must) if users.must.any() else None
        self.mp = self.p * torch.from_numpy(objective.importance)
        score = aligned(np.asarray(users.scores, dtype=np.float64))
        self.scores = score.masked_fill(~torch.from_numpy(users.allowed), -torch.inf)
        self.shares = aligned(vectors.shares().toarray())  # (vectors, genres)
        self.vector_of = torch.from_numpy(vectors.vector_of.astype(np.int64))
        self.chosen = torch.from_numpy(lists)
        self.filled = self.chosen >= 0
        rank_weights = torch.from_numpy(objective.rank_weights)
        self.equal_ranks = bool((rank_weights == rank_weights[0]).all())
        self.w = rank_weights * self.filled  # (users, n): 0 beyond the list's end
        weight = self.w.sum(dim=1, keepdim=True)
        self.all_weight = torch.where(weight > 0, weight, 1.0)  # (users, 1): W; 1 for an empty list, whose S is 0
        # S (users, genres) and t (users,) of the lists.
        self.held = torch.from_numpy(vectors.distribution(lists, objective.rank_weights)) * weight
        self.total = (score.gather(1, self.chosen.clamp(min=0)) * self.filled).sum(dim=1)

    def bound(self) -> Tensor:
        """(users,): the smallest bound of both arguments, after the steps of Frank and Wolfe."""
        held, total = self.held, self.total
        best = self.by_submodularity() if self.equal_ranks else torch.full_like(total, torch.inf)
        for _ in range(ROUNDS):
            c = self.slope(held)
            bound, to_held, to_total = self.best_response(c)
            bound = bound + self.value(held, total) - (1 - self.weight) * total - (c * held).sum(dim=1)
            best = torch.minimum(best, bound)
            length = self.search(held, to_held - held, to_total - total)
            held, total = held + length[:, None] * (to_held - held), total + length * (to_total - total)
        return best

    def smoothed(self, held: Tensor) -> Tensor:
        """(users, genres): q~ / p for genres that the user has an interest in, 1 for the others."""
        ratio = (1 - self.alpha) * held / self.all_weight / self.p + self.alpha
        return torch.where(self.p > 0, ratio, 1.0)

    def value(self, held: Tensor, total: Tensor) -> Tensor:
        """(users,): f."""
        return (1 - self.weight) * total + self.weight * (self.mp * self.smoothed(held).log()).sum(dim=1)

    def slope(self, held: Tensor) -> Tensor:
        """(users, genres): c, the derivative of f with respect to S."""
        c = self.weight * self.mp * (1 - self.alpha) / self.all_weight / self.p / self.smoothed(held)
        return torch.where(self.p > 0, c, 0.0)

    def best_response(self, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A bound on the sum of a_i + w_r b_i over all lists, and a list that is good for it: its S and t."""
        n = min(self.w.shape[1], self.scores.shape[1])
        w, filled = self.w[:, :n], self.filled[:, :n]
        a, b = self._relevance(self.scores), (c @ self.shares.T).index_select(1, self.vector_of)
        b_largest = b.masked_fill(self.scores == -torch.inf, 0.0).topk(n, dim=1).values
        k = filled.sum(dim=1, keepdim=True).clamp(min=1)
        mean, first, last = w.sum(dim=1, keepdim=True) / k, w[:, :1], w.gather(1, k - 1)
        bounds, lists = [], []
        for level in [mean] if bool((first == last).all()) else [mean, first, last]:
            worth = a + level * b
            lists.append((worth if self.must is None else worth.masked_fill(self.must, torch.inf)).topk(n).indices)
            sums = torch.where(filled, worth.gather(1, lists[-1]), 0.0).sum(dim=1)
            bounds.append(sums + ((w - level).clamp(min=0) * b_largest).sum(dim=1))
        # What matters most for the genres goes to the ranks that weigh most.
        order = torch.where(filled, b.gather(1, lists[0]), -torch.inf).argsort(dim=1, descending=True, stable=True)
        items = lists[0].gather(1, order)
        held = (w[:, :, None] * self.shares[self.vector_of[items]]).sum(dim=1)
        total = torch.where(filled, self.scores.gather(1, items), 0.0).sum(dim=1)
        return torch.stack(bounds).amin(dim=0), held, total

    def _relevance(self, scores: Tensor) -> Tensor:
        """(1 - lambda) times the scores, and -inf where they are: lambda may be 1."""
        return torch.where(scores == -torch.inf, -torch.inf, (1 - self.weight) * scores)

    def search(self, held: Tensor, to_held: Tensor, to_total: Tensor) -> Tensor:
        """(users,): how far to go, from 0 to 1: f is concave on the way, its slope is halved in."""
        low, high = torch.zeros(len(held), dtype=held.dtype), torch.ones(len(held), dtype=held.dtype)
        for _ in range(_SEARCH):
            middle = (low + high) / 2
            rise = (1 - self.weight) * to_total + (self.slope(held + middle[:, None] * to_held) * to_held).sum(dim=1)
            low, high = torch.where(rise > 0, middle, low), torch.where(rise > 0, high, middle)
        return (low + high) / 2

    def by_submodularity(self) -> Tensor:
        """(users,): the bound from the gains of what is not in the list."""
        n = min(self.w.shape[1], self.scores.shape[1])
        unit = self.w[:, :1]
        sums = torch.zeros(len(self.p), len(self.shares), dtype=self.p.dtype)
        before = self.smoothed(self.held) * self.p * self.all_weight
        for genre in range(self.p.shape[1]):
            added = (1 - self.alpha) * unit * self.shares[:, genre]
            here = torch.where(self.p[:, genre] > 0, before[:, genre], 1.0)[:, None]
            sums += self.mp[:, genre, None] * torch.log1p(added / here)
        lowest = self.scores.gather(1, self.chosen.clamp(min=0)).masked_fill(~self.filled, torch.inf).amin(dim=1)
        lowest = torch.where(self.filled[:, 0], lowest, 0.0)
        gains = self._relevance(self.scores - lowest[:, None]) + self.weight * sums.index_select(1, self.vector_of)
        row, rank = torch.nonzero(self.filled, as_tuple=True)
        gains[row, self.chosen[row, rank]] = 0.0
        largest = torch.where(self.filled[:, :n], gains.topk(n, dim=1).values, 0.0)
        return self.value(self.held, self.total) + largest.clamp(min=0).sum(dim=1)
