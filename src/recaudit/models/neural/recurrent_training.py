"""How the recurrent recommender learns: the two LSTMs take turns, each against the other's vectors as they stand.

Every rating is predicted from the two vectors just before it. Backpropagation is truncated: a window of a history
starts from the state that the last pass over the histories left there, so that windows can be drawn in any order.
"""

from __future__ import annotations

from pathlib import Path
from typing import final

import numpy as np
import torch
from torch import Tensor

from recaudit.arrays import FloatArray, IntArray
from recaudit.atomic import write
from recaudit.errors import InputError
from recaudit.folders.arrays import encoded, read
from recaudit.models.neural.recurrent_network import Histories, Network, Reading

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

    def save(self, learners: tuple[Learner, Learner], epochs: int) -> None:
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
