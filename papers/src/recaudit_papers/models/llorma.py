"""LLORMA: low-rank matrices, each right near its anchor (Lee et al. 2016), as paper 003 compares it.

A CPU learns by loops over the ratings on one thread, a GPU by tensors: the same steps, but for rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple, Self, final

import numpy as np
import torch
from numba import njit
from pydantic import Field, model_validator
from torch import Tensor

from recaudit.data import Interactions
from recaudit.engines import track
from recaudit.errors import InputError
from recaudit.models import FittedModel, Recommender
from recaudit.plugins import FloatArray, IntArray, check_device, check_fit, check_own_model, derive, generator
from recaudit_papers.models.numerics import IN_ORDER, Indices, Singles, product
from recaudit_papers.models.vectors import dot, filled_up

Kernel = Literal["epanechnikov", "exponential"]

_MOMENTUM = 0.9
_ROWS_AT_ONCE = 1024
"""Rows of the exponential kernel that are held at once while their means are taken."""


@final
class LLORMA(Recommender):
    """`r_ui ~ sum_a K(u, u_a) K(i, i_a) p_ua . q_ia / sum_a K(u, u_a) K(i, i_a)` over anchors (u_a, i_a).

    The anchors are pairs of the log. How near users and items are to them is measured in a global factorisation that is
    trained first; a pair that is near no anchor is predicted by it. The local models are trained together (Global
    LLORMA). The defaults are paper 003's. Equal bits on the CPU of one machine; on a GPU rounding varies.
    """

    learns_from_clicks: ClassVar[bool] = False

    anchors: int = Field(default=10, ge=1)
    """How many local models there are; one for each rating where the log has fewer."""
    rank: int = Field(default=20, ge=1)
    """Length of the local models' vectors."""
    epochs: int = Field(default=50, ge=1)
    """Passes over the ratings."""
    batch: int = Field(default=1000, ge=1)
    """Ratings in one step of gradient descent."""
    learning_rate: float = Field(default=0.02, gt=0, allow_inf_nan=False)
    """Step size, on the sum of a batch's squared errors."""
    regularization: float = Field(default=1e-4, ge=0, allow_inf_nan=False)
    """Weight of the squared norm of all local vectors, beside the errors of one batch."""
    pre_rank: int = Field(default=10, ge=1)
    """Length of the global factorisation's vectors."""
    pre_steps: int = Field(default=70, ge=1)
    """Steps of gradient descent over the whole log for the global factorisation, each for users and then for items."""
    pre_learning_rate: float = Field(default=3e-4, gt=0, allow_inf_nan=False)
    """Their size, on the sum of all squared errors: the more ratings a user or an item has, the smaller it must be."""
    pre_regularization: float = Field(default=0.01, ge=0, allow_inf_nan=False)
    """Weight of the squared norm of the global vectors."""
    kernel: Kernel = "exponential"
    """How nearness weighs. "epanechnikov", as Lee et al. have it: `1 - (d / width)^2` of the angle d between two global
    vectors, 0 beyond the width. "exponential", as the code of paper 003 has it: `|x| |y| exp(-d)` of the distance d
    between the two directions, less what is common to all pairs, scaled to 1 for a vector and itself."""
    width: float = Field(default=0.8, gt=0, allow_inf_nan=False)
    """The angle, in radians, at which the Epanechnikov kernel ends; the exponential one has no end."""
    update_epochs: int = Field(default=5, ge=1)
    """Passes over a log that has grown, and steps for its global factorisation, in `warm_fit`."""
    device: str = Field(default="cpu", pattern=r"^(cpu|cuda(:\d+)?)$")
    """Where training runs: "cpu", "cuda" or "cuda:1". The fitted model lies on the CPU."""

    @model_validator(mode="after")
    def _check_penalty(self) -> Self:
        if (shrinks := 2 * self.learning_rate * self.regularization) >= 1:
            received = f"{self.regularization} at learning_rate {self.learning_rate}, taking off {shrinks:.3g} times"
            expected = "less than once each vector at every step (2 * learning_rate * regularization < 1)"
            raise InputError("regularization", received=received, expected=expected)
        return self

    def fit(self, data: Interactions, rng: int = 0) -> LLORMAModel:
        """Fit by gradient descent from a random start."""
        self.check_log(data)
        rows = generator(rng, "llorma", "anchors").permutation(len(data))[: self.anchors]
        anchors = np.stack([data.users[rows], data.items[rows]], axis=1).astype(np.int64)
        whole = FactorPair.draw(data, (self.pre_rank,), generator(rng, "llorma", "global"))
        local = FactorPair.draw(data, (len(anchors), self.rank), generator(rng, "llorma", "local"))
        return self._trained(data, anchors, whole, local, self.pre_steps, self.epochs, rng)

    def warm_fit(self, model: FittedModel, data: Interactions, rng: int = 0) -> LLORMAModel:
        """Start from the fitted vectors, with the same anchors, over the log that has grown."""
        self.check_log(data)

        def settings(other: LLORMAModel) -> list[str]:
            anchors = max(len(other.anchors), self.anchors)  # A short log has fewer.
            return [f"ranks {other.local.P.shape[2]} and, global, {other.whole.P.shape[1]}", f"{anchors} anchors"]

        expected = [f"ranks {self.rank} and, global, {self.pre_rank}", f"{self.anchors} anchors"]
        own = check_own_model(model, LLORMAModel, data, settings, expected)
        # A loop may pass the same seed at every step: each length of the log has an order of its own.
        seed = derive(rng, "update", len(data))
        return self._trained(data, own.anchors, own.whole, own.local, self.update_epochs, self.update_epochs, seed)

    def _trained(
        self,
        data: Interactions,
        anchors: IntArray,
        whole: FactorPair,
        local: FactorPair,
        steps: int,
        epochs: int,
        rng: int,
    ) -> LLORMAModel:
        check_device(self.device)
        cpu, device = self.device == "cpu", torch.device(self.device)
        descent = Descent(self.pre_learning_rate, self.pre_regularization, steps)
        whole = pretrain(whole, data, descent) if cpu else pretrain_dense(whole, data, descent, device=device)
        whole = whole.finished(data, "pre_learning_rate", self.pre_learning_rate)
        nearness = Nearness.of(whole, anchors, self.kernel, self.width)
        task = (data, nearness.shares(data), Descent(self.learning_rate, self.regularization, epochs), self.batch, rng)
        local = train(local, *task) if cpu else train_dense(local, *task, device=device)
        return LLORMAModel(data, anchors, whole, local.finished(data, "learning_rate", self.learning_rate), nearness)


