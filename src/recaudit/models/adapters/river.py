"""Models of river: BiasedMF, FunkMF and Baseline, which learn from one rating at a time."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, NamedTuple, final

import numpy as np

from recaudit.arguments import checked
from recaudit.arrays import FloatArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.models.adapt import Retrained, Train, not_fitted, unknown_model
from recaudit.models.base import FittedModel
from recaudit.models.checks import check_data
from recaudit.models.factor.model import FactorVectors
from recaudit.models.given.black_box import History, from_system, seeing_others
from recaudit.models.updates import RatedVector, UpdateRule, error_step

_NAMES = {
    "BiasedMF": ("latent_optimizer", "l2_latent", "bias_optimizer", "l2_bias"),
    "FunkMF": ("optimizer", "l2", None, None),
    "Baseline": (None, None, "optimizer", "l2"),
}
"""What each model calls the optimizer (with u_ or i_ before it) and the penalty of its vectors, and of its biases."""


@checked
def adapted(model: Any, data: Interactions, *, train: Train | None = None) -> FittedModel:
    """A model of river's `reco`. A user or item without ratings gets the vector that river would draw for it next.

    `train` makes such a model of a log and a seed, for refits; without it, a clone learns the log once, in the order of
    its times, where it has any.
    """
    if type(model).__name__ not in _NAMES:
        raise unknown_model(model, f"river's {', '.join(_NAMES)}")
    if not (getattr(model, "u_latents", None) or getattr(model, "u_biases", None)):
        raise not_fitted(model)
    met = _met(model, data)
    settings = {"model": type(model).__name__, **{name: str(value) for name, value in model._get_params().items()}}
    recommender = Retrained(
        library=f"river {version('river')}",
        settings=settings,
        train=RiverTraining(model) if train is None else train,
        options={} if train is None else {"train": train},
    )
    made = _vectors(met, data) if _is_affine(met, data) else _asked(met, data)
    return made.with_recommender(recommender)


def _met(model: Any, data: Interactions) -> Any:
    """A copy that has met every user and item: river draws a vector for whom it is asked about the first time."""
    made = copy.deepcopy(model)
    for side, ids, counts in (("u", data.user_ids, data.user_counts), ("i", data.item_ids, data.item_counts)):
        for parts in (getattr(made, f"{side}_{part}", None) for part in ("latents", "biases")):
            if parts is None:
                continue
            strange = [each for each, count in zip(ids, counts, strict=True) if each not in parts and count]
            if strange:
                raise InputError(
                    "data",
                    received=f"ratings of {strange[0]!r} ({len(strange):,} ids in all), which the model has not met",
                    expected="the log that the model learned from, under the same ids",
                )
            for each in ids:
                _ = parts[each]
    return made


def _is_affine(model: Any, data: Interactions) -> bool:
    """Whether scores are an affine function of new ratings: plain SGD on squared errors that are never clipped."""
    from river import optim  # noqa: PLC0415  # an optional library, which is there where its models are

    plain = all(type(optimizer) is optim.SGD for side in "ui" for optimizer in _side(model, side).optimizers)
    # The gradient is twice the error: an error of fifty times the scale's width is a model that has diverged.
    low, high = data.scale
    clipped = model.clip_gradient < 100 * max(high - low, abs(high))
    return plain and type(model.loss) is optim.losses.Squared and not clipped


class RiverSteps(NamedTuple):
    """How one side's vectors and biases move: an optimizer and a penalty each, None where the model has none."""

    latent: Any
    latent_penalty: float
    bias: Any
    bias_penalty: float

    @property
    def optimizers(self) -> list[Any]:
        """Those that there are."""
        return [optimizer for optimizer in (self.latent, self.bias) if optimizer is not None]


def _side(model: Any, side: str) -> RiverSteps:
    latent, l2_latent, bias, l2_bias = _NAMES[type(model).__name__]
    return RiverSteps(
        None if latent is None else getattr(model, f"{side}_{latent}"),
        0.0 if l2_latent is None else float(getattr(model, l2_latent)),
        None if bias is None else getattr(model, f"{side}_{bias}"),
        0.0 if l2_bias is None else float(getattr(model, l2_bias)),
    )


def _vectors(model: Any, data: Interactions) -> FactorVectors:
    """`mean + b_u + b_i + v_u . v_i`, and river's own step."""
    vectors, biases = [], []
    for side, ids in (("u", data.user_ids), ("i", data.item_ids)):
        latents, own = getattr(model, f"{side}_latents", None), getattr(model, f"{side}_biases", None)
        vectors.append(np.array([[0.0] if latents is None else np.ravel(latents[each]) for each in ids]))
        biases.append(np.array([0.0 if own is None else float(own[each]) for each in ids]))
    mean = getattr(model, "global_mean", None)
    level = 0.0 if mean is None else float(mean.get())
    rule = LearnOne(_side(model, "u"), _side(model, "i"), level, None if mean is None else int(mean.n))
    return FactorVectors(data, vectors[0], vectors[1], biases[0], biases[1], level).with_update(rule)


