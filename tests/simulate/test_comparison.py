"""Several recommenders before the same people and the same chance."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import recaudit as ra
from recaudit import simulate
from recaudit.engines import Threads
from recaudit.errors import InputError
from recaudit.policies import EpsilonGreedy
from recaudit.simulate.loop.run import WithPolicy

SMALL = simulate.Topics(users=60, items=80, topics=5, users_per_step=20)
THREE: dict[str, WithPolicy] = {
    "oracle": simulate.Oracle(),
    "random": ra.models.Random(),
    "explores": (simulate.Oracle(), EpsilonGreedy(epsilon=0.5)),
}
compare = partial(simulate.compare, SMALL, ratings=300, steps=10)


def test_each_is_what_it_is_alone() -> None:
    both = compare(THREE, trials=2)
    alone = simulate.run(SMALL, ra.models.Random(), ratings=300, steps=10, trials=2)
    assert both["random"].steps.equals(alone.steps)
    assert compare(THREE, trials=2, engine=Threads(2))["random"].steps.equals(alone.steps)


def test_the_best_comes_first() -> None:
    assert compare(THREE, trials=2).overall()["name"].to_list() == ["oracle", "explores", "random"]


def test_differences_are_paired() -> None:
    both = compare(THREE, trials=4)
    row = both.differences("random").row(0, named=True)
    paired = both["oracle"].by_trial("mean_rating") - both["random"].by_trial("mean_rating")
    assert (row["name"], row["measure"]) == ("oracle", "mean_rating")
    assert set(both.differences("random", "gini")["measure"]) == {"gini"}
    assert row["value"] == pytest.approx(paired.mean())
    assert row["upper"] - row["value"] == pytest.approx(3.182446305 * paired.std(ddof=1) / 2)


def test_common_chance_makes_differences_sharper() -> None:
    # The same chance against chance of its own: the oracle against itself with a few other items.
    near: dict[str, WithPolicy] = {"a": simulate.Oracle(), "b": (simulate.Oracle(), EpsilonGreedy(epsilon=0.1))}
    together = compare(near, trials=12)
    apart = compare(near, trials=12, rng=7)
    same = together["a"].by_trial("mean_rating") - together["b"].by_trial("mean_rating")
    other = together["a"].by_trial("mean_rating") - apart["b"].by_trial("mean_rating")
    assert np.std(same) < np.std(other)


def test_folders_by_name(tmp_path: Path) -> None:
    found = compare(THREE, trials=1, out=tmp_path / "all")
    assert (tmp_path / "all" / "random" / "trial-000").is_dir()
    again = compare(THREE, trials=1, out=tmp_path / "all")
    assert again["oracle"].slates().collect().equals(found["oracle"].slates().collect())


def test_unknown_and_bad_names() -> None:
    with pytest.raises(InputError, match="oracle"):
        compare(THREE, trials=1)["oracel"]
    with pytest.raises(InputError, match="folders"):
        compare({"a/b": ra.models.Random()}, trials=1, out="unused")
    with pytest.raises(InputError, match="recommenders"):
        compare({}, trials=1)
