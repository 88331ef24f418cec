"""The study of reachability: what its audits come to on generated data, and how they are read."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from recaudit.audits.reachability.audit import reachability
from recaudit.data import datasets
from recaudit.interventions import Interval, NextK
from recaudit.models.neighbour.knn import ItemKNN
from recaudit.models.response import AffineResponse
from recaudit.policies import Softmax
from recaudit_papers.studies import Agreement, Results, StudyReport, run
from recaudit_papers.studies.reachability.measures import audit, drawn_targets, held_out_error, vector_lengths
from recaudit_papers.studies.reachability.quantities import as_sampled, correlation, difference
from recaudit_papers.studies.reachability.subjects import TwiceCountedKNN, model_of

NEIGHBOURS = {"kind": "knn", "neighbours": 20, "center": "item", "damping": 0.0, "compared": "ratings"}


@pytest.fixture(scope="module")
def report() -> StudyReport:
    return run("reachability", "tiny")


def found(results: Results, name: str, what: str) -> float:
    quantity = correlation(results, name, what)
    assert quantity is not None
    return quantity.value


class TestDirections:
    @pytest.mark.parametrize("what", ["plain availability", "best availability"])
    def test_a_wide_start_takes_popularity_from_our_model(self, report: StudyReport, what: str) -> None:
        assert found(report.results, "ladder/start", what) < found(report.results, "ladder/ours", what) - 0.2

    def test_a_penalised_offset_takes_it_from_the_best_case(self, report: StudyReport) -> None:
        held, learnt = (found(report.results, f"ladder/{name}", "best availability") for name in ("steps", "offset"))
        assert learnt < held - 0.02

    def test_and_a_wide_start_from_the_baseline(self, report: StudyReport) -> None:
        narrow, wide = (found(report.results, f"ladder/{name}", "plain availability") for name in ("offset", "libfm"))
        assert wide < narrow - 0.05

    @pytest.mark.parametrize("what", ["plain discovery", "best discovery"])
    def test_a_wide_start_gives_the_experienced_more_to_discover(self, report: StudyReport, what: str) -> None:
        assert found(report.results, "ladder/offset", what) < 0 < found(report.results, "ladder/libfm", what)

    def test_an_edit_counted_twice_looks_like_agency(self, report: StudyReport) -> None:
        more = difference(report.results, "knn-twice/history-10/beta-2", "knn/history-10/beta-2", "average_lift")
        assert more is not None
        assert more.ends[0] > 0

    @pytest.mark.parametrize("table", ["figure-4", "figure-5"])
    def test_claims_of_section_5_2(self, report: StudyReport, table: str) -> None:
        rows = next(one for one in report.tables if one.name == table).rows
        assert {row.agreement for row in rows} == {Agreement.AGREES}


class TestAudit:
    def test_is_the_verbs_own(self) -> None:
        table = audit("demo", NEIGHBOURS, "next", 5, 2.0, (1, 5), users=20, seed=3)
        data = datasets.load("demo")
        model = ItemKNN(neighbours=20, center="item", damping=0.0, compared="ratings").fit(data)
        actions = NextK(5, ratings=Interval(1, 5))
        baselines = {"plain": "scores", "predicted": "predicted"}
        for ours, baseline in baselines.items():
            answer = reachability(
                model, actions=actions, policy=Softmax(beta=2.0), users=20, baseline=baseline, rng=3, refits=0
            )
            known = answer.correlations()
            wanted = known.filter(pl.col("with") != "prevalence")["spearman"].to_list()
            names = [f"{ours} availability", "best availability", f"{ours} discovery", "best discovery"]
            got = [table.filter(kind="correlation", name=name)["value"][0] for name in names]
            assert got == pytest.approx(wanted, abs=1e-9)

    @pytest.mark.parametrize("shared", [False, True])
    def test_targets_are_drawn_from_what_is_allowed(self, shared: bool) -> None:
        data, users = datasets.load("demo"), np.arange(6)
        allowed = ~data.seen(users)
        drawn = drawn_targets(allowed, data, users, 50, 7, shared)
        assert not (drawn & ~allowed).any()
        assert (np.count_nonzero(drawn.any(axis=0)) <= 50) == shared
        if not shared:
            assert set(drawn.sum(axis=1)) == {50}

    def test_the_held_out_error_has_its_interval(self) -> None:
        error = held_out_error("demo", NEIGHBOURS, 0).row(0, named=True)
        assert error["lower"] < error["value"] < error["upper"]
        assert error["ratings"] == len(datasets.load("demo"))


def test_a_wide_start_stays_with_items_of_few_ratings() -> None:
    fitted = {"kind": "libfm", "factors": 8, "epochs": 30, "learning_rate": 0.0112, "regularization": 0.068}
    wide, narrow = (
        vector_lengths("demo", {**fitted, "init_std": start}, 1).filter(ratings="5 to 32") for start in (1.0, 0.1)
    )
    assert wide["length"][0] > narrow["length"][0] + 0.5
    assert 0 < wide["offset"][0] < wide["mean"][0]


def test_twice_counted_ratings_add_the_old_one() -> None:
    right = model_of("demo", NEIGHBOURS, 0, (1.0, 5.0))
    wrong = model_of("demo", {**NEIGHBOURS, "counted_twice": True}, 0, (1.0, 5.0))
    assert isinstance(wrong, TwiceCountedKNN)
    seen, ratings = right.data.history(4)
    items = np.array([seen[0], np.setdiff1d(np.arange(right.data.n_items), seen)[0]], dtype=np.int64)
    one, two = (model.respond(4, 4, items) for model in (right, wrong))
    assert isinstance(one, AffineResponse)
    assert isinstance(two, AffineResponse)
    assert np.allclose(two.slope, one.slope)
    assert np.allclose(two.intercept - one.intercept, one.slope[:, 0] * ratings[0])


def test_a_sampled_number_is_as_exact_as_its_repetitions() -> None:
    repeats = np.array([0.4, 0.6] * 3)
    assert as_sampled("0.5", repeats).high == pytest.approx(0.5 + 2 * repeats.std(ddof=1))
    assert as_sampled("0.5", repeats[:3]).high == pytest.approx(0.55)
