"""The least effort against all choices there are."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from scipy.special import softmax

from recaudit.arrays import FloatArray, IntArray
from recaudit.ranking import top_items
from recaudit.solvers.recourse.least import Certainty, Choices, LeastEffort
from recaudit.solvers.recourse.outcomes import calibrated_effort, likely_effort, share_effort
from recaudit.solvers.recourse.places import item_effort
from recaudit.solvers.recourse.programs import ChanceProgram, FreeRatings, ListProgram, PlaceProgram, interval_effort
from recaudit.solvers.recourse.search import searched_effort
from recaudit.ties import TieKeys

STARS = np.arange(1.0, 6.0)
KINDS = ("changes", "total", "costs")
Holds = Callable[[FloatArray], bool]


class Problem:
    """A few items, a few ratings, drawn; every third one with scores that tie."""

    def __init__(self, seed: int, kind: str, stars: FloatArray = STARS) -> None:
        draw = np.random.default_rng(seed)
        self.n_items, ratings = int(draw.integers(4, 11)), int(draw.integers(1, 4))
        self.slope = draw.normal(size=(self.n_items, ratings))
        self.scores = 2 * draw.normal(size=self.n_items)
        if seed % 3 == 0:
            self.slope, self.scores = np.round(self.slope), np.round(self.scores)
        self.now = draw.uniform(1, 5, ratings) if seed % 2 else draw.integers(1, 6, ratings).astype(float)
        self.costs = draw.uniform(0.5, 2, ratings)
        self.kind, self.draw = kind, draw
        self.choices = Choices.of_stars(self.now, stars, self._costs)
        self.target, self.n = int(draw.integers(self.n_items)), int(draw.integers(1, self.n_items))
        self.shares = draw.dirichlet(np.full(3, 0.3), size=self.n_items)
        self.interests = draw.dirichlet(np.ones(3))

    def _costs(self, moves: FloatArray) -> FloatArray:
        if self.kind == "total":
            return np.abs(moves)
        one = np.ones(len(self.now)) if self.kind == "changes" else self.costs
        return np.repeat(one[:, None], moves.shape[1], 1)

    @property
    def free(self) -> FreeRatings:
        return FreeRatings(
            self.now, 1.0, 5.0, None if self.kind == "total" else self._costs(np.zeros((len(self.now), 1)))[:, 0]
        )

    def list_at(self, moves: FloatArray) -> IntArray:
        scores = (self.scores + self.slope @ moves)[None]
        everything, ties = np.ones(scores.shape, dtype=bool), TieKeys.in_order(self.n_items)
        first: IntArray = top_items(scores, everything, self.n, ties)[0]
        return first

    def chance_at(self, moves: FloatArray) -> float:
        scores = self.scores + self.slope @ moves
        return float(softmax(scores)[self.target])

    def moves_of(self, answer: LeastEffort) -> FloatArray:
        return np.where(answer.option >= 0, self.choices.moves[np.arange(len(self.now)), answer.option], 0.0)

    def among_first(self, inside: bool = True) -> Holds:
        return lambda moves: (self.target in self.list_at(moves)) == inside

    def likely(self, least: float) -> Holds:
        return lambda moves: self.chance_at(moves) >= least - 1e-9

    def held(self, bound: float, sign: int) -> Holds:
        return lambda moves: bool(sign * (self.shares[self.list_at(moves), 0].mean() - bound) >= -1e-9)

    def calibrated(self, most: float) -> Holds:
        def divergence(moves: FloatArray) -> float:
            p, q = self.interests, self.shares[self.list_at(moves)].mean(axis=0)
            return float(-(p * np.log(0.99 * q / p + 0.01)).sum())

        return lambda moves: divergence(moves) <= most + 1e-9

    def by_brute_force(self, holds: Holds) -> float:
        best = np.inf
        for option in product(*(range(-1, count) for count in self.choices.counts)):
            chosen = LeastEffort(Certainty.SOME, 0.0, 0.0, np.array(option), 0)
            cost = sum(self.choices.costs[k, o] for k, o in enumerate(option) if o >= 0)
            if cost < best and holds(self.moves_of(chosen)):
                best = cost
        return best

    def check(self, answer: LeastEffort, holds: Holds) -> None:
        best = self.by_brute_force(holds)
        if best == np.inf:
            assert answer.found is Certainty.IMPOSSIBLE
            return
        assert answer.found is Certainty.LEAST
        assert answer.value == pytest.approx(best, rel=1e-7)
        assert answer.lower == pytest.approx(best, rel=1e-7)
        assert holds(self.moves_of(answer))


@pytest.mark.contract
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("inside", [True, False])
def test_the_least_effort_into_and_out_of_a_list_is_that_of_all_choices(kind: str, inside: bool) -> None:
    for seed in range(60):
        own = Problem(seed, kind)
        answer = item_effort(own.slope, own.scores, own.target, own.n, inside, own.choices, 10**6)
        own.check(answer, own.among_first(inside))


@pytest.mark.contract
@pytest.mark.parametrize("kind", KINDS)
def test_the_least_effort_to_a_probability_is_that_of_all_choices(kind: str) -> None:
    for seed in range(60):
        own = Problem(seed, kind)
        least = float(own.draw.uniform(0.05, 0.95))
        answer = likely_effort(own.slope, own.scores, own.target, 1.0, least, own.choices, 10**6)
        own.check(answer, own.likely(least))


@pytest.mark.contract
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at_least", [True, False])
def test_the_least_effort_to_a_share_is_that_of_all_choices(kind: str, at_least: bool) -> None:
    for seed in range(40):
        own = Problem(seed, kind)
        bound = float(own.draw.uniform(0, 1))
        shares = own.shares[:, 0]
        answer = share_effort(own.slope, own.scores, own.n, shares, bound, at_least, own.choices, 10**8)
        own.check(answer, own.held(bound, 1 if at_least else -1))


@pytest.mark.contract
@pytest.mark.parametrize("kind", KINDS)
def test_the_least_effort_to_a_calibrated_list_is_that_of_all_choices(kind: str) -> None:
    for seed in range(40):
        own = Problem(seed, kind)
        most = float(own.draw.uniform(0, 1))
        asked = (own.slope, own.scores, own.n, own.shares, own.interests, 0.01, most)
        answer = calibrated_effort(*asked, own.choices, 10**8)
        own.check(answer, own.calibrated(most))


def test_a_budget_that_ends_leaves_bounds_that_hold() -> None:
    open_answers = 0
    for seed in range(60):
        own = Problem(seed, "changes")
        best = own.by_brute_force(own.among_first())
        for budget in (1, 3, 10):
            answer = item_effort(own.slope, own.scores, own.target, own.n, True, own.choices, budget)
            assert answer.lower <= best <= answer.value
            assert answer.nodes <= budget + 1
            open_answers += answer.found in (Certainty.SOME, Certainty.NONE)
    assert open_answers > 10


def held_by_list(
    own: Problem, bound: float
) -> tuple[Callable[[IntArray], bool], Callable[[FloatArray], list[tuple[FloatArray, float]]]]:
    weights, most = -own.shares[:, 0], -own.n * bound
    return lambda chosen: bool(weights[chosen].sum() <= most + 1e-10), lambda _: [(weights, most)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_interval_takes_no_more_effort_than_a_fine_grid_of_it(kind: str) -> None:
    fine = np.linspace(1, 5, 33)
    known = 0
    for seed in range(24):
        own = Problem(seed, kind, fine)
        least, bound = float(own.draw.uniform(0.05, 0.95)), float(own.draw.uniform(0, 1))
        holds, cuts = held_by_list(own, bound)
        pairs = [
            (
                PlaceProgram(own.slope, own.scores, own.target, own.n, True, own.free),
                item_effort(own.slope, own.scores, own.target, own.n, True, own.choices, 10**6),
            ),
            (
                ChanceProgram(own.slope, own.scores, own.target, 1.0, least),
                likely_effort(own.slope, own.scores, own.target, 1.0, least, own.choices, 10**6),
            ),
            (
                ListProgram(own.slope, own.scores, own.n, own.free, holds, cuts),
                share_effort(own.slope, own.scores, own.n, own.shares[:, 0], bound, True, own.choices, 10**8),
            ),
        ]
        for wanted, grid in pairs:
            answer = interval_effort(wanted, own.free, 20_000)
            assert answer.lower <= grid.value * 1.001 + 1e-6
            if grid.value < np.inf:
                known += 1
                assert answer.value <= grid.value * 1.002 + 1e-4
                assert wanted.reached(answer.moves)
    assert known > 20


def test_a_search_finds_some_way_and_says_no_more() -> None:
    found = 0
    for seed in range(60):
        own = Problem(seed, "changes")
        best = own.by_brute_force(own.among_first())

        def height(moves: FloatArray, own: Problem = own) -> float:
            scores = own.scores + own.slope @ moves
            ahead = scores[own.target] - np.sort(np.delete(scores, own.target))[::-1][own.n - 1]
            return float(max(ahead, 0.0) if own.target in own.list_at(moves) else min(ahead, -1e-9))

        answer = searched_effort(height, own.choices, 200, own.choices.least)
        assert answer.found is not Certainty.IMPOSSIBLE
        assert answer.lower <= best <= answer.value
        if answer.value < np.inf:
            found += 1
            assert own.target in own.list_at(own.moves_of(answer))
    assert found > 20


def test_categories_that_hardly_count_may_still_fill_the_list() -> None:
    # A tenth of the list is of the main category, whatever is done; the best rating brings in nine items of the two
    # others. A bound that lets these grow only in proportion to the interests proves falsely that it helps too little.
    genres = np.eye(3)
    shares = np.concatenate([genres[:1], np.zeros((9, 3)), genres[[1] * 5 + [2] * 4], genres[[1] * 4 + [2] * 5]])
    scores, rises = np.repeat([3.0, 2.0, 1.0, 0.9], [1, 9, 9, 9]), np.repeat([0.0, 1.0], [10, 18])
    interests = np.array([0.998, 0.001, 0.001])
    choices = Choices.of_stars(np.array([3.0]), STARS, np.ones_like)
    after = -float((interests * np.log(0.99 * np.array([0.1, 0.5, 0.4]) / interests + 0.01)).sum())
    answer = calibrated_effort(rises[:, None], scores, 10, shares, interests, 0.01, after + 1e-3, choices, 10**4)
    assert (answer.found, answer.value) == (Certainty.LEAST, 1.0)


@pytest.mark.parametrize("budget", [1, 10**6])
def test_costs_of_very_different_size_hide_no_way(budget: int) -> None:
    # All three are needed, and the last one's cost is lost in the rounding of the others' sum.
    slope, scores = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]), np.array([11.5, 0.0])
    costs = np.array([1e3, 1e3 / 3, 1e-9])
    choices = Choices.of_stars(np.ones(3), STARS, lambda moves: np.repeat(costs[:, None], moves.shape[1], 1))
    answer = item_effort(slope, scores, 1, 1, True, choices, budget)
    assert answer.found is not Certainty.IMPOSSIBLE
    assert answer.lower <= costs.sum()
    if budget > 1:
        assert answer.value == pytest.approx(costs.sum())


def test_a_share_is_of_the_list_that_there_is() -> None:
    # Three candidates for ten places: two of three are of the category, which is no half of ten.
    slope, scores, shares = np.zeros((3, 1)), np.array([3.0, 2.0, 1.0]), np.array([1.0, 1.0, 0.0])
    choices = Choices.of_stars(np.array([3.0]), STARS, np.ones_like)
    for bound, found in ((0.5, Certainty.LEAST), (0.7, Certainty.IMPOSSIBLE)):
        assert share_effort(slope, scores, 10, shares, bound, True, choices, 1000).found is found


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_programs_answer_alike_on_any_scale_of_scores(scale: float) -> None:
    own = Problem(5, "changes")
    answers = [
        interval_effort(
            PlaceProgram(size * own.slope, size * own.scores, own.target, 1, True, own.free), own.free, 1000
        )
        for size in (1.0, scale)
    ]
    assert answers[0][:3] == answers[1][:3]
