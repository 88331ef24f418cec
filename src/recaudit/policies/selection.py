"""What a policy is, scores in, a list or a distribution over the allowed items out; and those of papers 000 and 003."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import partial
from typing import Annotated, ClassVar, Literal, Protocol, Self, final

import numpy as np
from pydantic import (
    AfterValidator,
    Field,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_serializer,
    model_validator,
)

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.ranking import top_items
from recaudit.registry import POLICIES
from recaudit.seeding import Keys, derive, uniforms
from recaudit.specification import OneOf, Specification, mistake
from recaudit.ties import TieKeys


class Lister(Protocol):
    """What makes the lists of a log's users; picklable."""

    def __call__(self, scores: FloatArray, allowed: BoolArray, users: IntArray, n: int, rng: int) -> IntArray:
        """(users, n): item positions, -1 for none, from (users, items) each and positions in the log (users,)."""


class ListPolicy(Specification, ABC):
    """A frozen configuration that turns scores into lists, perhaps by what is known about the users."""

    @abstractmethod
    def lister(self, data: Interactions) -> Lister:
        """What makes the lists of this log's users; what it takes from the log is computed here, once."""

    def propensities(
        self, scores: FloatArray, allowed: BoolArray, items: IntArray, ties: TieKeys | None = None
    ) -> FloatArray:
        """(users, n): the probability of each item of lists (users, n), given those before it; 1 without chance."""
        return np.ones(items.shape)


class Policy(ListPolicy, ABC):
    """A list policy that has a distribution over the items: a list is drawn from it, place by place.

    A user without any allowed item gets no recommendation: a row of -inf, never NaN.
    """

    certain: ClassVar[bool] = False
    """Whether nothing is left to chance: lists are the highest scores."""
    singles_out_top: ClassVar[bool] = False
    """Whether the top item has another probability than items that are tied with it. Tie keys decide then which one is
    on top, and `_log_probabilities` gets scores of 1 for the top item and 0 for the others."""

    @final
    def lister(self, data: Interactions) -> Lister:
        """Draws that follow from the scores and, where chance plays a part, from the ids."""
        return partial(self._lists, data)

    def _lists(
        self, data: Interactions, scores: FloatArray, allowed: BoolArray, users: IntArray, n: int, rng: int
    ) -> IntArray:
        keys = data.user_keys[users], data.item_keys
        return self.sample(scores, allowed, n, rng, *keys, data.tie_keys(users))

    @final
    def propensities(
        self, scores: FloatArray, allowed: BoolArray, items: IntArray, ties: TieKeys | None = None
    ) -> FloatArray:
        """(users, n): each place's probability among what the places before it left over."""
        left, out = allowed.copy(), np.ones(items.shape)
        rows = np.arange(len(items))
        for place, shown in enumerate(items.T if not self.certain else ()):
            out[:, place] = np.exp(self.log_probabilities(scores, left, ties)[rows, shown])
            left[rows, shown] = False
        return out

    @final
    def log_probabilities(self, scores: FloatArray, allowed: BoolArray, ties: TieKeys | None = None) -> FloatArray:
        """Compute the log-probability of recommending each item; -inf where not `allowed`.

        Args:
            scores: Shape (users, items).
            allowed: Items that may be recommended, shape (users, items).
            ties: What decides between tied items (`Interactions.tie_keys`). Policies need it whose top item has another
                probability than items tied with it, such as `Top1` and `EpsilonGreedy`.

        Returns:
            Shape (users, items).
        """
        check_finite(scores, allowed)
        if self.singles_out_top:
            scores = _is_top(scores, allowed, self._needed(ties))
        return self._log_probabilities(np.where(allowed, scores, -np.inf), allowed)

    def _needed(self, ties: TieKeys | None) -> TieKeys:
        if ties is None:
            raise InputError(
                "ties",
                received=None,
                expected=f"tie keys: {type(self).__name__} prefers one of several items with equal scores",
                remedy="Pass data.tie_keys(users), or TieKeys.in_order(items) for arrays without ids.",
            )
        return ties

    @abstractmethod
    def _log_probabilities(self, scores: FloatArray, allowed: BoolArray) -> FloatArray:
        """As `log_probabilities`; scores are double, finite where allowed and -inf elsewhere."""

    @final
    def sample(
        self,
        scores: FloatArray,
        allowed: BoolArray,
        n: int,
        rng: int,
        users: Keys,
        items: Keys,
        ties: TieKeys | None = None,
    ) -> IntArray:
        """(users, n): item positions, each drawn by the policy from what the places before it left over; -1 for none.

        `users` (users,) and `items` (items,) are the keys of `Interactions.user_keys` and `item_keys`: a user's
        draw follows from the seed and the keys, whatever block it is drawn in. `ties` as for `log_probabilities`.
        """
        check_finite(scores, allowed)
        if self.certain:
            return top_items(scores, allowed, n, self._needed(ties))
        return self._sample(scores, allowed, n, rng, users, items, ties)

    def _sample(
        self, scores: FloatArray, allowed: BoolArray, n: int, rng: int, users: Keys, items: Keys, ties: TieKeys | None
    ) -> IntArray:
        """As `sample`, for a policy whose probabilities keep their ratios when items are taken away."""
        # Adding Gumbel noise to the log-probabilities and taking the n largest is drawing n without replacement
        # (Plackett-Luce). Items at -inf come after all others, each as likely as the next.
        logs, chance = self.log_probabilities(scores, allowed, ties), uniforms(rng, users[:, None], items[None, :])
        drawn = logs - np.log(-np.log(chance))
        never = logs == -np.inf
        last = np.where(never, np.inf, drawn).min(axis=1, keepdims=True)
        order = np.where(never, last - 2 + chance, drawn)
        return top_items(order, allowed, n, TieKeys(users, items))


