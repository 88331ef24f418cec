from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from recaudit.errors import InputError
from recaudit.solvers.lists.calibrated import calibrated_lists
from recaudit.solvers.lists.objective import CategoryVectors, rank_weights
from solvers.calibrated_cases import Case, plain_greedy, random_case

ROMANCE, ACTION = np.array([1.0, 0.0]), np.array([0.0, 1.0])
seeds = st.integers(0, 2**32 - 1)
quick = settings(max_examples=60)


def romance_and_action(scores: np.ndarray, weight: float, size: int = 10) -> Case:
    """The paper's running example: 50 romance films, then 50 action films; the user played 70 and 30 of them."""
    shares = np.vstack([np.tile(ROMANCE, (50, 1)), np.tile(ACTION, (50, 1))])
    return Case(scores, shares, np.array([0.7, 0.3]), weight, size)


class TestThoughtExperiments:
    """Paper 004, section 2."""

    CLASS_IMBALANCE = np.concatenate([np.full(50, 0.7), np.full(50, 0.3)])
    # p(i|u) = p(i|g) p(g|u): the tenth title of a genre is 2.1 times less likely than its first (Equation 1).
    IN_GENRE = 2.1 ** (-np.arange(50) / 9)
    VARYING = np.concatenate([0.7 * IN_GENRE, 0.3 * IN_GENRE])

    @pytest.mark.parametrize("scores", [CLASS_IMBALANCE, VARYING], ids=["class imbalance", "varying probabilities"])
    def test_accuracy_shows_romance_alone(self, scores: np.ndarray) -> None:
        assert romance_and_action(scores, weight=0.0).list() == list(range(10))

    @pytest.mark.parametrize("scores", [CLASS_IMBALANCE, VARYING], ids=["class imbalance", "varying probabilities"])
    def test_calibration_shows_seven_to_three(self, scores: np.ndarray) -> None:
        found = romance_and_action(scores, weight=0.99).solve()

        assert sorted(found.lists[0].tolist()) == [0, 1, 2, 3, 4, 5, 6, 50, 51, 52]
        assert found.divergence[0] == pytest.approx(0, abs=1e-12)

    def test_every_beginning_of_the_list_is_balanced(self) -> None:
        items = romance_and_action(self.CLASS_IMBALANCE, weight=1.0).list()

        assert [sum(item >= 50 for item in items[:n]) for n in range(1, 11)] == [0, 1, 1, 1, 2, 2, 2, 2, 3, 3]


