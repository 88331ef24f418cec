"""How pairs are answered: exactly where each rating moves its own item only, else by ascent, or by asking."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, ndtri, softmax, stdtrit

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.asking import FAILURES, Asked, PointValue, Visit, check_budget
from recaudit.audits.instability.pairs import PairDistances, PairSolver
from recaudit.audits.reachability.search import rating_box, search_distance
from recaudit.errors import NotSupportedError
from recaudit.interventions import Future, Interval, Stars
from recaudit.models.given.black_box import BlackBox
from recaudit.models.given.queries import CONFIDENCE
from recaudit.models.response import OpaqueResponse
from recaudit.policies import Power, Softmax
from recaudit.seeding import derive
from recaudit.solvers.batches import run_on_cores
from recaudit.solvers.distance.distances import LARGEST, Distance, distance_between
from recaudit.solvers.distance.own_item import VertexSolution, largest_distance
from recaudit.solvers.solution import Solution

VIEWERS = 64
"""Viewers solved together: their scores of every editor's items stay in tens of megabytes."""
_SCORES = 8_000_000
"""Scores of edited items in memory at a time; editors are cut accordingly."""
_EDITORS = 256
"""Editors whose items are scored together by one core: what it writes is near when it is read again."""
_DRAWS = 128
"""Trajectories of an editor by which ratings are chosen, and again as many on which they are judged."""
_TAIL = float(ndtri(0.975))
"""Standard errors on either side of an estimate: `lower` and `upper` are 95% limits."""
ANSWERS = 1, 2
"""A distance takes one answer beside the baseline's; asked afresh, both."""


@final
class OwnItemSolver(PairSolver):
    """Each rating moves the score of its own item and no other: exact, for every pair of users."""

    def _prepare(self) -> None:
        self._items = self.edited_items()
        self._grid, self._exact = self.grid()
        before = self.ratings_before(self.model, self.editors, self._items)
        last = np.full(self._items.shape, self._grid[0]) if before is None else before  # replaced by the scores below
        tried = np.broadcast_to(self._grid, (*self._items.shape, len(self._grid)))
        ratings = np.concatenate([tried, last[..., None]], axis=2)
        self._edited = self.model.edited_items(self.editors, self._items, ratings)

    def _solve(self, viewers: IntArray) -> PairDistances:
        audit, scores = self.audit, self.model.scores(viewers)
        shown = self.shown(scores, viewers)
        actions = self._items.shape[1]
        values = np.empty((len(viewers), len(self.editors)))
        best = np.full((*values.shape, actions), np.nan) if audit.best_ratings else None
        size = max(1, _SCORES // (VIEWERS * actions * (len(self._grid) + 1)))
        for start in range(0, len(self.editors), size):
            part = slice(start, start + size)
            items, edited = self._items[part], self._scores(viewers, part)
            if audit.resolved_baseline == "scores":
                edited[..., -1] = scores[:, np.maximum(items, 0)]
            found = largest_distance(
                audit.distance, shown, items, edited, self.beta, target=self.target, changes=self.actions.changes
            )
            values[:, part] = found.value.reshape(len(viewers), -1)
            if best is not None:
                best[:, part] = self._ratings(found.choices(actions).reshape(edited.shape[:3]), edited[..., :-1])
        # A grid proves nothing between its points: there, only what no distance exceeds is known.
        upper = values if self._exact else np.full_like(values, LARGEST[audit.distance])
        return PairDistances(values, values, upper, np.full(values.shape, self._exact), self._items, best)

    def _scores(self, viewers: IntArray, part: slice) -> FloatArray:
        """(viewers, editors of the part, actions, ratings): the viewers' scores of what the editors edit."""
        whole = replace(self._edited, vectors=self._edited.vectors[part], offset=self._edited.offset[part])
        scores = np.empty((len(viewers), *whole.vectors.shape[:3]))

        def fill(start: int) -> None:
            few = slice(start, start + _EDITORS)
            scores[:, few] = replace(whole, vectors=whole.vectors[few], offset=whole.offset[few]).scores(viewers)

        run_on_cores(fill, range(0, len(whole.vectors), _EDITORS))
        return scores

    def _ratings(self, choices: NDArray[np.int8], edited: FloatArray) -> FloatArray:
        """(viewers, editors, actions): as in `PairDistances`; `choices` of the same shape as in `VertexSolution`."""
        lowest, highest = edited.argmin(axis=3), edited.argmax(axis=3)
        at = np.where(choices == 1, lowest, highest)
        return np.where(choices > 0, self._grid[at], np.nan)


class PairwiseSolver(PairSolver):
    """Gradient ascent for each pair, where a rating may move the scores of many items."""

    def _prepare(self) -> None:
        self.items = self.edited_items()
        self.before = self.ratings_before(self.model, self.editors, self.items)

    def _solve(self, viewers: IntArray) -> PairDistances:
        shape = (len(viewers), len(self.editors))
        value, upper, solved = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, dtype=bool)
        best = np.full((*shape, self.items.shape[1]), np.nan)
        scores, allowed = self.model.scores(viewers), self.allowed(viewers)
        acted = self.items >= 0
        wanted = (viewers[:, None] != self.editors) & acted.any(axis=1) & np.any(allowed, axis=1)[:, None]
        for row, column in np.argwhere(wanted):
            found = self._pair(int(viewers[row]), column, acted[column], scores[row], allowed[row])
            at = row, column
            value[at], upper[at], solved[at] = found.value[0], found.upper[0], found.solved[0]
            best[row, column, acted[column]] = found.actions[0]
        return PairDistances(value, value, upper, solved, self.items, best)

    def _pair(self, viewer: int, column: int, acted: BoolArray, scores: FloatArray, allowed: BoolArray) -> Solution:
        editor, ratings, distance = int(self.editors[column]), self.ratings, self.audit.distance
        response = self.model.respond(viewer, editor, self.items[column, acted])
        factual = None if self.before is None else self.before[column, acted]
        start = scores if factual is None else response.scores(factual)
        seed = derive(self.rng, "instability", self.log.user_ids[viewer], self.log.user_ids[editor])
        return search_distance(response, start, allowed, self.beta, ratings, distance, start=factual, rng=seed)


