from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recaudit.errors import InputError
from recaudit.solvers.calibrated import Certificate, rank_weights
from recaudit.solvers.calibrated_exact import ExactList, best_list
from solvers.calibrated_cases import Case, random_case

seeds = st.integers(0, 2**32 - 1)
quick = settings(max_examples=25)
weightings = st.sampled_from(["none", "mrr", "ndcg"])


def exact(case: Case, **change: Any) -> ExactList:
    assert isinstance(case.weight, float)
    arguments = {
        "weight": case.weight,
        "size": case.size,
        "rank_weights": case.rank_weights,
        "importance": case.importance,
        "caps": case.caps,
        "must": case.must,
        **change,
    }
    return best_list(case.scores, case.free(), case.vectors(), case.interests, **arguments)


def certificate(case: Case) -> Certificate:
    found = case.solve(certify=True).certificate
    assert found is not None
    return found


def small(seed: int, **fixed: Any) -> Case:
    draw = np.random.default_rng(seed)
    return random_case(draw, items=8, genres=3, size=3, importance=draw.uniform(0.5, 2, 3), **fixed)


def objective(case: Case, items: tuple[int, ...]) -> float:
    """Equation 6 of a list, spelled out."""
    w = np.ones(len(items)) if case.rank_weights is None else case.rank_weights[: len(items)]
    m = np.ones(len(case.interests)) if case.importance is None else case.importance
    q = w @ case.shares[list(items)] / w.sum()
    smoothed = (1 - case.smoothing) * q + case.smoothing * case.interests
    apart = sum(m[g] * p * np.log(p / smoothed[g]) for g, p in enumerate(case.interests) if p > 0)
    return float((1 - np.float64(case.weight)) * case.scores[list(items)].sum() - case.weight * apart)


class TestExact:
    @quick
    @given(seeds, weightings)
    def test_no_list_is_better(self, seed: int, kind: Any) -> None:
        case = small(seed, rank_weights=rank_weights(kind, 3))
        found = exact(case)
        every = [objective(case, items) for items in itertools.permutations(range(8), 3)]
        assert found.value == pytest.approx(max(every), abs=1e-9)
        assert found.value == pytest.approx(objective(case, tuple(found.items)), abs=1e-12)

    @quick
    @given(seeds)
    def test_within_caps_and_with_what_must_be_there(self, seed: int) -> None:
        must = np.arange(8) == seed % 8
        case = small(seed, caps=np.array([2, 2, 2]), must=must)
        fits = [
            items
            for items in itertools.combinations(range(8), 3)
            if seed % 8 in items and ((case.shares[list(items)] > 0).sum(axis=0) <= 2).all()
        ]
        if not fits:
            with pytest.raises(InputError, match="room for a list of 3"):
                exact(case)
            return
        assert exact(case).value == pytest.approx(max(objective(case, items) for items in fits), abs=1e-9)

    def test_thirty_items(self) -> None:
        case = random_case(np.random.default_rng(5), items=30, genres=6, size=5, weight=0.9)
        found = exact(case)
        assert found.value >= objective(case, tuple(case.list())) - 1e-12
        assert found.nodes < 30_000  # of 142,506 sets

    def test_too_large_a_question_is_refused(self) -> None:
        with pytest.raises(InputError, match="at most 30 items and 6 ranks"):
            exact(random_case(np.random.default_rng(0), weight=0.5))

    @quick
    @given(seeds)
    def test_more_weight_never_calibrates_the_best_list_worse(self, seed: int) -> None:
        """True of the optimum for any two weights; the greedy need not obey it."""
        case = small(seed)
        apart = [exact(case, weight=weight).divergence for weight in (0.0, 0.3, 0.6, 0.9, 0.99)]
        # C_KL is one number here only if all category systems weigh the same: `divergence` counts the importance in.
        assert (np.diff(apart) <= 1e-9).all()


class TestCertificate:
    @quick
    @given(seeds, weightings)
    def test_the_best_list_lies_between_the_greedy_one_and_the_bound(self, seed: int, kind: Any) -> None:
        case = small(seed, rank_weights=rank_weights(kind, 3))
        found, best = certificate(case), exact(case).value
        assert found.value[0] == pytest.approx(objective(case, tuple(case.list())), abs=1e-12)
        assert found.value[0] <= best + 1e-12
        assert best <= found.upper[0] + 1e-12

    @quick
    @given(seeds)
    def test_it_holds_with_must_haves_and_caps(self, seed: int) -> None:
        must = np.arange(8) == seed % 8
        case = small(seed, must=must)
        assert exact(case).value <= certificate(case).upper[0] + 1e-12
        capped = small(seed, caps=np.array([2, 2, 2]))
        if capped.list()[-1] >= 0:
            assert exact(capped).value <= certificate(capped).upper[0] + 1e-12

    @quick
    @given(seeds)
    def test_a_list_for_its_own_size_has_won_at_least_the_guaranteed_share(self, seed: int) -> None:
        """1 - 1/e of the best, from the empty list on: Nemhauser and Wolsey, for scores of 0 or more."""
        case = small(seed, horizon="list", scores=np.random.default_rng(seed).random(8))
        assert isinstance(case.weight, float)
        assert case.importance is not None
        empty = case.weight * np.log(case.smoothing) * float((case.importance * case.interests).sum())
        assert certificate(case).value[0] - empty >= (1 - 1 / np.e) * (exact(case).value - empty) - 1e-12

    @quick
    @given(seeds)
    def test_the_relative_gap_is_a_share(self, seed: int) -> None:
        found = certificate(random_case(np.random.default_rng(seed)))
        assert np.isfinite(found.upper).all()
        assert (found.gap >= 0).all()
        assert found.relative_gap[0] >= 0
        # The greedy list may be worse than the list by score alone, but then the certificate says so.
        assert found.relative_gap[0] <= 1 or found.value[0] < found.plain[0]

    def test_ranking_alone_is_solved(self) -> None:
        found = certificate(random_case(np.random.default_rng(2), weight=0.0))
        assert found.status.tolist() == ["solved"]
        assert found.relative_gap.tolist() == [0.0]

    def test_a_perfectly_calibrated_list_of_equals_is_solved(self) -> None:
        shares = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        found = certificate(Case(np.ones(4), shares, np.array([0.5, 0.5]), 0.99, 2))
        assert found.status.tolist() == ["solved"]
        assert found.value[0] == pytest.approx(0.01 * 2)

    def test_at_the_size_of_a_real_catalogue_the_bound_is_tight(self) -> None:
        """Far tighter than 1 - 1/e: the list has won nine tenths of what any list could."""
        draw = np.random.default_rng(7)
        case = random_case(draw, items=2000, genres=8, size=30, weight=0.9, scores=draw.random(2000))
        found = certificate(case)
        assert found.status.tolist() == ["bounded"]
        assert found.relative_gap[0] < 0.1

    def test_nothing_to_choose_from(self) -> None:
        case = random_case(np.random.default_rng(1), allowed=np.zeros(30, dtype=bool), weight=1.0)
        found = certificate(case)
        assert found.gap[0] == pytest.approx(0, abs=1e-9)
        assert found.relative_gap.tolist() == [0.0]
