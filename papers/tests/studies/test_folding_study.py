"""The study of folding: the forms minimise what they say, curves are read right, and the directions hold in seconds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import polars as pl
import pytest

from recaudit.arrays import FloatArray
from recaudit.data.interactions import Interactions
from recaudit.data.synthetic import blocks
from recaudit_papers.studies import Agreement, Results, Size, StudyReport, StudyRow, run
from recaudit_papers.studies.folding import curves, plans
from recaudit_papers.studies.folding.forms import Form
from recaudit_papers.studies.folding.study import FoldingStudy

SIZES: tuple[Size, Size] = ("quick", "paper")


@pytest.fixture(scope="module")
def log() -> Interactions:
    return blocks(users=40, items=30, user_groups=2, item_groups=3, on_share=0.5, on_density=0.5, rng=2).data


@pytest.fixture(scope="module")
def report() -> StudyReport:
    return run(FoldingStudy(), "tiny")


def found(report: StudyReport, table: str, start: str) -> StudyRow:
    (row,) = [row for each in report.tables if each.name == table for row in each.rows if row.name.startswith(start)]
    return row


def dense(data: Interactions, form: Form, alpha: float) -> tuple[FloatArray, FloatArray]:
    """(users, items) each: what every pair is fitted to, and how much its squared error weighs."""
    mean = data.ratings.mean()
    off = mean if form.center == "mean" else 0.0
    stars = mean if form.target == "mean" else off if form.target is None else form.target
    target, rated = (
        np.full((data.n_users, data.n_items), stars - off),
        np.zeros((data.n_users, data.n_items), dtype=bool),
    )
    target[data.users, data.items], rated[data.users, data.items] = data.ratings - off, True
    alpha *= form.times
    weight = np.where(rated, 1.0 if form.weights == "1" else 1 + alpha, alpha)
    return target, weight**2 if form.weights == "squared" else weight


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"center": "none"},
        {"target": 2.0},
        {"center": "none", "target": "mean"},
        {"weights": "1"},
        {"weights": "squared"},
        {"center": "none", "weights": "squared", "target": 2.0},
        {"times": 3.0},
        {"by_count": True},
        {"center": "none", "by_count": True},
    ],
    ids=str,
)
def test_each_form_is_solved_for_its_users(log: Interactions, settings: dict[str, Any]) -> None:
    form = Form(regularization=0.5, **settings)
    model = form.fit(log, 3, 0.2, rng=1)
    U, V = model.user_factors, model.item_factors
    target, weight = dense(log, form, 0.2)
    counts = log.user_counts
    penalty = form.regularization * (counts / counts.mean() if form.by_count else np.ones(len(counts)))
    slope = (weight * (U @ V.T - target)) @ V + penalty[:, None] * U
    assert np.abs(slope).max() < 1e-6
    assert np.abs((weight * target) @ V).max() > 1


def test_centred_by_user_and_item_predicts_what_was_taken_off_too(log: Interactions) -> None:
    model = Form(center="user and item", regularization=1e6).fit(log, 2, 0.0, rng=0)
    users, items = log.users.astype(np.int64), log.items.astype(np.int64)
    baseline = model.mean + model.user_bias[users] + model.item_bias[items]
    assert model.pair_scores(users, items) == pytest.approx(baseline, abs=1e-3)
    assert np.std(log.ratings - baseline) < np.std(log.ratings)


class TestCurves:
    curve = pl.DataFrame(
        {"weight": [0.0, 0.01, 0.03, 1.0], "rmse": [0.8, 0.85, 0.95, 1.5], "folding": [0.4, 0.3, 0.1, 0.05]}
    )

    def test_numbers_are_read_off(self) -> None:
        assert curves.largest_error(self.curve) == 1.5
        assert curves.error_at_knee(self.curve) == 0.95
        assert curves.rise_before_knee(self.curve) == pytest.approx(0.05 / 0.35)
        assert curves.rise_below_knee(self.curve) == pytest.approx(4)
        assert curves.gain_before_knee(self.curve) == pytest.approx(0.55 / 0.7)
        assert curves.folding_of_best(self.curve) == 0.4
        assert curves.left("folding")(self.curve) == pytest.approx(1 / 8)

    def test_what_is_left_is_between_two_weights(self) -> None:
        assert curves.folding_left(self.curve) == pytest.approx(0.2 / 0.4)

    def test_an_error_that_never_rises_so_far_is_read_at_the_end(self) -> None:
        assert curves.folding_left(self.curve.head(2)) == pytest.approx(0.3 / 0.4)

    def test_no_rise_has_no_share(self) -> None:
        flat = self.curve.with_columns(folding=pl.Series([0.1, 0.2, 0.3, 0.4]))
        assert np.isnan(curves.rise_before_knee(flat))

    def test_the_smallest_step_is_over_weights_and_factors(self) -> None:
        models = pl.DataFrame(
            {"factors": [5, 10, 20] * 2, "weight": [0.0] * 3 + [1.0] * 3, "folding": [0.5, 0.4, 0.2, 0.3, 0.29, 0.1]}
        )
        assert curves.smallest_step("folding")(models) == pytest.approx(0.01)

    def test_a_margin_is_where_it_is_least(self) -> None:
        models = pl.DataFrame(
            {"factors": [10, 20, 50] * 2, "weight": [0.0] * 3 + [1.0] * 3, "rmse": [0.9, 0.88, 0.85, 1.2, 1.0, 1.1]}
        )
        assert curves.margin(50)(models) == pytest.approx(-0.1)
        assert curves.margin(50)(models.head(3)) == pytest.approx(0.03)

    def test_intervals_are_students(self) -> None:
        quantity = curves.over([1.0, 2.0, 3.0], "worlds")
        assert quantity.ends == pytest.approx((2 - 4.303 / 3**0.5, 2 + 4.303 / 3**0.5), abs=1e-3)
        assert curves.over([2.0], "splits").over == "1 split"


class TestDirections:
    def test_in_block_worlds_what_predicts_better_folds_more(self, report: StudyReport) -> None:
        (table,) = [each for each in report.tables if each.name == "figure-3"]
        opposed = [row for row in table.rows if row.name.startswith("Spearman")]
        assert opposed
        assert {row.agreement for row in opposed} == {Agreement.AGREES}
        for start in ("Rise of folding", "Fall of folding", "Folding at"):
            assert found(report, "figure-3", start).agreement is Agreement.AGREES

    def test_in_block_worlds_most_folding_is_the_mean_that_all_share(self, report: StudyReport) -> None:
        row = found(report, "figure-3", "Folding at")
        assert row.ours is not None
        assert row.variants[plans.WORLD_CHANGES["centred"][0]].value < row.ours.value / 2

    def test_centred_folding_hardly_reacts_to_the_weight(self, report: StudyReport) -> None:
        row = found(report, "centring", "Folding at the largest weight, over that without")
        assert row.ours is not None
        assert row.ours.value > 0.8
        change = {name: row.variants[plans.LADDER[name][0]].value for name in plans.PLANS["tiny"].rungs[1:]}
        assert change[plans.NOT_CENTRED] < 0.25
        assert change["to-2"] < 0.25
        assert change["as-they-are-to-mean"] > 0.8

    def test_as_they_are_cosines_become_the_relatedness(self, report: StudyReport) -> None:
        row = found(report, "centring", "Correlation of cosine and relatedness")
        assert row.ours is not None
        assert row.ours.value < 0.3
        assert row.variants[plans.LADDER[plans.NOT_CENTRED][0]].value > 0.6

    def test_centred_ratings_cannot_have_the_published_error(self, report: StudyReport) -> None:
        row = found(report, "figure-4", "Largest RMSE")
        assert row.agreement is Agreement.EXPLAINED
        assert row.explaining == [plans.LADDER[plans.NOT_CENTRED][0]]

    def test_no_relatedness_makes_centred_models_fold_as_published(self, report: StudyReport) -> None:
        row = found(report, "centring", "Folding without weight if nobody")
        assert row.agreement is Agreement.EXPLAINED

    def test_claims_that_hold_at_once_are_counted(self, report: StudyReport) -> None:
        row = found(report, "figure-4", "How many of these")
        claims = [each for each in _figure_4(report) if each.name.endswith("factors")]
        assert row.ours is not None
        assert row.ours.value == sum(claim.agreement is Agreement.AGREES for claim in claims)


def test_the_papers_own_data_have_a_table_where_they_are_there(report: StudyReport) -> None:
    own = {
        f"10m/{name}/50/0": report.results[f"films/{name}/6/0"].with_columns(factors=pl.lit(50))
        for name in (plans.AS_READ, plans.NOT_CENTRED)
    }
    table = FoldingStudy().tables(Results({**report.results.tables, **own}, size="tiny"))[-1]
    assert table.name == "figure-4-10m"
    (row,) = [row for row in table.rows if row.name.startswith("Lowest RMSE")]
    assert row.ours is not None
    assert row.ours.value == own["10m/centred/50/0"]["rmse"].min()


def _figure_4(report: StudyReport) -> Iterator[StudyRow]:
    return chain.from_iterable(table.rows for table in report.tables if table.name == "figure-4")


def test_what_quick_measures_the_paper_size_does_not_measure_again() -> None:
    quick, paper = ([*FoldingStudy().experiments(size)] for size in SIZES)
    assert len({one.name for one in paper}) == len(paper)
    again = [one.name for one in quick if one.plan not in [other.plan for other in paper]]
    assert again == ["off-blocks/12", "off-blocks/13"]
