"""What a policy is: scores in, a distribution over the allowed items out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, final

import numpy as np
import torch
from torch import Tensor

from recaudit.arrays import IntArray
from recaudit.errors import InputError
from recaudit.ranking import top_items
from recaudit.registry import POLICIES
from recaudit.seeding import Keys, uniforms
from recaudit.specification import OneOf, Specification


class Policy(Specification, ABC):
    """A frozen configuration that turns scores into recommendations.

    A user without any allowed item gets no recommendation: a row of -inf, never NaN.
    """

    certain: ClassVar[bool] = False
    """Whether nothing is left to chance: lists are the highest scores."""

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


AnyPolicy = Annotated[Policy, OneOf(POLICIES)]
"""A policy, or the table that describes one."""
