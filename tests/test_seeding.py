from __future__ import annotations

import numpy as np
import polars as pl
from scipy import stats

from recaudit.seeding import derive, generator, keys_of, uniforms


def test_children_depend_on_seed_and_labels_only() -> None:
    assert derive(1, "a", 2) == derive(1, "a", 2)
    assert len({derive(1, "a", 2), derive(2, "a", 2), derive(1, "a", 3), derive(1, "a2"), derive(1, "b", 2)}) == 5
    assert generator(1, "x").random() == generator(1, "x").random()


def test_keys_follow_the_id_not_its_place() -> None:
    ids = pl.Series(["a", "b", "c"])
    assert keys_of(ids)[2] == keys_of(pl.Series(["c"]))[0]
    assert keys_of(pl.Series([5, -1])).tolist() == [5, 2**64 - 1]


def test_pairs_and_blocks_hold_the_same_numbers() -> None:
    users, items = keys_of(pl.Series(range(7))), keys_of(pl.Series(["x", "y", "z"]))
    block = uniforms(3, users[:, None], items[None, :])
    assert block.shape == (7, 3)
    np.testing.assert_array_equal(block[4:5], uniforms(3, users[4:5, None], items[None, :]))
    np.testing.assert_array_equal(block[[1, 5], [2, 0]], uniforms(3, users[[1, 5]], items[[2, 0]]))


def test_draws_are_uniform_and_independent_across_neighbours() -> None:
    keys = keys_of(pl.Series(range(400)))
    block = uniforms(0, keys[:, None], keys[None, :])
    assert stats.kstest(block.ravel()[:20_000], "uniform").pvalue > 0.01
    assert abs(np.corrcoef(block[:-1].ravel(), block[1:].ravel())[0, 1]) < 0.01
    assert abs(np.corrcoef(block[:, :-1].ravel(), block[:, 1:].ravel())[0, 1]) < 0.01
    assert abs(np.corrcoef(block.ravel(), uniforms(1, keys[:, None], keys[None, :]).ravel())[0, 1]) < 0.01
    assert abs(np.corrcoef(block.ravel(), block.T.ravel())[0, 1]) < 0.01
    assert block.min() > 0
    assert block.max() < 1
