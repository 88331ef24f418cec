from __future__ import annotations

import numpy as np
import pytest

from recaudit.simulate.worlds.learning import rates_of
from recaudit.simulate.worlds.pairs import drawn_pairs, drawn_users


def test_rates_give_everybody_and_everything_their_counts() -> None:
    draw = np.random.default_rng(0)
    there = draw.random((80, 50)) < np.outer(draw.uniform(0.1, 1, 80), draw.uniform(0.02, 0.9, 50))
    there[0], there[:, 1] = True, False  # one who has rated nearly everything, and one item that nobody has
    a, b = rates_of(there.sum(axis=1), there.sum(axis=0))
    expected = 1 - np.exp(-np.outer(a, b))
    np.testing.assert_allclose(expected.sum(axis=0)[2:], there.sum(axis=0)[2:], rtol=1e-4)
    np.testing.assert_allclose(expected.sum(axis=1)[1:], there.sum(axis=1)[1:], rtol=0.02)
    assert expected[0].sum() == pytest.approx(49, abs=0.5)
    assert 0 < b[1] < b.min(where=np.arange(50) != 1, initial=np.inf)


def test_equal_counts_have_equal_rates() -> None:
    a, b = rates_of(np.array([3, 1, 3]), np.array([2, 2, 2, 1]))
    assert a[0] == a[2] > a[1]
    assert b[0] == b[1] == b[2] > b[3]


def test_pairs_are_drawn_at_their_rates() -> None:
    # The first pair of a race is pair (u, i) with probability a_u b_i / sum: 2/9 x 3/4 and so on.
    activity, popularity = np.array([2.0, 7.0]), np.array([3.0, 1.0])
    first = np.zeros((2, 2))
    for seed in range(4000):
        who, what = drawn_pairs(np.random.default_rng(seed), (2, 2), 1, activity, popularity)
        first[who[0], what[0]] += 1 / 4000
    np.testing.assert_allclose(first, np.outer(activity / 9, popularity / 4), atol=0.03)


def test_a_large_log_is_drawn_block_by_block_without_repetition() -> None:
    draw = np.random.default_rng(1)
    activity, popularity = draw.gamma(1, size=3000) + 0.01, draw.gamma(1, size=2000) + 0.01
    who, what = drawn_pairs(draw, (3000, 2000), 40_000, activity, popularity)
    assert len(np.unique(who * 2000 + what)) == 40_000
    # So few of all pairs hardly ever meet twice: shares are those of the rates.
    shares = np.bincount(who, minlength=3000) / 40_000
    assert np.corrcoef(shares, activity)[0, 1] > 0.95
    assert np.bincount(what, minlength=2000)[popularity > 2].sum() / 40_000 == pytest.approx(
        popularity[popularity > 2].sum() / popularity.sum(), rel=0.1
    )


def test_all_pairs_can_be_drawn() -> None:
    who, what = drawn_pairs(np.random.default_rng(0), (3, 4), 12, np.array([1e-3, 1, 9]), np.ones(4))
    assert sorted(who * 4 + what) == list(range(12))


def test_only_those_who_are_there_are_drawn() -> None:
    who, what = drawn_pairs(np.random.default_rng(0), (2, 3), 6, np.array([1.0, 2, 50]), None)
    assert (who.max(), what.max()) == (1, 2)


def test_users_are_online_in_proportion_to_their_activity() -> None:
    counts = np.zeros(3)
    for seed in range(3000):
        counts[drawn_users(np.random.default_rng(seed), np.array([1.0, 2.0, 5.0]), 1)] += 1 / 3000
    np.testing.assert_allclose(counts, [1 / 8, 2 / 8, 5 / 8], atol=0.03)
    assert sorted(drawn_users(np.random.default_rng(0), np.array([1.0, 2.0, 5.0]), 3)) == [0, 1, 2]
