from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import pytrec_eval

import recaudit as ra
from recaudit.data import Interactions
from recaudit.data.splits import Split
from recaudit.data.synthetic import World
from recaudit.errors import InputError
from recaudit.models import ALS, WALS, BiasedMF, TopPop, from_factors
from recaudit.policies import Calibrated


@pytest.fixture(scope="module")
def model(split: Split) -> Any:
    return ALS(factors=4, iterations=5, regularization=0.1).fit(split.train)


@pytest.mark.parametrize("relevant", [None, 4.0])
@pytest.mark.parametrize("k", [1, 5, 20])
def test_ranking_metrics_agree_with_trec_eval(model: Any, split: Split, k: int, relevant: float | None) -> None:
    result = ra.accuracy(model, split.test, k=k, relevant=relevant)
    held = split.test.frame().filter(pl.col("rating") >= (relevant or 0))
    wanted = {user: dict.fromkeys(rows["item"], 1) for (user,), rows in held.group_by("user")}
    lists = ra.recommend(model, n=k)
    shown = {user: dict(zip(rows["item"], -rows["rank"], strict=True)) for (user,), rows in lists.group_by("user")}
    names = {
        "ndcg": f"ndcg_cut_{k}",
        "recall": f"recall_{k}",
        "precision": f"P_{k}",
        "map": f"map_cut_{k}",
        "mrr": "recip_rank",
    }
    theirs = pytrec_eval.RelevanceEvaluator(wanted, set(names.values())).evaluate(shown)
    for ours, name in names.items():
        assert result[ours] == pytest.approx(np.mean([values[name] for values in theirs.values()]), abs=1e-12)


