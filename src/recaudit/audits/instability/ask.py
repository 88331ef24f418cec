"""Instability of a system that can only be asked, within a budget of queries a pair (paper 001, section 5.2).

What is found is a lower bound. Two answers of a system that does not repeat itself are apart without any edit, so that
their distance says little of what edits do. The search then only chooses the ratings, and which items they make more
likely. How likely these items are, before and after, is estimated from fresh answers; the value is the distance that
this alone implies, between the nearest ends of the two confidence intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import final

import numpy as np
import torch
from scipy import stats

from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.asking import FAILURES, Asked, PointValue, Visit, check_budget
from recaudit.audits.instability.pairs import PairDistances, PairSolver
from recaudit.audits.reachability.search import rating_box
from recaudit.errors import NotSupportedError
from recaudit.interventions import Interval, Stars
from recaudit.models.given.black_box import BlackBox
from recaudit.models.given.queries import CONFIDENCE
from recaudit.models.response import OpaqueResponse
from recaudit.seeding import derive
from recaudit.solvers.distance.distances import LARGEST, Distance, distance_between

ANSWERS = 1, 2
"""A distance takes one answer beside the baseline's; asked afresh, both."""


@final
class BlackBoxSolver(PairSolver):
    """A system that can only be asked, about each pair within the audit's budget; pure if the system is."""

    def prepare(self) -> None:
        """See `PairSolver`."""
        system = self.model if isinstance(self.model, BlackBox) else None
        if system is not None and system.sampling is not None:
            raise NotSupportedError(
                "Instability of a system that gives random lists would need far more of them than anybody asks for. "
                "Build it with probabilities=... or scores=..."
            )
        if system is not None and system.gives_probabilities and self.beta != 1:
            raise NotSupportedError(
                "This system gives its own probabilities: they have no other policy than Softmax(beta=1), and "
                f"Softmax(beta={self.beta:g}) was received."
            )
        check_budget(self.model, self.audit.budget, ANSWERS)

    def solve(self, viewers: IntArray) -> PairDistances:
        """See `PairSolver`."""
        allowed = torch.from_numpy(self.allowed(viewers))
        wanted = (viewers[:, None] != self.editors[None, :]) & allowed.any(dim=1).numpy()[:, None]
        block = Visit.of(self.model, self.audit.budget)
        editors = {column: self._editor(block.pair(), column) for column in np.flatnonzero(wanted.any(axis=0)).tolist()}
        width = max([1, *(len(editor.acted) for editor in editors.values())])
        items = np.full((len(self.editors), width), -1, dtype=np.int64)
        for column, editor in editors.items():
            items[column, : len(editor.acted)] = editor.acted
        shape = wanted.shape
        value, best, asked = np.full(shape, np.nan), np.full((*shape, width), np.nan), np.full(shape, Asked(0))
        for row, column in np.argwhere(wanted).tolist():
            editor = editors[column]
            asked[row, column] = Asked(editor.visit.queries.asked, failure=editor.failure)
            if editor.failure is None and len(editor.acted):
                pair = int(viewers[row]), editor.position, editor.acted
                seed = derive(self.rng, "instability", *(self.log.user_ids[person] for person in pair[:2]))
                limits = self.beta, self.ratings, self.audit.distance
                found = ask_distance(editor.visit.pair(), pair, editor.before, allowed[row], *limits, seed)
                asked[row, column], value[row, column], best[row, column, : len(editor.acted)] = found
        upper = np.full(shape, LARGEST[self.audit.distance])
        return PairDistances(value, value, upper, np.zeros(shape, dtype=bool), items, best, asked)

    def _editor(self, visit: Visit, column: int) -> _Editor:
        """What is asked once for all pairs of an editor."""
        editors = self.editors[column : column + 1]
        try:
            items = self.actions.items(visit.model, editors, self.rng, self.log)
            acted = items[:, items[0] >= 0]
            before = self.ratings_before(visit.model, editors, acted)
        except FAILURES as error:
            return _Editor(int(editors[0]), visit, np.empty(0, dtype=np.int64), None, str(error))
        return _Editor(int(editors[0]), visit, acted[0], None if before is None else before[0])


