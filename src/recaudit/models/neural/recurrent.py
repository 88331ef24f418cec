"""RecurrentRecommender: two LSTMs over the histories of users and of items (paper 001, appendix D).

The two LSTMs take turns to learn, each against the other's vectors as they stand. Every rating is predicted from the
two vectors just before it. Backpropagation is truncated: a window of a history starts from the state that the last pass
over the histories left there, so that windows can be drawn in any order.
"""

from __future__ import annotations

from pathlib import Path
from typing import final

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from recaudit.arrays import FloatArray, IntArray
from recaudit.atomic import write
from recaudit.data.interactions import Interactions
from recaudit.engines.progress import track
from recaudit.errors import InputError
from recaudit.folders.arrays import encoded, read
from recaudit.models.base import Recommender
from recaudit.models.checks import check_data, check_device, check_fit
from recaudit.models.neural.recurrent_model import Reader, RecurrentModel
from recaudit.models.neural.recurrent_network import Histories, HistoryNetwork, Level, Reading
from recaudit.seeding import generator

_CLIP = 1.0
"""The largest norm of a gradient."""


@final
class RecurrentRecommender(Recommender):
    """`r_ui ~ mean + p_u . q_i`: the last hidden states of an LSTM over u's ratings and of one over i's.

    The LSTMs read (learned numbers of the item, rating) and (learned numbers of the user, rating), oldest first, and
    are trained to predict each next rating from what came before it (Wu et al. 2017, as in paper 001, appendix D, but
    for the mean rating of the log, which is added). The log must have times.

    Equal bits on the CPU of one machine; on a GPU rounding varies, and training amplifies it. Training holds two
    vectors for each rating: 0.8 GB for a million ratings and 100 hidden units.
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
    """A file written after each epoch. When it is there, and of this very training, fitting continues from it."""

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
        checkpoint, done = None, 0
        if self.checkpoint is not None:
            training = f"{self.model_dump_json(exclude={'checkpoint'})} rng={rng} data={data.fingerprint}"
            checkpoint = TrainingCheckpoint(self.checkpoint, training)
            done = checkpoint.load(learners)
        for epoch in track(range(done, self.epochs), "RecurrentRecommender", self.epochs - done):
            rate = self.learning_rate * (1 - 0.9 * epoch / max(1, self.epochs - 1))
            for side, (learner, other) in enumerate((learners, learners[::-1])):
                learner.learn(other.before, rate, self.batch, generator(rng, "recurrent", "epoch", epoch, side))
            if checkpoint is not None:
                checkpoint.save(learners, epoch + 1)
        networks = [learner.network for learner in learners]
        weights = [weight.detach().cpu().numpy() for network in networks for weight in network.parameters()]
        check_fit("learning_rate", self.learning_rate, "Make it smaller.", *weights)
        return RecurrentModel(data, level, Reader.of(networks[0], users), Reader.of(networks[1], items))

    def _learner(
        self, histories: Histories, others: int, targets: FloatArray, draw: np.random.Generator
    ) -> HistoryLearner:
        network = HistoryNetwork(others, self.embedding, self.hidden)
        network.draw(draw)
        return HistoryLearner(
            network.to(self.device), histories, targets, window=self.window, weight_decay=self.weight_decay
        )


@final
class HistoryLearner:
    """One of the two LSTMs while it learns to predict the next rating of each history."""

    def __init__(
        self, network: HistoryNetwork, histories: Histories, targets: FloatArray, *, window: int, weight_decay: float
    ) -> None:
        """`targets` (rows,): what `vector . other vector` should be, by row of the log."""
        self.network = network
        self.reading = Reading(network, histories, window)
        self.optimizer = torch.optim.AdamW(network.parameters(), weight_decay=weight_decay)
        self.rows = torch.from_numpy(histories.rows).to(self.reading.others.device)
        self.targets = torch.from_numpy(targets).to(self.reading.ratings.device, self.reading.ratings.dtype)
        self.before = self.reading.before_each()
        """(rows, hidden): the owner's vector just before each rating of the log, as of the last `learn`."""

    def learn(self, opposite: Tensor, rate: float, batch: int, draw: np.random.Generator) -> None:
        """One pass over the windows in random order; `opposite` (rows, hidden) are the other side's vectors before."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        # The first rating of a history is predicted from zeros and a lone one teaches nothing.
        useful = draw.permutation(np.flatnonzero(self.reading.first + 1 < self.reading.end))
        for start in range(0, len(useful), batch):
            self._step(useful[start : start + batch], opposite)
        self.before = self.reading.before_each()

    def _step(self, batch: IntArray, opposite: Tensor) -> None:
        places = self.reading.places(batch)
        vectors, _ = self.reading.read(places, self.reading.window_states(batch))
        following = places + 1
        known = torch.from_numpy(following < self.reading.end[batch]).to(vectors.device)
        rows = self.rows[torch.from_numpy(np.minimum(following, len(self.rows) - 1)).to(vectors.device)]
        error = ((vectors * opposite[rows]).sum(dim=2) - self.targets[rows]) * known
        self.optimizer.zero_grad()
        (error.square().sum() / known.sum()).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), _CLIP)
        self.optimizer.step()


@final
class TrainingCheckpoint:
    """A file that holds training as it stands after an epoch, so that a run that was stopped continues from there.

    What is learned next depends on the weights and the optimisers' state alone, and each epoch draws from a seed of its
    own: training continues number by number as if it had never stopped.
    """

    def __init__(self, path: Path, training: str) -> None:
        """`training` says all that decides the result: configuration, seed and data."""
        self.path, self.training = path, training

    def load(self, learners: tuple[HistoryLearner, HistoryLearner]) -> int:
        """Put the learners where the file left them; how many epochs that was, 0 without a file."""
        if not self.path.exists():
            return 0
        try:
            arrays, about = read(self.path)
            matches, done = about["training"] == self.training, int(about["epochs"])
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise InputError(
                "checkpoint",
                received=f"{self.path}, which cannot be read",
                expected="a file that RecurrentRecommender.fit wrote, or no file yet",
                remedy="Move the file away, or name another one.",
            ) from error
        if not matches:
            raise InputError(
                "checkpoint",
                received=f"{self.path}, from training with another configuration, seed or log",
                expected="a checkpoint of this very training, or no file yet",
                remedy="Move the file away, name another one, or fit with what it was written with.",
            )
        for side, learner in enumerate(learners):
            weights: dict[str, Tensor] = {}
            state: dict[int, dict[str, Tensor]] = {}
            for name, array in arrays.items():
                at, kind, key = name.split("/")
                if int(at) == side and kind == "weights":
                    weights[key] = torch.from_numpy(array)
                elif int(at) == side:
                    state.setdefault(int(kind), {})[key] = torch.from_numpy(array)
            learner.network.load_state_dict(weights)
            # Its settings are this training's own, which is that of the file.
            groups = learner.optimizer.state_dict()["param_groups"]
            learner.optimizer.load_state_dict({"state": state, "param_groups": groups})
            learner.before = learner.reading.before_each()
        return done

    def save(self, learners: tuple[HistoryLearner, HistoryLearner], epochs: int) -> None:
        """Put the file in place in one step: whoever reads it sees the old one or the new one, whole."""
        arrays = {}
        for side, learner in enumerate(learners):
            for name, weight in learner.network.state_dict().items():
                arrays[f"{side}/weights/{name}"] = weight.cpu().numpy()
            for place, moments in learner.optimizer.state_dict()["state"].items():
                for name, moment in moments.items():
                    arrays[f"{side}/{place}/{name}"] = moment.cpu().numpy()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write(self.path, encoded(arrays, {"training": self.training, "epochs": epochs}))