@final
class DrawnItemsSolver(PairSolver):
    """The items that the editor rates are drawn by the policy that the editor's future follows.

    An editor's ratings do not move what that editor is shown, so trajectories have the same probabilities whatever is
    rated. With one step each item's rating stands alone, and the expectation of the largest distances is exact. With
    more, items share trajectories: the ratings that are the best in most draws give a value, whose expectation is
    estimated on fresh draws; the expectation of each trajectory's own largest distance is not exceeded.
    """

    def _prepare(self) -> None:
        audit, follows = self.audit, self.future.follows
        if not isinstance(follows, Softmax | Power):
            raise NotSupportedError(
                f"Future instability follows Top1(), or draws items by Softmax or Power, not by {follows!r}."
            )
        if audit.best_ratings or audit.resolved_baseline != "scores":
            raise NotSupportedError(
                "Where items are drawn there are no ratings to tell, and the baseline is the model's scores: received "
                f"best_ratings={audit.best_ratings}, baseline={audit.resolved_baseline!r}."
            )
        self._grid, self._exact = self.grid()

    @property
    def future(self) -> Future:
        """How the editor's items are drawn."""
        assert isinstance(self.audit.edits, Future)
        return self.audit.edits

    def _solve(self, viewers: IntArray) -> PairDistances:
        scores = self.model.scores(viewers)
        block = _Block(viewers, scores, self.shown(scores, viewers))
        shape = (len(viewers), len(self.editors))
        value, lower, upper = (np.full(shape, np.nan) for _ in range(3))
        items = np.full((len(self.editors), 1), -1, dtype=np.int64)
        for column, editor in enumerate(self.editors):
            unseen = ~self.log.seen(np.array([editor]))
            if unseen.sum() < self.future.k:
                continue
            items[column] = 0  # there is something to rate
            solve = self._one_step if self.future.k == 1 else self._many_steps
            value[:, column], lower[:, column], ceiling = solve(int(editor), unseen, block)
            upper[:, column] = ceiling if self._exact else LARGEST[self.audit.distance]
        solved = np.full(shape, self.future.k == 1 and self._exact)
        return PairDistances(value, lower, upper, solved, items)

    def _one_step(self, editor: int, unseen: BoolArray, block: _Block) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(viewers,) each: the value, and between what it is if the grid misses nothing."""
        alone = np.array([editor])
        scores, ties = self.model.scores(alone), self.log.tie_keys(alone)
        chances = np.exp(self.future.follows.log_probabilities(scores, unseen, ties))
        items = np.flatnonzero(unseen[0])
        edited = self._edited(editor, items[:, None], block)
        value = self._distances(block, items[:, None], edited) @ chances[0, items]
        return value, value, value

    def _many_steps(self, editor: int, unseen: BoolArray, block: _Block) -> tuple[FloatArray, FloatArray, FloatArray]:
        """As `_one_step`."""
        items = self._drawn(editor, unseen, "choosing")
        wanted = self._wanted(items, self._edited(editor, items, block), block)
        votes = np.zeros((len(block.viewers), self.log.n_items))
        for viewer, votes_of in zip(votes, wanted, strict=True):
            np.add.at(viewer, items.ravel(), votes_of.ravel())
        fresh = self._drawn(editor, unseen, "judging")
        edited = self._edited(editor, fresh, block)
        at = np.where(np.take(votes, fresh, axis=1) >= 0, edited.shape[3] - 2, 0)
        chosen = np.take_along_axis(edited, at[..., None], axis=3)
        own = self._distances(block, fresh, np.concatenate([chosen, edited[..., -1:]], axis=3))
        best = self._distances(block, fresh, edited)
        spread = _TAIL / np.sqrt(len(fresh))
        value, ceiling = own.mean(axis=1), best.mean(axis=1)
        low = np.maximum(0.0, value - spread * own.std(axis=1, ddof=1))
        return value, low, np.minimum(LARGEST[self.audit.distance], ceiling + spread * best.std(axis=1, ddof=1))

    def _drawn(self, editor: int, unseen: BoolArray, purpose: str) -> IntArray:
        """(draws, steps): trajectories, which follow from the seed and the editor's id."""
        scores, keys = self.model.scores(np.array([editor])), (self.log.user_keys[[editor]], self.log.item_keys)
        seeds = (derive(self.rng, "trajectory", purpose, draw) for draw in range(_DRAWS))
        sample = self.future.follows.sample
        return np.concatenate([sample(scores, unseen, self.future.k, seed, *keys) for seed in seeds])

    def _wanted(self, items: IntArray, edited: FloatArray, block: _Block) -> FloatArray:
        """(viewers, trajectories, steps): 1 where the last rating of the grid leads to the largest distance, -1 where
        the first does, 0 where the rating does not matter."""
        choices = self._largest(block, items, edited).choices(items.shape[1]).reshape(edited.shape[:3])
        rising = edited[..., -2] >= edited[..., 0]
        higher = np.where(choices == 2, 1.0, -1.0) * np.where(rising, 1.0, -1.0)
        return np.where(choices == 0, 0.0, higher)

    def _distances(self, block: _Block, items: IntArray, edited: FloatArray) -> FloatArray:
        """(viewers, trajectories): the largest of each."""
        return self._largest(block, items, edited).value.reshape(len(block.viewers), -1)

    def _largest(self, block: _Block, items: IntArray, edited: FloatArray) -> VertexSolution:
        """Of each viewer and trajectory."""
        return largest_distance(self.audit.distance, block.shown, items, edited, self.beta, target=self.target)

    def _edited(self, editor: int, items: IntArray, block: _Block) -> FloatArray:
        """(viewers, trajectories, steps, ratings + 1): the viewers' scores of the items at each rating, then before."""
        ratings = np.broadcast_to(self._grid, (*items.shape, len(self._grid)))
        moved = self.model.edited_items(np.full(len(items), editor), items, ratings)
        before = block.scores[:, items][..., None]
        return np.concatenate([moved.scores(block.viewers), before], axis=3)