def test_rating_errors_are_pooled_over_ratings(model: Any, split: Split) -> None:
    test = split.test
    error = model.predict(test.users.astype(np.int64), test.items.astype(np.int64)) - test.ratings
    result = ra.accuracy(model, test)
    assert result["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)))
    assert result["mae"] == pytest.approx(np.mean(np.abs(error)))


def by_hand() -> tuple[Any, Interactions]:
    """One factor; scores by item: a 4, b 3, c 2, d 1, e 0 for both users. Training: u saw a, v saw b."""
    frame = pl.DataFrame(
        {"user": ["u", "v", "u", "u", "v", "v"], "item": list("abcedc"), "rating": [3.0, 3, 5, 1, 4, 2]}
    )
    data = Interactions.from_frame(frame, scale=(0, 5))
    held = np.array([item != seen for item, seen in zip(data.frame()["item"], "aaabbb", strict=True)])
    train, test = data.subset(~held), data.subset(held)
    scores = np.array([[4.0], [3], [2], [1], [0]])
    return from_factors(np.ones((2, 1)), scores, train, predicts_ratings=True), test


def test_a_case_worked_by_hand() -> None:
    model, test = by_hand()
    result = ra.accuracy(model, test, k=3)
    # u's list: b c d; held out c and e: hit at rank 2. v's list: a c d; held out c and d: hits at ranks 2 and 3.
    ideal = 1 + 1 / np.log2(3)
    ndcg_u, ndcg_v = (1 / np.log2(3)) / ideal, (1 / np.log2(3) + 1 / 2) / ideal
    users = result.users.sort("user")
    assert users["ndcg"].to_list() == pytest.approx([ndcg_u, ndcg_v])
    assert users["recall"].to_list() == pytest.approx([0.5, 1.0])
    assert users["precision"].to_list() == pytest.approx([1 / 3, 2 / 3])
    assert users["map"].to_list() == pytest.approx([0.25, (1 / 2 + 2 / 3) / 2])
    assert users["mrr"].to_list() == pytest.approx([0.5, 0.5])
    # Errors: u rates c 5 (predicted 2) and e 1 (0); v rates d 4 (1) and c 2 (2).
    assert result["rmse"] == pytest.approx(np.sqrt((9 + 1 + 9 + 0) / 4))
    assert result["mae"] == pytest.approx(7 / 4)


def test_users_without_a_relevant_item_are_excluded_and_counted() -> None:
    model, test = by_hand()
    result = ra.accuracy(model, test, k=3, relevant=5)
    row = result.frame.row(by_predicate=pl.col("metric") == "recall", named=True)
    assert (row["value"], row["users"], row["excluded"]) == (1.0, 1, 1)
    assert result.users.sort("user")["recall"].to_list() == [1.0, None]


def test_nobody_has_a_relevant_item() -> None:
    model, test = by_hand()
    result = ra.accuracy(model, test, relevant=9)
    row = result.frame.row(by_predicate=pl.col("metric") == "ndcg", named=True)
    assert (row["value"], row["lower"], row["status"]) == (None, None, "not_applicable")


def test_a_model_that_only_ranks_has_no_rmse(split: Split) -> None:
    result = ra.accuracy(TopPop(by="count").fit(split.train), split.test)
    row = result.frame.row(by_predicate=pl.col("metric") == "rmse", named=True)
    assert (row["value"], row["status"]) == (None, "not_applicable")
    assert result["ndcg"] > 0
    assert "not_applicable" in result.summary()


def test_scores_that_are_no_ratings_have_no_rmse(split: Split) -> None:
    likes = np.full((split.train.n_users, 1), 30.0), np.ones((split.train.n_items, 1))
    result = ra.accuracy(from_factors(*likes, split.train, predicts_ratings=False), split.test)
    rows = result.frame.filter(pl.col("metric").is_in(["rmse", "mae"]))
    assert rows["status"].to_list() == ["not_applicable"] * 2
    with pytest.raises(InputError, match="rmse, which is not_applicable"):
        result["rmse"]
    by_group = result.groups.filter(pl.col("metric").is_in(["rmse", "mae"]))
    assert by_group["value"].null_count() == len(by_group) > 0


def test_a_log_of_one_rating_has_no_rmse(split: Split) -> None:
    train, test = (replace(log, ratings=np.ones(len(log)), scale=(1.0, 1.0)) for log in (split.train, split.test))
    result = ra.accuracy(WALS(factors=2, center="none").fit(train), test)
    assert result.frame.filter(pl.col("metric") == "rmse")["status"].to_list() == ["not_applicable"]
    left_out: Any = result.settings["left_out"]
    assert list(left_out.values()) == [["rmse", "mae"]]
    assert next(iter(left_out)).startswith("all ratings of the log are the same")


def test_groups_of_users_average_to_the_whole(model: Any, split: Split) -> None:
    result = ra.accuracy(model, split.test)
    for by in ("region", "age", "history"):
        rows = result.by(by).filter(pl.col("metric") == "ndcg")
        whole = result.frame.row(by_predicate=pl.col("metric") == "ndcg", named=True)
        assert rows["users"].sum() == whole["users"]
        assert np.average(rows["value"], weights=rows["users"]) == pytest.approx(whole["value"])


def test_groups_of_items_pool_to_the_whole(model: Any, split: Split) -> None:
    result = ra.accuracy(model, split.test)
    test, weights = split.test, model.data.categories["genre"].weights.toarray()
    rows = result.by("genre").filter(pl.col("metric") == "mae")
    share = weights[test.items].sum(0) / len(test)
    values = rows["value"].to_numpy()
    assert np.nansum(values * share) == pytest.approx(result["mae"])


def test_intervals_enclose_the_value_and_narrow_with_confidence(model: Any, split: Split) -> None:
    wide = ra.accuracy(model, split.test, confidence=0.99)
    narrow = ra.accuracy(model, split.test, confidence=0.5)
    for metric in wide.frame["metric"]:
        outer, inner = (r.frame.row(by_predicate=pl.col("metric") == metric, named=True) for r in (wide, narrow))
        assert outer["lower"] < inner["lower"] <= inner["value"] <= inner["upper"] < outer["upper"]


def test_numbers_do_not_depend_on_engine_or_run(model: Any, split: Split) -> None:
    first = ra.accuracy(model, split.test)
    for engine in (ra.engines.Threads(2), ra.engines.Processes(1)):
        again = ra.accuracy(model, split.test, engine=engine)
        assert again.frame.equals(first.frame)
        assert again.groups.equals(first.groups)
        assert again.users.equals(first.users)


def test_bad_arguments(model: Any, split: Split, tiny: Interactions) -> None:
    with pytest.raises(InputError, match="k: received 0"):
        ra.accuracy(model, split.test, k=0)
    with pytest.raises(InputError, match="which keeps ids"):
        ra.accuracy(model, tiny)
    with pytest.raises(InputError, match="held-out ratings"):
        ra.accuracy(model, split.test.subset(np.zeros(len(split.test), dtype=bool)))
    with pytest.raises(InputError, match="Did you mean 'region'"):
        ra.accuracy(model, split.test, by=["regoin"])
    with pytest.raises(InputError, match="confidence"):
        ra.accuracy(model, split.test, confidence=1.0)


def test_what_the_model_was_trained_on_is_not_held_out(split: Split, world: World) -> None:
    """As when a library's model of the training part is adapted with the whole log: its lists would find nothing."""
    with pytest.raises(InputError, match=r"test: received [\d,]+ ratings that are all in the model's own log"):
        ra.accuracy(TopPop().fit(world.data), split.test)


def test_the_result_offers_frames_and_helps(model: Any, split: Split) -> None:
    result = ra.accuracy(model, split.test, k=7)
    assert result.to_pandas()["metric"].tolist() == result.frame["metric"].to_list()
    assert "nDCG@7" in result.summary()
    with pytest.raises(InputError, match="Did you mean 'ndcg'"):
        result["ndgc"]
    with pytest.raises(InputError, match="Did you mean 'genre'"):
        result.by("gendre")


def test_lists_can_be_another_policys(split: Split) -> None:
    """Calibrated lists at weight 0 are the model's own; calibration alone finds other items again."""
    model = BiasedMF(factors=4, epochs=10).fit(split.train)
    own, same, other = (
        ra.accuracy(model, split.test, policy=policy)["ndcg"]
        for policy in (ra.policies.Top1(), Calibrated(weight=0.0, size=10), Calibrated(weight=1.0, size=10))
    )
    assert own == same
    assert own != other
