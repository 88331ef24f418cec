from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from recaudit.data import Interactions, splits
from recaudit.data.splits import Split
from recaudit.data.synthetic import World
from recaudit.errors import InputError


def pairs(data: Interactions) -> set[tuple[object, object]]:
    return set(data.frame().select("user", "item").rows())


def all_splits(data: Interactions) -> list[Split]:
    return [
        splits.random(data, 0.2, rng=3),
        splits.leave_last(data, k=2),
        splits.by_time(data, 0.3),
        *splits.folds(data, 4, rng=3),
    ]


def test_halves_are_disjoint_complete_and_keep_ids(world: World) -> None:
    for train, test in all_splits(world.data):
        assert not pairs(train) & pairs(test)
        assert pairs(train) | pairs(test) == pairs(world.data)
        for part in (train, test):
            assert part.user_ids.equals(world.data.user_ids)
            assert part.item_ids.equals(world.data.item_ids)
            assert part.titles is not None


def test_random_takes_the_fraction_and_follows_the_seed(world: World) -> None:
    first, again, other = (splits.random(world.data, 0.1, rng=rng).test for rng in (1, 1, 2))
    assert len(first) == round(0.1 * len(world.data))
    assert first.fingerprint == again.fingerprint
    assert first.fingerprint != other.fingerprint


def test_folds_cover_everything_once_in_equal_parts(world: World) -> None:
    tests = [test for _, test in splits.folds(world.data, 3, rng=0)]
    assert sum(map(len, tests)) == len(world.data)
    assert set.union(*map(pairs, tests)) == pairs(world.data)
    assert max(map(len, tests)) - min(map(len, tests)) <= 1


def test_leave_last_takes_the_latest(tiny: Interactions) -> None:
    train, test = splits.leave_last(tiny, k=1)
    assert test.frame().select("user", "item").rows() == [("ada", "c"), ("bob", "b")]
    assert train.user_counts.tolist() == [2, 1, 1]  # cem has one rating and keeps it


def test_leave_last_breaks_ties_by_item() -> None:
    frame = pl.DataFrame({"user": [1, 1, 1], "item": [3, 1, 2], "rating": [1.0, 1.0, 1.0], "time": [5, 5, 5]})
    test = splits.leave_last(Interactions.from_frame(frame, time="time"), k=1).test
    assert test.frame()["item"].to_list() == [3]


def test_by_time_cuts_at_one_moment(world: World) -> None:
    train, test = splits.by_time(world.data, 0.25)
    assert train.times is not None
    assert test.times is not None
    assert train.times.max() < test.times.min()
    assert len(test) == pytest.approx(0.25 * len(world.data), abs=5)


def test_bad_arguments(tiny: Interactions) -> None:
    timeless = Interactions.from_frame(tiny.frame().drop("time"))
    with pytest.raises(InputError, match="without times"):
        splits.leave_last(timeless)
    with pytest.raises(InputError, match="between 0 and 1"):
        splits.random(tiny, 1.0)
    with pytest.raises(InputError, match="1 or more"):
        splits.leave_last(tiny, k=0)
    with pytest.raises(InputError, match="from 2 to"):
        splits.folds(tiny, 7)
    same = Interactions.from_frame(tiny.frame().with_columns(time=pl.lit(1)), time="time")
    with pytest.raises(InputError, match="split at random"):
        splits.by_time(same, 0.5)


def test_random_is_a_fair_draw(world: World) -> None:
    held = np.zeros(len(world.data))
    for rng in range(200):
        test = splits.random(world.data, 0.3, rng=rng).test
        held += np.isin(world.data.users * 1000 + world.data.items, test.users * 1000 + test.items, assume_unique=True)
    assert held.mean() / 200 == pytest.approx(0.3, abs=0.001)
    assert held.std() / 200 == pytest.approx(np.sqrt(0.3 * 0.7 / 200), rel=0.1)
