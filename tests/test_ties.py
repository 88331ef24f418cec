"""Ties are decided by a rule and not by rounding."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import recaudit as ra
from recaudit.audits.lists.accuracy import rated_ndcg
from recaudit.data import Interactions
from recaudit.interventions import NextK
from recaudit.models import SgdStep, from_factors
from recaudit.models.neighbour.similarity import Similarity, nearest
from recaudit.policies import EpsilonGreedy, Top1, top_items
from recaudit.ranking import affine_rank_of, rank_of, ranks
from recaudit.ties import TIE


def by_hand(scores: list[float]) -> list[int]:
    """The readable twin: sort, cut where a gap is wider than the tolerance, order what is between two cuts."""
    gap = TIE * max(abs(score) for score in scores)
    groups: list[list[int]] = []
    for item in sorted(range(len(scores)), key=lambda i: -scores[i]):
        linked = groups and scores[groups[-1][-1]] - scores[item] <= gap
        groups = [*groups[:-1], [*groups[-1], item]] if linked else [*groups, [item]]
    return [item for group in groups for item in sorted(group)]


nearly = st.tuples(st.integers(1, 4), st.integers(-3, 3)).map(lambda part: part[0] * (1 + part[1] * 0.4 * TIE))


@given(st.lists(nearly, min_size=1, max_size=90), st.integers(1, 95))
def test_lists_and_places_follow_the_rule(scores: list[float], n: int) -> None:
    row = torch.tensor([scores], dtype=torch.float64)
    everything = torch.ones_like(row, dtype=torch.bool)
    order = by_hand(scores)
    found = top_items(row, everything, n)[0].tolist()
    assert found == (order + [-1] * n)[:n]
    expected = [order.index(item) + 1 for item in range(len(scores))]
    assert ranks(row, everything)[0].tolist() == expected
    assert rank_of(row.expand(len(scores), -1), torch.arange(len(scores))).tolist() == expected
    assert Top1().log_probabilities(row, everything)[0].argmax() == order[0]
    shown = EpsilonGreedy(epsilon=0.1).log_probabilities(row, everything)[0].exp()
    assert shown[order[0]] == pytest.approx(0.9 if len(scores) > 1 else 1.0)


@pytest.fixture(scope="module")
def twins() -> ra.models.FactorVectors:
    """Every item stands in the catalogue twice, 40 places apart, and nobody has rated either of half of them."""
    draw = np.random.default_rng(3)
    P, Q = draw.normal(0, 1, (300, 24)), np.tile(draw.normal(0, 1, (40, 24)), (2, 1))
    rows = [(f"u{user:03}", f"i{item:02}", 3.0) for user in range(300) for item in (user % 20, 40 + (user + 7) % 20)]
    unseen = [("nobody", f"i{item:02}", 3.0) for item in range(80)]
    data = Interactions.from_frame(
        pl.DataFrame(rows + unseen, schema=["user", "item", "rating"], orient="row"), scale=(1, 5)
    )
    return from_factors(np.vstack([P, np.zeros((1, 24))]), Q, data, mean=3.0, update=SgdStep(), predicts_ratings=True)


def test_items_with_the_same_vectors_stand_in_the_order_of_the_catalogue(twins: ra.models.FactorVectors) -> None:
    order = top_items(twins.scores(np.arange(300)), torch.ones(300, 80, dtype=torch.bool), 80)
    assert (np.argsort(order, axis=1)[:, 40:] == np.argsort(order, axis=1)[:, :40] + 1).all()


def test_the_second_of_two_twins_is_never_the_top_item(twins: ra.models.FactorVectors) -> None:
    found = ra.reachability(twins, actions=NextK(3), policy=Top1(), users=["u000", "u001"], candidates="all").pairs
    value = {(row["user"], row["item"]): row for row in found.iter_rows(named=True)}
    compared = 0
    for (user, item), row in value.items():
        first = value.get((user, f"i{int(item[1:]) - 40:02}"))
        if first is not None:
            compared += 1
            assert row["value"] == 0.0
            assert row["status"] == "solved"
    assert compared > 60
    assert (found["value"] == 1.0).any()


def test_a_held_out_twin_is_ranked_by_the_rule() -> None:
    held = Interactions.from_frame(pl.DataFrame({"user": ["a", "a"], "item": ["x", "y"], "rating": [1.0, 5.0]}))
    first = rated_ndcg(np.array([0.3, 0.1 + 0.2]), held)
    np.testing.assert_allclose(first, rated_ndcg(np.array([0.3, 0.3]), held))
    np.testing.assert_allclose(first, rated_ndcg(np.array([0.1 + 0.2, 0.3]), held))


@pytest.mark.parametrize("similarity", ["cosine", "pearson"])
@pytest.mark.parametrize("seed", range(5))
def test_of_equally_similar_neighbours_the_first_are_taken(similarity: Similarity, seed: int) -> None:
    """Rows 1 to 6 are the same but for rounding: whatever it is, row 0 gets the first three of them."""
    draw = np.random.default_rng(seed)
    base = draw.uniform(1, 4, 12)
    rounding = 1 + 3e-16 * draw.integers(-2, 3, (6, 12))
    vectors = np.vstack([base + draw.normal(0, 0.1, 12), base * rounding])
    found = nearest(sparse.csr_array(vectors), k=3, similarity=similarity)
    assert found[[0], :].nonzero()[1].tolist() == [1, 2, 3]


def test_ranks_at_points_of_ones_own_are_those_of_the_scores_there() -> None:
    draw = np.random.default_rng(3)
    slope, intercept = draw.normal(size=(400, 3)), draw.normal(size=400)
    intercept[::2] = intercept[1::2] + 1e-8 * draw.normal(size=200)  # nearer than single precision can tell
    slope[::2] = slope[1::2]
    intercept[:20] = intercept[20:40] * (1 + 0.1 * TIE)
    slope[:20] = slope[20:40]
    points, level, slopes = (torch.from_numpy(part) for part in (draw.uniform(1, 5, (300, 3)), intercept, slope))
    own = torch.from_numpy(draw.integers(0, 400, 300))

    expected = rank_of(torch.addmm(level, points, slopes.T), own)

    np.testing.assert_array_equal(affine_rank_of(slopes, level, points, own), expected)