@final
class _Block(NamedTuple):
    """Some viewers, and what they are shown before any edit."""

    viewers: IntArray
    scores: FloatArray  # (viewers, items)
    shown: FloatArray  # (viewers, items): -inf where an item is no candidate


@final
class NoEffectSolver(PairSolver):
    """Pairs of a model that sees the viewer's own ratings only: another user's ratings change nothing."""

    def _prepare(self) -> None:
        """Nothing is prepared: no pair needs a score."""

    def _solve(self, viewers: IntArray) -> PairDistances:
        values = [0.0 if allowed.any() else np.nan for allowed in self.allowed(viewers)]
        value = np.repeat(np.array(values)[:, None], len(self.editors), axis=1)
        # No rating matters, so no item is named; an item number marks that the pair was decided.
        items = np.zeros((len(self.editors), 1), dtype=np.int64)
        return PairDistances(value, value, value, np.ones(value.shape, dtype=bool), items)


@final
class BlackBoxSolver(PairSolver):
    """A system that can only be asked, about each pair within the audit's budget (paper 001, section 5.2).

    Two answers of a system that does not repeat itself are apart without any edit. The search then only chooses the
    ratings, and which items they make more likely. How likely these are, before and after, is estimated from fresh
    answers; the value is the distance that this alone implies, between the nearest ends of the confidence intervals.
    """

    def _prepare(self) -> None:
        system = self.model if isinstance(self.model, BlackBox) else None
        if system is not None and system.lists is not None:
            raise NotSupportedError(
                "Instability is a distance of probabilities. A system that gives lists has none, or, where they are "
                "random, would be asked for far more of them than anybody does. Build it with probabilities=... or "
                "scores=..."
            )
        if system is not None and system.gives_probabilities and self.beta != 1:
            raise NotSupportedError(
                "This system gives its own probabilities: they have no other policy than Softmax(beta=1), and "
                f"Softmax(beta={self.beta:g}) was received."
            )
        check_budget(self.model, self.audit.budget, ANSWERS)

    def _solve(self, viewers: IntArray) -> PairDistances:
        allowed = self.allowed(viewers)
        wanted = (viewers[:, None] != self.editors[None, :]) & np.any(allowed, axis=1)[:, None]
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
    allowed: BoolArray,
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
    among = np.flatnonzero(allowed)

    @cache
    def response(model: BlackBox) -> OpaqueResponse:
        return model.respond(*pair)

    def start(model: BlackBox) -> FloatArray:
        return model.scores(viewer)[0] if factual is None else response(model).scores(factual)

    def outcome(model: BlackBox, point: FloatArray) -> PointValue:
        scores = np.stack([start(model), response(model).scores(point)])[:, among]
        before, after = log_softmax(beta * scores, axis=1)
        return PointValue(float(distance_between(distance, before, after)), scores)

    try:
        visit.scores(start)
        best = visit.maximize(outcome, rating_box(ratings, len(pair[2])), start=factual, rng=rng, answers=ANSWERS)
    except FAILURES as error:
        return Asked(visit.queries.asked, failure=str(error)), np.nan, np.full(len(pair[2]), np.nan)
    value = best.outcomes[0].value
    if best.fresh:
        chosen, *fresh = (
            softmax(beta * told.scores, axis=1) for told in (outcome(visit.model, best.point), *best.outcomes)
        )
        value = surely_moved(distance, chosen[1] > chosen[0], np.stack(fresh))
    return Asked(visit.queries.asked, best.fresh), value, best.point


