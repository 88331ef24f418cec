"""Future instability where the items on the way are drawn: an expectation over trajectories (paper 001, Def. 4.3).

An editor's ratings do not move what that editor is shown (users' vectors stay), so trajectories have the same
probabilities whatever is rated. What is chosen is a rating for every item that may come. With one step each item's
rating stands alone, and the expectation of the largest distances is exact. With more, items share trajectories: the
ratings that are the best in most draws give a value, and its expectation is estimated on fresh draws; the expectation
of each trajectory's own largest distance is not exceeded.
"""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
import torch
from scipy.special import ndtri

from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.instability.pairs import PairDistances, PairSolver
from recaudit.errors import NotSupportedError
from recaudit.interventions import Future
from recaudit.policies import Power, Softmax
from recaudit.seeding import derive
from recaudit.solvers.distance.distances import LARGEST
from recaudit.solvers.distance.own_item import VertexSolution, largest_distance

_DRAWS = 128
"""Trajectories of an editor by which ratings are chosen, and again as many on which they are judged."""
_TAIL = float(ndtri(0.975))
"""Standard errors on either side of an estimate: `lower` and `upper` are 95% limits."""


@final
class DrawnItemsSolver(PairSolver):
    """The items that the editor rates are drawn by the policy that the editor's future follows."""

    def prepare(self) -> None:
        """See `PairSolver`; refuses what has no expectation here."""
        audit, follows = self.audit, self.future.follows
        if not isinstance(follows, Softmax | Power):
            raise NotSupportedError(
                f"Future instability follows Top1(), or draws items by Softmax or Power, not by {follows!r}."
            )
        if audit.best_ratings or audit.baseline != "scores":
            raise NotSupportedError(
                "Where items are drawn there are no ratings to tell, and the baseline is the model's scores: received "
                f"best_ratings={audit.best_ratings}, baseline={audit.baseline!r}."
            )
        self._grid, self._exact = self.grid()

    @property
    def future(self) -> Future:
        """How the editor's items are drawn."""
        assert isinstance(self.audit.edits, Future)
        return self.audit.edits

    def solve(self, viewers: IntArray) -> PairDistances:
        """See `PairSolver`."""
        scores = self.model.scores(viewers)
        block = _Block(viewers, scores, self.shown(scores, viewers))
        shape = (len(viewers), len(self.editors))
        value, lower, upper = (np.full(shape, np.nan) for _ in range(3))
        items = np.full((len(self.editors), 1), -1, dtype=np.int64)
        for column, editor in enumerate(self.editors):
            unseen = torch.from_numpy(~self.log.seen(np.array([editor])))
            if unseen.sum() < self.future.k:
                continue
            items[column] = 0  # there is something to rate
            solve = self._one_step if self.future.k == 1 else self._many_steps
            value[:, column], lower[:, column], ceiling = solve(int(editor), unseen, block)
            upper[:, column] = ceiling if self._exact else LARGEST[self.audit.distance]
        solved = np.full(shape, self.future.k == 1 and self._exact)
        return PairDistances(value, lower, upper, solved, items)

    def _one_step(self, editor: int, unseen: torch.Tensor, block: _Block) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(viewers,) each: the value, and between what it is if the grid misses nothing."""
        chances = self.future.follows.log_probabilities(self.model.scores(np.array([editor])), unseen).exp()
        items = unseen[0].nonzero()[:, 0].numpy()
        edited = self._edited(editor, items[:, None], block)
        value = self._distances(block, items[:, None], edited) @ chances[0].numpy()[items]
        return value, value, value

    def _many_steps(
        self, editor: int, unseen: torch.Tensor, block: _Block
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """As `_one_step`."""
        items = self._drawn(editor, unseen, "choosing")
        wanted = self._wanted(items, self._edited(editor, items, block), block)
        votes = np.zeros((len(block.viewers), self.log.n_items))
        for viewer, votes_of in zip(votes, wanted, strict=True):
            np.add.at(viewer, items.ravel(), votes_of.ravel())
        fresh = self._drawn(editor, unseen, "judging")
        edited = self._edited(editor, fresh, block)
        at = np.where(np.take(votes, fresh, axis=1) >= 0, edited.shape[3] - 2, 0)
        chosen = edited.gather(3, torch.from_numpy(at)[..., None])
        own = self._distances(block, fresh, torch.cat([chosen, edited[..., -1:]], dim=3))
        best = self._distances(block, fresh, edited)
        spread = _TAIL / np.sqrt(len(fresh))
        value, ceiling = own.mean(axis=1), best.mean(axis=1)
        low = np.maximum(0.0, value - spread * own.std(axis=1, ddof=1))
        return value, low, np.minimum(LARGEST[self.audit.distance], ceiling + spread * best.std(axis=1, ddof=1))

    def _drawn(self, editor: int, unseen: torch.Tensor, purpose: str) -> IntArray:
        """(draws, steps): trajectories, which follow from the seed and the editor's id."""
        scores, keys = self.model.scores(np.array([editor])), (self.log.user_keys[[editor]], self.log.item_keys)
        seeds = (derive(self.rng, "trajectory", purpose, draw) for draw in range(_DRAWS))
        sample = self.future.follows.sample
        return np.concatenate([sample(scores, unseen, self.future.k, seed, *keys) for seed in seeds])

    def _wanted(self, items: IntArray, edited: torch.Tensor, block: _Block) -> FloatArray:
        """(viewers, trajectories, steps): 1 where the last rating of the grid leads to the largest distance, -1 where
        the first does, 0 where the rating does not matter."""
        choices = self._largest(block, items, edited).choices(items.shape[1]).reshape(edited.shape[:3])
        rising = edited[..., -2] >= edited[..., 0]
        higher = np.where(choices == 2, 1.0, -1.0) * np.where(rising.numpy(), 1.0, -1.0)
        return np.where(choices == 0, 0.0, higher)

    def _distances(self, block: _Block, items: IntArray, edited: torch.Tensor) -> FloatArray:
        """(viewers, trajectories): the largest of each."""
        return self._largest(block, items, edited).value.reshape(len(block.viewers), -1)

    def _largest(self, block: _Block, items: IntArray, edited: torch.Tensor) -> VertexSolution:
        """Of each viewer and trajectory."""
        return largest_distance(self.audit.distance, block.shown, items, edited, self.beta, target=self.target)

    def _edited(self, editor: int, items: IntArray, block: _Block) -> torch.Tensor:
        """(viewers, trajectories, steps, ratings + 1): the viewers' scores of the items at each rating, then before."""
        ratings = np.broadcast_to(self._grid, (*items.shape, len(self._grid)))
        moved = self.model.edited_items(np.full(len(items), editor), items, ratings)
        before = block.scores[:, torch.from_numpy(items)][..., None]
        return torch.cat([moved.scores(block.viewers), before], dim=3)


@final
class _Block(NamedTuple):
    """Some viewers, and what they are shown before any edit."""

    viewers: IntArray
    scores: torch.Tensor
    """(viewers, items)"""
    shown: torch.Tensor
    """(viewers, items): -inf where an item is no candidate."""
