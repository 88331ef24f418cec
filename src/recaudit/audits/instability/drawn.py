"""Future instability where the items on the way are drawn: an expectation over trajectories (paper 001, Def. 4.3).

An editor's ratings do not move what that editor is shown (users' vectors stay), so trajectories have the same
probabilities whatever is rated. What is chosen is a rating for every item that may come. With one step each item's
rating stands alone, and the expectation of the largest distances is exact. With more, items share trajectories: the
ratings that are the best in most draws give a value, and its expectation is estimated on fresh draws; the expectation
of each trajectory's own largest distance is not exceeded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from scipy.special import ndtri

from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.instability.question import InstabilityQuestion, Pairs, Part, masked
from recaudit.errors import NotSupportedError
from recaudit.interventions import Future
from recaudit.policies import Power, Softmax
from recaudit.seeding import derive
from recaudit.solvers.distance.distances import LARGEST
from recaudit.solvers.distance.own_item import largest_distance

_DRAWS = 128
"""Trajectories of an editor by which ratings are chosen, and again as many on which they are judged."""
_TAIL = float(ndtri(0.975))
"""Standard errors on either side of an estimate: `lower` and `upper` are 95% limits."""


@final
@dataclass(frozen=True, eq=False)
class DrawnEdits:
    """A block of viewers in, their pairs with all editors out; pure and picklable."""

    question: InstabilityQuestion
    future: Future
    members: FloatArray
    rng: int

    @classmethod
    def of(cls, ask: InstabilityQuestion, future: Future, rng: int) -> DrawnEdits:
        """Refuses what has no expectation here."""
        if not isinstance(future.follows, Softmax | Power):
            raise NotSupportedError(
                f"Future instability follows Top1(), or draws items by Softmax or Power, not by {future.follows!r}."
            )
        if ask.best_ratings or ask.baseline != "scores":
            raise NotSupportedError(
                "Where items are drawn there are no ratings to tell, and the baseline is the model's scores: received "
                f"best_ratings={ask.best_ratings}, baseline={ask.baseline!r}."
            )
        return cls(ask, future, ask.members(), rng)

    def __call__(self, viewers: IntArray) -> Part:
        """The pairs of these viewers (positions)."""
        ask = self.question
        scores = ask.model.scores(viewers)
        block = _Block(viewers, scores, masked(scores, ask.allowed(viewers)))
        shape = (len(viewers), len(ask.editors))
        value, lower, upper = (np.full(shape, np.nan) for _ in range(3))
        items = np.full((len(ask.editors), 1), -1, dtype=np.int64)
        for column, editor in enumerate(ask.editors):
            unseen = torch.from_numpy(~ask.log.seen(np.array([editor])))
            if unseen.sum() < self.future.k:
                continue
            items[column] = 0  # there is something to rate
            solve = self._one_step if self.future.k == 1 else self._many_steps
            value[:, column], lower[:, column], upper[:, column] = solve(int(editor), unseen, block)
        exact = self.future.k == 1 and self._exact
        return Part.of(ask, Pairs(viewers, value, lower, upper, np.full(shape, exact), items, None), self.members)

    @property
    def _exact(self) -> bool:
        """Whether no other rating that may be given can do more than those tried."""
        return self.question.tried(self.future.ratings)[1]

    def _one_step(self, editor: int, unseen: torch.Tensor, block: _Block) -> tuple[FloatArray, FloatArray, FloatArray]:
        chances = self.future.follows.log_probabilities(self.question.model.scores(np.array([editor])), unseen).exp()
        items = unseen[0].nonzero()[:, 0].numpy()
        largest, _ = self._largest(editor, items[:, None], block)
        value = largest @ chances[0].numpy()[items]
        return value, value, value if self._exact else np.full_like(value, LARGEST[self.question.distance])

    def _many_steps(
        self, editor: int, unseen: torch.Tensor, block: _Block
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        ask = self.question
        items = self._drawn(editor, unseen, "choosing")
        _, high = self._largest(editor, items, block)
        votes = np.zeros((len(block.viewers), ask.log.n_items))
        for viewer, wanted in zip(votes, high, strict=True):
            np.add.at(viewer, items.ravel(), wanted.ravel())
        fresh = self._drawn(editor, unseen, "judging")
        edited = self._edited(editor, fresh, block)
        at = np.where(np.take(votes, fresh, axis=1) >= 0, edited.shape[3] - 2, 0)
        chosen = edited.gather(3, torch.from_numpy(at)[..., None])
        fixed = torch.cat([chosen, edited[..., -1:]], dim=3)
        own = self._distances(block, fresh, fixed)
        best = self._distances(block, fresh, edited)
        spread = _TAIL / np.sqrt(len(fresh))
        value, ceiling = own.mean(axis=1), best.mean(axis=1)
        low = np.maximum(0.0, value - spread * own.std(axis=1, ddof=1))
        high_end = np.minimum(LARGEST[ask.distance], ceiling + spread * best.std(axis=1, ddof=1))
        return value, low, high_end if self._exact else np.full_like(value, LARGEST[ask.distance])

    def _drawn(self, editor: int, unseen: torch.Tensor, purpose: str) -> IntArray:
        """(draws, steps): trajectories, which follow from the seed and the editor's id."""
        log, scores = self.question.log, self.question.model.scores(np.array([editor]))
        keys = log.user_keys[[editor]], log.item_keys
        return np.concatenate(
            [
                self.future.follows.sample(
                    scores, unseen, self.future.k, derive(self.rng, "trajectory", purpose, draw), *keys
                )
                for draw in range(_DRAWS)
            ]
        )

    def _largest(self, editor: int, items: IntArray, block: _Block) -> tuple[FloatArray, FloatArray]:
        """(viewers, trajectories) largest distances, and (viewers, trajectories, steps) 1 where the last rating of the
        grid leads there, -1 where the first, 0 where it does not matter."""
        edited = self._edited(editor, items, block)
        ask = self.question
        found = largest_distance(ask.distance, block.shown, items, edited, ask.beta, target=ask.target)
        choices = found.choices(items.shape[1]).reshape(edited.shape[:3])
        rising = edited[..., -2] >= edited[..., 0]
        higher = np.where(choices == 2, 1.0, -1.0) * np.where(rising.numpy(), 1.0, -1.0)
        return found.value.reshape(edited.shape[:2]), np.where(choices == 0, 0.0, higher)

    def _distances(self, block: _Block, items: IntArray, edited: torch.Tensor) -> FloatArray:
        ask = self.question
        found = largest_distance(ask.distance, block.shown, items, edited, ask.beta, target=ask.target)
        return found.value.reshape(edited.shape[:2])

    def _edited(self, editor: int, items: IntArray, block: _Block) -> torch.Tensor:
        """(viewers, trajectories, steps, ratings + 1): the viewers' scores of the items at each rating, then before."""
        grid, _ = self.question.tried(self.future.ratings)
        ratings = np.broadcast_to(grid, (*items.shape, len(grid)))
        moved = self.question.model.edited_items(np.full(len(items), editor), items, ratings)
        before = block.scores[:, torch.from_numpy(items)][..., None]
        return torch.cat([moved.scores(block.viewers), before], dim=3)


@final
@dataclass(frozen=True, eq=False)
class _Block:
    """Some viewers, and what they are shown before any edit."""

    viewers: IntArray
    scores: torch.Tensor
    """(viewers, items)"""
    shown: torch.Tensor
    """(viewers, items): -inf where an item is no candidate."""
