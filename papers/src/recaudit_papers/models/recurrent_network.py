"""The two LSTMs of the recurrent recommender and the histories that they read (paper 001, appendix D).

The log has one order: by time, then by the user's position, then by the item's. A user's history is their part of
it, and so is an item's; what stands before a rating in that order is all that may be known when it is predicted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from recaudit.data import Interactions
from recaudit.plugins import FloatArray, IntArray
from recaudit_papers.models.numerics import aligned

Numbers = TypeVar("Numbers", FloatArray, Tensor)

State = tuple[Tensor, Tensor]
"""Hidden and cell state, (owners, hidden) each."""


@final
@dataclass(frozen=True, eq=False)
class Histories:
    """One side of a log: what each owner (a user, say) has with the others (the items), oldest first."""

    rows: IntArray
    """(ratings,): the row of the log at each place, owner by owner."""
    others: IntArray
    """(ratings,): who is rated, or rates, at each place."""
    ratings: FloatArray
    """(ratings,): as the LSTM reads them: mean 0, the width of the scale 2."""
    starts: IntArray
    """(owners + 1,): the places of owner o are `starts[o]:starts[o + 1]`."""

    @classmethod
    def of(
        cls, owners: IntArray, others: IntArray, times: NDArray[np.generic], ratings: FloatArray, n: int
    ) -> Histories:
        """The histories of n owners from the columns of a log (rows,)."""
        order = np.lexsort((others, times, owners)).astype(np.int64)
        starts = np.searchsorted(owners[order], np.arange(n + 1)).astype(np.int64)
        return cls(order, others[order].astype(np.int64), ratings[order], starts)

    @cached_property
    def lengths(self) -> IntArray:
        """(owners,): how many ratings each has."""
        return np.diff(self.starts)

    @cached_property
    def _pairs(self) -> tuple[IntArray, IntArray]:
        """(ratings,) each: a key of every (owner, other), ascending, and its place."""
        keys = (np.repeat(np.arange(len(self.lengths)), self.lengths) << 32) | self.others
        places = np.argsort(keys)
        return keys[places], places

    def ratings_before(self, owners: IntArray, others: IntArray) -> IntArray:
        """(pairs,): how many ratings of each owner come before the one with the other; all, when there is none."""
        known, places = self._pairs
        keys = (owners << 32) | others
        at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return np.where(known[at] == keys, places[at] - self.starts[owners], self.lengths[owners])


class Level(NamedTuple):
    """How ratings are read: the mean that scores are counted from, and half the width of the scale."""

    mean: float
    half_width: float

    @classmethod
    def of(cls, data: Interactions) -> Level:
        """The level of a log; a scale of one value has width 2."""
        low, high = data.scale
        return cls(float(data.ratings.mean()), (high - low) / 2 or 1.0)

    def histories(self, data: Interactions) -> tuple[Histories, Histories]:
        """The users' histories and the items'."""
        data.in_time(0)  # Refuses a log without times.
        times = np.asarray(data.times)
        users, items, ratings = data.users.astype(np.int64), data.items.astype(np.int64), self.read(data.ratings)
        return (
            Histories.of(users, items, times, ratings, data.n_users),
            Histories.of(items, users, times, ratings, data.n_items),
        )

    def read(self, ratings: Numbers) -> Numbers:
        """Ratings as the LSTMs read them."""
        return (ratings - self.mean) / self.half_width


@final
class HistoryNetwork(nn.Module):
    """Learned numbers for each of the others, and an LSTM over (numbers, rating)."""

    def __init__(self, others: int, embedding: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.numbers = nn.Parameter(torch.zeros(others, embedding))
        # Made without memory, so that its own random start draws nothing from torch's global generator.
        self.lstm = nn.LSTM(embedding + 1, hidden, device="meta")
        self.lstm.to_empty(device="cpu")

    def draw(self, draw: np.random.Generator) -> None:
        """A random start: standard normal numbers, weights uniform within 1 / sqrt(hidden), forget gates open."""
        with torch.no_grad():
            self.numbers.copy_(torch.from_numpy(draw.standard_normal(tuple(self.numbers.shape))))
            bound = self.hidden**-0.5
            for weight in self.lstm.parameters():
                weight.copy_(torch.from_numpy(draw.uniform(-bound, bound, tuple(weight.shape))))
            # Gates are stacked as input, forget, cell, output. A bias of 1 keeps what was read (Jozefowicz 2015).
            self.lstm.get_parameter("bias_ih_l0")[self.hidden : 2 * self.hidden] += 1.0

    def forward(self, others: Tensor, ratings: Tensor, state: State) -> tuple[Tensor, State]:
        """Read `others` and `ratings` (steps, owners) from a state: the vectors (steps, owners, hidden), the state."""
        if len(others) == 0:
            return state[0].new_empty(0, *state[0].shape), state
        inputs = torch.cat([nn.functional.embedding(others, self.numbers), ratings[..., None]], dim=2)
        vectors, (h, c) = self.lstm(inputs, (state[0][None].contiguous(), state[1][None].contiguous()))
        return vectors, (h[0], c[0])

    def blank(self, owners: int) -> State:
        """The state before anything is read: zeros, so that whoever has no history has the vector zero."""
        return self.numbers.new_zeros(owners, self.hidden), self.numbers.new_zeros(owners, self.hidden)


@final
class Reading:
    """An LSTM's pass over all histories, cut into windows of ratings, the last of each owner shorter."""

    def __init__(self, network: HistoryNetwork, histories: Histories, window: int = 32) -> None:
        self.network, self.histories, self.window = network, histories, window
        self.others = torch.from_numpy(histories.others).to(network.numbers.device)
        self.ratings = aligned(histories.ratings).to(network.numbers)
        self.counts: IntArray = -(-histories.lengths // window)
        """(owners,): how many windows each has."""
        self.owner = np.repeat(np.arange(len(self.counts)), self.counts)
        """(windows,): whose it is; an owner's windows stand in the order of time."""
        self.turn = np.arange(len(self.owner)) - (np.cumsum(self.counts) - self.counts)[self.owner]
        """(windows,): how many windows of the same owner come before."""
        self.first: IntArray = histories.starts[self.owner] + window * self.turn
        """(windows,): the first place."""
        self.end = histories.starts[self.owner + 1]
        """(windows,): the place after the owner's last rating."""
        self.starts: State = network.blank(len(self.owner))
        """The state at the start of each window (windows, hidden), from the last `pass_over`."""

    def places(self, windows: IntArray) -> IntArray:
        """(window, len(windows)): the places of these windows, running past the owner's end in the last ones."""
        return self.first[windows] + np.arange(self.window)[:, None]

    def read(self, places: IntArray, state: State) -> tuple[Tensor, State]:
        """Read these places (steps, owners) from a state; what runs past the log is read as its last rating."""
        at = torch.from_numpy(np.minimum(places, len(self.others) - 1)).to(self.others.device)
        vectors, after = self.network(self.others[at], self.ratings[at], state)
        return vectors, after

    def window_states(self, windows: IntArray) -> State:
        """The state at the start of these windows, (len(windows), hidden) each."""
        index = torch.from_numpy(windows).to(self.others.device)
        return self.starts[0][index], self.starts[1][index]

    @torch.no_grad()
    def pass_over(self) -> Iterator[tuple[IntArray, Tensor]]:
        """Read everything: yields batches of windows with the vectors after each of their steps, renews `starts`."""
        self.starts = self.network.blank(len(self.owner))
        order = np.argsort(self.turn, kind="stable")
        bounds = np.searchsorted(self.turn[order], np.arange(self.counts.max() + 1))
        for turn in range(len(bounds) - 1):
            abreast = order[bounds[turn] : bounds[turn + 1]]
            for batch in np.split(abreast, range(_ABREAST, len(abreast), _ABREAST)):
                vectors, after = self.read(self.places(batch), self.window_states(batch))
                continues = np.flatnonzero(self.turn[batch] + 1 < self.counts[self.owner[batch]])
                following = torch.from_numpy(batch[continues] + 1).to(vectors.device)
                for starts, state in zip(self.starts, after, strict=True):
                    starts[following] = state[torch.from_numpy(continues).to(vectors.device)]
                yield batch, vectors

    @torch.no_grad()
    def before_each(self) -> Tensor:
        """(rows, hidden), by row of the log: the owner's vector just before that rating."""
        rows = self.histories.rows
        before = self.ratings.new_zeros(len(rows), self.network.hidden)
        for batch, vectors in self.pass_over():
            places = self.places(batch) + 1
            inside = places < self.end[batch]
            target = torch.from_numpy(rows[places[inside]]).to(before.device)
            before[target] = vectors[torch.from_numpy(inside).to(before.device)]
        return before

    @torch.no_grad()
    def final(self) -> State:
        """(owners, hidden) each: the state after the whole history; zeros for whoever has none."""
        for _ in self.pass_over():
            pass
        h, c = self.network.blank(len(self.histories.lengths))
        last = np.flatnonzero(self.turn + 1 == self.counts[self.owner])
        lengths = self.end[last] - self.first[last]
        for length in np.unique(lengths):
            batch = last[lengths == length]
            _, state = self.read(self.places(batch)[:length], self.window_states(batch))
            owners = torch.from_numpy(self.owner[batch]).to(h.device)
            h[owners], c[owners] = state
        return h, c


_ABREAST = 1024
"""How many windows are read at once where nothing is learned: enough to keep a processor busy, little memory."""
