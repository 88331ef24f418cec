"""What a policy is: scores in; a list, or a distribution over the allowed items, out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Annotated, ClassVar, Protocol, final

import numpy as np
import torch
from pydantic import ValidatorFunctionWrapHandler, WrapValidator
from torch import Tensor

from recaudit.arrays import FloatArray, IntArray
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.ranking import top_items
from recaudit.registry import POLICIES
from recaudit.seeding import Keys, uniforms
from recaudit.specification import OneOf, Specification, mistake


class Lister(Protocol):
    """What makes the lists of a log's users; picklable."""

    def __call__(self, scores: Tensor, allowed: Tensor, users: IntArray, n: int, rng: int) -> IntArray:
        """(users, n): item positions, first place first; -1 where none is left.

        `scores`, `allowed` (users, items); `users` (users,): positions in the log.
        """


class ListPolicy(Specification, ABC):
    """A frozen configuration that turns scores into lists, perhaps by what is known about the users."""

    @abstractmethod
    def lister(self, data: Interactions) -> Lister:
        """What makes the lists of this log's users; what it takes from the log is computed here, once."""

    def propensities(self, scores: Tensor, allowed: Tensor, items: IntArray) -> FloatArray:
        """(users, n): the probability of each item of lists (users, n), given the places before it.

        1 everywhere where nothing is left to chance; without meaning where a list has no item.
        """
        return np.ones(items.shape)


class Policy(ListPolicy, ABC):
    """A list policy that has a distribution over the items: a list is drawn from it, place by place.

    A user without any allowed item gets no recommendation: a row of -inf, never NaN.
    """

    certain: ClassVar[bool] = False
    """Whether nothing is left to chance: lists are the highest scores."""

    @final
    def lister(self, data: Interactions) -> Lister:
        """Draws that follow from the scores and, where chance plays a part, from the ids."""
        return partial(self._lists, data)

    def _lists(
        self, data: Interactions, scores: Tensor, allowed: Tensor, users: IntArray, n: int, rng: int
    ) -> IntArray:
        return self.sample(scores, allowed, n, rng, data.user_keys[users], data.item_keys)

    @final
    def propensities(self, scores: Tensor, allowed: Tensor, items: IntArray) -> FloatArray:
        """(users, n): each place's probability among what the places before it left over."""
        left, out = allowed.clone(), np.ones(items.shape)
        rows = np.arange(len(items))
        for place, shown in enumerate(items.T if not self.certain else ()):
            out[:, place] = np.exp(self.log_probabilities(scores, left).numpy()[rows, shown])
            left[rows, shown] = False
        return out

    @final
    def log_probabilities(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """(users, items): the log-probability of recommending each item; -inf where not `allowed`."""
        check_finite(scores, allowed)
        return self._log_probabilities(scores.double().masked_fill(~allowed, -torch.inf), allowed)

    @abstractmethod
    def _log_probabilities(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """As `log_probabilities`; scores are double, finite where allowed and -inf elsewhere."""

    @final
    def sample(self, scores: Tensor, allowed: Tensor, n: int, rng: int, users: Keys, items: Keys) -> IntArray:
        """(users, n): item positions, one after the other, each drawn by the policy from what is left; -1 for none.

        So a list of one follows `log_probabilities`, and every further place follows them among the items that the
        places before it left over. `users` (users,) and `items` (items,) are the keys of `Interactions.user_keys` and
        `item_keys`: a user's draw follows from the seed and the keys, whatever block it is drawn in.
        """
        check_finite(scores, allowed)
        if self.certain:
            return top_items(scores, allowed, n)
        return self._sample(scores, allowed, n, rng, users, items)

    def _sample(self, scores: Tensor, allowed: Tensor, n: int, rng: int, users: Keys, items: Keys) -> IntArray:
        """As `sample`, for a policy whose probabilities keep their ratios when items are taken away."""
        # Adding Gumbel noise to the log-probabilities and taking the n largest is drawing n without replacement
        # (Plackett-Luce). Items at -inf come after all others, each as likely as the next.
        logs, chance = self.log_probabilities(scores, allowed), uniforms(rng, users[:, None], items[None, :])
        drawn = logs + torch.from_numpy(-np.log(-np.log(chance)))
        never = logs == -torch.inf
        last = drawn.masked_fill(never, torch.inf).amin(dim=1, keepdim=True)
        return top_items(torch.where(never, last - 2 + torch.from_numpy(chance), drawn), allowed, n)


def check_finite(scores: Tensor, allowed: Tensor) -> None:
    """That every allowed item has a score to go by."""
    # numpy for what is on the CPU: waking torch's threads takes longer than looking.
    values, mask = scores.detach().cpu().numpy(), allowed.cpu().numpy()
    if not (np.isfinite(values) | ~mask).all():
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


AnyListPolicy = Annotated[ListPolicy, OneOf(POLICIES)]
"""A policy that makes lists, or the table that describes one."""
AnyPolicy = Annotated[Policy, OneOf(POLICIES), WrapValidator(_has_probabilities)]
"""A policy with a distribution over the items, or the table that describes one."""