class Nearness(NamedTuple):
    """How near users and items are to those of each anchor: 0 is far, and more than 0 weighs."""

    users: FloatArray
    """(users, anchors): K(u, u_a)."""
    items: FloatArray
    """(items, anchors): K(i, i_a)."""

    @classmethod
    def of(cls, whole: FactorPair, anchors: IntArray, kernel: Kernel, width: float) -> Nearness:
        """Measured between the global vectors; `anchors` (anchors, 2) are positions of a user and an item."""
        P, Q = whole.P.astype(np.float64), whole.Q.astype(np.float64)
        if kernel == "exponential":
            return cls(exponential(P, anchors[:, 0]), exponential(Q, anchors[:, 1]))
        return cls(epanechnikov(P, anchors[:, 0], width), epanechnikov(Q, anchors[:, 1], width))

    def shares(self, data: Interactions) -> Singles:
        """(rows, anchors): each local model's share in a prediction; all 0 where no anchor is near."""
        weights = self.users[data.users] * self.items[data.items]
        total = weights.sum(axis=1, keepdims=True)
        shares: FloatArray = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
        return shares.astype(np.float32)


def epanechnikov(vectors: FloatArray, centres: IntArray, width: float) -> FloatArray:
    """(rows, centres): `1 - (d / width)^2` of the angle d between a row and one at `centres`, at least 0."""
    directions = _directions(vectors)
    angles = np.arccos(np.clip(directions @ directions[centres].T, -1, 1))
    angles[centres, np.arange(len(centres))] = 0.0  # The arc cosine makes 1e-8 of what rounding leaves below 1.
    return np.maximum(1 - (angles / width) ** 2, 0.0)


