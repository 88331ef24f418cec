"""Re-ranking of lists: frames and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import recaudit as ra
from recaudit.audits.calibration.rerank import rerank, rerank_file
from recaudit.data import Interactions
from recaudit.data.lists import ListColumns
from recaudit.data.splits import Split
from recaudit.engines import Step, listening
from recaudit.errors import DataError, InputError
from recaudit.models import ALS
from recaudit.policies.calibrated import Calibrated


@pytest.fixture(scope="module")
def model(split: Split) -> Any:
    return ALS(factors=4, iterations=5, regularization=0.1).fit(split.train)


@pytest.fixture(scope="module")
def data(split: Split) -> Interactions:
    return split.train


@pytest.fixture(scope="module")
def pools(model: Any) -> pl.DataFrame:
    """The 30 best items of every user."""
    return ra.recommend(model, n=30)


class TestFrames:
    def test_the_whole_catalogue_as_pool_gives_the_policys_lists(self, model: Any, data: Interactions) -> None:
        everything = ra.recommend(model, n=data.n_items)
        policy = Calibrated(weight=0.9, size=10, rank_weights="ndcg")
        found = rerank(everything, data, policy)
        assert_frame_equal(found.drop("before"), ra.recommend(model, n=10, policy=policy), rel_tol=1e-12)

    @pytest.mark.parametrize("transform", ["none", "rank", "zscore", "minmax"])
    def test_weight_0_keeps_the_order(self, pools: pl.DataFrame, data: Interactions, transform: Any) -> None:
        found = rerank(pools, data, Calibrated(weight=0, transform=transform))
        assert found.drop("before").equals(pools)
        assert found["before"].to_list() == found["rank"].to_list()

    def test_before_is_the_place_that_the_item_had(self, pools: pl.DataFrame, data: Interactions) -> None:
        found = rerank(pools.sample(fraction=1, shuffle=True, seed=3), data, Calibrated(size=5))
        both = found.join(pools, on=["user", "item"], suffix="_before")
        assert len(both) == len(found) == 5 * data.n_users
        assert both["before"].to_list() == both["rank_before"].to_list()
        assert both["score"].to_list() == both["score_before"].to_list()
        assert (found["before"] != found["rank"]).any()

    def test_without_scores_the_ranks_count(self, pools: pl.DataFrame, data: Interactions) -> None:
        by_rank = rerank(pools.drop("score"), data, Calibrated(weight=0.9, size=10))
        as_ranks = rerank(pools, data, Calibrated(weight=0.9, size=10, transform="rank"))
        assert by_rank.drop("score").equals(as_ranks.drop("score"))
        assert by_rank["score"].null_count() == len(by_rank)

    def test_users_keep_their_order_and_strangers_their_lists(self, pools: pl.DataFrame, data: Interactions) -> None:
        stranger = pools.head(30).with_columns(user=pl.lit("zoe"))
        found = rerank(pl.concat([stranger, pools.tail(30)]), data, Calibrated(size=10))
        assert found["user"].unique(maintain_order=True).to_list() == ["zoe", pools["user"][-1]]
        assert found.head(10)["before"].to_list() == list(range(1, 11))

    def test_short_lists_stay_short_and_constraints_hold(self, pools: pl.DataFrame, data: Interactions) -> None:
        first = pools["item"][0]
        short = pools.filter((pl.col("user") != pools["user"][0]) | (pl.col("rank") <= 3))
        found = rerank(short, data, Calibrated(size=10, must_not=(first,)))
        assert len(found.filter(user=pools["user"][0])) == 2
        assert first not in found["item"].to_list()
        kept = rerank(short, data, Calibrated(size=3, must=(first,)))
        assert kept.filter(item=first).height == short.filter(item=first).height

    def test_unknown_items_are_an_error_or_left_out(self, pools: pl.DataFrame, data: Interactions) -> None:
        frame = pools.head(30).with_columns(item=pl.col("item").replace({pools["item"][0]: "zzz"}))
        with pytest.raises(DataError, match="'zzz'"):
            rerank(frame, data)
        found = rerank(frame, data, unknown="ignore")
        assert sorted(found["before"]) == list(range(2, 31))
        with pytest.warns(UserWarning, match="1 users have no list any more"):
            nothing = rerank(frame.with_columns(item=pl.lit("zzz") + pl.col("item")), data, unknown="ignore")
        assert nothing.columns == ["user", "item", "rank", "score", "before"]
        assert nothing.is_empty()

    def test_where_scores_contradict_ranks_the_ranks_decide(self, pools: pl.DataFrame, data: Interactions) -> None:
        first = pools["user"][0]
        turned = pl.when(pl.col("user") == first).then(-pl.col("score")).otherwise(pl.col("score"))
        policy = Calibrated(weight=0.9, size=10)
        with pytest.warns(UserWarning, match="1 lists have scores that contradict their ranks"):
            found = rerank(pools.with_columns(score=turned), data, policy)
        by_rank = rerank(pools.drop("score"), data, policy)
        assert found.filter(user=first)["item"].equals(by_rank.filter(user=first)["item"])
        others = rerank(pools, data, policy).filter(pl.col("user") != first)
        assert found.filter(pl.col("user") != first).equals(others)


class TestFiles:
    @pytest.mark.parametrize("batch", [1, 29, 31, 1000, 10**6])
    def test_any_batch_gives_the_lists_of_the_frame(
        self, pools: pl.DataFrame, data: Interactions, tmp_path: Path, batch: int
    ) -> None:
        frame = pools.head(300)
        frame.write_parquet(tmp_path / "lists.parquet", row_group_size=100)
        out = tmp_path / "made" / "out.parquet"
        done = rerank_file(tmp_path / "lists.parquet", data, out, Calibrated(size=10), batch=batch)
        assert (done.users, done.rows, done.without_history, done.left_out) == (10, 100, 0, 0)
        assert pl.read_parquet(out).equals(rerank(frame, data, Calibrated(size=10)))
        assert [path.name for path in out.parent.iterdir()] == ["out.parquet"]

    @pytest.mark.parametrize("suffix", ["csv", "tsv"])
    def test_text_in_and_out(self, pools: pl.DataFrame, data: Interactions, tmp_path: Path, suffix: str) -> None:
        source = tmp_path / f"lists.{suffix}"
        pools.head(60).write_csv(source, separator="," if suffix == "csv" else "\t")
        rerank_file(source, data, tmp_path / "out.csv", Calibrated(size=5))
        assert pl.read_csv(tmp_path / "out.csv").equals(rerank(pools.head(60), data, Calibrated(size=5)))

    @pytest.mark.parametrize("batch", [10, 10**6])
    def test_a_user_that_comes_back_is_refused_and_nothing_is_left(
        self, pools: pl.DataFrame, data: Interactions, tmp_path: Path, batch: int
    ) -> None:
        pl.concat([pools.head(45), pools[60:90], pools[45:60]]).write_parquet(tmp_path / "lists.parquet")
        out = tmp_path / "out.parquet"
        out.write_text("as it was")
        with pytest.raises(DataError, match=r"again after another user's rows.*Sort it first"):
            rerank_file(tmp_path / "lists.parquet", data, out, batch=batch)
        assert out.read_text() == "as it was"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["lists.parquet", "out.parquet"]

    def test_strangers_and_unknown_items_are_counted(
        self, pools: pl.DataFrame, data: Interactions, tmp_path: Path
    ) -> None:
        zoe = pools.head(30).with_columns(user=pl.lit("zoe"), item=pl.col("item").replace({pools["item"][0]: "zzz"}))
        pl.concat([zoe, pools.tail(30)]).write_parquet(tmp_path / "lists.parquet")
        done = rerank_file(tmp_path / "lists.parquet", data, tmp_path / "out.parquet", unknown="ignore")
        assert (done.users, done.without_history, done.left_out, done.emptied) == (2, 1, 1, 0)

    def test_lists_of_nothing_known_and_scores_against_ranks_are_counted(
        self, pools: pl.DataFrame, data: Interactions, tmp_path: Path
    ) -> None:
        lost = pools.head(30).with_columns(item=pl.lit("zzz") + pl.col("item"))
        turned = pools.tail(30).with_columns(score=-pl.col("score"))
        pl.concat([lost, turned]).write_parquet(tmp_path / "lists.parquet")
        done = rerank_file(tmp_path / "lists.parquet", data, tmp_path / "out.parquet", unknown="ignore")
        assert (done.users, done.left_out, done.emptied, done.against_rank) == (1, 30, 1, 1)

    def test_it_says_how_far_it_is(self, pools: pl.DataFrame, data: Interactions, tmp_path: Path) -> None:
        pools.write_parquet(tmp_path / "lists.parquet", row_group_size=500)
        steps: list[Step] = []
        with listening(steps.append):
            rerank_file(tmp_path / "lists.parquet", data, tmp_path / "out.parquet", batch=500)
        assert steps[-1].done == steps[-1].total == -(-len(pools) // 500)

    def test_columns_of_other_names_keep_them(self, pools: pl.DataFrame, data: Interactions, tmp_path: Path) -> None:
        pools.head(60).rename({"user": "who", "score": "s"}).write_parquet(tmp_path / "lists.parquet")
        columns = ListColumns(user="who", score="s")
        rerank_file(tmp_path / "lists.parquet", data, tmp_path / "out.parquet", columns=columns)
        assert pl.read_parquet(tmp_path / "out.parquet").columns == ["who", "item", "rank", "s", "before"]

    @pytest.mark.parametrize(
        ("source", "out", "message"),
        [
            ("nowhere.parquet", "out.parquet", "a file that exists"),
            ("lists.xlsx", "out.parquet", r"\.parquet, \.csv or \.tsv"),
            ("lists.parquet", "out.json", r"\.parquet or \.csv"),
            ("lists.parquet", ".parquet", r"ends in|a file"),
            ("text.parquet", "out.parquet", "cannot be read as parquet"),
            ("other.csv", "out.parquet", "column 'user'"),
            ("empty.csv", "out.parquet", "at least one row"),
        ],
    )
    def test_what_is_no_file_of_lists_is_refused(
        self, pools: pl.DataFrame, data: Interactions, tmp_path: Path, source: str, out: str, message: str
    ) -> None:
        pools.head(30).write_parquet(tmp_path / "lists.parquet")
        (tmp_path / "lists.xlsx").write_text("")
        (tmp_path / "text.parquet").write_text("no parquet")
        (tmp_path / "other.csv").write_text("a,b\n1,2\n")
        (tmp_path / "empty.csv").write_text("user,item,rank\n")
        with pytest.raises(InputError, match=message):
            rerank_file(tmp_path / source, data, tmp_path / out)


def test_a_certified_list_says_what_it_may_miss() -> None:
    """Ten candidates and a list of all of them: nothing else can be listed, so nothing is missed in what is listed."""
    data = ra.data.synthetic.demo_world(rng=2, users=40, items=30).data
    lists = ra.recommend(ra.models.TopPop().fit(data), n=10)
    policy = ra.policies.Calibrated(weight=0.9, size=3)
    plain, certified = (ra.rerank(lists, data, policy, certify=certify) for certify in (False, True))
    assert certified.drop("may_miss").equals(plain)
    assert (certified["may_miss"] >= 0).all()
    assert certified.group_by("user").agg(pl.col("may_miss").n_unique())["may_miss"].max() == 1
    everything = ra.rerank(lists, data, ra.policies.Calibrated(weight=0.9, size=10), certify=True)
    assert (everything["may_miss"] <= 1e-9).all()
