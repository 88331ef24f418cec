"""The page of a simulation stands alone, shows what is finished, and with one trial says that it cannot know."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from recaudit import models, policies
from recaudit.audits.audit import definitions
from recaudit.errors import InputError
from recaudit.registry import MODELS
from recaudit.report.kit.charts import edge_levels, label_sides
from recaudit.report.simulation.evidence import SimulationStudy
from recaudit.report.simulation.page import render_simulation, write_simulation
from recaudit.simulate.loop.run import WithPolicy
from recaudit.simulate.loop.simulation import MEASURES, Simulation
from recaudit.simulate.loop.trial import AUDIT_SCHEMA
from recaudit.simulate.offline.comparison import offline_online
from recaudit.simulate.offline.cross_validation import GridSearch
from recaudit.simulate.worlds.scenarios import Oracle, paper
from report.crafted_simulations import Told, graded, study_of
from report.test_page import HOSTILE, Page


class TestOneTrial:
    result = study_of(
        {f"M{place}": Told([own.first], own.ndcg, own.rmse) for place, own in enumerate(graded().values())}
    )

    def test_says_that_there_are_no_intervals_and_claims_nothing_beyond_chance(self) -> None:
        text = Page(render_simulation(self.result)).text
        assert "place 1 had one trial: there is no interval" in text
        assert "It takes 4 trials to test a difference." in text
        for word in ("significant", "More than chance", "showed best", "as people do", "p = ", "p <"):
            assert word not in text

    def test_has_no_intervals(self) -> None:
        arena = SimulationStudy.of(self.result).main
        assert arena.estimates["M0", "mean_rating"].interval == ""
        assert not any(own.beyond_chance or own.estimate.interval for own in arena.correlations.values())


class TestInterrupted:
    def test_only_what_all_have_finished_is_compared(self) -> None:
        half = Told([3.0, 3.1, 3.2])
        half.simulation = Simulation(
            half.simulation.settings,
            half.simulation.steps.filter((pl.col("trial") < 2) | (pl.col("step") < 2)),
            half.simulation.audits,
        )
        study = SimulationStudy.of(study_of({"Whole": Told([4.0, 4.1, 9.0]), "Half": half}))
        assert study.main.trials == 2
        assert study.main.estimates["Whole", "mean_rating"].value == pytest.approx(4.05)
        assert study.notes == (
            "place 1: numbers are those of the 2 trials that everybody on this page has finished, of 3 begun.",
        )

    def test_whoever_has_not_finished_a_trial_is_named_and_left_out(self) -> None:
        late = Told([3.0], steps=2)
        result = study_of({"A": Told([4.0, 4.1]), "B": Told([3.0, 3.1]), "Late": late})
        assert SimulationStudy.of(result).recommenders == ("A", "B")
        assert "place 1: Late has not finished the trials" in Page(render_simulation(result)).text

    def test_an_environment_without_a_finished_trial(self) -> None:
        result = study_of({"A": Told([4.0, 4.1]), "B": Told([3.0, 3.1])}, {"A": Told([])})
        assert "place 2: no trial is finished yet." in Page(render_simulation(result)).text

    def test_nothing_finished_at_all(self) -> None:
        with pytest.raises(InputError, match="at least one finished trial"):
            SimulationStudy.of(study_of({"A": Told([])}))

    def test_without_metrics_on_the_log(self) -> None:
        result = study_of({"A": Told([4.0, 4.1], [], []), "B": Told([3.0, 3.1], [], [])})
        text = Page(render_simulation(result)).text
        assert "Nothing was measured beforehand" in text
        assert "Offline against online" not in text

    def test_a_recommender_that_nobody_rated(self) -> None:
        page = Page(render_simulation(study_of({"A": Told([4.0, 4.1]), "Silent": Told([None, None])})))
        reasons = [attributes["title"] for _, attributes in page.elements if attributes.get("class") == "absent"]
        assert "there was nothing to measure" in reasons

    def test_a_recommender_alone(self) -> None:
        page = Page(render_simulation(study_of({"A": Told([4.0, 4.1])})))
        assert "Nobody's tastes moved" in page.text
        assert "It takes two recommenders with both numbers, and different ones, in place 1." in page.text
        assert page.dead_ends == []


class TestCharts:
    def test_an_error_far_beyond_the_others_is_written_at_the_edge(self) -> None:
        told = graded() | {"Counts": Told([3.0, 3.1, 3.0], [0.8, 0.81], [55.0, 56.0], shown_rmse=80.0)}
        page = Page(render_simulation(study_of(told)))
        notes = [
            row["note"] for spec in page.specs for rows in spec["datasets"].values() for row in rows if "note" in row
        ]
        assert "Counts 55.500 →" in notes
        errors = next(spec for spec in page.specs if "RMSE (further left" in str(spec))
        drawn = [row for rows in errors["datasets"].values() for row in rows if row.get("recommender") == "Counts"]
        assert drawn == []
        assert "Not drawn, far off: Counts (80.000)" in page.text

    def test_curves_take_steps_together_and_pool_their_ratings(self) -> None:
        told = Told([3.0, 3.0], steps=120, climb=0.01)
        study = SimulationStudy.of(study_of({"A": told, "B": Told([3.0, 3.0], steps=120)}))
        curve = study.main.curve("A", "mean_rating")
        assert study.main.stride == 3
        assert len(curve) == 40
        assert curve["step"][0] == 2.0  # steps 1 to 3
        assert curve["value"][0] == pytest.approx(3 + 0.01 * (1 - 59.5))
        assert study.main.curve("A", "shown_rmse")["value"].to_list() == pytest.approx([1.0] * 40)

    def test_published_numbers_are_hollow_points_and_stand_in_the_table(self) -> None:
        published = {
            ("place 1", f"M{n}"): {"ndcg": 0.5 + n / 10, "rmse": 1.0, "mean_rating": 2.0 + n} for n in range(7)
        }
        page = Page(render_simulation(study_of(graded()), published=published))
        assert "published 0.700" in page.text
        rings = [
            row
            for spec in page.specs
            for rows in spec["datasets"].values()
            for row in rows
            if str(row.get("told", "")).startswith("published: 0.7 and")
        ]
        assert [(row["recommender"], row["x"], row["y"]) for row in rings[:1]] == [("M2", 0.7, 4.0)]
        assert SimulationStudy.of(study_of(graded()), published).main.correlations["ndcg"].published == pytest.approx(1)
        assert (
            SimulationStudy.of(study_of(graded()), published).main.correlations["rmse"].published is None
        )  # all the same

    def test_labels_get_out_of_each_others_way(self) -> None:
        sides = label_sides({"first": (0.5, 0.5), "second": (0.52, 0.5)})
        assert sides["first"] != "right"  # the second point is there
        assert sides["first"] != sides["second"]
        assert label_sides({"at the end": (1.0, 0.5)})["at the end"] == "left"

    def test_notes_at_the_edge_get_out_of_the_way(self) -> None:
        levels = edge_levels({"one": 0.5, "two": 0.5}, [])
        assert levels["one"][0] == 0
        assert levels["two"][0] != 0


@pytest.fixture(scope="module")
def page() -> Page:
    truth = Told([4.9, 4.9, 4.9], [0.99, 0.99], [0.4, 0.4], settings={"kind": MODELS.kind_of(Oracle)})
    return Page(render_simulation(study_of(graded() | {"Truth": truth}, graded(), tuned=True), title="My study"))


class TestThePage:
    def test_stands_alone(self, page: Page) -> None:
        for tag, attributes in page.elements:
            assert tag not in ("link", "img", "iframe", "object", "embed", "base")
            assert "src" not in attributes
            assert (attributes.get("href") or "#").startswith("#")
        assert not any('"url"' in str(spec) for spec in page.specs)
        assert page.dead_ends == []

    def test_says_what_was_run(self, page: Page) -> None:
        assert "8 recommenders met the simulated people of place 1 and place 2" in page.text
        assert "3 trials of 4 steps, 5 ratings a step" in page.text
        assert "over 2 folds" in page.text
        assert "at every step, from scratch" in page.text
        assert "My study" in page.text

    def test_every_chart_is_told_in_words(self, page: Page) -> None:
        canvases = [attributes for _, attributes in page.elements if attributes.get("class") == "canvas"]
        assert len(canvases) == len(page.specs) == 2 + 2 * 7  # Spearman; then 2 + 2 + 2 + 1 of each place
        assert all(len(canvas["aria-label"] or "") > 20 for canvas in canvases)

    def test_every_measure_is_defined(self, page: Page) -> None:
        for text in MEASURES.values():
            assert text in page.text
        assert "the gain of an item is its rating" in page.text

    def test_every_number_has_its_interval_and_the_best_is_marked(self, page: Page) -> None:
        assert "best 4.195 [4.175, 4.215]" in page.text
        assert "no number" not in page.text
        assert "NaN" not in page.text
        assert "None" not in page.text

    def test_settings_and_whether_they_were_tuned(self, page: Page) -> None:
        assert "M0 als(factors=3) yes top-1" in page.text

    def test_names_are_text(self) -> None:
        def page(names: Sequence[str]) -> Page:
            told = {name: Told([4.0 - place, 4.1 - place]) for place, name in enumerate(names[2:])}
            return Page(render_simulation(study_of(told, place=names[0]), title=names[1]))

        plain, hostile = page(["X" * len(name) + str(place) for place, name in enumerate(HOSTILE)]), page(HOSTILE)
        assert hostile.shape == plain.shape
        for name in HOSTILE:
            assert name in "".join(hostile.texts)


def test_tuning_that_ends_at_an_edge_is_told() -> None:
    edge = "regularization = 100, the highest tried"
    page = Page(render_simulation(study_of({"A": Told([4.0, 4.1])}, tuned=True, edge=edge)))
    assert f"place 1: A was tuned to {edge}. It might do better beyond." in page.text
    assert f"yes, to {edge}" in page.text


def test_audits_while_they_learn() -> None:
    told = {"A": Told([4.0, 4.1]), "B": Told([3.0, 3.1])}
    known = {"lower": None, "upper": None, "status": "solved"}
    rows = [
        {"trial": trial, "step": step, "audit": "exposure", "metric": metric, "value": 0.25 * (step + 1), **known}
        for trial in (0, 1)
        for step in (0, 3)
        for metric in ("coverage", "my own")
    ]
    own = told["A"].simulation
    told["A"].simulation = Simulation(own.settings, own.steps, pl.DataFrame(rows, AUDIT_SCHEMA))
    page = Page(render_simulation(study_of(told)))
    assert "While they learn: exposure" in page.text
    assert "A 100.0% 1.000 B n/a n/a" in page.text
    assert definitions()["coverage"].definition in page.text
    assert page.dead_ends == []
    drawn = next(spec for spec in page.specs if "100.0%" in str(spec))
    steps = {row["step"] for values in drawn["datasets"].values() for row in values}
    assert steps == {1, 4}


def test_a_real_study_has_its_page(tmp_path: Path) -> None:
    scenario = paper("topics-dynamic", users=40, items=60, users_per_step=10, ratings=400, steps=8)
    als = models.ALS(factors=2, iterations=3)
    contenders: dict[str, WithPolicy] = {
        "Oracle": Oracle(),
        "ALS": als,
        "ALS, exploring": (als, policies.EpsilonGreedy(epsilon=0.3)),
        "TopPop": models.TopPop(),
    }
    result = offline_online(
        [scenario], contenders, 2, folds=2, k=5, tuning={"TopPop": GridSearch(values={"damping": (0.0, 1.0)})}
    )
    path = write_simulation(
        result, tmp_path / "report.html", published={("topics-dynamic", "Oracle"): {"mean_rating": 4.816}}
    )
    page = Page(path.read_text())
    assert (
        "4 recommenders met the simulated people of topics-dynamic: 2 trials of 8 steps, 10 ratings a step."
        in page.text
    )
    assert "ALS was run with and without exploring" in page.text
    assert "published 4.816" in page.text
    assert "nDCG@5" in page.text
    assert page.dead_ends == []
    points = result.points()
    shown = points.filter(pl.col("recommender") == "ALS")["mean_rating"][0]
    assert f"{shown:.3f}" in page.text
    correlation = result.spearman().filter(pl.col("metric") == "ndcg")["value"][0]
    assert f"{abs(correlation):.3f}" in page.text