def check_finite(scores: FloatArray, allowed: BoolArray) -> None:
    """That every allowed item has a score to go by."""
    if not (np.isfinite(scores) | ~allowed).all():
        raise InputError(
            "scores",
            received="NaN or infinite scores of allowed items",
            expected="finite scores",
            remedy="Check the model: it may have diverged.",
        )


def _has_probabilities(value: object, read: ValidatorFunctionWrapHandler) -> object:
    made = value if isinstance(value, ListPolicy) else read(value)
    if not isinstance(made, Policy):
        raise mistake(
            (),
            made,
            "a policy with a probability of each item",
            f"{type(made).__name__} makes whole lists: questions about lists take it, such as recommend, exposure and "
            "calibration.",
        )
    return made


def _shows(policy: ListPolicy) -> ListPolicy:
    if isinstance(policy, Softmax) and policy.beta == "auto":
        expected = "a number for beta: the model that it would be chosen for changes during the simulation"
        raise InputError("", received=repr(policy), expected=expected)
    return policy


AnyListPolicy = Annotated[ListPolicy, OneOf(POLICIES)]
"""A policy that makes lists, or the table that describes one."""
ShowingPolicy = Annotated[ListPolicy, OneOf(POLICIES), AfterValidator(_shows)]
"""The same, for a loop in which models learn: its beta is decided beforehand."""
AnyPolicy = Annotated[Policy, OneOf(POLICIES), WrapValidator(_has_probabilities)]
"""A policy with a distribution over the items, or the table that describes one."""


@final
class Top1(Policy):
    """The allowed item with the highest score; as a list of n, the n highest scores.

    Of tied items the one goes first whose id, hashed with the user's, comes first (`recaudit.ties`).
    """

    certain: ClassVar[bool] = True
    singles_out_top: ClassVar[bool] = True

    def _log_probabilities(self, scores: FloatArray, allowed: BoolArray) -> FloatArray:
        return np.where(scores == 1, 0.0, -np.inf)


@final
class Softmax(Policy):
    """P(i) proportional to exp(beta s_i) (paper 000, Definition 1).

    The effect of beta depends on the scale of a model's scores. With `beta="auto"`, an audit chooses beta for its
    model: recommendations are then spread over 20 effective items, exp of the mean entropy over users (over half of the
    candidates, where there are fewer than 40). `perplexity=n` requests n effective items instead of 20. The result
    reports the beta that was used. Until an audit has chosen it, there are no probabilities.
    """

    beta: Annotated[float, Field(gt=0, le=1e4, allow_inf_nan=False)] | Literal["auto"] = "auto"
    """How much the best item is preferred: towards 0 uniform, towards infinity top-1. "auto" for a beta that depends on
    the model."""
    perplexity: float | None = Field(default=None, gt=1, allow_inf_nan=False)
    """Number of effective items at which "auto" chooses beta, instead of 20. 1 would be the top item alone."""

    @model_validator(mode="after")
    def _beta_or_perplexity(self) -> Self:
        if self.perplexity is not None and self.beta != "auto":
            expected = "beta or perplexity: one follows from the other"
            raise InputError("perplexity", received=f"{self.perplexity:g} with beta={self.beta:g}", expected=expected)
        return self

    @model_serializer
    def _without_defaults(self) -> dict[str, float | str]:
        """Only the setting that decides: beta, or the perplexity."""
        if self.perplexity is not None:
            return {"perplexity": self.perplexity}
        return {"beta": self.beta}

    @property
    def fixed_beta(self) -> float:
        """Beta as a number.

        Raises:
            InputError: If it depends on the model and was not chosen yet.
        """
        if self.beta == "auto":
            raise InputError(
                "policy",
                received=repr(self),
                expected="Softmax(beta=...) with a number: this beta depends on the model",
                remedy="Audits choose it for the model that they are run on; elsewhere pass a number.",
            )
        return self.beta

    def _log_probabilities(self, scores: FloatArray, allowed: BoolArray) -> FloatArray:
        beta = self.fixed_beta
        # At most 0, so that scores of any size stay safe.
        with np.errstate(invalid="ignore", over="ignore"):
            # Minus infinity less itself, where nothing is allowed; and scores so far apart that beta overflows.
            below_best = np.where(allowed, scores - scores.max(axis=1, keepdims=True), 0.0)
            logits = beta * below_best
        return _log_normalised(logits, allowed)

    def __repr_args__(self) -> Iterable[tuple[str | None, object]]:
        return list(self._without_defaults().items())