@final
@dataclass(frozen=True, eq=False)
class _Editor:
    """What an editor can do."""

    position: int
    visit: Visit
    acted: IntArray  # (actions,): positions of the items whose ratings are free
    before: FloatArray | None  # (actions,): the ratings of the baseline; None where it is the model's scores
    failure: str | None = None


def ask_distance(
    visit: Visit,
    pair: tuple[int, int, IntArray],
    factual: FloatArray | None,
    allowed: torch.Tensor,
    beta: float,
    ratings: Interval | Stars,
    distance: Distance,
    rng: int,
) -> tuple[Asked, float, FloatArray]:
    """How far the editor's ratings of some items were found to move softmax(`beta` scores) of the viewer.

    The distance is a lower bound of the largest, with 97.5% confidence where answers are chance, and NaN where asking
    failed; then the ratings (actions,) that reach it.

    `pair`: positions of the viewer, the editor and the items (actions,). `factual` (actions,): the ratings of the
    baseline, or None where it is the scores. `allowed` (items,): True at the viewer's candidates.
    """
    viewer = np.array([pair[0]])
    among = allowed.nonzero()[:, 0]

    @cache
    def response(model: BlackBox) -> OpaqueResponse:
        return model.respond(*pair)

    def start(model: BlackBox) -> torch.Tensor:
        return model.scores(viewer)[0] if factual is None else response(model).scores(factual)

    def outcome(model: BlackBox, point: FloatArray) -> PointValue:
        scores = torch.stack([start(model), response(model).scores(point)])[:, among]
        before, after = torch.log_softmax(beta * scores, dim=1)
        return PointValue(float(distance_between(distance, before, after)), scores)

    try:
        visit.scores(start)
        best = visit.maximize(outcome, rating_box(ratings, len(pair[2])), start=factual, rng=rng, answers=ANSWERS)
    except FAILURES as error:
        return Asked(visit.queries.asked, failure=str(error)), np.nan, np.full(len(pair[2]), np.nan)
    value = best.outcomes[0].value
    if best.fresh:
        chosen, *fresh = (
            torch.softmax(beta * told.scores, dim=1) for told in (outcome(visit.model, best.point), *best.outcomes)
        )
        value = surely_moved(distance, chosen[1] > chosen[0], torch.stack(fresh))
    return Asked(visit.queries.asked, best.fresh), value, best.point


def surely_moved(distance: Distance, event: torch.Tensor, shares: torch.Tensor) -> float:
    """What the distance of two expected distributions is not below, with 97.5% confidence.

    `event` (candidates,): some items, chosen without looking at `shares` (answers, 2, candidates), random distributions
    before and after. Seeing only whether an item of the event is shown cannot increase a distance (for L2, by Cauchy
    and Schwarz, once it is divided by the length of the event's centred indicator). The probability of the event has
    Student's limits, which assume that it varies normally; where it takes one or two values only, nothing is sure.
    """
    draws = shares[:, :, event].sum(dim=2).numpy()
    count = len(draws)
    if any(len(np.unique(np.round(column, 9))) <= 2 for column in draws.T):
        return 0.0
    reach = stats.t.ppf((1 + CONFIDENCE) / 2, count - 1) * draws.std(axis=0, ddof=1) / np.sqrt(count)
    before, after = (draws.mean(axis=0) + reach * [1, -1]).clip(0, 1)
    if after <= before:
        return 0.0
    if distance == "l2":
        size, whole = int(event.sum()), len(event)
        return float((after - before) / np.sqrt(size * (1 - size / whole)))
    two = torch.tensor([[before, 1 - before], [after, 1 - after]], dtype=torch.float64).log()
    return float(distance_between(distance, two[0], two[1]))
