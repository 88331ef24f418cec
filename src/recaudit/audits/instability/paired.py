"""Instability where a rating may move the scores of many items: pair by pair, solved or honestly bounded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray

from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.instability.question import InstabilityQuestion, Pairs, Part
from recaudit.audits.reachability.search import search_distance
from recaudit.engines.base import blocks
from recaudit.errors import NotSupportedError
from recaudit.interventions import Actions, Interval, Stars
from recaudit.interventions.ratings import free_ratings
from recaudit.models.given.black_box import BlackBox
from recaudit.models.response import AffineResponse
from recaudit.seeding import derive
from recaudit.solvers.distance.maximize import maximize_distance
from recaudit.status import Status


@final
@dataclass(frozen=True, eq=False)
class SolvePairs:
    """A block of viewers in, their pairs with all editors out; pure and picklable.

    An affine response is solved by branch and bound over the box of ratings; one that can be differentiated is
    climbed.
    """

    question: InstabilityQuestion
    items: IntArray
    """(editors, actions): -1 for none."""
    before: FloatArray | None
    """(editors, actions): the ratings of the baseline; None where it is the model's scores."""
    ratings: Interval | Stars
    members: FloatArray
    rng: int

    @classmethod
    def of(cls, ask: InstabilityQuestion, actions: Actions, rng: int) -> SolvePairs:
        """What the editors of the question can do with these actions."""
        items = np.concatenate([actions.items(ask.model, part, rng, ask.log) for part in blocks(ask.editors)])
        allowed = free_ratings(actions.ratings, ask.log.scale)
        return cls(ask, items, ask.ratings_before(actions, items), allowed, ask.members(), rng)

    def __call__(self, viewers: IntArray) -> Part:
        """The pairs of these viewers (positions)."""
        ask = self.question
        shape = (len(viewers), len(ask.editors))
        value, upper, solved = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, dtype=bool)
        best = np.full((*shape, self.items.shape[1]), np.nan)
        scores, allowed = ask.model.scores(viewers), torch.from_numpy(ask.allowed(viewers))
        for row, viewer in enumerate(viewers):
            if not allowed[row].any():
                continue
            for column, editor in enumerate(ask.editors):
                acted = self.items[column] >= 0
                if viewer != editor and acted.any():
                    found = self._solve(int(viewer), int(editor), column, acted, scores[row], allowed[row])
                    value[row, column], upper[row, column], solved[row, column], best[row, column, acted] = found
        told = best if ask.best_ratings else None
        return Part.of(ask, Pairs(viewers, value, value, upper, solved, self.items, told), self.members)

    def _solve(
        self,
        viewer: int,
        editor: int,
        column: int,
        acted: NDArray[np.bool_],
        scores: torch.Tensor,
        allowed: torch.Tensor,
    ) -> tuple[float, float, bool, FloatArray]:
        """The value, what it is surely not above, whether that is the same, and the ratings (actions,)."""
        ask = self.question
        response = ask.model.respond(viewer, editor, self.items[column, acted])
        factual = None if self.before is None else self.before[column, acted]
        start = scores if factual is None else response.scores(factual)
        if not isinstance(response, AffineResponse):
            seed = derive(self.rng, "instability", *(ask.log.user_ids[person] for person in (viewer, editor)))
            found = search_distance(
                response, start, allowed, ask.beta, self.ratings, ask.distance,
                start=factual, rng=seed,
            )  # fmt: skip
            return found.value, found.upper, False, found.ratings
        solution = maximize_distance(
            response.slope[allowed],
            response.intercept[allowed],
            torch.log_softmax(ask.beta * start[allowed], dim=0),
            ask.beta,
            self.ratings.low,
            self.ratings.high,
            ask.distance,
            values=self.ratings.values if isinstance(self.ratings, Stars) else None,
        )
        solved = solution.status[0] == Status.SOLVED
        return solution.value[0], solution.upper[0], solved, solution.actions[0]


def check_pairwise(ask: InstabilityQuestion, actions: Actions) -> None:
    """Refuse what has no answer where a rating may move the scores of many items."""
    model = ask.model
    if ask.target is not None or actions.changes is not None:
        raise NotSupportedError(
            f"{type(model).__name__}: a rating of another user may move many scores, and then neither one item "
            "alone nor a limit on changes has a solver. Leave out item and changes."
        )
    if isinstance(model, BlackBox) and model.gives_probabilities and ask.beta != 1:
        raise NotSupportedError(
            "This system gives its own probabilities: they have no other policy than Softmax(beta=1), and "
            f"Softmax(beta={ask.beta:g}) was received."
        )
