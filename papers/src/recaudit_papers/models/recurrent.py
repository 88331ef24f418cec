"""RecurrentRecommender: two LSTMs over the histories of users and of items (paper 001, appendix D)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple, final

import numpy as np
import torch
from pydantic import Field
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from torch import Tensor

from recaudit.data import Interactions
from recaudit.engines import track
from recaudit.errors import InputError
from recaudit.folders import write_whole
from recaudit.models import DifferentiableResponse, EditedItems, FittedModel, Recommender, Response
from recaudit.plugins import FloatArray, IntArray, check_actions, check_device, check_fit, generator
from recaudit_papers.models.numerics import aligned, product
from recaudit_papers.models.recurrent_network import Histories, HistoryNetwork, Level, Reading, State

_CLIP = 1.0
"""The largest norm of a gradient."""


@final
class RecurrentRecommender(Recommender):
    """`r_ui ~ mean + p_u . q_i`: the last hidden states of an LSTM over u's ratings and of one over i's.

    The LSTMs read (learned numbers of the item, rating) and (learned numbers of the user, rating), oldest first, and
    are trained to predict each next rating from what came before it (Wu et al. 2017). The log must have times. Equal
    bits on the CPU of one machine; on a GPU rounding varies. Training holds two vectors for each rating.
    """

    learns_from_clicks: ClassVar[bool] = False

    hidden: int = Field(default=100, ge=1)
    """Hidden units of each LSTM: the length of the user and item vectors."""
    embedding: int = Field(default=1, ge=1)
    """How many numbers are learned for each item and each user as the LSTMs' input; the paper has one."""
    epochs: int = Field(default=15, ge=1)
    """Rounds in which each LSTM learns once from every rating."""
    learning_rate: float = Field(default=0.01, gt=0, le=1e30, allow_inf_nan=False)
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

    def check_log(self, data: Interactions) -> None:
        """Refuse a log that nothing can be learned from, or without times."""
        super().check_log(data)
        data.in_time(0)

    def fit(self, data: Interactions, rng: int = 0) -> RecurrentModel:
        """Fit by Adam, the two LSTMs in turns."""
        self.check_log(data)
        check_device(self.device)
        level = Level.of(data)
        users, items = level.histories(data)
        targets = data.ratings - level.mean
        learners = (
            self._learner(users, data.n_items, targets, generator(rng, "recurrent", "users")),
            self._learner(items, data.n_users, targets, generator(rng, "recurrent", "items")),
        )
        training, done = "", 0
        if self.checkpoint is not None:
            training = f"{self.model_dump_json(exclude={'checkpoint'})} rng={rng} data={data.fingerprint}"
            done = _resume(self.checkpoint, training, learners)
        for epoch in track(range(done, self.epochs), "RecurrentRecommender", self.epochs - done):
            rate = self.learning_rate * (1 - 0.9 * epoch / max(1, self.epochs - 1))
            for side, (learner, other) in enumerate((learners, learners[::-1])):
                learner.learn(other.before, rate, self.batch, generator(rng, "recurrent", "epoch", epoch, side))
            if self.checkpoint is not None:
                _save(self.checkpoint, training, learners, epoch + 1)
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
    """One of the two LSTMs while it learns to predict the next rating, against the other's vectors as they stand.

    A window of a history starts from the state that the last pass left there: windows can be drawn in any order.
    """

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


