from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from recaudit.audits.instability.audit import Instability, instability
from recaudit.audits.instability.pairs import BINS, bin_counts
from recaudit.audits.instability.result import InstabilityResult
from recaudit.audits.result import Result
from recaudit.data.synthetic import World
from recaudit.errors import InputError
from recaudit.interventions import Past
from recaudit.models import ALS, FactorModel
from recaudit.policies import Softmax

ASKED: dict[str, Any] = {"edits": Past(3), "policy": Softmax(beta=3), "threshold": 0.1}


@pytest.fixture(scope="module")
def model(world: World) -> FactorModel:
    return ALS(factors=4, iterations=4, regularization=0.05).fit(Past(3).before(world.data))


@pytest.fixture(scope="module")
def result(model: FactorModel, world: World) -> InstabilityResult:
    return instability(model, world.data, **ASKED)


def test_the_tables_are_what_the_pairs_come_to(result: InstabilityResult) -> None:
    viewers = result.users.rename({"user": "viewer"})
    for table, one, other in ((viewers, "viewer", "editor"), (result.editors, "editor", "viewer")):
        pairs = result.pairs.sort("value", other, descending=[True, False])
        expected = (
            pairs.group_by(one)
            .agg(
                pl.col("value").count().cast(pl.Int64).alias(f"{other}s"),
                pl.col("value").mean().alias("instability"),
                pl.col("value").max().alias("max_instability"),
                (pl.col("value") > 0.1).mean().alias("unstable_share"),
                pl.col(other).first().alias(f"worst_{other}"),
            )
            .sort(one)
        )
        assert table.columns == expected.columns
        assert table[f"worst_{other}"].to_list() == expected[f"worst_{other}"].to_list()
        for name in ("instability", "max_instability", "unstable_share"):
            np.testing.assert_allclose(table[name], expected[name], atol=1e-12)
        assert table[f"{other}s"].to_list() == [119] * 120


def test_pairs_need_not_be_kept(model: FactorModel, world: World, result: InstabilityResult) -> None:
    without = instability(model, world.data, pairs=False, **ASKED)
    assert without.pairs.is_empty()
    assert without.pairs.columns == result.pairs.columns
    assert without.users.equals(result.users)
    assert without.editors.equals(result.editors)
    assert without.counts() == result.counts() == {"solved": 120 * 119, "bounded": 0, "failed": 0, "not_applicable": 0}
    assert without.frame.equals(result.frame)
    with pytest.raises(InputError, match="pairs=True"):
        without.contrast(["user-001"], ["user-002"])


def test_the_aggregates_are_means_over_viewers(result: InstabilityResult) -> None:
    values = result.pairs["value"].to_numpy()
    assert result["instability"] == pytest.approx(values.mean())
    assert result["unstable_share"] == pytest.approx((values > 0.1).mean())
    worst = result.pairs.group_by("viewer").agg(pl.col("value").max())["value"].mean()
    assert result["max_instability"] == pytest.approx(worst)
    for found in result.frame.iter_rows(named=True):
        assert found["lower"] <= found["value"] <= found["upper"]
        assert (found["users"], found["excluded"]) == (120, 0)
    assert "Worst instability" in result.summary()


def test_groups_of_viewers_and_of_editors_are_told_apart(
    model: FactorModel, result: InstabilityResult, world: World
) -> None:
    answer = instability(model, world.data, by=["region"], **ASKED)
    assert_frame_equal(answer.groups, result.groups.filter(pl.col("by").is_in(["region", "editor region"])))
    assert set(answer.groups["by"]) == {"region", "editor region"}
    region = pl.DataFrame({"user": world.data.user_ids, "region": world.data.attributes["region"]})
    for side, by in (("viewer", "region"), ("editor", "editor region")):
        pairs = result.pairs.join(region, left_on=side, right_on="user")
        for found in answer.by(by).filter(pl.col("metric") == "instability").iter_rows(named=True):
            own = pairs.filter(pl.col("region") == found["group"]).group_by("viewer").agg(pl.col("value").mean())
            assert found["value"] == pytest.approx(own["value"].mean())
        for found in answer.by(by).filter(pl.col("metric") == "unstable_share").iter_rows(named=True):
            by_viewer = pairs.filter(pl.col("region") == found["group"]).group_by("viewer")
            assert found["value"] == pytest.approx(by_viewer.agg((pl.col("value") > 0.1).mean())["value"].mean())


