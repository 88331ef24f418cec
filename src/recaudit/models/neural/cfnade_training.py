"""How CF-NADE learns: each row is split at random, and from the one part the ratings of the other are predicted.

A row stands for all orders of its ratings at once (Zheng et al. 2016): with n of its D ratings drawn to be read, n
uniform from 0 to D - 1, the cost of predicting the D - n others, times D / (D - n), has the mean of the cost over all
orders.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from recaudit.engines.progress import track
from recaudit.errors import InputError
from recaudit.models.neural.cfnade_network import Blocks, Network, Table, costs
from recaudit.seeding import generator

_DIVERGED = 10.0
"""Training that ends above this many times the cost of knowing nothing has diverged."""


@final
@dataclass(frozen=True, eq=False)
class Step:
    """What one step of Adam learns from. A place says where (row of the batch, column) lies in `Blocks`."""

    rows: int
    read: tuple[Tensor, Tensor]
    """(n,) each: the places that are read and their classes."""
    told: tuple[Tensor, Tensor, Tensor]
    """(n,) each: the places to predict, their classes and weights."""


def steps(table: Table, batch: int, draw: np.random.Generator, device: torch.device) -> Iterator[Step]:
    """One pass over the rows that have ratings, in random order, each split at random.

    All is drawn at once and sent to the device in one go: what is left for a step there are slices.
    """
    counts = table.counts
    owner = np.repeat(np.arange(len(counts)), counts)
    # The rank of each rating in a random order of its row.
    shuffled = np.lexsort((draw.random(len(owner)), owner))
    rank = np.empty(len(owner), dtype=np.int64)
    rank[shuffled] = np.arange(len(owner)) - table.starts[owner]
    reads = np.floor(draw.random(len(counts)) * counts).astype(np.int64)
    told = rank >= reads[owner]

    order = draw.permutation(np.flatnonzero(counts))
    turn = np.zeros(len(counts), dtype=np.int64)
    turn[order] = np.arange(len(order))
    group, row = np.divmod(turn[owner], batch)
    height = np.minimum(batch, len(order) - group * batch)
    part = 2 * group + told
    sort = np.argsort(part, kind="stable")
    bounds = np.searchsorted(part[sort], np.arange(2 * -(-len(order) // batch) + 1)).tolist()
    places = torch.from_numpy(Blocks.of(table.n_columns).places(row, table.columns, height)[sort]).to(device)
    classes = torch.from_numpy(table.classes[sort]).to(device)
    weights = (counts / np.maximum(counts - reads, 1))[owner][sort].astype(np.float32)
    weight = torch.from_numpy(weights).to(device)
    for start, middle, end, first in zip(
        bounds[:-1:2], bounds[1::2], bounds[2::2], range(0, len(order), batch), strict=True
    ):
        read, predict = slice(start, middle), slice(middle, end)
        yield Step(
            min(batch, len(order) - first),
            (places[read], classes[read]),
            (places[predict], classes[predict], weight[predict]),
        )


def cost_of(network: Network, step: Step, ordinal: float) -> Tensor:
    """The cost of a step: over its rows the mean of the weighted costs of the ratings to predict."""
    places, classes, weights = step.told
    shape = (network.blocks.count, step.rows, network.blocks.size)
    read = torch.zeros(math.prod(shape), dtype=torch.int8, device=places.device)
    read.scatter_(0, step.read[0], (step.read[1] + 1).to(torch.int8))
    increments = network.increments(network.hidden(read.view(shape)))
    # Only the ratings to predict are looked at: (n, levels).
    at = places[:, None] + len(read) * torch.arange(network.levels, device=places.device)
    scores = increments.flatten().index_select(0, at.flatten()).view(at.shape).cumsum(dim=1)
    return (costs(scores, classes, ordinal) * weights.to(scores.dtype)).sum() / step.rows


def train(
    network: Network,
    table: Table,
    *,
    epochs: int,
    batch: int,
    learning_rate: float,
    regularization: float,
    ordinal: float,
    rng: int,
) -> None:
    """Train the network where it lies, by Adam; each epoch draws from a seed of its own."""
    device = network.W.device
    # The gradient of `regularization * |w|^2`; fused: one pass over the weights, on the CPU as on a GPU.
    optimizer = torch.optim.Adam(
        network.parameters(), lr=learning_rate, weight_decay=2 * regularization, eps=1e-8, fused=True
    )
    total = torch.zeros((), device=device)
    for epoch in track(range(epochs), "CFNADE", epochs):
        total.zero_()
        for step in steps(table, batch, generator(rng, "cfnade", "epoch", epoch), device):
            optimizer.zero_grad()
            cost = cost_of(network, step, ordinal)
            cost.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            optimizer.step()
            total += step.rows * cost.detach()
    blank = costs(torch.zeros(network.levels, network.levels), torch.arange(network.levels), ordinal).max()
    limit = _DIVERGED * float(blank) * len(table.columns)
    finite = all(bool(torch.isfinite(weight).all()) for weight in network.parameters())
    if not (finite and float(total) <= limit):
        raise InputError(
            "learning_rate",
            received=learning_rate,
            expected="a step at which training converges; this one diverged",
            remedy="Make it smaller.",
        )
