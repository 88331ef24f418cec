from __future__ import annotations

import numpy as np
import pytest

from recaudit.data.synthetic import World
from recaudit.errors import InputError
from recaudit.seeding import generator
from recaudit.simulate.worlds.libfm import LibFM
from recaudit.simulate.worlds.scenarios import paper


def test_is_the_walk_written_out(world: World) -> None:
    data, rate, weight = world.data, 0.02, 0.1
    model = LibFM(factors=2, epochs=3, learning_rate=rate, regularization=weight).fit(data, 5)

    draw = generator(5, "libfm")
    P, Q = (0.1 * draw.standard_normal((n, 2)) for n in (data.n_users, data.n_items))
    order = draw.permutation(len(data))
    f, g, w = np.zeros(data.n_users), np.zeros(data.n_items), 0.0
    for _ in range(3):
        for u, i, r in zip(data.users[order], data.items[order], data.ratings[order], strict=True):
            error = r - np.clip(w + f[u] + g[i] + P[u] @ Q[i], data.ratings.min(), data.ratings.max())
            w += rate * (error - weight * w)
            f[u] += rate * (error - weight * f[u])
            g[i] += rate * (error - weight * g[i])
            P[u], Q[i] = P[u] + rate * (error * Q[i] - weight * P[u]), Q[i] + rate * (error * P[u] - weight * Q[i])
    assert model.mean == pytest.approx(w, rel=1e-9)
    for found, expected in (
        (model.user_factors, P),
        (model.item_factors, Q),
        (model.user_bias, f),
        (model.item_bias, g),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


def test_the_seed_decides(world: World) -> None:
    first, again, other = (LibFM(epochs=2).fit(world.data, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.user_factors, again.user_factors)
    assert first.mean == again.mean != other.mean


def test_a_penalised_offset_leaves_its_share_to_users_and_items(world: World) -> None:
    model = LibFM(factors=2, epochs=300, learning_rate=0.02).fit(world.data)
    assert model.mean < 0.5 * world.data.ratings.mean()
    assert min(model.user_bias.mean(), model.item_bias.mean()) > 0.5


def test_a_step_that_is_too_large_is_named(world: World) -> None:
    with pytest.raises(InputError, match="learning_rate: received 1000"):
        LibFM(learning_rate=1000).fit(world.data)


def test_movielens_is_fitted_as_reclab_does(world: World) -> None:
    environment = paper("ml-100k", data=world.data, ratings=500).environment
    expected = LibFM(factors=8, epochs=100, learning_rate=0.005, regularization=0.1, init_std=0.1)
    assert dict(environment)["recommender"] == expected
