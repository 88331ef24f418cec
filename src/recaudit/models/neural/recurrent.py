"""RecurrentRecommender: two LSTMs over the histories of users and of items (paper 001, appendix D)."""

from __future__ import annotations

from pathlib import Path
from typing import final

import numpy as np
import torch
from pydantic import Field

from recaudit.arrays import FloatArray
from recaudit.data.interactions import Interactions
from recaudit.engines.progress import track
from recaudit.errors import InputError
from recaudit.models.base import Recommender, check_data
from recaudit.models.devices import check_device
from recaudit.models.neural.recurrent_model import RecurrentModel, Side
from recaudit.models.neural.recurrent_network import Histories, Level, Network
from recaudit.models.neural.recurrent_training import Checkpoint, Learner
from recaudit.seeding import generator


@final
class RecurrentRecommender(Recommender):
    """`r_ui ~ mean + p_u . q_i`: the last hidden states of an LSTM over u's ratings and of one over i's.

    The LSTMs read (learned numbers of the item, rating) and (learned numbers of the user, rating), oldest first, and
    are trained to predict each next rating from what came before it (Wu et al. 2017, as in paper 001, appendix D:
    one number and the rating, 100 hidden units, a plain dot product without biases; the mean rating of the log is
    added so that the LSTMs model what differs from it). The log must have times.

    On the CPU of one machine a model is the same number by number; on a GPU rounding varies, and training amplifies it.
    Training holds two vectors for each rating: 0.8 GB for a million ratings and 100 hidden units.
    """

    hidden: int = Field(default=100, ge=1)
    """Hidden units of each LSTM: the length of the user and item vectors."""
    embedding: int = Field(default=1, ge=1)
    """How many numbers are learned for each item and each user as the LSTMs' input; the paper has one."""
    epochs: int = Field(default=15, ge=1)
    """Rounds in which each LSTM learns once from every rating."""
    learning_rate: float = Field(default=0.01, gt=0, allow_inf_nan=False)
    """Step size of Adam; it falls linearly to a tenth over the epochs."""
    weight_decay: float = Field(default=0.01, ge=0, allow_inf_nan=False)
    """Decoupled weight decay (AdamW), a share of the step size."""
    window: int = Field(default=128, ge=1)
    """Ratings of a history through which an error is traced back."""
    batch: int = Field(default=64, ge=1)
    """Windows in one step of Adam."""
    device: str = Field(default="cpu", pattern=r"^(cpu|cuda(:\d+)?)$")
    """Where training runs: "cpu", "cuda" or "cuda:1". The fitted model lies on the CPU."""
    checkpoint: Path | None = None
    """A file written after each epoch. When it is there, and of this very training, fitting goes on from it."""

    def fit(self, data: Interactions, rng: int = 0) -> RecurrentModel:
        """Fit by Adam, the two LSTMs in turns."""
        check_data(data)
        check_device(self.device)
        level = Level.of(data)
        users, items = level.histories(data)
        targets = data.ratings - level.mean
        learners = (
            self._learner(users, data.n_items, targets, generator(rng, "recurrent", "users")),
            self._learner(items, data.n_users, targets, generator(rng, "recurrent", "items")),
        )
        checkpoint = None if self.checkpoint is None else Checkpoint(self.checkpoint, self._training(data, rng))
        done = 0 if checkpoint is None else checkpoint.load(learners)
        for epoch in track(range(done, self.epochs), "RecurrentRecommender", self.epochs - done):
            rate = self.learning_rate * (1 - 0.9 * epoch / max(1, self.epochs - 1))
            for side, (learner, other) in enumerate((learners, learners[::-1])):
                learner.learn(other.before, rate, self.batch, generator(rng, "recurrent", "epoch", epoch, side))
            if checkpoint is not None:
                checkpoint.save(learners, epoch + 1)
        networks = [learner.network for learner in learners]
        if not all(torch.isfinite(weight).all() for network in networks for weight in network.parameters()):
            raise InputError(
                "learning_rate",
                received=self.learning_rate,
                expected="a step at which training converges; this one diverged",
                remedy="Make it smaller.",
            )
        return RecurrentModel(data, level, Side.read(networks[0], users), Side.read(networks[1], items))

    def _learner(self, histories: Histories, others: int, targets: FloatArray, draw: np.random.Generator) -> Learner:
        network = Network(others, self.embedding, self.hidden)
        network.draw(draw)
        return Learner(network.to(self.device), histories, targets, window=self.window, weight_decay=self.weight_decay)

    def _training(self, data: Interactions, rng: int) -> str:
        """All that decides the result of training."""
        configuration = self.model_dump_json(exclude={"checkpoint"})
        return f"{configuration} rng={rng} data={data.fingerprint}"
