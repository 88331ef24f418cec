"""The published numbers say what the paper's plots say."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from scipy import stats

from recaudit import simulate
from recaudit_papers.studies.reclab.published import PUBLISHED, published_beside


@pytest.mark.parametrize(
    ("environment", "ndcg", "rmse"), [("topics-dynamic", 0.827, -0.964), ("topics-static", 0.952, -0.943)]
)
def test_the_rank_correlations_follow_from_the_table(environment: str, ndcg: float, rmse: float) -> None:
    rows = [row for (where, _), row in PUBLISHED.items() if where == environment]
    assert len(rows) == 11
    ratings = [row["mean_rating"] for row in rows]
    for metric, expected in (("ndcg", ndcg), ("rmse", rmse)):
        assert stats.spearmanr([row[metric] for row in rows], ratings).statistic == pytest.approx(expected, abs=6e-4)


def test_offline_numbers_are_those_of_one_log() -> None:
    for (environment, name), row in PUBLISHED.items():
        other = PUBLISHED["topics-static" if environment == "topics-dynamic" else "topics-dynamic", name]
        assert (row["ndcg"], row["rmse"]) == (other["ndcg"], other["rmse"])


@pytest.mark.parametrize(("changes", "shown"), [({}, 11), ({"steps": 2}, 11), ({"users": 900}, 0), ({"noise": 0.1}, 0)])
def test_only_the_papers_own_environments_stand_beside_it(changes: dict[str, Any], shown: int) -> None:
    scenario = simulate.paper("topics-static", **changes)
    study = simulate.OfflineOnline(pl.DataFrame(), {}, pl.DataFrame(), 20, {scenario.name: scenario})
    assert len(published_beside(study)) == shown
