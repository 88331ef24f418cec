from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from recaudit.data import synthetic
from recaudit.data.synthetic import World
from recaudit.errors import InputError


def test_the_same_seed_gives_the_same_world() -> None:
    first, again, other = (synthetic.demo_world(rng, users=30, items=40) for rng in (5, 5, 6))
    assert first.data.fingerprint == again.data.fingerprint
    assert first.data.fingerprint != other.data.fingerprint


def test_ratings_follow_the_truth(world: World) -> None:
    truth = world.expected[world.data.users, world.data.items]
    assert np.corrcoef(truth, world.data.ratings)[0, 1] > 0.75
    assert set(np.unique(world.data.ratings)) <= {1.0, 2.0, 3.0, 4.0, 5.0}


def test_popularity_is_skewed() -> None:
    counts = np.sort(synthetic.demo().item_counts)[::-1]
    assert counts[: len(counts) // 5].sum() > 0.5 * counts.sum()


def test_what_is_missing_is_not_missing_at_random(world: World) -> None:
    seen = world.data.seen(np.arange(world.data.n_users))
    assert world.expected[seen].mean() > world.expected[~seen].mean() + 0.3
    assert stats.spearmanr(world.exposure[seen], world.expected[seen]).statistic > 0.1


def test_items_have_one_to_three_genres_and_a_title_of_their_own(world: World) -> None:
    weights = world.data.categories["genre"].weights
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert set(np.diff(weights.indptr)) == {1, 2, 3}
    assert world.data.titles is not None
    assert world.data.titles.n_unique() == world.data.n_items


def test_groups_differ_in_taste() -> None:
    data = synthetic.demo()
    documentary = data.categories["genre"].weights[:, [data.categories["genre"].names.index("Documentary")]].toarray()
    share = (data.csr.astype(bool).astype(float) @ documentary)[:, 0] / data.user_counts
    region = data.attributes["region"].to_numpy()
    assert share[region == "Islands"].mean() > 1.5 * share[region == "North"].mean()


def test_nobody_rates_twice_or_outside_the_time_span(world: World) -> None:
    assert world.data.times is not None
    years = (world.data.times - 1_600_000_000) / (365 * 86_400)
    assert years.min() >= 0
    assert years.max() <= 3
    assert world.data.user_counts.min() >= 8


def test_too_small_a_world() -> None:
    with pytest.raises(InputError, match="at least 10 users"):
        synthetic.demo_world(users=2)