class TestKnownAnswers:
    def test_two_places_go_to_both_genres(self) -> None:
        case = Case(np.array([3.0, 2.0, 1.0]), np.array([ROMANCE, ROMANCE, ACTION]), np.array([0.5, 0.5]), 0.9, 2)

        found = case.solve()

        assert found.lists.tolist() == [[0, 2]]
        assert found.relevance.tolist() == [4.0]
        assert found.divergence[0] == pytest.approx(0, abs=1e-15)

    def test_divergence_is_equation_4_with_the_smoothing_of_equation_5(self) -> None:
        case = Case(np.array([3.0, 2.0]), np.array([ROMANCE, ROMANCE]), np.array([0.7, 0.3]), 0.5, 2)

        expected = 0.7 * np.log(0.7 / (0.99 + 0.01 * 0.7)) + 0.3 * np.log(0.3 / (0.01 * 0.3))
        assert case.solve().divergence[0] == pytest.approx(expected, rel=1e-14)

    def test_of_items_with_the_same_value_the_first_comes_first(self) -> None:
        case = Case(np.zeros(6), np.tile([0.5, 0.5], (6, 1)), np.array([0.5, 0.5]), 0.9, 4)

        assert case.list() == [0, 1, 2, 3]

    def test_calibration_alone_leaves_equals_to_the_scores(self) -> None:
        case = Case(np.array([1.0, 5.0, 3.0]), np.array([ROMANCE, ROMANCE, ROMANCE]), np.array([1.0, 0.0]), 1.0, 3)

        assert case.list() == [1, 2, 0]

    def test_a_user_without_history_gets_the_models_ranking(self) -> None:
        case = Case(np.array([1.0, 5.0, 3.0]), np.array([ROMANCE, ACTION, ROMANCE]), np.zeros(2), 0.9, 3)

        found = case.solve(certify=True)

        assert found.lists.tolist() == [[1, 2, 0]]
        assert found.divergence.tolist() == [0.0]
        assert found.certificate is not None
        assert found.certificate.status.tolist() == ["solved"]

    def test_items_without_a_genre_come_when_nothing_else_helps(self) -> None:
        case = Case(np.array([0.0, 0.0, 0.0]), np.array([[0.0, 0.0], ROMANCE, ACTION]), np.array([0.5, 0.5]), 0.9, 3)

        assert case.list() == [1, 2, 0]

    def test_a_short_catalogue_leaves_places_empty(self) -> None:
        case = Case(np.array([1.0, 2.0]), np.array([ROMANCE, ACTION]), np.array([0.5, 0.5]), 0.5, 4)

        assert case.list() == [1, 0, -1, -1]
        assert case.list(allowed=np.array([True, False])) == [0, -1, -1, -1]
        assert case.list(allowed=np.zeros(2, dtype=bool), weight=1.0) == [-1] * 4

    def test_a_schedule_starts_with_the_scores_and_ends_with_calibration(self) -> None:
        case = romance_and_action(np.arange(100.0)[::-1] / 100, weight=0.0, size=4)

        assert case.list(weight=np.array([0.0, 0.0, 1.0, 1.0])) == [0, 1, 50, 2]

    def test_for_the_whole_list_the_beginning_keeps_to_the_scores(self) -> None:
        """At rank 2 action adds 1.05 more than romance for a list of two, and 0.60 more for a list of ten."""
        case = romance_and_action(np.concatenate([np.full(50, 1.0), np.full(50, 0.2)]), weight=0.5)

        assert case.list()[:4] == [0, 50, 1, 2]
        assert case.list(horizon="list")[:4] == [0, 1, 2, 50]

    def test_a_genre_stops_at_its_cap(self) -> None:
        case = romance_and_action(np.arange(100.0)[::-1], weight=0.0, size=5)

        assert case.list(caps=np.array([2, 9])) == [0, 1, 50, 51, 52]
        assert case.list(caps=np.array([2, 1])) == [0, 1, 50, -1, -1]
        assert case.list(caps=np.array([0, 0])) == [-1] * 5

    def test_must_haves_come_at_the_latest_when_their_places_are_left(self) -> None:
        must = np.zeros(100, dtype=bool)
        must[[1, 99]] = True
        case = romance_and_action(np.arange(100.0)[::-1], weight=0.0, size=4)

        assert case.list(must=must) == [0, 1, 2, 99]
        assert case.list(must=must, caps=np.array([1, 0])) == [1, 99, -1, -1]
        assert case.list(must=must, size=2) == [1, 99]

    def test_importance_decides_between_category_systems(self) -> None:
        """Two systems, language and length, that want opposite items; the weightier one is served."""
        shares = np.array([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]])
        case = Case(np.zeros(2), shares, np.array([1.0, 0.0, 1.0, 0.0]), 0.9, 1)

        assert case.list(importance=np.array([2.0, 2.0, 1.0, 1.0])) == [0]
        assert case.list(importance=np.array([1.0, 1.0, 2.0, 2.0])) == [1]

    def test_rank_weights_are_those_of_the_ranking_metrics(self) -> None:
        assert rank_weights("none", 3).tolist() == [1, 1, 1]
        assert rank_weights("mrr", 4).tolist() == [1, 1 / 2, 1 / 3, 1 / 4]
        np.testing.assert_allclose(rank_weights("ndcg", 3), [1, 1 / np.log2(3), 1 / 2])
        with pytest.raises(InputError, match="Did you mean 'ndcg'"):
            rank_weights("ndgc", 3)  # type: ignore[arg-type]  # a name that the type does not allow is the test


