"""The authors' world is theirs to the digit, and the study reads what it measures."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from recaudit import simulate
from recaudit.models import TopPop
from recaudit_papers.studies import Agreement, StudyReport, StudyRow, run
from recaudit_papers.studies.reclab import measures, plan
from recaudit_papers.studies.reclab.autorec import ReclabAutoRec
from recaudit_papers.studies.reclab.found import Found, one_more, rank_correlation, scatter
from recaudit_papers.studies.reclab.published import PRINTED
from recaudit_papers.studies.reclab.study import ReclabStudy
from recaudit_papers.studies.reclab.world import authors
from recaudit_papers.studies.study import Results, Size


@pytest.fixture(scope="module")
def report() -> StudyReport:
    return run(ReclabStudy(), "tiny")


def row(report: StudyReport, table: str, name: str) -> StudyRow:
    return next(row for one in report.tables if one.name == table for row in one.rows if row.name == name)


class TestWorld:
    def test_people_and_items_are_what_the_old_generator_gives_first(self) -> None:
        draw = np.random.RandomState(0)
        people = authors("topics-static").population()
        assert np.array_equal(people.preferences, draw.uniform(0.5, 5.5, (1000, 19)))  # type: ignore[attr-defined]
        assert np.array_equal(people.topic_of, draw.choice(19, 1700))  # type: ignore[attr-defined]

    @pytest.mark.parametrize(
        ("name", "column", "metric"),
        [
            ("TopPop", "rmse", "rmse"),
            ("EASE", "rmse", "rmse"),
            ("ItemKNN", "rmse", "rmse"),
            ("Oracle", "uncut", "rmse"),
        ],
    )
    def test_published_errors_come_out_to_the_third_digit(self, name: str, column: str, metric: str) -> None:
        found = measures.offline("topics-static", name, range(5))[column].mean()
        assert found == pytest.approx(float(PRINTED[name][metric]), abs=6e-4)

    def test_our_own_world_is_another(self) -> None:
        theirs, ours = (measures.offline("topics-static", "EASE", [0], world=world) for world in ("authors", "own"))
        assert abs(theirs["rmse"][0] - ours["rmse"][0]) > 1e-3

    def test_toppops_rating_is_the_published_one_in_the_authors_world(self) -> None:
        found = measures.online("topics-dynamic-as-run", "TopPop", [0])
        # Trials scatter by 0.025 around the published mean of ten.
        assert found["mean_rating"].mean() == pytest.approx(float(PRINTED["TopPop"]["dynamic"]), abs=0.075)

    def test_a_lived_log_moves_the_authors_people(self) -> None:
        scenario = authors(simulate.paper("topics-dynamic-as-run", users=30, items=40, users_per_step=5, ratings=300))
        log, people = scenario.beginning(0)
        assert (people.drift() or 0.0) > 0
        assert len(log) == 300
        assert scenario.changed(lived=False).beginning(0)[1].drift() == 0

    def test_latent_worlds_can_be_drawn_and_others_cannot(self) -> None:
        log, _ = authors(simulate.paper("latent-static", users=30, items=40, users_per_step=5, ratings=300)).beginning(
            0
        )
        assert len(log) == 300
        with pytest.raises(KeyError):
            authors("beta-rank")


class TestMeasures:
    def test_trials_are_the_same_alone_or_together(self) -> None:
        small = plan.EXTENTS["tiny"].topics
        both = measures.online("topics-static", "ItemKNN", [0, 1], retrain=10, changes=small)
        alone = measures.online("topics-static", "ItemKNN", [1], retrain=10, changes=small)
        assert both.filter(trial=1).equals(alone)

    def test_worlds_of_our_own_differ_from_trial_to_trial(self) -> None:
        small = {**plan.EXTENTS["tiny"].topics, "noise": 0.0}
        found = {
            world: measures.online("topics-static", "Oracle", [0, 1], world=world, changes=small)
            for world in ("authors", "own")
        }
        best = {world: table.group_by("trial").agg(pl.col("mean_rating").max()) for world, table in found.items()}
        spread = {world: float(np.ptp(table["mean_rating"].to_numpy())) for world, table in best.items()}
        assert spread["own"] != spread["authors"]

    def test_exploring_shows_other_items(self) -> None:
        small = plan.EXTENTS["tiny"].topics
        greedy, other = (
            measures.online("topics-static", "TopPop", [0], changes=small, explore=explore)
            for explore in ({}, {"epsilon": 0.5})
        )
        assert other["distinct_items"].mean() > greedy["distinct_items"].mean()  # type: ignore[operator]

    def test_autorec_as_reclab_trains_it_learns_little(self) -> None:
        data, _ = simulate.paper("topics-static", users=60, items=90, users_per_step=20, ratings=1500).beginning(0)
        model = ReclabAutoRec(hidden=20, batches=100).fit(data)
        scores = model.scores(np.arange(60))
        assert scores.min() >= 1
        assert scores.max() <= 5
        assert np.array_equal(scores, ReclabAutoRec(hidden=20, batches=100).fit(data).scores(np.arange(60)))
        flat = TopPop(by="mean").fit(data).pair_scores(data.users.astype(np.int64), data.items.astype(np.int64))
        own = model.pair_scores(data.users.astype(np.int64), data.items.astype(np.int64))
        assert np.square(own - data.ratings).mean() < 4 * np.square(flat - data.ratings).mean()

    def test_toppop_moves_every_topic(self) -> None:
        found = measures.affinities("topics-dynamic-as-run", "TopPop", 0, changes=plan.EXTENTS["tiny"].topics)
        assert len(found) == 5
        assert (found["after"] != found["before"]).all()


class TestReading:
    def test_one_more_value_lies_further_out_than_the_mean(self) -> None:
        values = np.array([1.0, 2.0, 3.0, 4.0])
        more = one_more(values, "worlds")
        assert more is not None
        assert more.value == 2.5
        assert more.ends == pytest.approx((-2.09, 7.09), abs=0.01)

    def test_a_mean_of_ten_scatters_less_than_one(self) -> None:
        values = np.array([1.0, 1.2, 0.8, 1.0])
        assert scatter(values) == pytest.approx(2.262 * values.std(ddof=1) / 10**0.5, rel=1e-3)
        assert scatter(values[:2]) == 0

    def test_ranks(self) -> None:
        rising = [np.array([float(n), n + 0.1]) for n in range(5)]
        found = rank_correlation(rising, rising[::-1], "five")
        assert found is not None
        assert (found.value, *found.ends) == pytest.approx((-1, -1, -1))
        assert rank_correlation([*rising, np.zeros(0)], [*rising, np.zeros(0)], "one is missing") is None

    def test_a_number_of_another_size_stands_beside_nothing(self) -> None:
        settings: dict[str, dict[str, object]] = {"whole": {"changes": {}}, "small": {"changes": {"users": 3}}}
        found = Found(Results({}, settings=settings))
        assert found.printed("whole", "0.5").known
        assert not found.printed("small", "0.5").known


class TestStudy:
    @pytest.mark.parametrize("size", ["tiny", "quick", "paper"])
    def test_names_are_its_own_and_no_setting_is_left_out(self, size: Size) -> None:
        planned = ReclabStudy().experiments(size)
        assert len({one.name for one in planned}) == len(planned)
        for scenario in (plan.DYNAMIC, plan.STATIC, plan.LATENT, *plan.SMALL_WORLDS):
            for name in plan.ELEVEN:
                assert any(one.name.startswith(f"{scenario}/{plan.slug(name)}/plain/") for one in planned)
        assert {one.data for one in planned} <= {(), ("ml-100k",)}

    def test_better_recommenders_get_better_ratings(self, report: StudyReport) -> None:
        for where in ("dynamic", "static"):
            values = {name: row(report, f"ratings-{where}", name).ours for name in plan.ELEVEN}
            assert all(values.values())
            middle = {name: found.value for name, found in values.items() if found is not None}
            assert max(middle, key=lambda name: middle[name]) == "Oracle"
            assert middle["Bayes MF"] > middle["Random"] + 0.3

    def test_offline_metrics_predict_elsewhere(self, report: StudyReport) -> None:
        for scenario in (plan.LATENT, *plan.SMALL_WORLDS):
            for title in ("nDCG@20", "RMSE"):
                assert row(report, "figure-4", f"{scenario}, {title}").agreement is Agreement.AGREES

    def test_the_scale_explains_the_oracles_error_and_the_range_the_random_one(self, report: StudyReport) -> None:
        oracle = row(report, "offline-rmse", "Oracle")
        assert oracle.ours is not None
        assert all(found.value > oracle.ours.value for found in oracle.variants.values())
        wide = row(report, "offline-rmse", "Random")
        assert wide.ours is not None
        assert wide.variants["uniform in (0, 5)"].value > wide.ours.value + 0.1

    def test_every_rung_was_measured(self, report: StudyReport) -> None:
        assert set(row(report, "ratings-dynamic", "TopPop").variants) >= {f"but {rule}" for rule in plan.RULES}
        for name in plan.LADDER:
            assert len(row(report, "cadence", name).variants) == len(plan.CADENCES) - 1

    def test_nothing_tiny_is_called_a_disagreement_with_a_printed_number(self, report: StudyReport) -> None:
        for table in report.tables:
            if table.name.startswith(("ratings", "offline", "latent", "worlds")):
                assert {one.agreement for one in table.rows} == {Agreement.NOT_PUBLISHED}, table.name

    def test_what_is_missing_is_said(self) -> None:
        tables = ReclabStudy().tables(Results({}))
        assert {one.agreement for table in tables for one in table.rows} <= {
            Agreement.NOT_MEASURED,
            Agreement.NOT_PUBLISHED,
        }

    def test_only_finer_fits_than_ours_are_an_explanation(self, report: StudyReport) -> None:
        rungs = {name: set(row(report, "ratings-dynamic", name).variants) for name in ("TopPop", "UserKNN")}
        assert not any(rung.startswith("fitted") for rung in rungs["TopPop"])
        assert rungs["UserKNN"] == {"fitted at each step", "fitted every 5 steps"}
