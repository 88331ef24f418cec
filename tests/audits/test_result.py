"""The one result: groups of any kind, differences between models, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from recaudit.audits.result import Result
from recaudit.data.splits import Split
from recaudit.errors import DamagedError, InputError
from recaudit.metrics.inference import estimate_difference


@pytest.fixture(scope="module")
def results(split: Split) -> tuple[Result, Result]:
    models = (ra.models.TopPop().fit(split.train), ra.models.Random().fit(split.train))
    first, second = (ra.accuracy(model, split.test, k=5) for model in models)
    return first, second


def test_a_group_has_the_mean_of_its_members(results: tuple[Result, Result]) -> None:
    users = results[0].users.select("user", "recall")
    groups = users.with_columns(team=pl.when(pl.int_range(pl.len()) < 10).then(pl.lit("first"))).select("user", "team")
    found = results[0].grouped(groups).filter(pl.col("metric") == "recall")
    assert found["group"].to_list() == ["first"]
    assert found["value"][0] == pytest.approx(users["recall"].head(10).mean())
    assert found["users"][0] == users["recall"].head(10).drop_nulls().len()
    assert found["lower"][0] <= found["value"][0] <= found["upper"][0]


def test_a_grouping_without_ids_is_refused(results: tuple[Result, Result]) -> None:
    with pytest.raises(InputError, match="a column 'user' or 'item'"):
        results[0].grouped(pl.DataFrame({"team": ["a"]}))


def test_a_difference_is_paired(results: tuple[Result, Result]) -> None:
    one, other = results
    [row] = one.difference(other, "recall").to_dicts()
    both = one.users.join(other.users, on="user").drop_nulls("recall")
    gains = (both["recall"] - both["recall_right"]).to_numpy()
    assert row["value"] == pytest.approx(gains.mean())
    estimate = estimate_difference(both["recall"].to_numpy(), both["recall_right"].to_numpy())
    assert (row["lower"], row["upper"]) == (estimate.lower, estimate.upper)
    assert row["upper"] - row["lower"] > 2 * 1.96 * gains.std(ddof=1) / np.sqrt(len(gains))
    assert row["users"] == len(gains)
    [same] = one.difference(one, "recall").to_dicts()
    assert (same["value"], same["lower"], same["reason"]) == (0, None, "too_few_changes")
    with pytest.raises(InputError, match="Did you mean 'recall'"):
        one.difference(other, "recal")


def test_a_long_setting_ends_between_two_of_its_parts(split: Split) -> None:
    ids = tuple(split.train.user_ids)
    found = ra.Result(ra.Reachability(users=ids), {}, rng=0).heading()[0]
    assert found.startswith(
        "reachability (actions=NextK(k=10, ratings=None, changes=None), policy=Softmax(beta='auto'), "
    )
    assert found.endswith(", ...), rng=0)")
    assert found.count("(") == found.count(")")
    assert len(found) < 300


def test_a_damaged_result_is_refused(results: tuple[Result, Result], tmp_path: Path) -> None:
    results[0].save(tmp_path)
    file = tmp_path / "users.parquet"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DamagedError, match=r"users\.parquet"):
        Result.load(tmp_path)


def test_a_table_that_is_not_there_is_an_error_with_those_that_are(results: tuple[Result, Result]) -> None:
    with pytest.raises(InputError, match="a table of accuracy"):
        results[0].table("pears")
    assert results[0].series.is_empty()


def test_differences_of_geometric_means_are_those_of_the_summary() -> None:
    """Users' lifts are 3 times as large: the difference of the two geometric means, not of arithmetic ones."""
    draw = np.random.default_rng(0)
    lifts = np.exp(draw.normal(size=50))
    users = pl.DataFrame({"user": [f"u{place}" for place in range(50)], "past_lift": lifts})
    one, other = (
        Result(ra.Agency(), {"users": users.with_columns(pl.col("past_lift") * factor)}, rng=0) for factor in (3.0, 1.0)
    )
    [row] = one.difference(other, "past_lift").to_dicts()
    assert row["value"] == pytest.approx(2 * np.exp(np.log(lifts).mean()))
    assert 0 < row["lower"] < row["value"] < row["upper"]
    team = users.select("user", team=pl.lit("all"))
    [group] = one.grouped(team).filter(metric="past_lift").to_dicts()
    assert group["value"] == pytest.approx(3 * np.exp(np.log(lifts).mean()))


def test_averages_over_items_have_no_interval(split: Split) -> None:
    exposure = ra.calibration(ra.models.TopPop().fit(split.train), k=5)
    items = exposure.items.select("item", part=pl.lit("all"))
    result = Result(ra.Accuracy(), {"items": exposure.items.select("item", recall=pl.lit(0.5))}, rng=0)
    [row] = result.grouped(items).to_dicts()
    assert (row["value"], row["lower"], row["upper"], row["reason"]) == (0.5, None, None, "not_over_users")
