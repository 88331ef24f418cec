from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from recaudit.data.interactions import Interactions
from recaudit.models import TopPop
from recaudit.simulate.offline.fidelity import MEANINGS, STATISTICS, SimulationFidelity, fidelity
from recaudit.simulate.offline.portrait import portrait
from recaudit.simulate.worlds.fitted import FromData
from recaudit.simulate.worlds.latent import Latent
from recaudit.simulate.worlds.topics import Topics
from simulate.fitted_worlds import RATINGS, fitted, log


@cache
def of(**changes: Any) -> SimulationFidelity:
    """How well an environment with these changes makes the log that the environment without them has made."""
    made = fitted(rounded=True).offline(RATINGS, seed=11)
    return fitted(rounded=True).model_copy(update=changes).fidelity(made)


def value(found: SimulationFidelity, statistic: str, column: str) -> Any:
    return found.frame.row(by_predicate=pl.col("statistic") == statistic, named=True)[column]


def test_an_environment_gets_its_own_log_right() -> None:
    assert of().named("right") == list(STATISTICS)


def test_too_much_noise_is_wrong() -> None:
    found = of(noise=2 * fitted(rounded=True).learned.noise)
    wrong = {"rating sd", "held-out RMSE", "held-out variance explained"}
    assert wrong <= {*found.named("wrong")}
    assert value(found, "held-out RMSE", "meaning").startswith("the simulated log is harder to predict")
    assert {"item popularity: Gini", "user activity: Gini", "the same items' popularity"} <= {*found.named("right")}


def test_a_log_that_is_too_easy_to_predict_is_a_warning() -> None:
    found = of(noise=0.1)
    assert value(found, "held-out RMSE", "verdict") == "wrong"
    assert value(found, "held-out RMSE", "meaning") == MEANINGS["held-out RMSE"][0]
    assert "easier to predict" in found.summary()


def test_uniform_exposure_is_wrong_about_who_rates_what() -> None:
    found = of(exposure="uniform")
    wrong = {
        "item popularity: Gini",
        "item popularity: distribution",
        "the same items' popularity",
        "user activity: Gini",
        "user activity: distribution",
        "the same users' activity",
        "popular items are rated higher",
    }
    assert wrong <= {*found.named("wrong")}
    assert value(found, "popular items are rated higher", "meaning").startswith("ratings are missing more at random")
    assert value(found, "the same items' mean ratings", "verdict") == "right"


def test_ratings_between_the_levels_are_wrong() -> None:
    found = of(rounded=False)
    # Only those at the ends of the scale are levels of the log.
    ends = np.isin(fitted(rounded=True).model_copy(update={"rounded": False}).offline(RATINGS).ratings, [1, 5]).mean()
    assert value(found, "rating levels", "verdict") == "wrong"
    assert value(found, "rating levels", "difference") >= 1 - ends


def test_items_of_another_world_are_not_the_same_items() -> None:
    world = Latent(users=150, items=120, users_per_step=10, factors=3)
    found = fidelity(world, world.offline(6000, seed=5), rng=1)
    assert {"the same items' mean ratings", "the same users' mean ratings"} <= {*found.named("wrong")}
    alike = {"rating mean", "rating sd", "held-out RMSE", "item popularity: Gini", "structure of choices"}
    assert alike <= {*found.named("right")}


def test_other_ids_are_not_compared_one_by_one() -> None:
    world = Latent(users=200, items=150, users_per_step=10, factors=3)
    found = fidelity(world, log())
    assert found.named("not measured") == [name for name in STATISTICS if name.startswith("the same")]
    assert "Unknown: the same users' mean ratings" in found.summary()


def test_people_of_another_kind_are_wrong_about_tastes() -> None:
    # Nineteen unrelated topics and no likeable items, for three factors and items that differ.
    found = fidelity(Topics(users=200, items=150, users_per_step=10), log())
    assert {"mean rating by item", "structure of tastes", "item popularity: Gini"} <= {*found.named("wrong")}


def test_numbers_worked_by_hand() -> None:
    users, items = np.divmod(np.arange(600), 20)
    real = Interactions.from_frame(
        pl.DataFrame({"user": users, "item": items, "rating": np.where(np.arange(600) < 300, 1.0, 3.0)}), scale=(1, 5)
    )
    # Half of the users rate everything 1 and half 3; here everything is worth 3 to everybody, and nothing scatters.
    world = Latent(
        users=30, items=20, users_per_step=5, factors=1, factor_variance=0.0, user_bias=0, item_bias=0, noise=0
    )
    found = fidelity(world, real, reference=TopPop(by="mean"))
    expected = {
        "rating mean": (2.0, 3.0, 1.0),
        "rating sd": (1.0, 0.0, -1.0),
        "rating levels": (None, None, 0.5),
        "mean rating by user": (None, None, 1.0),
        "item popularity: Gini": (0.0, 0.0, 0.0),
        "user activity: distribution": (None, None, 0.0),
        "structure of choices": (None, None, None),
    }
    for name, numbers in expected.items():
        assert tuple(value(found, name, column) for column in ("real", "simulated", "difference")) == pytest.approx(
            numbers, abs=1e-12
        )


def test_the_fitted_environment_looks_like_the_log_it_was_fitted_to() -> None:
    found = fitted(rounded=True).fidelity()
    assert found.named("wrong") == []
    assert len(found.named("right")) >= len(STATISTICS) - 3


def test_structure_is_that_of_dense_matrices() -> None:
    data = log()
    ratings = np.full((200, 150), np.nan)
    ratings[data.users, data.items] = data.ratings
    left = ratings - np.nanmean(ratings, axis=0)
    left -= np.nanmean(left, axis=1, keepdims=True)
    tastes = np.linalg.svd(np.nan_to_num(left), compute_uv=False) ** 2
    there = ~np.isnan(ratings)
    there &= (there.sum(axis=0) >= 10) & (there.sum(axis=1) >= 10)[:, None]
    there = there[:, there.any(axis=0)]
    shares = there / np.sqrt(np.outer(there.sum(axis=1), there.sum(axis=0)))
    choices = np.linalg.svd(shares, compute_uv=False) ** 2
    found = portrait(data, TopPop(by="mean"), rng=0)
    assert found.taste_axes == pytest.approx(tastes[:5].sum() / tastes.sum(), rel=1e-3)
    assert found.choice_axes == pytest.approx(choices[1:6].sum() / choices[1:].sum(), rel=0.02)


def test_a_real_offline_log_does_not_hide_what_people_make() -> None:
    world = FromData(data=log(rounded=True), recommender=TopPop(by="mean"))
    made, again, other = (
        world.model_copy(update={"offline_log": offline_log}).fidelity(rng=rng)
        for offline_log, rng in (("made", 0), ("real", 0), ("real", 1))
    )
    assert again.frame.equals(made.frame)
    assert not other.frame.equals(made.frame)


def test_the_summary_says_what_is_right_and_what_is_wrong_in_words() -> None:
    text = repr(of(exposure="uniform"))
    assert text == of(exposure="uniform").summary()
    assert "fidelity of the simulation (environment=FromData, users=200, items=150, ratings=12000, rng=0)" in text
    assert "Wrong: item popularity: Gini (ratings are spread over the items more evenly)" in text
    assert all(name in text for name in STATISTICS)
    assert of().to_pandas().shape == (len(STATISTICS), 7)