@final
@dataclass(frozen=True, eq=False)
class LearnOne(UpdateRule):
    """river's `learn_one` for each rating in turn, with plain SGD: `w+ = w - rate * (2 (predicted - r) x + l2 w)`.

    Before each step the running mean takes the rating in, and the prediction has it. A user's own ratings therefore
    move all of their scores with the mean; of another's ratings the shift of the mean, the same for every item, is left
    out, and each item takes its step from where it is.
    """

    user: RiverSteps
    item: RiverSteps
    mean: float
    """The running mean, 0 where there is none."""
    counted: int | None
    """How many ratings the mean is of."""

    @property
    def words(self) -> str:
        """See `UpdateRule`."""
        sizes = " and ".join(f"{optimizer.learning_rate:g}" for optimizer in self.user.optimizers)
        mean = "" if self.counted is None else ", after the running mean"
        return (
            f"river's learn_one for each new rating in turn, a gradient step of size {sizes}{mean}; a user's own "
            "ratings move the user, another's the items that they rate, and everything else is held"
        )

    def affine(self, row: RatedVector) -> tuple[FloatArray, FloatArray]:
        """See `UpdateRule`."""
        steps, X = self.user if row.side == "user" else self.item, row.others[row.acted]
        level, one = np.concatenate([row.vector, [row.bias, self.mean]]), np.ones(1)
        matrix = np.zeros((len(level), len(X)))
        known = row.offset[row.acted] - row.bias - self.mean
        for action, vector in enumerate(X):
            if self.counted is not None:
                share = 1 / (self.counted + action + 1)
                matrix[-1] *= 1 - share
                matrix[-1, action] += share
                level[-1] *= 1 - share
            rates = [0.0 if each is None else each.lr.get(each.n_iterations + action) for each in (steps[0], steps[2])]
            rate = np.concatenate([rates[0] * np.ones_like(vector), rates[1] * one, 0.0 * one])
            penalty = np.concatenate([steps.latent_penalty * np.ones_like(vector), steps.bias_penalty * one, one])
            x = np.concatenate([vector, one, one])
            matrix, level = error_step(matrix, level, action, x, known[action], 1 - rate * penalty, 2 * rate * x)
        if row.side == "user":
            matrix[-2] += matrix[-1]
            level[-2] += level[-1] - self.mean
        return matrix[:-1], level[:-1]


def _asked(model: Any, data: Interactions) -> FittedModel:
    """The model behind its own `learn_one`: for optimizers, losses and clipping that no formula here follows."""
    from river import optim  # noqa: PLC0415  # as above

    ratings = isinstance(model.loss, optim.losses.RegressionLoss)
    system = from_system(data, scores=AfterLearning(model, data), predicts_ratings=ratings, retries=0)
    # `learn_one` of another user's rating changes the parameters that all users share.
    return seeing_others(system)


@final
@dataclass(frozen=True, eq=False)
class AfterLearning:
    """What a copy of the model predicts once it has learned the ratings that the log does not have."""

    model: Any
    data: Interactions

    def __call__(self, history: History) -> FloatArray:
        """(items,): the viewer's scores."""
        items, ratings = self.data.history(int(self.data.users_at([history.user])[0]))
        before = dict(zip(self.data.item_ids.gather(items).to_list(), ratings.tolist(), strict=True))
        made = copy.deepcopy(self.model)
        for item, rating in zip(history.items, history.ratings, strict=True):
            if before.get(item) != rating:
                made.learn_one(history.user, item, rating)
        return np.array([made.predict_one(history.viewer, item) for item in self.data.item_ids], dtype=np.float64)


@final
@dataclass(frozen=True, eq=False)
class RiverTraining:
    """A clone of the model that learns a log once; the seed is added to those of its random starts."""

    model: Any

    def __call__(self, data: Interactions, seed: int) -> Any:
        """A model of this log."""
        check_data(data)
        starts: dict[str, Any] = {
            name: getattr(self.model, name, None) for name in ("initializer", "latent_initializer")
        }
        new = {
            name: start.clone({"seed": (start.seed or 0) + seed})
            for name, start in starts.items()
            if hasattr(start, "seed")
        }
        made = self.model.clone(new)
        order = np.arange(len(data)) if data.times is None else np.argsort(data.times, kind="stable")
        for user, item, rating in data.frame().select("user", "item", "rating")[order].iter_rows():
            made.learn_one(user, item, rating)
        return made
