"""The papers' recommenders as recaudit's own parts meet them: logs of clicks, wild ratings, runs and simulations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from recaudit import simulate
from recaudit.data import Interactions
from recaudit.data.synthetic import World
from recaudit.errors import InputError
from recaudit.models import Recommender
from recaudit.registry import SIMULATED_MODELS
from recaudit.runs import execute, parse, read_simulation
from recaudit_papers.models import CFNADE, LLORMA, AutoRec, BayesMF, RecurrentRecommender
from recaudit_papers.recommenders import paper_recommenders

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    "recommender",
    [BayesMF(), LLORMA(), AutoRec(), CFNADE(), RecurrentRecommender()],
    ids=lambda one: type(one).__name__,
)
def test_they_refuse_interactions_of_one_rating(world: World, recommender: Recommender) -> None:
    liked = world.data.frame().filter(pl.col("rating") >= 4).select("user", "item", "time")
    clicks = Interactions.from_frame(liked, rating=None, time="time")
    with pytest.raises(InputError, match=r"data: received a log in which every rating is 1; expected .*"):
        recommender.fit(clicks)


@pytest.mark.parametrize(
    "recommender",
    [AutoRec(epochs=2), BayesMF(factors=4, iterations=4, burn_in=1), LLORMA(epochs=2)],
    ids=lambda one: type(one).__name__,
)
def test_they_refuse_ratings_whose_squares_are_no_numbers(recommender: Recommender) -> None:
    users, items = np.repeat(np.arange(20), 20), np.tile(np.arange(40).reshape(2, 20), (10, 1)).ravel()
    stars = np.random.default_rng(0).integers(1, 6, len(users)).astype(np.float64)
    log = Interactions.from_frame(pl.DataFrame({"user": users, "item": items, "rating": stars * 1e150}))
    with pytest.raises(InputError, match="data: received a log with ratings of up to 5e\\+150"):
        recommender.fit(log)


def test_a_model_that_reads_times_is_refused_before_it_is_fitted(tmp_path: Path) -> None:
    rows = [(f"u{n}", f"i{(n + step) % 10}", 1.0 + (n * step) % 5) for n in range(8) for step in range(1, 6)]
    pl.DataFrame(rows, ["user", "item", "rating"], orient="row").write_csv(tmp_path / "ratings.csv")
    text = '[data]\nfile = "ratings.csv"\nscale = [1, 5]\n[[model]]\nkind = "recurrent"\n'
    with pytest.raises(InputError, match="without times"):
        execute(parse(text, source="run.toml", folder=tmp_path), tmp_path / "run")


class TestSimulations:
    def test_every_recommender_of_the_paper_has_a_kind(self) -> None:
        simple = {"oracle", "random", "top-pop", "item-knn", "user-knn", "ease"}
        assert simple | {"biased-mf", "bayes-mf", "autorec", "cf-nade", "llorma"} <= SIMULATED_MODELS.keys()

    def test_the_example_is_the_paper(self) -> None:
        config = read_simulation(EXAMPLES / "reclab.toml")
        assert config.environments == (simulate.paper("topics-static"), simulate.paper("topics-dynamic"))
        assert config.trials == 10
        found = {each.model.label: each.model.recommender for each in config.recommenders}
        assert found == paper_recommenders("topics-static")