def exponential(vectors: FloatArray, centres: IntArray) -> FloatArray:
    """(rows, centres): `k(x, y) = |x| |y| exp(-|x/|x| - y/|y||)`, centred and scaled, within [0, 1].

    Centred: `c(x, y) = k(x, y) - mean_z k(x, z) - mean_z k(z, y) + 2 mean k`. Scaled: `c(x, y)` over the root of
    `c(x, x) c(y, y)`.
    """
    lengths, directions = np.linalg.norm(vectors, axis=1), _directions(vectors)

    def products(rows: slice | IntArray) -> FloatArray:
        cosines = np.clip(directions[rows] @ directions.T, -1, 1)
        result: FloatArray = lengths[rows, None] * lengths * np.exp(-np.sqrt(2 - 2 * cosines))
        return result

    blocks = range(0, len(vectors), _ROWS_AT_ONCE)
    means = np.concatenate([products(slice(start, start + _ROWS_AT_ONCE)).mean(axis=1) for start in blocks])
    own = lengths**2 - 2 * means + 2 * means.mean()
    centred = products(centres) - means[centres, None] - means + 2 * means.mean()
    scale = np.sqrt(np.maximum(np.outer(own[centres], own), np.finfo(np.float64).tiny))
    kernel: FloatArray = np.clip(centred / scale, 0.0, 1.0).T
    return kernel


def _directions(vectors: FloatArray) -> FloatArray:
    lengths: FloatArray = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(np.float64).tiny)


@final
@dataclass(frozen=True, eq=False, repr=False)
class LLORMAModel(FittedModel):
    """What the local models say, weighed by nearness; the global factorisation where none is near."""

    data: Interactions
    anchors: IntArray
    """(anchors, 2): positions of a user and an item."""
    whole: FactorPair
    """The global factorisation."""
    local: FactorPair
    """(users, anchors, rank) and (items, anchors, rank): the local models."""
    nearness: Nearness

    @cached_property
    def _parts(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """For users and for items: weighed local vectors, nearness and global vectors, in double precision."""
        sides = ((self.nearness.users, self.local.P, self.whole.P), (self.nearness.items, self.local.Q, self.whole.Q))
        return [
            (
                torch.from_numpy((near[:, :, None] * vectors).reshape(len(near), -1)),
                torch.from_numpy(near),
                torch.from_numpy(common.astype(np.float64)),
            )
            for near, vectors, common in sides
        ]

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items): predicted ratings, not clipped."""
        rows = torch.from_numpy(users)
        # K(u, u_a) K(i, i_a) is a product, so that the weighed sum over anchors is one product of long vectors.
        total, weight, common = (product(mine[rows], theirs) for mine, theirs in zip(*self._parts, strict=True))
        scores: FloatArray = torch.where(weight > 0, total / weight, common).numpy()
        return scores


class FactorPair(NamedTuple):
    """Vectors of users P (users, ..., rank) and items Q (items, ..., rank), in single precision."""

    P: Singles
    Q: Singles

    @classmethod
    def draw(cls, data: Interactions, shape: tuple[int, ...], draw: np.random.Generator) -> FactorPair:
        """A random start whose products have about the mean and the spread of the ratings; none beyond 2 deviations."""
        mean, spread, rank = float(np.abs(data.ratings.mean())), float(data.ratings.std()), shape[-1]
        level, std = (mean / rank) ** 0.5, ((np.hypot(mean, spread) - mean) / rank) ** 0.5
        P, Q = (
            (level + std * _within_two(draw, (count, *shape))).astype(np.float32)
            for count in (data.n_users, data.n_items)
        )
        return cls(P, Q)

    def finished(self, data: Interactions, setting: str, rate: float) -> FactorPair:
        """With the average vector where there are no ratings; refuses what diverged at this `rate`, a `setting`."""
        check_fit(setting, rate, "Make it smaller.", self.P, self.Q)
        P, Q = self.P.copy(), self.Q.copy()
        for vectors, counts in ((P, data.user_counts), (Q, data.item_counts)):
            vectors[counts == 0] = vectors[counts > 0].mean(axis=0)
        return FactorPair(P, Q)


def _within_two(draw: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Standard normal numbers, drawn again where they are beyond 2."""
    values = draw.standard_normal(shape)
    while (far := np.abs(values) > 2).any():
        values[far] = draw.standard_normal(int(far.sum()))
    return values