def _resume(path: Path, training: str, learners: tuple[HistoryLearner, HistoryLearner]) -> int:
    """Put the learners where the file left them; how many epochs that was, 0 without a file.

    `training` says all that decides the result: configuration, seed and data.
    """
    if not path.exists():
        return 0
    try:
        with safe_open(path, "numpy") as file:
            about = file.metadata()
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  the file is no mapping
        matches, done = about["training"] == training, int(about["epochs"])
    except (SafetensorError, OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(
            "checkpoint",
            received=f"{path}, which cannot be read",
            expected="a file that RecurrentRecommender.fit wrote, or no file yet",
            remedy="Move the file away, or name another one.",
        ) from error
    if not matches:
        raise InputError(
            "checkpoint",
            received=f"{path}, from training with another configuration, seed or log",
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


def _save(path: Path, training: str, learners: tuple[HistoryLearner, HistoryLearner], epochs: int) -> None:
    """Write the weights and the optimisers' state, all that the next epochs depend on, in one step."""
    arrays = {}
    for side, learner in enumerate(learners):
        for name, weight in learner.network.state_dict().items():
            arrays[f"{side}/weights/{name}"] = weight.cpu().numpy()
        for place, moments in learner.optimizer.state_dict()["state"].items():
            for name, moment in moments.items():
                arrays[f"{side}/{place}/{name}"] = moment.cpu().numpy()
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(path) as aside:
        save_file(arrays, aside, metadata={"training": training, "epochs": str(epochs)})


_STEPS_AT_ONCE = 1 << 16
"""How many steps of edited histories are read at once: 50 MB of vectors with 100 hidden units."""


class Tail(NamedTuple):
    """The end of a history from the first rating that is free on; what comes before it has been read."""

    network: HistoryNetwork
    state: State
    """(1, hidden) each: after what comes before."""
    others: Tensor
    """(steps,)"""
    ratings: Tensor
    """(steps,): as the LSTM reads them; of no meaning where they are free."""
    action: Tensor
    """(steps,): which of the free ratings stands here; -1 where the rating stays."""

    def vectors(self, ratings: Tensor) -> Tensor:
        """(batch, hidden): the owner's vector after the free ratings are `ratings` (batch, actions)."""
        batch, steps = len(ratings), len(self.others)
        h, c = (part.expand(batch, -1) for part in self.state)
        if steps == 0:
            return h
        free = self.action >= 0
        read = self.ratings.expand(batch, -1).index_copy(1, free.nonzero()[:, 0], ratings[:, self.action[free]])
        vectors: Tensor = self.network(self.others[:, None].expand(-1, batch), read.T, (h, c))[0]
        return vectors[-1]


@final
@dataclass(frozen=True, eq=False)
class Reader:
    """One of the two LSTMs, in double precision, with the histories that it has read."""

    network: HistoryNetwork
    histories: Histories
    vectors: FloatArray
    """(owners, hidden): the last hidden states."""
    cells: FloatArray
    """(owners, hidden): the last cell states."""

    @classmethod
    def of(cls, network: HistoryNetwork, histories: Histories) -> Reader:
        """Read all histories in double precision, on the device of the network; the result lies on the CPU."""
        network = network.double().requires_grad_(False)
        vectors, cells = (state.cpu().numpy() for state in Reading(network, histories).final())
        return cls(network.cpu(), histories, vectors, cells)

    def tail(self, owner: int, others: IntArray) -> Tail:
        """What is read anew when the ratings between `owner` and `others` (actions,) are free.

        A rating of the history stays at its place in time; one that is not in it comes at the end, in the given order.
        """
        histories, length = self.histories, int(self.histories.lengths[owner])
        place = histories.ratings_before(np.full(len(others), owner), others)
        new = np.flatnonzero(place == length)
        place[new] += np.arange(len(new))
        first = int(place.min(initial=length))
        kept = slice(histories.starts[owner] + first, histories.starts[owner + 1])
        action = np.full(length - first + len(new), -1, dtype=np.int64)
        action[place - first] = np.arange(len(others))
        return Tail(
            self.network,
            self._states(np.array([owner]), np.array([first])),
            torch.from_numpy(np.concatenate([histories.others[kept], others[new]])),
            aligned(np.concatenate([histories.ratings[kept], np.zeros(len(new))])),
            torch.from_numpy(action),
        )

    @torch.no_grad()
    def rated(self, owners: IntArray, others: IntArray, ratings: FloatArray) -> Tensor:
        """(pairs, n, hidden): the vector of each owner (pairs,) after its rating with `others` (pairs,) is edited.

        To `ratings` (pairs, n), as the LSTM reads them: `tail` for many histories at once.
        """
        histories, n = self.histories, ratings.shape[1]
        first = histories.ratings_before(owners, others)
        steps = np.maximum(histories.lengths[owners] - first, 1)
        h, c = self._states(owners, first)
        result = h.new_empty(len(owners), n, self.network.hidden)
        for batch in _batches(steps, n):
            offsets = np.arange(steps[batch].max())[:, None]
            places = np.minimum(histories.starts[owners[batch]] + first[batch] + offsets, len(histories.rows) - 1)
            who, read = histories.others[places], np.repeat(histories.ratings[places, None], n, axis=2)
            who[0], read[0] = others[batch], ratings[batch]
            index = torch.from_numpy(batch)
            vectors = self.network(
                torch.from_numpy(np.repeat(who, n, axis=1)),
                aligned(read.reshape(len(offsets), -1)),
                (h[index].repeat_interleave(n, dim=0), c[index].repeat_interleave(n, dim=0)),
            )[0].reshape(len(offsets), len(batch), n, -1)
            result[index] = vectors[torch.from_numpy(steps[batch] - 1), torch.arange(len(batch))]
        return result

    @torch.no_grad()
    def _states(self, owners: IntArray, counts: IntArray) -> State:
        """(len(owners), hidden) each: the state of each owner after the first `counts` ratings of its history."""
        histories = self.histories
        h, c = aligned(self.vectors[owners]), aligned(self.cells[owners])
        reader, reached, state = -1, 0, self.network.blank(1)
        for at in np.lexsort((counts, owners)):
            owner, count = int(owners[at]), int(counts[at])
            if count == histories.lengths[owner]:
                continue
            if owner != reader:
                reader, reached, state = owner, 0, self.network.blank(1)
            between = slice(histories.starts[owner] + reached, histories.starts[owner] + count)
            others, ratings = (torch.from_numpy(part[between, None]) for part in (histories.others, histories.ratings))
            _, state = self.network(others, ratings, state)
            reached = count
            h[at], c[at] = state[0][0], state[1][0]
        return h, c


def _batches(steps: IntArray, copies: int) -> Iterator[IntArray]:
    """Sequences of like length together: positions in `steps` (sequences,), so many that memory stays small."""
    order = np.argsort(steps, kind="stable")
    while len(order):
        padded = steps[order] * np.arange(1, len(order) + 1) * copies
        count = max(1, int(np.searchsorted(padded, _STEPS_AT_ONCE, side="right")))
        yield order[:count]
        order = order[count:]


@final
@dataclass(frozen=True, eq=False, repr=False)
class RecurrentModel(FittedModel):
    """Scores `mean + p_u . q_i`: p_u and q_i are the LSTMs' last hidden states, zero for an empty history.

    Ratings are edited as in paper 001: the LSTMs stay as fitted and read the edited history. A user's own edits give
    a new p_u, another user's edits a new q_i of each item that they rate.
    """

    data: Interactions
    level: Level
    """The mean that scores are counted from, and how ratings are read."""
    users: Reader
    """The LSTM over users' (item, rating) histories."""
    items: Reader
    """The LSTM over items' (user, rating) histories."""

    response: ClassVar[type[Response]] = DifferentiableResponse
    others_move: ClassVar = "rated items"

    @property
    def rule(self) -> str:
        """See `FittedModel`."""
        return "the histories that are edited are read anew by the networks, which are held"

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items): predicted ratings, not clipped."""
        scores: FloatArray = self._scores(aligned(self.users.vectors[users])).numpy()
        return scores

    def respond(self, viewer: int, editor: int, items: IntArray) -> DifferentiableResponse:
        """The response to own edits (the viewer's history is read anew) or another's (the edited items' are).

        A rating that the editor gave keeps its place in time; a new one comes last, in the order of `items`.
        """
        items = check_actions(items, self.data.n_items)
        if viewer == editor:
            return DifferentiableResponse(items, partial(self._own_scores, self.users.tail(viewer, items)))
        tails = [self.items.tail(int(item), np.array([editor])) for item in items]
        scores = partial(self._others_scores, viewer, torch.from_numpy(items), tails)
        return DifferentiableResponse(items, scores)

    def edited_items(self, editors: IntArray, items: IntArray, ratings: FloatArray) -> EditedItems:
        """See `FittedModel`: the histories of the edited items are read anew, many at once."""
        edited = np.flatnonzero(items >= 0)
        owners, others = items.ravel()[edited], np.repeat(editors, items.shape[1])[edited]
        read = self.level.read(ratings.reshape(items.size, -1)[edited])
        vectors = np.zeros((items.size, ratings.shape[2], self.items.network.hidden))
        vectors[edited] = self.items.rated(owners, others, read).numpy()
        return EditedItems(
            vectors.reshape(*ratings.shape, -1),
            np.zeros(ratings.shape),
            self.users.vectors,
            np.full(self.data.n_users, self.level.mean),
        )

    def next_ratings(self, data: Interactions) -> FloatArray:
        """(rows of `data`,): each rating of a log as predicted from what stands before it there, and nothing else.

        This is what training makes right for its own log. Before stands what is earlier in time; at the same time, the
        ratings of users at lower positions, and a user's own of items at lower positions.
        """
        if (data.n_users, data.n_items) != (self.data.n_users, self.data.n_items):
            raise InputError(
                "data",
                received=f"{data.n_users:,} users and {data.n_items:,} items",
                expected=f"the model's own {self.data.n_users:,} users and {self.data.n_items:,} items",
                remedy="Split one log in two, or use data.subset: every id then keeps its position.",
            )
        user_histories, item_histories = self.level.histories(data)
        p = Reading(self.users.network, user_histories).before_each()
        q = Reading(self.items.network, item_histories).before_each()
        predicted: FloatArray = (self.level.mean + (p * q).sum(dim=1)).numpy()
        return np.clip(predicted, *data.scale)

    def _scores(self, user_vectors: Tensor) -> Tensor:
        return product(user_vectors, self.items.vectors) + self.level.mean

    def _own_scores(self, tail: Tail, ratings: Tensor) -> Tensor:
        return self._scores(tail.vectors(self.level.read(ratings)))

    def _others_scores(self, viewer: int, items: Tensor, tails: list[Tail], ratings: Tensor) -> Tensor:
        before = self._scores(aligned(self.users.vectors[[viewer]])).expand(len(ratings), -1)
        vectors = [tail.vectors(read[:, None]) for tail, read in zip(tails, self.level.read(ratings).T, strict=True)]
        if not vectors:
            return before
        after = torch.stack(vectors, dim=1) @ aligned(self.users.vectors[viewer]) + self.level.mean
        return before.index_copy(1, items, after)
