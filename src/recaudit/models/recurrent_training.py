"""How the recurrent recommender learns: the two LSTMs take turns, each against the other's vectors as they stand.

Every rating is predicted from the two vectors just before it. Backpropagation is truncated: a window of a history
starts from the state that the last pass over the histories left there, so that windows can be drawn in any order.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import final

import numpy as np
import torch

from recaudit.atomic import write
from recaudit.errors import InputError
from recaudit.models.arrays import FloatArray, IntArray, Tensor
from recaudit.models.recurrent_network import Histories, Network, Reading

_CLIP = 1.0
"""The largest norm of a gradient."""


@final
class Learner:
    """One of the two LSTMs while it learns to predict the next rating of each history."""

    def __init__(
        self, network: Network, histories: Histories, targets: FloatArray, *, window: int, weight_decay: float
    ) -> None:
        """`targets` (rows,): what `vector . other vector` should be, by row of the log."""
        self.network = network
        self.reading = Reading(network, histories, window)
        self.windows = self.reading.windows
        self.optimizer = torch.optim.AdamW(network.parameters(), weight_decay=weight_decay)
        self.rows = torch.from_numpy(histories.rows).to(self.reading.others.device)
        self.targets = torch.from_numpy(targets).to(self.reading.ratings.device, self.reading.ratings.dtype)
        self.before = self.reading.before_each()
        """(rows, hidden): the owner's vector just before each rating of the log, as of the last `learn`."""

    def learn(self, opposite: Tensor, rate: float, batch: int, draw: np.random.Generator) -> None:
        """One pass over the windows in random order, `batch` to a step, then over the histories for the new vectors.

        `opposite` (rows, hidden): the other side's vector just before each rating.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        # The first rating of a history is predicted from zeros and a lone one teaches nothing.
        useful = draw.permutation(np.flatnonzero(self.windows.first + 1 < self.windows.end))
        for start in range(0, len(useful), batch):
            self._step(useful[start : start + batch], opposite)
        self.before = self.reading.before_each()

    def _step(self, batch: IntArray, opposite: Tensor) -> None:
        places = self.windows.places(batch)
        vectors, _ = self.reading.read(places, self.reading.window_states(batch))
        following = places + 1
        known = torch.from_numpy(following < self.windows.end[batch]).to(vectors.device)
        rows = self.rows[torch.from_numpy(np.minimum(following, len(self.rows) - 1)).to(vectors.device)]
        error = ((vectors * opposite[rows]).sum(dim=2) - self.targets[rows]) * known
        self.optimizer.zero_grad()
        (error.square().sum() / known.sum()).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), _CLIP)
        self.optimizer.step()


@final
class Checkpoint:
    """A file that holds training as it stands after an epoch; a run that was stopped goes on from there.

    What it has learned depends on the weights and the optimisers' state alone, and each epoch draws from a seed of its
    own: training goes on number by number as if it had never stopped.
    """

    def __init__(self, path: Path, training: str) -> None:
        """`training` says all that decides the result: configuration, seed and data."""
        self.path, self.training = path, training

    def load(self, learners: tuple[Learner, Learner]) -> int:
        """Put the learners where the file left them; how many epochs that was, 0 without a file."""
        if not self.path.exists():
            return 0
        try:
            content = torch.load(self.path, map_location="cpu", weights_only=True)
            matches, done, sides = content["training"] == self.training, int(content["epochs"]), content["sides"]
        except (OSError, RuntimeError, ValueError, LookupError, TypeError, EOFError, pickle.UnpicklingError) as error:
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
        for learner, (weights, optimizer) in zip(learners, sides, strict=True):
            learner.network.load_state_dict(weights)
            learner.optimizer.load_state_dict(optimizer)
            learner.before = learner.reading.before_each()
        return done

    def save(self, learners: tuple[Learner, Learner], epochs: int) -> None:
        """Put the file in place in one step: whoever reads it sees the old one or the new one, whole."""
        sides = [(learner.network.state_dict(), learner.optimizer.state_dict()) for learner in learners]
        content = io.BytesIO()
        torch.save({"training": self.training, "epochs": epochs, "sides": sides}, content)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write(self.path, content.getvalue())
