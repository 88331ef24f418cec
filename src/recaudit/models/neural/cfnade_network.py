"""CF-NADE's network: what has been rated goes in, a distribution over the levels of every rating comes out.

Equations are those of Zheng et al. 2016, "A Neural Autoregressive Approach to Collaborative Filtering".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import torch
from torch import Tensor, nn

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError

Rows = Literal["user", "item"]

MOST_LEVELS = 100
"""More levels than this are a mistake: each one has weights of its own for every column."""


@final
@dataclass(frozen=True, eq=False)
class Levels:
    """The ratings that CF-NADE tells apart, evenly spaced; any other rating counts as the nearest of them."""

    values: FloatArray
    """(levels,), ascending."""

    @classmethod
    def of(cls, scale: tuple[float, float], count: int | None) -> Levels:
        """That many levels from the lowest rating of the scale to the highest; None: the whole numbers in it."""
        low, high = scale
        if low == high:
            return cls(np.array([low]))
        if count is not None:
            return cls(np.linspace(low, high, count))
        values = np.arange(np.ceil(low), min(np.floor(high), np.ceil(low) + MOST_LEVELS) + 1)
        if not 2 <= len(values) <= MOST_LEVELS:
            raise InputError(
                "levels",
                received=f"None for ratings in [{low:g}, {high:g}]",
                expected=f"a scale with 2 to {MOST_LEVELS} whole numbers, or how many levels to round ratings to",
                remedy="Set levels=10, say.",
            )
        return cls(values)

    def classes(self, ratings: FloatArray) -> IntArray:
        """(ratings,): the place of each rating's level; halfway between two, the upper one."""
        if len(self.values) == 1:
            return np.zeros(len(ratings), dtype=np.int64)
        steps = (ratings - self.values[0]) / (self.values[1] - self.values[0])
        nearest: FloatArray = np.clip(np.floor(steps + 0.5), 0, len(self.values) - 1)
        return nearest.astype(np.int64)


@final
@dataclass(frozen=True, eq=False)
class Table:
    """A log in which each row is a user with the items rated, or an item with the users who rated it."""

    starts: IntArray
    """(rows + 1,): the ratings of row r are `starts[r]:starts[r + 1]`."""
    columns: IntArray
    """(ratings,): the item, or the user, of each rating."""
    classes: IntArray
    """(ratings,): the place of its level."""
    n_columns: int

    @classmethod
    def of(cls, data: Interactions, rows: Rows, levels: Levels) -> Table:
        """The log row by row."""
        users, items, classes = data.users.astype(np.int64), data.items.astype(np.int64), levels.classes(data.ratings)
        if rows == "user":
            return cls(data.indptr, items, classes, data.n_items)
        order = np.argsort(items, kind="stable")
        starts = np.concatenate([[0], np.cumsum(data.item_counts)])
        return cls(starts, users[order], classes[order], data.n_users)

    @property
    def counts(self) -> IntArray:
        """(rows,): how many ratings each row has."""
        return np.diff(self.starts)


@final
@dataclass(frozen=True)
class Blocks:
    """Columns cut into blocks of equal size, the last filled up with columns that nobody rates."""

    count: int
    size: int

    @classmethod
    def of(cls, columns: int) -> Blocks:
        """Blocks of at most 256 columns."""
        count = -(-columns // 256)
        return cls(count, -(-columns // count))

    def places(self, rows: IntArray, columns: IntArray, height: IntArray | int) -> IntArray:
        """(n,): where each (row, column) lies in an array (blocks, height, size), laid flat."""
        block = columns // self.size
        return (block * height + rows) * self.size + columns % self.size


@final
class Network(nn.Module):
    """`h = tanh(c + sum_j sum_(k <= r_j) W^k_j)`, `s^k_m = sum_(t <= k) (b^t_m + V^t_m . h)`.

    Parameters are shared between the levels: a rating of 4 has all that a rating of 3 has, and more. W lies as
    (levels * blocks, size, hidden) and V as (levels * blocks, hidden, size), so that each side is one product of a
    stack of matrices.
    """

    def __init__(self, levels: int, columns: int, hidden: int) -> None:
        super().__init__()
        self.levels, self.columns, self.blocks = levels, columns, Blocks.of(columns)
        stack = levels * self.blocks.count
        self.W = nn.Parameter(torch.zeros(stack, self.blocks.size, hidden))
        self.V = nn.Parameter(torch.zeros(stack, hidden, self.blocks.size))
        self.b = nn.Parameter(torch.zeros(stack, 1, self.blocks.size))
        self.c = nn.Parameter(torch.zeros(hidden))

    def draw(self, width: float, draw: np.random.Generator) -> None:
        """A random start, uniform within `width` of 0."""
        with torch.no_grad():
            for weight in self.parameters():
                uniform = draw.random(tuple(weight.shape), dtype=np.float32)
                weight.copy_(torch.from_numpy((2 * uniform - 1) * np.float32(width)))

    def hidden(self, read: Tensor) -> Tensor:
        """(batch, hidden): h after the ratings in `read` (blocks, batch, size), bytes: class + 1, or 0 for none."""
        levels = torch.arange(self.levels, dtype=torch.int8, device=read.device)
        reached = (read > levels[:, None, None, None]).to(self.W.dtype).flatten(0, 1)
        return torch.tanh(torch.bmm(reached, self.W).sum(dim=0) + self.c)

    def increments(self, hidden: Tensor) -> Tensor:
        """(levels * blocks, batch, size): `b^k_m + V^k_m . h` from h (batch, hidden)."""
        return torch.baddbmm(self.b, hidden.expand(len(self.V), -1, -1), self.V)

    def by_level(self, weight: Tensor) -> Tensor:
        """(levels, columns, n), double precision: a stack (levels * blocks, size, n) summed up to each level."""
        stacked = weight.reshape(self.levels, self.blocks.count * self.blocks.size, -1)
        return stacked[:, : self.columns].double().cumsum(dim=0)


def costs(scores: Tensor, classes: Tensor, ordinal: float) -> Tensor:
    """(n,): `(1 - ordinal) * regular + ordinal * ordinal cost` of ratings at `classes` (n,), scores (n, levels).

    Regular: the negative log of the softmax at the class. Ordinal: the class is to rank first, and levels rank lower
    the further they are from it, downwards and upwards apart:
    `sum_(j <= k) log(sum_(t <= j) e^s_t / e^s_j) + sum_(j >= k) log(sum_(t >= j) e^s_t / e^s_j)` for class k.
    """
    levels = scores.shape[1]
    scores = scores - scores.amax(dim=1, keepdim=True).detach()
    weights = scores.exp()
    at_class = scores.gather(1, classes[:, None])[:, 0]
    cost = torch.zeros_like(at_class)
    if ordinal > 0:
        place = torch.arange(levels, device=scores.device)
        up_to = torch.ones(levels, levels, dtype=scores.dtype, device=scores.device).triu()
        # A sum of weights that are all below the smallest number is 0, whose log would be no number.
        least = torch.finfo(scores.dtype).tiny
        from_below = (weights @ up_to).clamp_min(least).log() * (place <= classes[:, None])
        from_above = (weights @ up_to.T).clamp_min(least).log() * (place >= classes[:, None])
        # The class itself stands in both sums, every other level in one of them.
        cost = cost + ordinal * ((from_below + from_above - scores).sum(dim=1) - at_class)
    if ordinal < 1:
        cost = cost + (1 - ordinal) * (weights.sum(dim=1).log() - at_class)
    return cost
