"""One call asks everything: the same numbers as the single audits, and nothing where there is no answer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from models.nonlinear import Nonlinear
from recaudit.audits.agency.audit import Agency, agency
from recaudit.audits.audit import Subject
from recaudit.audits.reachability.audit import Reachability
from recaudit.audits.result import Result
from recaudit.data import Interactions
from recaudit.data.synthetic import World
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Future, Past
from recaudit.metrics.groupings import groupings
from recaudit.metrics.tables import GROUP_SCHEMA, SERIES_SCHEMA, SUMMARY_SCHEMA
from recaudit.models import ALS, EASE, FactorModel, TopPop
from recaudit.policies import Softmax, Top1

RECOMMENDER = ALS(factors=4, iterations=2)
ASKED: dict[str, Any] = {
    "k": 2,
    "policy": Softmax(beta=2.0),
    "horizons": (1, 2),
    "betas": (1.0, 2.0),
    "users": 6,
    "followed": 3,
    "targets": 8,
    "editors": 5,
}
OWN = ("lift", "mean_lift", "doubled")
OTHERS = ("instability", "unstable_share")


@pytest.fixture(scope="module")
def log(world: World) -> Interactions:
    return world.data


@pytest.fixture(scope="module")
def result(log: Interactions) -> Result:
    return agency(RECOMMENDER, log, by=["history", "popularity"], **ASKED)


def followed(result: Result) -> list[str]:
    return result.users.drop_nulls("future_lift")["user"].to_list()


class TestNumbers:
    def test_every_metric_has_a_value_and_a_definition(self, result: Result) -> None:
        names = {f"{when}_{metric}" for when in ("past", "future") for metric in (*OWN, *OTHERS)}
        assert set(result.frame["metric"]) == names == {metric.name for metric in Agency.metrics}
        assert result.frame["value"].null_count() == 0
        assert dict(result.frame.schema) == SUMMARY_SCHEMA

    def test_lift_is_that_of_reachability(self, result: Result, log: Interactions) -> None:
        targets = log.item_ids.gather(ra.audits.samples.resolve_items(8, log, 0)).to_list()
        past = ra.reachability(
            RECOMMENDER.fit(Past(2).before(log)),
            log,
            actions=Past(2),
            policy=Softmax(beta=2),
            users=result.users["user"],
            targets=targets,
            by=[],
        )
        future = ra.reachability(
            RECOMMENDER.fit(log),
            actions=Future(2),
            policy=Softmax(beta=2),
            users=followed(result),
            targets=targets,
            by=[],
        )
        assert len(followed(result)) == 3
        for when, found in (("past", past), ("future", future)):
            assert result[f"{when}_lift"] == pytest.approx(found["lift"])
            lifts = (
                found.pairs.drop_nulls("lift")
                .group_by("user")
                .agg(pl.col("lift").mean(), (pl.col("lift") >= 2).mean().alias("doubled"))
            )
            assert result[f"{when}_mean_lift"] == pytest.approx(float(lifts["lift"].to_numpy().mean()))
            assert result[f"{when}_doubled"] == pytest.approx(float(lifts["doubled"].to_numpy().mean()))

    def test_instability_is_that_of_instability(self, result: Result, log: Interactions) -> None:
        editors = log.user_ids.gather(ra.audits.samples.resolve_users(5, log, 0, "editors")).to_list()
        past = ra.audits.instability(
            RECOMMENDER.fit(Past(2).before(log)),
            log,
            edits=Past(2),
            policy=Softmax(beta=2),
            viewers=result.users["user"],
            editors=editors,
        )
        assert result["past_instability"] == pytest.approx(past["instability"])
        assert result["past_unstable_share"] == past["unstable_share"]
        np.testing.assert_allclose(result.users["past_instability"], past.users["instability"])

    def test_a_fitted_model_is_taken_and_changes_nothing(
        self, result: Result, log: Interactions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sizes: list[int] = []
        fit = ALS.fit
        subject = Subject(model=RECOMMENDER.fit(Past(2).before(log)), recommender=RECOMMENDER, data=log)

        def counted(self: ALS, data: Interactions, rng: int = 0) -> FactorModel:
            sizes.append(len(data))
            return fit(self, data, rng)

        monkeypatch.setattr(ALS, "fit", counted)
        again = agency(subject, by=["history", "popularity"], refits=0, **ASKED)
        assert sorted(sizes) == [len(Past(1).before(log)), len(log)]
        assert again.frame.equals(result.frame)
        assert again.series.equals(result.series)

    def test_the_rule_is_named_and_tested_by_refits(self, result: Result) -> None:
        assert "least squares" in result.settings["rule"]
        assert result.settings["fidelity"]["pairs"] == 3
        assert result.settings["fidelity"]["refit_difference"] < 1e-9

    def test_it_is_read_back_as_it_was_saved(self, result: Result, tmp_path: Path) -> None:
        result.save(tmp_path / "kept")
        again = Result.load(tmp_path / "kept")
        assert again.audit == result.audit
        assert again.settings == result.settings
        assert {name: table.equals(result.table(name)) for name, table in again.tables.items()} == dict.fromkeys(
            result.tables, True
        )


class TestGroups:
    def test_by_users_by_items_and_by_editors(self, result: Result) -> None:
        assert dict(result.groups.schema) == GROUP_SCHEMA
        found = {by: set(rows["metric"]) for (by,), rows in result.groups.group_by("by")}
        lifts, moves = (
            {"past_lift", "future_lift"},
            {f"{when}_{name}" for when in ("past", "future") for name in OTHERS},
        )
        assert found["history"] == lifts | moves
        assert found["popularity"] == lifts
        assert found["editor history"] == moves

    def test_items_of_a_group_are_averaged_within_each_user(self, result: Result, log: Interactions) -> None:
        weights = next(group for group in groupings(log, ["popularity"])).weights
        targets = np.zeros(log.n_items)
        targets[ra.audits.samples.resolve_items(8, log, 0)] = 1
        found = ra.reachability(
            RECOMMENDER.fit(Past(2).before(log)),
            log,
            actions=Past(2),
            policy=Softmax(beta=2),
            users=result.users["user"],
            targets=log.item_ids.filter(pl.Series(targets * weights[:, -1] > 0)),
            by=[],
        )
        row = result.by("popularity").filter(pl.col("metric") == "past_lift")[-1]
        assert row["value"][0] == pytest.approx(found["lift"])

    def test_contrasts_are_three_rows_each(self, result: Result) -> None:
        items = result.by("popular against intermediate items").filter(pl.col("metric") == "past_lift")
        assert items["group"].to_list() == ["popular", "intermediate", "popular / intermediate"]
        assert items["value"][2] == pytest.approx(items["value"][0] / items["value"][1])
        editors = result.by("active against intermediate editors").filter(pl.col("metric") == "future_instability")
        assert editors["group"].to_list() == ["active", "intermediate", "active - intermediate"]
        assert editors["value"][2] == pytest.approx(editors["value"][0] - editors["value"][1])

    def test_a_contrast_that_nobody_can_be_asked_about_has_no_rows(self) -> None:
        """The one user followed has rated every item but one."""
        rows = [(user, item) for user in range(6) for item in range(6) if item != user]
        frame = pl.DataFrame(rows, {"user": pl.Int64, "item": pl.Int64}, orient="row")
        frame = frame.with_columns(rating=1.0 + (pl.col("user") + pl.col("item")) % 5, time=pl.col("item"))
        log = Interactions.from_frame(frame, time="time", scale=(1, 5))
        result = agency(ALS(factors=2, iterations=2), log, by=[], **{**ASKED, "k": 1, "horizons": (), "betas": ()})
        assert not (result.groups["by"] == "popular against intermediate items").any()
        assert result.by("active against intermediate editors")["value"].null_count() == 0


class TestSeries:
    def test_curves_pass_through_the_overall_number(self, result: Result) -> None:
        assert dict(result.series.schema) == SERIES_SCHEMA
        for over, at, metrics in (
            ("horizon", 2, {"past_lift", "future_lift", "past_instability", "future_instability"}),
            ("beta", 2, {"past_lift", "past_instability", "future_instability"}),
        ):
            rows = result.series.filter((pl.col("over") == over) & (pl.col("at") == at))
            assert set(rows["metric"]) == metrics
            assert all(row["value"] == result[row["metric"]] for row in rows.iter_rows(named=True))

    def test_other_points_are_the_sweep(self, result: Result, log: Interactions) -> None:
        audit = Reachability(actions=Past(2), users=6, targets=8, policy=Softmax(beta=2.0))
        sweep = ra.sweep_horizon(RECOMMENDER, log, audit=audit, horizons=(1,))
        one = (pl.col("over") == "horizon") & (pl.col("at") == 1) & (pl.col("metric") == "past_lift")
        (value,) = result.series.filter(one)["value"]
        assert value == sweep.curve("lift")["value"][0]

    def test_the_histogram_counts_every_pair(self, result: Result) -> None:
        for when in ("past", "future"):
            bins = result.series.filter((pl.col("over") == "instability") & (pl.col("metric") == f"{when}_instability"))
            assert bins["value"].sum() == pytest.approx(1.0)
            assert float((bins["at"] * bins["value"]).sum()) <= result[f"{when}_instability"]
            assert float(((bins["at"] + 0.001) * bins["value"]).sum()) >= result[f"{when}_instability"]

    @pytest.mark.parametrize(
        ("large", "points"),
        [
            (5000, {"horizon": [1, 2, 3, 4, 5], "beta": [0.2, 0.5, 0.8, 1, 2, 3, 4, 5, 6]}),
            (10, {"horizon": [1, 2], "beta": [0.5, 2, 6]}),
        ],
    )
    def test_curves_of_a_large_catalogue_have_few_points(
        self, log: Interactions, large: int, points: dict[str, list[float]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys.modules[Agency.__module__], "_LARGE", large)
        asked = {**ASKED, "users": 2, "followed": 1, "targets": 2, "editors": 2}
        found = agency(RECOMMENDER, log, by=[], **asked | {"horizons": None, "betas": None})
        rows = found.series.filter(pl.col("metric") == "past_instability")
        assert {over: rows.filter(pl.col("over") == over)["at"].to_list() for over in points} == points

    def test_nothing_is_swept_where_nothing_is_named(self, log: Interactions) -> None:
        plain = agency(RECOMMENDER, log, by=[], **{**ASKED, "horizons": (), "betas": ()})
        assert plain.series["over"].unique().to_list() == ["instability"]


class TestWorkedPair:
    def test_it_is_the_largest_and_its_ratings_bring_it_about(self, result: Result, log: Interactions) -> None:
        row = result.pairs.filter(pl.col("when") == "past").row(0, named=True)
        model = RECOMMENDER.fit(Past(2).before(log))
        found = ra.audits.instability(
            model,
            log,
            edits=Past(2),
            policy=Softmax(beta=2),
            viewers=result.users["user"],
            editors=log.user_ids.gather(ra.audits.samples.resolve_users(5, log, 0, "editors")).to_list(),
        )
        assert row["value"] == pytest.approx(found.pairs["value"].max(), rel=1e-9)
        editor = int(log.users_at([row["editor"]])[0])
        given = dict(zip(*(part.tolist() for part in log.history(editor)), strict=True))
        assert row["given_ratings"] == [given[item] for item in log.items_at(row["action_items"])]

    def test_nobody_has_rated_the_future(self, result: Result) -> None:
        row = result.pairs.filter(pl.col("when") == "future").row(0, named=True)
        assert row["given_ratings"] == [None] * len(row["action_items"])


class TestWithoutAnAnswer:
    def test_a_model_that_knows_nothing_of_others_gives_the_rest(self, log: Interactions) -> None:
        result = agency(EASE(), log, by=[], **ASKED)
        rows = {row["metric"]: row for row in result.frame.iter_rows(named=True)}
        for when in ("past", "future"):
            assert all(rows[f"{when}_{metric}"]["status"] == "solved" for metric in OWN)
            for metric in OTHERS:
                assert rows[f"{when}_{metric}"]["status"] == "not_applicable"
                assert rows[f"{when}_{metric}"]["value"] is None
        left_out = result.settings["left_out"]
        assert isinstance(left_out, dict)
        (reason,) = left_out
        assert "another user's ratings" in reason
        assert result.pairs.is_empty()
        assert "not_applicable" in repr(result)

    def test_a_log_without_times_has_a_future_and_no_past(self, log: Interactions) -> None:
        timeless = Interactions.from_frame(log.frame().drop("time"), scale=log.scale)
        result = agency(RECOMMENDER, timeless, by=[], **ASKED)
        rows = {row["metric"]: row["status"] for row in result.frame.iter_rows(named=True)}
        assert rows["future_lift"] == rows["future_instability"] == "solved"
        assert rows["past_lift"] == rows["past_instability"] == "not_applicable"

    def test_a_model_that_knows_nothing_says_so(self, log: Interactions) -> None:
        with pytest.raises(NotSupportedError, match="no formula says"):
            agency(TopPop(), log, **ASKED)

    @pytest.mark.parametrize("argument", ["users", "targets", "editors"])
    def test_somebody_must_be_asked(self, log: Interactions, argument: str) -> None:
        with pytest.raises(InputError, match=f"{argument}: received no ids; expected at least one"):
            agency(ALS(factors=3), log, **{**ASKED, argument: []})
        with pytest.raises(InputError, match=r"k: received 1\.5; expected a valid integer"):
            agency(ALS(factors=3), log, **{**ASKED, "k": 1.5})

    def test_other_policies_than_softmax_are_refused(self) -> None:
        wrong: list[Any] = [Top1(), {"kind": "top-1"}]
        for policy in wrong:
            with pytest.raises(InputError, match=r"policy: received Top1\(\); expected softmax"):
                Agency(policy=policy)

    def test_what_was_only_searched_for_is_bounded_everywhere(self, log: Interactions) -> None:
        asked: dict[str, Any] = {"users": 3, "followed": 1, "targets": 4, "editors": 3}
        found = agency(Nonlinear(), log, k=2, horizons=(), betas=(1.0,), **asked)
        for frame in (found.frame, found.groups, found.series):
            assert set(frame.drop_nulls("value")["status"]) == {"bounded"}