class TestTwin:
    """The lists are the plain greedy's, item by item."""

    @quick
    @given(seeds)
    def test_plain(self, seed: int) -> None:
        case = random_case(np.random.default_rng(seed))
        assert case.list() == plain_greedy(case)

    @quick
    @given(seeds, st.sampled_from(["mrr", "ndcg"]))
    def test_with_rank_weights_and_importance(self, seed: int, kind: str) -> None:
        draw = np.random.default_rng(seed)
        w = rank_weights("mrr" if kind == "mrr" else "ndcg", 8)
        case = random_case(draw, rank_weights=w, importance=draw.uniform(0, 2, 5), smoothing=draw.uniform(0.001, 0.5))
        assert case.list() == plain_greedy(case)

    @quick
    @given(seeds)
    def test_with_a_schedule_caps_and_must_haves(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        must = np.zeros(30, dtype=bool)
        must[draw.choice(30, draw.integers(0, 6), replace=False)] = True
        case = random_case(
            draw,
            must=must,
            allowed=must | (draw.random(30) < 0.8),
            caps=draw.integers(0, 6, 5),
            weight=np.sort(draw.choice([0.0, 0.5, 0.9, 1.0], 8)),
        )
        assert case.list() == plain_greedy(case)

    @quick
    @given(seeds)
    def test_for_the_whole_list_alone(self, seed: int) -> None:
        """With another weight at each rank, so that the list as a whole has no objective to be improved."""
        draw = np.random.default_rng(seed)
        weights = np.linspace(0.5, 0.99, 8)
        case = random_case(draw, horizon="list", rank_weights=rank_weights("ndcg", 8), weight=weights)
        assert case.list() == plain_greedy(case)

    @quick
    @given(seeds)
    def test_rounding_decides_nothing(self, seed: int) -> None:
        """Every item three times, its scores apart by rounding: the first of the catalogue comes first."""
        draw = np.random.default_rng(seed)
        case = random_case(draw, items=10)
        scores = np.tile(case.scores, 3) * (1 + 1e-15 * draw.integers(-3, 4, 30))
        three = replace(case, scores=scores, shares=np.tile(case.shares, (3, 1)))
        again = replace(three, scores=np.tile(case.scores, 3))
        assert three.list() == again.list() == plain_greedy(again)
        seen = [item for item in three.list() if item - 10 in three.list()]
        assert all(three.list().index(item - 10) < three.list().index(item) for item in seen)

    @quick
    @given(seeds)
    def test_with_shares_that_are_all_different(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        case = random_case(draw, shares=draw.dirichlet(np.full(5, 0.3), 30))
        assert case.list() == plain_greedy(case)

    def test_many_users_at_once_and_in_single_precision(self) -> None:
        draw = np.random.default_rng(3)
        cases = [random_case(draw, items=200, genres=6, size=20, weight=0.95) for _ in range(7)]
        shares, allowed = cases[0].shares, draw.random((7, 200)) < 0.7
        scores = np.array([case.scores for case in cases], dtype=np.float32)

        found = calibrated_lists(
            scores,
            allowed,
            CategoryVectors.of(sparse.csr_array(shares)),
            np.array([case.interests for case in cases]),
            weight=0.95,
            size=20,
            horizon="prefix",
        )

        for case, row, free, items in zip(cases, scores, allowed, found.lists.tolist(), strict=True):
            alone = Case(row.astype(np.float64), shares, case.interests, 0.95, 20, free)
            assert items == plain_greedy(alone)


def test_the_shares_of_some_vectors() -> None:
    shares = np.array([[0.5, 0.0, 0.5], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.0, 0.5]])
    vectors = CategoryVectors.of(sparse.csr_array(shares))
    for chosen in ([2, 0, 1], [1], []):
        at = np.array(chosen, dtype=np.int64)
        np.testing.assert_array_equal(vectors.rows(at), vectors.shares().toarray()[at])


def test_nobody_to_make_lists_for() -> None:
    vectors = CategoryVectors.of(sparse.csr_array(np.eye(3)))
    nobody = np.zeros((0, 3))
    found = calibrated_lists(nobody, nobody > 0, vectors, nobody, weight=0.9, size=2, horizon="prefix", certify=True)
    assert found.lists.shape == (0, 2)
    assert found.certificate is not None
    assert found.certificate.gap.shape == (0,)


class TestProperties:
    @quick
    @given(seeds)
    def test_weight_zero_is_the_models_ranking(self, seed: int) -> None:
        case = random_case(np.random.default_rng(seed), weight=0.0)
        assert case.list() == np.argsort(-case.scores, kind="stable")[:8].tolist()

    @quick
    @given(seeds)
    def test_a_list_repeats_nothing_and_takes_only_what_is_allowed(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        case = random_case(draw, allowed=draw.random(30) < 0.5)
        items = [item for item in case.list() if item >= 0]
        assert len(set(items)) == len(items) == min(8, case.free().sum())
        assert case.free()[items].all()

    @quick
    @given(seeds)
    def test_a_shorter_list_is_the_beginning_of_a_longer_one(self, seed: int) -> None:
        case = random_case(np.random.default_rng(seed))
        assert case.list(size=4) == case.list(size=8)[:4]

    @quick
    @given(seeds)
    def test_shifting_every_score_changes_nothing(self, seed: int) -> None:
        case = random_case(np.random.default_rng(seed), scores=np.random.default_rng(seed).integers(-8, 8, 30) / 4)
        assert case.list(scores=case.scores + 2) == case.list()


class TestInput:
    CASE = random_case(np.random.default_rng(0), weight=0.9)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"weight": 1.5}, "weight: received 1.5"),
            ({"weight": np.full(3, 0.5)}, "expected one number, or 8, one a rank"),
            ({"horizon": "lists"}, "Did you mean 'list'"),
            ({"size": 0}, "a list length of 1 or more"),
            ({"smoothing": 0.0}, "alpha above 0 and below 1"),
            ({"rank_weights": np.arange(8.0)}, "none above the one before"),
            ({"importance": np.ones(2)}, "importance: .* expected 5 finite numbers"),
            ({"importance": np.full(5, np.inf)}, "importance: .* expected 5 finite numbers"),
            ({"caps": np.full(5, -1)}, "caps: .* 5 whole numbers"),
            ({"interests": np.ones(3)}, r"interests: received shape \(1, 3\)"),
            ({"interests": np.full(5, np.nan)}, "expected probabilities"),
            ({"must": np.ones(30, dtype=bool)}, "must: received 30 items for one list"),
            ({"scores": np.full(30, np.nan)}, "scores: received NaN"),
            ({"allowed": np.ones(3, dtype=bool)}, "allowed: received bool of shape"),
            ({"weight": np.linspace(0, 1, 8), "certify": True}, "certify: received True beside weights"),
        ],
    )
    def test_a_wrong_argument_is_named(self, change: dict[str, object], message: str) -> None:
        with pytest.raises(InputError, match=message):
            self.CASE.solve(**change)

    def test_a_score_that_is_not_finite_does_not_matter_where_it_is_not_allowed(self) -> None:
        scores, allowed = self.CASE.scores.copy(), np.ones(30, dtype=bool)
        scores[3], allowed[3] = np.nan, False

        assert 3 not in self.CASE.list(scores=scores, allowed=allowed)

    def test_what_must_be_there_has_to_be_allowed(self) -> None:
        must, allowed = np.zeros(30, dtype=bool), np.ones(30, dtype=bool)
        must[3], allowed[3] = True, False
        with pytest.raises(InputError, match="must: received an item that is not allowed"):
            self.CASE.solve(must=must, allowed=allowed)

    def test_shares_are_not_negative(self) -> None:
        with pytest.raises(InputError, match="shares: received a share below 0"):
            CategoryVectors.of(sparse.csr_array(np.array([[-1.0, 2.0]])))
