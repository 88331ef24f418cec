"""Calibration in a run: own lists and re-ranked ones side by side, and what becomes of a log without categories."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from recaudit import audits, report, runs
from recaudit.audits.calibration.audit import calibration
from recaudit.audits.calibration.curve import calibration_curve
from recaudit.data import Interactions, datasets, splits
from recaudit.data.splits import Split
from recaudit.data.synthetic import World
from recaudit.errors import ConfigError, InputError
from recaudit.metrics.tables import SERIES_SCHEMA, SUMMARY_SCHEMA
from recaudit.models import ALS, EASE
from recaudit.policies.calibrated import Calibrated
from recaudit.runs import Configuration, Run, execute
from recaudit.runs.calibration_tables import ListedItems

CONFIG = """
seed = 3
[data]
name = "demo"
[split]
kind = "leave-last"
k = 2
[[model]]
kind = "als"
factors = 3
[[model]]
kind = "ease"
[audits.calibration]
k = 8
weight = 0.9
smoothing = 0.02
curve = [0.9, 0.0]
relevant = 3
tested = 20
samples = 5
by = ["region", "genre"]
"""

POLICY = Calibrated(weight=0.9, size=8, categories="genre", smoothing=0.02, transform="minmax")


def parsed(text: str) -> Configuration:
    return runs.parse(text, source="run.toml", folder=Path())


@pytest.fixture(autouse=True)
def _small_world(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load", lambda name, path=None: world.data)


@pytest.fixture(scope="module")
def run(world: World, tmp_path_factory: pytest.TempPathFactory) -> Run:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "load", lambda name, path=None: world.data)
        return execute(parsed(CONFIG), tmp_path_factory.mktemp("calibration") / "out")


@pytest.fixture(scope="module")
def halves(world: World) -> Split:
    return splits.leave_last(world.data, k=2)


def test_the_numbers_are_those_of_the_audit(run: Run, halves: Split) -> None:
    found = calibration(
        EASE().fit(halves.train, rng=3), k=8, smoothing=0.02, tested=20, by=["region"], samples=5, rng=3
    )
    assert_frame_equal(run.table("EASE", "calibration", "summary"), found.frame)
    assert_frame_equal(run.table("EASE", "calibration", "groups"), found.groups)
    own = run.table("EASE", "calibration", "users")
    assert_frame_equal(own.select(found.users.columns), found.users)


def test_re_ranked_lists_are_those_of_the_policy_in_the_eyes_of_every_audit(run: Run, halves: Split) -> None:
    model = EASE().fit(halves.train, rng=3)
    calibrated = calibration(model, k=8, policy=POLICY, smoothing=0.02, tested=20, by=(), samples=5, rng=3)
    exposed = audits.exposure(model, k=8, policy=POLICY, by=(), samples=5, rng=3)
    table = run.table("EASE", "calibration", "reranked")
    assert dict(table.schema) == SUMMARY_SCHEMA
    after = dict(table.select("metric", "value").iter_rows())
    for found in (calibrated, exposed):
        for metric in set(after) & set(found.frame["metric"]):
            assert after[metric] == found[metric]
    assert {"calibration_kl", "uncalibrated_share", "coverage", "gini", "popularity_lift"} <= set(after)


def test_the_baseline_of_a_re_ranked_number_is_that_of_the_own_lists(run: Run, halves: Split) -> None:
    model = EASE().fit(halves.train, rng=3)
    accurate = audits.accuracy(model, halves.test, k=8, relevant=3, by=(), samples=5, rng=3)
    exposed = audits.exposure(model, k=8, by=(), samples=5, rng=3)
    before = dict(run.table("EASE", "calibration", "reranked").select("metric", "baseline").iter_rows())
    own = dict(run.table("EASE", "calibration", "summary").select("metric", "value").iter_rows())
    assert before["calibration_kl"] == own["calibration_kl"]
    assert (before["ndcg"], before["recall"]) == (accurate["ndcg"], accurate["recall"])
    assert (before["coverage"], before["novelty"]) == (exposed["coverage"], exposed["novelty"])


def test_re_ranking_makes_lists_more_calibrated(run: Run) -> None:
    for model in run.models:
        rows = run.table(model, "calibration", "reranked").filter(pl.col("metric").str.starts_with("calibration"))
        assert len(rows) == 3
        assert (rows["value"] < rows["baseline"]).all()


def test_a_model_with_vectors_is_also_asked_what_its_lists_fold(run: Run, halves: Split) -> None:
    train = halves.train
    # Against who rated what: the lists are calibrated to the genres.
    related = audits.Relatedness.from_log(train)
    found = audits.folding(ALS(factors=3).fit(train, rng=3), related, k=8, by=(), samples=5, rng=3)
    row = run.table("ALS", "calibration", "reranked").filter(pl.col("metric") == "log_folding")
    assert row["baseline"].item() == pytest.approx(found.result["shown_folding"], rel=1e-9)
    assert "log_folding" not in run.table("EASE", "calibration", "reranked")["metric"]


def test_users_have_their_numbers_before_and_after(run: Run) -> None:
    people = run.table("EASE", "calibration", "users")
    after = dict(run.table("EASE", "calibration", "reranked").select("metric", "value").iter_rows())
    for metric in ("calibration_kl", "calibration_hellinger", "calibration_tv", "ndcg", "recall"):
        assert people[f"{metric}_reranked"].mean() == pytest.approx(after[metric], rel=1e-12)


def test_the_curve_is_that_of_the_audit(run: Run, halves: Split) -> None:
    model = EASE().fit(halves.train, rng=3)
    found = calibration_curve(
        model, halves.test, weights=[0.0, 0.9], k=[8], policy=POLICY, relevant=3, samples=5, rng=3
    )
    series = run.table("EASE", "calibration", "series")
    assert dict(series.schema) == SERIES_SCHEMA
    assert_frame_equal(series.drop("metric"), found.series.drop("metric"))
    assert series["metric"].to_list() == ["recall", "calibration_kl"] * 2


def test_the_worst_tenth_is_the_same_people_before_and_after(run: Run) -> None:
    people = run.table("EASE", "calibration", "users").sort("calibration_kl", descending=True)
    worst = people.head(int(np.ceil(0.1 * len(people))))
    table = run.table("EASE", "calibration", "worst")
    assert table["history"].sum() == pytest.approx(1)
    # Total variation is half of what lies above and below, whoever the users are.
    for suffix in ("", "_reranked"):
        apart = table[f"over{suffix}", f"under{suffix}"].to_numpy().sum() / 2
        assert apart == pytest.approx(worst[f"calibration_tv{suffix}"].mean())


def test_the_example_is_the_longest_history_of_the_worst_tenth(run: Run) -> None:
    people = run.table("EASE", "calibration", "users").sort("calibration_kl", descending=True)
    worst = people.head(int(np.ceil(0.1 * len(people))))
    example = run.table("EASE", "calibration", "example")
    (user,) = example["user"].unique()
    chosen = worst.row(by_predicate=pl.col("user") == user, named=True)
    assert chosen["history"] == worst["history"].max()
    apart = (example["history"] - example["own"]).abs().sum() / 2
    assert apart == pytest.approx(chosen["calibration_tv"])


def test_the_settings_name_the_smoothing_and_the_weight(run: Run) -> None:
    settings = next(step.settings for step in run.manifest.steps if step.audit == "calibration")
    assert (settings["smoothing"], settings["weight"], settings["transform"]) == (0.02, 0.9, "minmax")
    assert (settings["k"], settings["categories"]) == (8, "genre")


def test_without_anything_to_find_there_is_no_curve_and_the_rest_stands(tmp_path: Path) -> None:
    run = execute(parsed(CONFIG.replace("relevant = 3", "relevant = 9")), tmp_path)
    assert run.table("EASE", "calibration", "series").is_empty()
    after = run.table("EASE", "calibration", "reranked")
    assert after.filter(pl.col("value").is_null())["metric"].to_list() == ["ndcg", "recall"]
    assert "Calibration: are interests kept in proportion?" in report.render(run)


def test_the_page_can_be_made_from_it(run: Run) -> None:
    assert "Calibration: are interests kept in proportion?" in report.render(run)


def test_a_log_without_categories_is_skipped_and_told_why(
    tmp_path: Path, tiny: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "load", lambda name, path=None: tiny)
    text = CONFIG.replace("k = 2", "k = 1").replace('by = ["region", "genre"]', "by = []")
    run = execute(parsed(text), tmp_path)
    assert [skip.audit for skip in run.manifest.skipped] == ["calibration"] * 2
    assert "the log has no categories" in run.manifest.skipped[0].reason
    assert "the log has no categories" in report.render(run)


def test_an_unknown_category_system_is_told_before_anything_is_fitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EASE, "fit", lambda *_: pytest.fail("fitted"))
    monkeypatch.setattr(ALS, "fit", lambda *_: pytest.fail("fitted"))
    with pytest.raises(InputError, match=r"Did you mean 'genre'\?"):
        execute(parsed(CONFIG + 'categories = "gendre"\n'), tmp_path)


@pytest.mark.parametrize(
    "wrong", ["k = 0", "weight = 1.5", "smoothing = 0.0", "curve = [0.5]", 'transform = "log"', "tested = -1"]
)
def test_settings_that_cannot_be_are_told(wrong: str) -> None:
    key = wrong.split(" ", maxsplit=1)[0]
    head, _, _ = CONFIG.partition("[audits.calibration]")
    with pytest.raises(ConfigError, match=key):
        parsed(f"{head}[audits.calibration]\n{wrong}\n")


class TestListedItems:
    def test_its_lists_are_the_given_ones(self, halves: Split) -> None:
        train = halves.train
        unseen = ~train.seen(np.arange(train.n_users))
        lists = np.array([np.flatnonzero(row)[:3][::-1] for row in unseen])
        shown = audits.recommend(ListedItems(train, lists), n=3)
        assert shown["item"].to_list() == train.item_ids.gather(lists.ravel()).to_list()

    def test_a_short_list_leaves_the_rest_at_zero(self, tiny: Interactions) -> None:
        scores = ListedItems(tiny, np.array([[2, 0], [3, -1], [-1, -1]])).scores(np.array([1, 2, 0]))
        assert scores.tolist() == [[0, 0, 0, 2], [0, 0, 0, 0], [1, 0, 2, 0]]