def test_items_cannot_be_grouped(model: FactorModel, world: World) -> None:
    with pytest.raises(InputError, match="by: received popularity, which groups items; expected groups of users"):
        Instability(by=("popularity",)).check(world.data)
    with pytest.raises(InputError, match="Did you mean 'region'"):
        instability(model, world.data, by=["regoin"], edits=Past(3))


def test_the_histogram_counts_every_pair(result: InstabilityResult) -> None:
    table = result.histogram(10)
    counts, edges = np.histogram(result.pairs["value"].to_numpy(), bins=10, range=(0, 1))
    assert table["pairs"].to_list() == counts.tolist()
    np.testing.assert_allclose(table["upper"], edges[1:])
    assert table["share"].sum() == pytest.approx(1.0)
    with pytest.raises(InputError, match="bins: received 7"):
        result.histogram(7)


def test_the_histogram_of_a_distance_without_end_has_an_open_last_bin() -> None:
    # 1 - exp(-KL) = 0, 0.5, 0.999999: the first, the sixth and the last of ten bins.
    values = np.array([0.0, np.log(2) + 1e-9, -np.log(1e-6)])
    assert np.flatnonzero(bin_counts(values, "kl").reshape(10, BINS // 10).sum(axis=1)).tolist() == [0, 5, 9]


def test_two_groups_of_editors_are_contrasted_on_the_same_viewers(result: InstabilityResult) -> None:
    first, second = ["user-001", "user-002", "user-003"], ["user-010", "user-011"]
    table = result.contrast(first, second)
    means = [
        result.pairs.filter(pl.col("editor").is_in(ids)).group_by("viewer").agg(pl.col("value").mean())["value"].mean()
        for ids in (first, second)
    ]
    assert table["group"].to_list() == ["first", "second", "first - second"]
    assert table["editors"].to_list() == [3, 2, 5]
    assert table["viewers"].to_list() == [120] * 3
    one, two, difference = table["value"]
    assert [one, two] == pytest.approx(means)
    assert difference == pytest.approx(one - two)
    assert (table["lower"] <= table["value"]).all()
    assert (table["value"] <= table["upper"]).all()
    # The same viewers on both sides: the difference is known better than two separate means would say.
    width = table["upper"] - table["lower"]
    assert width[2] < width[0] + width[1]


def test_a_group_with_itself_differs_by_nothing(result: InstabilityResult) -> None:
    table = result.contrast(["user-004"], ["user-004"])
    assert table.row(2, named=True)["value"] == 0.0
    assert (table["lower"][2], table["upper"][2], table["reason"][2]) == (None, None, "too_few_changes")


def test_only_editors_of_the_result_are_contrasted(result: InstabilityResult) -> None:
    with pytest.raises(InputError, match="second: received nobody; expected ids of this result's editors"):
        result.contrast(["user-001"], ["nobody"])


def test_what_is_saved_is_read_back_whole(result: InstabilityResult, tmp_path: Path) -> None:
    result.save(tmp_path / "kept")
    again = Result.load(tmp_path / "kept")
    assert isinstance(again, InstabilityResult)
    assert again.audit == result.audit
    assert again.summary() == result.summary()
    assert again.histogram(10).equals(result.histogram(10))
    assert again.contrast(["user-004"], ["user-005"]).equals(result.contrast(["user-004"], ["user-005"]))


def test_it_prints_what_it_found(result: InstabilityResult) -> None:
    text = repr(result)
    assert "14,280 pairs: 14,280 solved" in text
    assert "threshold=0.1" in text
    assert "Unstable pairs" in text


def test_nobody_left_to_edit_is_no_pair(model: FactorModel, world: World) -> None:
    alone = instability(model, world.data, edits=Past(3), viewers=["user-001"], editors=["user-001"])
    assert alone.pairs.is_empty()
    assert sum(alone.counts().values()) == 0
    assert alone.users["worst_editor"].to_list() == [None]
    assert alone.frame["value"].to_list() == [None] * 3
    assert "none" in repr(alone)
