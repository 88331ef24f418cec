from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recaudit.errors import InputError
from recaudit.solvers.lists.calibrated import ListCertificate
from recaudit.solvers.lists.objective import rank_weights
from solvers.calibrated_cases import Case, plain_greedy, random_case
from solvers.exact_lists import ExactList, best_list

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


def certificate(case: Case) -> ListCertificate:
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
    def test_the_bound_is_finite_and_above_the_list_by_score_too(self, seed: int) -> None:
        found = certificate(random_case(np.random.default_rng(seed)))
        assert np.isfinite(found.upper).all()
        assert (found.gap >= 0).all()
        assert (found.plain <= found.upper + 1e-9).all()

    @pytest.mark.parametrize("tiny", [5e-324, 1e-310, 1e-250])
    def test_an_interest_too_small_for_a_number_of_its_own(self, tiny: float) -> None:
        case = Case(np.zeros(3), np.eye(3), np.array([tiny, 0.5, 0.5 - tiny]), 0.9, 2)
        found = certificate(case)
        assert sorted(case.list()) == [1, 2]
        assert found.gap[0] == pytest.approx(0, abs=1e-6)

    def test_ranking_alone_is_solved(self) -> None:
        found = certificate(random_case(np.random.default_rng(2), weight=0.0))
        assert found.status.tolist() == ["solved"]
        assert found.gap[0] == pytest.approx(0, abs=1e-9)

    def test_a_perfectly_calibrated_list_of_equals_is_solved(self) -> None:
        shares = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        found = certificate(Case(np.ones(4), shares, np.array([0.5, 0.5]), 0.99, 2))
        assert found.status.tolist() == ["solved"]
        assert found.value[0] == pytest.approx(0.01 * 2)

    def test_at_the_size_of_a_real_catalogue_the_bound_is_tight(self) -> None:
        """Far tighter than 1 - 1/e: the list has won nine tenths of what any list could over the list by score."""
        draw = np.random.default_rng(7)
        case = random_case(draw, items=2000, genres=8, size=30, weight=0.9, scores=draw.random(2000))
        found = certificate(case)
        assert found.status.tolist() == ["bounded"]
        assert found.gap[0] < 0.1 * (found.upper[0] - found.plain[0])

    def test_nothing_to_choose_from(self) -> None:
        case = random_case(np.random.default_rng(1), allowed=np.zeros(30, dtype=bool), weight=1.0)
        found = certificate(case)
        assert found.gap[0] == pytest.approx(0, abs=1e-9)


class TestTheListAsAWhole:
    """Horizon "list": the objective of the whole list counts."""

    @quick
    @given(seeds, weightings)
    def test_no_exchange_helps_and_neither_greedy_nor_ranking_is_better(self, seed: int, kind: Any) -> None:
        case = random_case(np.random.default_rng(seed), items=12, size=4, rank_weights=rank_weights(kind, 4))
        items = case.list(horizon="list")
        value = objective(case, tuple(items))
        others = [case.list(horizon="list", weight=0.0)]
        others.append(plain_greedy(replace(case, horizon="list")))
        for place, item in itertools.product(range(4), range(12)):
            changed = items.copy()
            if item in items:
                changed[items.index(item)] = items[place]
            changed[place] = item
            others.append(changed)
        assert max(objective(case, tuple(other)) for other in others) <= value + 1e-8 * max(1.0, abs(value))

    @quick
    @given(seeds)
    def test_exchanges_keep_what_must_be_there_and_the_caps(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        must = np.arange(30) == seed % 30
        caps = draw.integers(2, 6, 5)
        case = random_case(draw, must=must, caps=caps, horizon="list", allowed=must | (draw.random(30) < 0.8))
        items = [item for item in case.list() if item >= 0]
        assert seed % 30 in items
        assert len(set(items)) == len(items)
        assert case.free()[items].all()
        others = [item for item in items if item != seed % 30]
        room = np.maximum(caps - (case.shares[seed % 30] > 0), 0)
        assert ((case.shares[others] > 0).sum(axis=0) <= room).all()

    def test_it_comes_nearer_to_the_best_list_than_the_greedy(self) -> None:
        """Of 60 small catalogues, by how much lists miss the best one."""
        missed = {"prefix": 0.0, "list": 0.0, "greedy": 0.0}
        best_found = 0
        for seed in range(60):
            case = small(seed, weight=0.9)
            best = exact(case).value
            greedy = plain_greedy(replace(case, horizon="list"))
            missed["greedy"] += best - objective(case, tuple(greedy))
            for horizon in ("prefix", "list"):
                missed[horizon] += best - objective(case, tuple(case.list(horizon=horizon)))
            best_found += best - objective(case, tuple(case.list(horizon="list"))) < 1e-9
        assert missed["list"] < 0.2 * min(missed["prefix"], missed["greedy"])
        assert best_found >= 55
