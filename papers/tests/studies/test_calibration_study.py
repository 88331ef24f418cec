"""Calibrated lists cost recall and bring calibration as the paper says; rows are read from what was measured."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from recaudit.policies.calibrated import Calibrated
from recaudit_papers.studies import Agreement, Results, StudyReport, StudyRow, run
from recaudit_papers.studies.calibration import measures, notebook
from recaudit_papers.studies.calibration.plays import fitted, plays
from recaudit_papers.studies.calibration.published import METRICS, TABLE_2
from recaudit_papers.studies.calibration.study import DATA, CalibrationStudy

LOG = {"data": "demo"}
MODEL = {"factors": 8, "unobserved_weight": 0.1, "regularization": 3.0, "iterations": 5}
WEIGHTS = (0.0, 0.5, 0.9)


@pytest.fixture(scope="module")
def report() -> StudyReport:
    return run("calibration", "tiny")


def rows(report: StudyReport, table: str) -> dict[str, StudyRow]:
    found = next(each for each in report.tables if each.name == table)
    return {row.name: row for row in found.rows}


class TestDirections:
    def test_calibration_rises_and_recall_falls_with_lambda(self, report: StudyReport) -> None:
        found = report.results["table-2/ml-1m"]
        for length in (10, 50):
            apart = found.filter(metric="kl", length=length).sort("weight")["value"].to_numpy()
            assert (np.diff(apart) < 0).all()
        kept = found.filter(metric="kept", length=10, weight=0.99)
        assert kept["upper"][0] < 1

    def test_what_section_6_says_holds(self, report: StudyReport) -> None:
        said = rows(report, "section-6")
        steps = [row for name, row in said.items() if "step" in name]
        assert [row.agreement for row in steps] == [Agreement.AGREES] * 2

    def test_a_pool_keeps_recall_and_costs_calibration(self, report: StudyReport) -> None:
        pooled, free = (
            report.results[f"table-2/{name}"].filter(length=50, weight=0.99) for name in ("pool-200", "ml-1m")
        )
        assert pooled.filter(metric="kl")["value"][0] > free.filter(metric="kl")["value"][0]
        assert pooled.filter(metric="recall")["value"][0] >= free.filter(metric="recall")["value"][0]

    def test_everybody_is_more_than_test_users(self, report: StudyReport) -> None:
        counted = [
            report.results[f"table-2/{name}"].filter(metric="kl", length=10, weight=0.0)["users"][0]
            for name in ("everybody", "ml-1m")
        ]
        assert counted[0] > counted[1]

    def test_figures_hold(self, report: StudyReport) -> None:
        shorter = [row for name, row in rows(report, "figure-3").items() if "shorter" in name]
        nearer = [row for name, row in rows(report, "figure-1").items() if "lower C_KL" in name]
        assert len(shorter) == 10
        assert len(nearer) == 2
        assert {row.agreement for row in shorter + nearer} == {Agreement.AGREES}
        missing = report.results["figure-2"].filter(pl.col("what").str.starts_with("missing")).sort("what")
        assert missing["value"][0] > missing["value"][1]

    def test_lists_made_as_a_whole_are_never_below_the_list_by_score(self, report: StudyReport) -> None:
        found = report.results["optimality"].filter(weight=0.5, what="below")
        below = dict(found.select("horizon", "value").iter_rows())
        assert below["prefix"] > below["list"] == 0

    def test_the_histogram_counts_everybody_once(self, report: StudyReport) -> None:
        shares = report.results["figure-1"].filter(what="share").group_by("weight").agg(pl.col("value").sum())
        assert shares["value"].to_numpy() == pytest.approx(1)

    def test_drawn_lists_are_balanced_together_and_not_one_by_one(self, report: StudyReport) -> None:
        section = rows(report, "section-2")
        assert section["2.3: C_KL@10, ranked less drawn"].agreement is Agreement.EXPLAINED
        hit = section["2.3: probability that the next play is in the list, ranked less drawn"]
        assert hit.agreement is Agreement.AGREES

    def test_worked_examples_come_out(self, report: StudyReport) -> None:
        section, table = rows(report, "section-2"), rows(report, "table-1")
        exact = [row for name, row in section.items() if name.startswith("2.1")]
        assert {row.agreement for row in exact} == {Agreement.AGREES}
        known = {name: row for name, row in table.items() if row.published.known}
        assert sum(name.startswith("DP") for name in known) == 4
        disagree = [name for name, row in known.items() if row.agreement is not Agreement.AGREES]
        assert disagree == ["BinomDiv of 5:5 less that of 7:3, target 60:40"]
        assert known[disagree[0]].agreement is Agreement.EXPLAINED


class TestMeasures:
    def test_numbers_are_those_of_the_verb(self) -> None:
        model, test = fitted(LOG, 0.05, 0, MODEL)
        found = measures.tradeoff(LOG, 0.05, [0], MODEL, WEIGHTS)
        curve = ra.calibration_curve(model, test, weights=WEIGHTS, policy=Calibrated(horizon="prefix"))
        for metric, name in (("recall", "recall"), ("kl", "calibration_kl")):
            for length in (10, 50):
                ours = found.filter(metric=metric, length=length).sort("weight")
                verb = curve.series.filter(metric=f"{name}@{length}").sort("at")
                np.testing.assert_allclose(ours["value"], verb["value"], rtol=1e-12)

    def test_plays_are_high_ratings_of_films_with_genres(self) -> None:
        found, log = plays("demo"), ra.datasets.load("demo")
        assert len(found) == (log.ratings >= 4).sum()
        assert found.item_counts.min() > 0
        np.testing.assert_allclose(found.categories["genre"].weights.sum(axis=1), 1)
        half = plays("demo", items=0.5)
        assert half.n_items < 0.55 * log.n_items
        assert set(half.item_ids) <= set(found.item_ids)

    def test_splits_differ(self) -> None:
        held = [fitted(LOG, 0.05, split, MODEL)[1] for split in (0, 1)]
        assert held[0].fingerprint != held[1].fingerprint

    def test_a_pool_holds_the_highest_scores(self) -> None:
        model, _ = fitted(LOG, 0.05, 0, MODEL)
        users = np.arange(20)
        lists = measures.reranked(model, users, [0.99], Calibrated(horizon="prefix"), pool=60)[50][0]
        scores = np.where(model.data.seen(users), -np.inf, model.scores(users))
        place = np.argsort(np.argsort(-scores, axis=1), axis=1)
        assert np.take_along_axis(place, lists, axis=1).max() < 60

    def test_without_rounding_the_notebook_is_the_greedy_in_base_2(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(notebook, "_DIGITS", 15)
        found = notebook.overlap(LOG, 0.05, 0, MODEL, [0.5, 0.9], users=30)
        same = {name: found.filter(lists=name)["value"].to_list() for name in ("rounded", "notebook", "base 2")}
        assert same["rounded"] == [1.0, 1.0]
        assert same["notebook"] == same["base 2"]
        assert max(same["base 2"]) < 1


class TestReading:
    @staticmethod
    def measured(shift: float) -> pl.DataFrame:
        """Table 2 as printed, each number by so much larger, exact to 0.001."""
        numbers = [
            {"metric": metric, "length": length, "weight": weight, "value": float(text) + shift}
            for weight, texts in TABLE_2.items()
            for (metric, length), text in zip(METRICS, texts, strict=True)
        ]
        table = pl.DataFrame(numbers).with_columns(users=pl.lit(500))
        pooled = table.filter(metric="recall").with_columns(metric=pl.lit("recall_pooled"), value=pl.lit(2.0))
        ends = {"lower": pl.col("value") - 0.001, "upper": pl.col("value") + 0.001}
        return pl.concat([table, pooled]).with_columns(**ends)

    def read(self, shift: float, **others: float) -> list[StudyRow]:
        tables = {f"table-2/{name}": self.measured(by) for name, by in {"ml-1m": shift, **others}.items()}
        found = StudyReport(CalibrationStudy(), Results(tables))
        return [*rows(found, "table-2").values()]

    def test_the_printed_numbers_agree(self) -> None:
        found = self.read(0.0)
        assert len(found) == 32
        assert {row.agreement for row in found} == {Agreement.AGREES}

    def test_another_number_is_open_until_a_change_brings_the_printed_one(self) -> None:
        assert {row.agreement for row in self.read(0.1)} == {Agreement.OPEN}
        found = self.read(0.1, **{"ml-20m": 0.0})
        assert {row.agreement for row in found} == {Agreement.EXPLAINED}
        assert found[0].explaining == ["the paper's data, MovieLens 20M"]

    def test_the_settings_taken_are_marked(self) -> None:
        grid = measures.grid(LOG, 0.05, 0, 0.1, [3.0, 10.0], [10], factors=4)
        found = rows(StudyReport(CalibrationStudy(), Results({"grid/ml-1m/0.1": grid})), "tuning")
        notes, best = {name: row.note for name, row in found.items()}, max(grid["value"].to_list())
        assert notes["ml-1m: unobserved weight 0.1, regularisation 3"] == ""
        assert notes["ml-1m: unobserved weight 0.1, regularisation 10"] == f"Taken. The best has {best:.3f}."

    def test_what_the_paper_excludes_explains_nothing(self) -> None:
        assert {row.agreement for row in self.read(0.1, list=0.0)} == {Agreement.OPEN}

    def test_a_change_that_loses_more_than_it_brings_explains_nothing(self) -> None:
        printed, off = self.measured(0.0), self.measured(0.1)
        small = pl.col("weight") < 0.6
        ours = pl.concat([printed.filter(small), off.filter(~small)])
        worse = pl.concat(
            [off.filter(small), printed.filter(pl.col("weight") == 0.8), off.filter(pl.col("weight") > 0.8)]
        )
        better = printed.filter(pl.col("weight") != 0.2)
        for name, change, expected in (("pool-200", worse, Agreement.OPEN), ("pool-500", better, Agreement.EXPLAINED)):
            tables = {"table-2/ml-1m": ours, f"table-2/{name}": change}
            found = rows(StudyReport(CalibrationStudy(), Results(tables)), "table-2")
            assert found["C_KL@10, lambda 0.8"].agreement is expected

    def test_the_paper_size_goes_without_its_data(self) -> None:
        planned = {size: CalibrationStudy().experiments(size) for size in ("tiny", "quick", "paper")}
        for experiments in planned.values():
            assert len({one.name for one in experiments}) == len(experiments)
        assert all(one.optional == ("ml-20m" in one.data) for one in planned["paper"])
        assert {one.name for one in planned["quick"]} <= {one.name for one in planned["paper"]}
        assert {f"data/{name}" for name in DATA} <= {one.name for one in planned["quick"]}