class Descent(NamedTuple):
    """Gradient descent: the size of its steps, the weight of the squared norms, and how many passes there are."""

    rate: float
    regularization: float
    passes: int


def pretrain(start: FactorPair, data: Interactions, descent: Descent) -> FactorPair:
    """`r ~ p . q` by steps with momentum over the whole log, users and items in turns."""
    P, Q = start.P.copy(), start.Q.copy()
    by_user, by_item = (
        (matrix.indptr.astype(np.int64), matrix.indices, matrix.data.astype(np.float32))
        for matrix in (data.csr, data.csc)
    )
    speed_P, speed_Q = np.zeros_like(P), np.zeros_like(Q)
    for _ in track(range(descent.passes), "LLORMA, global", descent.passes):
        _push_vectors(*by_user, P, Q, speed_P, descent)
        _push_vectors(*by_item, Q, P, speed_Q, descent)
    return FactorPair(P, Q)


def pretrain_dense(start: FactorPair, data: Interactions, descent: Descent, *, device: torch.device) -> FactorPair:
    """`pretrain` by dense matrices of users x items: for a GPU, and its readable form."""
    P, Q, users, items, values = _on(device, start, data)
    R, given = torch.zeros(2, len(P), len(Q), device=device)
    R[users, items], given[users, items] = values, torch.ones_like(values)
    speed_P, speed_Q = torch.zeros_like(P), torch.zeros_like(Q)
    for _ in track(range(descent.passes), "LLORMA, global", descent.passes):
        errors = (P @ Q.T) * given - R
        speed_P = _MOMENTUM * speed_P + 2 * errors @ Q + 2 * descent.regularization * P
        P = P - descent.rate * speed_P
        errors = (P @ Q.T) * given - R
        speed_Q = _MOMENTUM * speed_Q + 2 * errors.T @ P + 2 * descent.regularization * Q
        Q = Q - descent.rate * speed_Q
    return FactorPair(P.cpu().numpy(), Q.cpu().numpy())


def train(start: FactorPair, data: Interactions, shares: Singles, descent: Descent, batch: int, rng: int) -> FactorPair:
    """The local models, fitted to the predictions that they make together by `shares` (rows, models)."""
    P, Q = (filled_up(vectors.reshape(len(vectors), -1)) for vectors in start)
    ratings, rank = data.ratings.astype(np.float32), start.P.shape[2]
    for epoch in track(range(descent.passes), "LLORMA", descent.passes):
        order = generator(rng, "llorma", "order", epoch).permutation(len(shares))
        # In this order from here on: the cache cannot foresee a random one.
        log = (data.users[order], data.items[order], ratings[order], shares[order])
        _pass_ratings(min(batch, len(order)), *log, rank, P, Q, descent)
    length = start.P[0].size
    return FactorPair(P[:, :length].reshape(start.P.shape), Q[:, :length].reshape(start.Q.shape))


def train_dense(
    start: FactorPair,
    data: Interactions,
    shares: Singles,
    descent: Descent,
    batch: int,
    rng: int,
    *,
    device: torch.device,
) -> FactorPair:
    """`train` by tensors: for a GPU, and its readable form."""
    P, Q, users, items, values = _on(device, start, data)
    share = torch.tensor(shares, device=device)
    shrink = 1 - 2 * descent.rate * descent.regularization
    for epoch in track(range(descent.passes), "LLORMA", descent.passes):
        order = torch.from_numpy(generator(rng, "llorma", "order", epoch).permutation(len(shares))).to(device)
        for first in range(0, len(order), batch):
            rows = order[first : first + batch]
            u, i, w = users[rows], items[rows], share[rows]
            p, q = P[u], Q[i]
            errors = (w * (p * q).sum(dim=2)).sum(dim=1) - values[rows]
            pulls = (2 * descent.rate * errors[:, None] * w)[:, :, None]
            P *= shrink
            Q *= shrink
            # With `accumulate` torch sorts before it adds, so that a GPU adds in the same order each time.
            P.index_put_((u,), -pulls * q, accumulate=True)
            Q.index_put_((i,), -pulls * p, accumulate=True)
    return FactorPair(P.cpu().numpy(), Q.cpu().numpy())


