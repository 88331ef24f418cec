"""The study of agency at its smallest: the directions that exact answers have, and how they are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from recaudit_papers.studies import Agreement, Results, Size, StudyReport, StudyRow, run
from recaudit_papers.studies.agency import measures
from recaudit_papers.studies.agency.averages import average, contrast
from recaudit_papers.studies.agency.study import AgencyStudy


@pytest.fixture(scope="module")
def report() -> StudyReport:
    return run("agency", "tiny")


def row_of(report: StudyReport, table: str, name: str) -> StudyRow:
    (found,) = [row for one in report.tables if one.name == table for row in one.rows if row.name == name]
    return found


class TestDirections:
    @pytest.mark.parametrize(
        ("table", "name"),
        [
            ("figure-2", "past lift: black box"),
            ("figure-2", "future lift: black box"),
            ("figure-2", "past instability: black box over gradient"),
            ("figure-3", "past lift, 5 ratings over 1"),
            ("figure-3", "past instability, 5 ratings less 1"),
            ("figure-3", "future lift, 5 ratings over 1"),
            ("figure-3", "future instability, 5 ratings less 1"),
            ("figure-3-models", "past lift, MF over recurrent"),
            ("figure-4", "lift at beta 5 over that at 0.8"),
            ("stochasticity", "past lift, beta 5 over 0.8"),
        ],
    )
    def test_claims_that_hold_exactly(self, report: StudyReport, table: str, name: str) -> None:
        assert row_of(report, table, name).agreement is Agreement.AGREES

    def test_instability_rises_with_beta(self, report: StudyReport) -> None:
        row = row_of(report, "figure-5", "past instability, beta 6 less 0.2")
        assert row.agreement is Agreement.OPEN
        assert row.ours is not None
        assert row.ours.ends[0] > 0

    def test_from_the_factual_ratings_ascent_goes_nowhere(self, report: StudyReport) -> None:
        found = report.results["algorithm-3/als-factual"]
        assert (found["instability"] == 0).all()
        assert (report.results["algorithm-3/als-scores"]["instability"] > 0).all()

    def test_one_of_two_opposite_claims_disagrees(self, report: StudyReport) -> None:
        for name in ("past lift, beta 5 over 0.8", "past instability, beta 5 less 0.8"):
            one, other = (row_of(report, "stochasticity", told) for told in (name, f"{name}, the other claim"))
            assert one.ours == other.ours
            assert {one.agreement, other.agreement} == {Agreement.AGREES, Agreement.OPEN}

    def test_without_a_penalty_lifts_have_no_bound(self, report: StudyReport) -> None:
        row = row_of(report, "figure-4", "largest lift at beta 0.8")
        assert row.ours is not None
        assert row.ours.value < 100
        assert min(found.value for found in row.variants.values()) > 1e6

    def test_lifts_are_larger_where_chances_are_small_and_gains_where_they_are_large(self, report: StudyReport) -> None:
        row = row_of(report, "figure-4", "rank correlation of lift and baseline, beta 5")
        assert row.agreement is Agreement.EXPLAINED
        assert row.ours is not None
        assert row.ours.ends[1] < 0

    def test_without_a_penalty_instability_is_many_times_larger(self, report: StudyReport) -> None:
        row = row_of(report, "table-3", "future instability, active adversaries")
        at_five, free, *_ = row.variants.values()
        assert free.value > 3 * at_five.value


class TestReading:
    def test_what_is_missing_is_not_measured(self) -> None:
        rows = [row for table in AgencyStudy().tables(Results({})) for row in table.rows]
        assert {row.agreement for row in rows} == {Agreement.NOT_MEASURED}
        assert not any(row.variants for row in rows)

    def test_means_and_differences_are_of_the_same_users(self) -> None:
        first = pl.DataFrame({"user": ["a", "b", "c"], "log_lift": [1.0, 2.0, 9.0]})
        second = pl.DataFrame({"user": ["b", "a"], "log_lift": [0.5, 0.5]})
        mean, ratio = average(first, "log_lift"), contrast(first, second, "log_lift", np.exp)
        assert mean is not None
        assert mean.value == 4.0
        assert ratio is not None
        assert ratio.value == pytest.approx(np.exp(1.0))
        assert ratio.over == "2 users"
        less = contrast(first, second, "log_lift", less=(second, second))
        assert less is not None
        assert less.value == pytest.approx(1.0)
        assert contrast(first, pl.DataFrame(), "log_lift") is None

    @pytest.mark.parametrize("size", ["tiny", "quick", "paper"])
    def test_experiments_have_names_of_their_own(self, size: Size) -> None:
        planned = AgencyStudy().experiments(size)
        assert len({one.name for one in planned}) == len(planned)
        assert all(one.plan["settings"]["data"] in ("demo", *one.data) for one in planned)


class TestMeasures:
    def test_blocks_are_parts_of_the_same_users(self) -> None:
        asked: dict[str, Any] = {"betas": (0.8,), "users": 7, "targets": 5}
        model = {"kind": "als", "factors": 4, "iterations": 3}
        whole, *parts = (
            measures.own_ratings("demo", model, "past", 2, 0, **asked, block=block)
            for block in ((0, 1), (0, 2), (1, 2))
        )
        # Numbers that are computed in another block of users may differ in their last bits.
        assert_frame_equal(pl.concat(parts), whole, rel_tol=1e-12, abs_tol=1e-12)

    def test_the_error_is_that_of_what_was_left_out(self) -> None:
        model = {"kind": "als", "factors": 4, "iterations": 3}
        log, fitted = measures.log_of("demo"), measures.fitted("demo", model, 2, 0)
        found = measures.held_out_error("demo", model, 2, 0)
        user = int(log.users_at([type(log.user_ids[0])(found["user"][0])])[0])
        items, ratings = log.history(user)
        left = ~np.isin(items, fitted.data.history(user)[0])
        assert left.sum() == 2
        predicted = np.clip(fitted.scores(np.array([user]))[0][items[left]], *log.scale)
        assert found["squared"][0] == pytest.approx(((predicted - ratings[left]) ** 2).mean())
