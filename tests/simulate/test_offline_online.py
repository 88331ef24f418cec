"""Offline metrics, tuning, and whether they predict what happens online."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

import recaudit as ra
from recaudit import simulate
from recaudit.engines import Threads
from recaudit.errors import DamageWarning, InputError
from recaudit.models import Recommender
from recaudit.simulate.loop.run import WithPolicy
from recaudit.simulate.offline.comparison import rank_correlation
from recaudit.simulate.offline.cross_validation import GridSearch, Tuned, offline_metrics, tune

SMALL = simulate.Scenario(
    name="small",
    environment=simulate.Topics(users=60, items=80, topics=4, users_per_step=15),
    ratings=1500,
    steps=6,
)
DATA = SMALL.begin()[0]
FOUR: dict[str, Recommender] = {
    "oracle": simulate.Oracle(),
    "ALS": ra.models.ALS(factors=4),
    "TopPop": ra.models.TopPop(by="mean"),
    "random": ra.models.Random(),
}


class TestOffline:
    def test_by_hand(self) -> None:
        found = offline_metrics(FOUR["TopPop"], DATA, n=3)
        train, test = ra.splits.folds(DATA, 3)[1]
        error = FOUR["TopPop"].fit(train).predict(test.users.astype(np.int64), test.items.astype(np.int64))
        assert found["rmse"][1] == pytest.approx(np.sqrt(((error - test.ratings) ** 2).mean()))
        assert found["fold"].to_list() == [0, 1, 2]

    def test_the_oracle_is_left_with_the_noise(self) -> None:
        found = offline_metrics(simulate.Oracle(), DATA, population=SMALL.population())
        noise = DATA.ratings - SMALL.population().expected(np.arange(60))[DATA.users, DATA.items]
        # Every rating is held out once; folds differ in size by one at most.
        assert (found["rmse"] ** 2).mean() == pytest.approx((noise**2).mean())
        assert found["ndcg"].min() > 0.97  # type: ignore[operator]

    def test_scores_that_are_no_ratings_count_as_they_are(self) -> None:
        raw = offline_metrics(ra.models.EASE(), DATA)["rmse"].mean()
        assert raw > 1.5  # type: ignore[operator]  # predictions near 0 on a scale from 1

    def test_engines_agree(self) -> None:
        assert offline_metrics(FOUR["ALS"], DATA).equals(offline_metrics(FOUR["ALS"], DATA, engine=Threads(2)))


class TestTuning:
    def test_a_grid_finds_its_best(self) -> None:
        found = tune(ra.models.ALS(factors=3), DATA, GridSearch(values={"regularization": (1e-3, 0.1, 100.0)}), n=3)
        assert len(found.tries) == 3
        best = found.tries.sort("rmse")["regularization"][0]
        assert found.recommender == ra.models.ALS(factors=3, regularization=best)
        direct = offline_metrics(found.recommender, DATA, n=3)["rmse"].mean()
        assert found.tries["rmse"].min() == direct

    def test_a_best_value_at_an_end_is_told(self) -> None:
        settings = {"neighbours": [1, 2, 3], "shrinkage": [0.1, 0.2, 0.3], "center": ["user", "item", "item"]}
        tries = pl.DataFrame({**settings, "damping": 4.0, "rmse": [0.9, 0.8, 0.7], "ndcg": 0.5})
        knn, centers = ra.models.ItemKNN(), ("user", "item")
        grid = {"neighbours": (3, 2, 1), "shrinkage": (0.1, 0.3, 0.5), "center": centers, "damping": (4.0,)}
        found = Tuned.of(knn, GridSearch(values=grid), tries)
        assert found.recommender == ra.models.ItemKNN(neighbours=3, shrinkage=0.3, center="item", damping=4.0)
        assert found.edges == ("neighbours = 3, the highest tried",)
        found = tune(ra.models.ALS(factors=3), DATA, GridSearch(values={"regularization": (50.0, 100.0)}), n=2)
        assert found.edges == ("regularization = 50, the lowest tried",)

    def test_settings_are_checked_before_anything_is_fitted(self) -> None:
        with pytest.raises(InputError, match="factors"):
            tune(ra.models.ALS(), DATA, GridSearch(values={"factor": (2, 3)}))
        with pytest.raises(InputError, match="factors"):
            tune(ra.models.ALS(), DATA, GridSearch(values={"factors": (2, -3)}))
        with pytest.raises(InputError, match="regularization"):
            tune(ra.models.ALS(), DATA, GridSearch(values={"regularization": (-1.0, 1.0)}))


class TestRankCorrelation:
    def test_is_spearmans(self) -> None:
        draw = np.random.default_rng(0)
        offline, online = draw.normal(size=(7, 5)), draw.normal(size=(7, 4))
        found = rank_correlation(offline, online, 0)
        assert found["value"] == pytest.approx(stats.spearmanr(offline.mean(1), online.mean(1)).statistic)
        assert found["lower"] <= found["value"] <= found["upper"]  # type: ignore[operator]

    def test_chance_is_counted(self) -> None:
        straight = np.arange(8.0)[:, None]
        sure = rank_correlation(straight, straight, 0)
        assert sure["p_value"] < 0.005  # type: ignore[operator]
        two = rank_correlation(straight[:2], straight[:2], 0)
        assert two["p_value"] == 1  # two recommenders are always in some order

    def test_the_fewer_the_wider(self) -> None:
        # Exactly the same order: certain of eleven, not of four, which are so in one of 24 orders; of three nothing.
        lines = {n: np.arange(float(n))[:, None] for n in (3, 4, 11)}
        found = {n: rank_correlation(line, line, 0) for n, line in lines.items()}
        assert found[3]["lower"] is found[3]["upper"] is None
        assert found[4]["lower"] < 0  # type: ignore[operator]
        assert 0.9 < found[11]["lower"] < 0.99  # type: ignore[operator]
        assert found[4]["upper"] == found[11]["upper"] == pytest.approx(1)

    def test_intervals_hold_what_other_recommenders_give(self) -> None:
        # Ten draws from two normal variables with correlation r have a rank correlation of 6 / pi arcsin(r / 2).
        draw, r, hits = np.random.default_rng(1), 0.7, 0
        for _ in range(400):
            x = draw.normal(size=(10, 1))
            found = rank_correlation(x, r * x + np.sqrt(1 - r**2) * draw.normal(size=(10, 1)), 0)
            hits += found["lower"] <= 6 / np.pi * np.arcsin(r / 2) <= found["upper"]
        assert hits / 400 == pytest.approx(0.95, abs=0.04)

    def test_one_recommender_has_no_order(self) -> None:
        assert rank_correlation(np.ones((1, 5)), np.ones((1, 2)), 0)["value"] is None

    def test_equals_have_no_order(self) -> None:
        assert rank_correlation(np.ones((5, 3)), np.arange(5.0)[:, None], 0)["value"] is None


class TestStudy:
    study = staticmethod(partial(simulate.offline_online, [SMALL], FOUR, 2))

    def test_points_are_the_parts_put_together(self) -> None:
        found = self.study()
        points = found.points()
        assert points["recommender"].to_list() == list(FOUR)
        row = points.filter(pl.col("recommender") == "ALS").row(0, named=True)
        assert row["ndcg"] == pytest.approx(offline_metrics(FOUR["ALS"], DATA)["ndcg"].mean())
        alone = simulate.compare(SMALL, FOUR, trials=2)
        assert row["mean_rating"] == pytest.approx(alone["ALS"]["mean_rating"])

    def test_what_is_measured_offline_predicts_here(self) -> None:
        found = self.study().spearman()
        assert found["metric"].to_list() == ["ndcg", "rmse"]
        ndcg, rmse = found["value"]
        assert ndcg > 0.7
        assert rmse < -0.7

    def test_an_interrupted_study_goes_on(self, tmp_path: Path) -> None:
        tuning = {"ALS": GridSearch(values={"regularization": (0.01, 0.1)})}
        whole = self.study(tuning=tuning)
        kept = self.study(tuning=tuning, out=tmp_path / "study")
        (tmp_path / "study" / "offline" / "small" / "ALS.parquet").unlink()
        with pytest.warns(DamageWarning, match=r"offline/small/ALS\.parquet \(missing\)"):
            again = self.study(tuning=tuning, out=tmp_path / "study")
        for found in (kept, again):
            assert found.points().equals(whole.points())
            assert found.recommenders.equals(whole.recommenders)
        assert whole.recommenders["tuned"].to_list() == [False, True, False, False]
        edge = whole.recommenders["edge"][1]
        assert "est tried" in edge
        assert f"ALS: tuned to {edge}; a better value may lie beyond" in whole.summary()

    def test_settings_may_differ_between_environments(self) -> None:
        other = SMALL.changed(noise=0.1).model_copy(update={"name": "other"})
        each: dict[str, dict[str, WithPolicy]] = {
            "small": {"r": ra.models.Random()},
            "other": {"t": ra.models.TopPop(by="mean")},
        }
        found = simulate.offline_online([SMALL, other], each, 1, folds=2)
        assert found.points()["recommender"].to_list() == ["r", "t"]
        with pytest.raises(InputError, match="every environment"):
            simulate.offline_online([SMALL, other], {"small": {"r": ra.models.Random()}}, 1)

    def test_a_recommender_counts_once_whatever_its_policies(self) -> None:
        wild: dict[str, WithPolicy] = {"wild": (FOUR["ALS"], ra.policies.Softmax(beta=0.1))}
        plain, both = (simulate.offline_online([SMALL], each, 1, folds=2).spearman() for each in (FOUR, wild | FOUR))
        assert both.equals(plain)

    def test_environments_need_names_of_their_own(self) -> None:
        with pytest.raises(InputError, match="environments"):
            simulate.offline_online([SMALL, SMALL], FOUR, 1)

    def test_the_summary_reads_well(self) -> None:
        text = self.study(folds=2).summary()
        assert text.splitlines()[0] == "small"
        assert "nDCG@20 offline against mean rating, rank correlation: " in text