def _on(device: torch.device, start: FactorPair, data: Interactions) -> list[Tensor]:
    """Copies on the device: P, Q, and the users, items and ratings of the log."""
    users, items = data.users.astype(np.int64), data.items.astype(np.int64)
    arrays = (start.P, start.Q, users, items, data.ratings.astype(np.float32))
    return [torch.tensor(array, device=device) for array in arrays]


@njit(fastmath=IN_ORDER, cache=True)
def _push_vectors(
    indptr: IntArray, others: Indices, ratings: Singles, X: Singles, Y: Singles, speeds: Singles, descent: Descent
) -> None:
    """One step of gradient descent with momentum for all the vectors X (rows, rank), against Y as it stands.

    The loss is `sum (r - x . y)^2 + regularization |X|^2`; the ratings of row x are `indptr[x]:indptr[x + 1]`.
    """
    rank, rate, regularization = X.shape[1], descent.rate, descent.regularization
    for row in range(len(X)):
        x, speed = X[row], speeds[row]
        slope = np.zeros(rank, np.float32)
        for at in range(indptr[row], indptr[row + 1]):
            y = Y[others[at]]
            error = -ratings[at]
            for k in range(rank):
                error += x[k] * y[k]
            for k in range(rank):
                slope[k] += error * y[k]
        for k in range(rank):
            speed[k] = np.float32(_MOMENTUM * speed[k] + 2 * slope[k] + 2 * regularization * x[k])
            x[k] -= np.float32(rate) * speed[k]


@njit(fastmath=IN_ORDER, error_model="numpy", cache=True)
def _pass_ratings(
    batch: int,
    users: Indices,
    items: Indices,
    ratings: Singles,
    shares: Singles,
    rank: int,
    P: Singles,
    Q: Singles,
    descent: Descent,
) -> None:
    """One pass over the ratings as they stand, a step of gradient descent for each `batch` of them.

    P (users, models * rank) and Q (items, models * rank), filled up to whole vectors, are the local models' vectors
    side by side, `shares` (ratings, models) their shares in each prediction. The loss of a batch is the sum of its
    squared errors and `regularization (|P|^2 + |Q|^2)`.
    """
    length, rate = P.shape[1], descent.rate
    moves_P, moves_Q = np.empty((batch, length), np.float32), np.empty((batch, length), np.float32)
    share, weighed = np.zeros(length, np.float32), np.empty(length, np.float32)
    # The penalty shrinks all vectors alike: what they are is `scale` times what is stored.
    scale, shrink = 1.0, 1 - 2 * rate * descent.regularization
    for start in range(0, len(users), batch):
        end = min(start + batch, len(users))
        for row in range(start, end):
            p, q, move_p, move_q = P[users[row]], Q[items[row]], moves_P[row - start], moves_Q[row - start]
            for a in range(shares.shape[1]):
                own = share[a * rank : (a + 1) * rank]
                for k in range(rank):
                    own[k] = shares[row, a]
            for k in range(length):
                weighed[k] = share[k] * q[k]
            error = scale * scale * dot(p, weighed) - ratings[row]
            pull = np.float32(2 * rate / shrink * error)
            for k in range(length):
                move_p[k] = pull * weighed[k]
            for k in range(length):
                move_q[k] = pull * share[k] * p[k]
        for row in range(start, end):
            p, q, move_p, move_q = P[users[row]], Q[items[row]], moves_P[row - start], moves_Q[row - start]
            for k in range(length):
                p[k] -= move_p[k]
            for k in range(length):
                q[k] -= move_q[k]
        scale *= shrink
        if scale < 0.5 or end == len(users):
            P *= np.float32(scale)
            Q *= np.float32(scale)
            scale = 1.0