def surely_moved(distance: Distance, event: BoolArray, shares: FloatArray) -> float:
    """What the distance of two expected distributions is not below, with 97.5% confidence.

    `event` (candidates,): some items, chosen without looking at `shares` (answers, 2, candidates), random distributions
    before and after. Seeing only whether an item of the event is shown cannot increase a distance (for L2, by Cauchy
    and Schwarz, once it is divided by the length of the event's centred indicator). The probability of the event has
    Student's limits, which assume that it varies normally; where it takes one or two values only, nothing is sure.
    """
    draws = shares[:, :, event].sum(axis=2)
    count = len(draws)
    if any(len(np.unique(np.round(column, 9))) <= 2 for column in draws.T):
        return 0.0
    reach = stdtrit(count - 1, (1 + CONFIDENCE) / 2) * draws.std(axis=0, ddof=1) / np.sqrt(count)
    before, after = (draws.mean(axis=0) + reach * [1, -1]).clip(0, 1)
    if after <= before:
        return 0.0
    if distance == "l2":
        size, whole = int(event.sum()), len(event)
        return float((after - before) / np.sqrt(size * (1 - size / whole)))
    with np.errstate(divide="ignore"):  # a probability of 0
        two = np.log([[before, 1 - before], [after, 1 - after]])
    return float(distance_between(distance, two[0], two[1]))