@final
class EpsilonGreedy(Policy):
    """The top item with probability 1 - epsilon, each of the other n - 1 with epsilon / (n - 1).

    Paper 003 prints epsilon / n for the others, which does not sum to one; this is paper 000's rule. In a list each
    place is explored with probability epsilon, whatever happens at the others: it shows any of the others that are
    left, all alike, which may be one that would have come next. A place that is not explored shows the best that is
    left.
    """

    singles_out_top: ClassVar[bool] = True

    epsilon: float = Field(default=0.1, ge=0, le=1)
    """How often one of the other items is shown."""

    def _log_probabilities(self, scores: FloatArray, allowed: BoolArray) -> FloatArray:
        others = allowed.sum(axis=1, keepdims=True) - 1
        with np.errstate(divide="ignore"):  # the logarithm of 0
            rest = np.log(np.where(others > 0, self.epsilon / np.maximum(others, 1), 0.0))
            best = np.log(np.where(others > 0, 1 - self.epsilon, 1.0))
        return np.where(scores == 1, best, np.where(allowed, rest, -np.inf))

    def _sample(
        self, scores: FloatArray, allowed: BoolArray, n: int, rng: int, users: Keys, items: Keys, ties: TieKeys | None
    ) -> IntArray:
        places = np.arange(n).astype(np.uint64)
        explored = uniforms(derive(rng, "explored"), users[:, None], places[None, :]) < self.epsilon
        # One random order of the items serves every place: whoever is left and not the best was not the best before,
        # and so lost in every draw so far; the order among them is still drawn uniformly. At most n of its first
        # n + 1 are taken or the best, and at most n - 1 of the n highest scores are taken.
        chance = uniforms(rng, users[:, None], items[None, :])
        by_score = top_items(scores, allowed, n, self._needed(ties))
        by_chance = top_items(chance, allowed, n + 1, TieKeys(users, items))
        out = np.full((len(users), n), -1, dtype=np.int64)
        taken = np.zeros((len(users), len(items) + 1), dtype=bool)  # the last column is that of no item: -1
        rows = np.arange(len(users))
        for place in range(n):
            best = _first(by_score, np.take_along_axis(taken, by_score, axis=1))
            other = _first(by_chance, np.take_along_axis(taken, by_chance, axis=1) | (by_chance == best[:, None]))
            out[:, place] = np.where(explored[:, place] & (other >= 0), other, best)
            taken[rows, out[:, place]] = True
            taken[:, -1] = False
        return out


@final
class Power(Policy):
    """P(i) proportional to s_i^p: power sampling, which paper 003 calls Thompson sampling.

    For scores on a scale that starts at 0 or above. A negative score counts as 0 (an even power would turn it
    into a preference); where every allowed score is 0 or less, all are equally likely.
    """

    power: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """How sharply higher scores are preferred."""

    def _log_probabilities(self, scores: FloatArray, allowed: BoolArray) -> FloatArray:
        positive = np.maximum(scores, 0.0)
        largest = positive.max(axis=1, keepdims=True)
        # Dividing by the largest keeps the ratio in [0, 1], so that no power overflows.
        with np.errstate(divide="ignore"):  # the logarithm of 0
            logs = self.power * np.log(positive / np.where(largest > 0, largest, 1.0))
        return _log_normalised(np.where(largest > 0, logs, 0.0), allowed)


def _first(items: IntArray, passed: BoolArray) -> IntArray:
    """(rows,): the first of the items (rows, n) that is not passed over; -1 where all are."""
    found: IntArray = np.take_along_axis(items, passed.argmin(axis=1)[:, None], axis=1)[:, 0]
    return np.where(passed.all(axis=1), -1, found)


def _is_top(scores: FloatArray, allowed: BoolArray, ties: TieKeys) -> FloatArray:
    """1 at the top item of each row, 0 elsewhere."""
    top = top_items(scores, allowed, 1, ties)
    is_top = np.zeros(scores.shape)
    np.put_along_axis(is_top, np.maximum(top, 0), top >= 0, axis=1)
    return is_top


def _log_normalised(logits: FloatArray, allowed: BoolArray) -> FloatArray:
    """Log-softmax over the allowed entries, whose largest logit is 0; a row without any is -inf throughout."""
    with np.errstate(divide="ignore"):  # the logarithm of 0, where nothing is allowed
        total = np.log(np.where(allowed, np.exp(logits), 0.0).sum(axis=1, keepdims=True))
    return np.where(allowed, logits - np.where(np.isfinite(total), total, 0.0), -np.inf)
