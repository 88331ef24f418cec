"""Tuning for two objectives: seeded, resumable, quiet, and clear about what it needs."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import optuna
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from recaudit.audits import MeasuredModels, folding_tuning
from recaudit.data import Interactions
from recaudit.data.synthetic import blocks
from recaudit.errors import InputError, NotSupportedError
from recaudit.models import WALS, FactorModel


@pytest.fixture(scope="module")
def log() -> Interactions:
    return blocks(users=60, items=50, user_groups=3, item_groups=3, on_share=0.34, on_density=0.5, rng=1).data


def search(data: Interactions, **settings: object) -> MeasuredModels:
    chosen = {
        "trials": 14,
        "factors": (2, 6),
        "regularization": (0.1, 10.0),
        "recommender": WALS(iterations=3),
        **settings,
    }
    return folding_tuning(data, **chosen)  # type: ignore[arg-type]  # settings as a test names them


def test_the_same_seed_tries_the_same_and_another_seed_does_not(log: Interactions) -> None:
    found = search(log, rng=2)
    assert_frame_equal(search(log, rng=2).frame, found.frame)
    assert search(log, rng=3).frame["regularization"].to_list() != found.frame["regularization"].to_list()


def test_what_is_tried_stays_within_the_bounds(log: Interactions) -> None:
    tried = search(log, unobserved_weight=(0.01, 0.5)).frame
    assert len(tried) == 14
    assert tried["factors"].is_between(2, 6).all()
    assert tried["unobserved_weight"].is_between(0.01, 0.5).all()
    assert tried["regularization"].is_between(0.1, 10.0).all()


def test_nothing_on_the_front_is_beaten(log: Interactions) -> None:
    found = search(log)
    for row in found.front.iter_rows(named=True):
        rmse, folded = pl.col("rmse"), pl.col("folding")
        as_low = (rmse <= row["rmse"]) & (folded <= row["folding"])
        assert found.frame.filter(as_low & ((rmse < row["rmse"]) | (folded < row["folding"]))).is_empty()
    assert found.best().rmse == found.frame["rmse"].min()
    assert found.front["rmse"][0] == found.best().rmse


def test_a_choice_is_a_recommender_that_gives_the_numbers_again(log: Interactions) -> None:
    found = search(log, recommender=WALS(iterations=3, prior=2.0))
    chosen = found.knee() or found.best()
    assert isinstance(chosen.recommender, WALS)
    assert chosen.recommender.prior == 2.0
    row = found.frame.filter(pl.col("rmse") == chosen.rmse).row(0, named=True)
    assert chosen.recommender.regularization == row["regularization"]
    assert chosen.folding == row["folding"]


def test_folding_of_what_is_shown_can_be_the_objective(log: Interactions) -> None:
    found = search(log, metric="shown_folding")
    assert found.front["shown_folding"].to_list() == sorted(found.front["shown_folding"], reverse=True)


def test_a_search_goes_on_where_it_stopped(log: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = search(log, trials=13)
    search(log, trials=11, cache=tmp_path)
    fitted: list[WALS] = []
    fit = WALS.fit

    def noted(self: WALS, data: Interactions, rng: int = 0) -> FactorModel:
        fitted.append(self)
        return fit(self, data, rng)

    monkeypatch.setattr(WALS, "fit", noted)
    assert_frame_equal(search(log, trials=13, cache=tmp_path).frame, whole.frame)
    assert len(fitted) == 2


def test_optuna_says_nothing_and_is_left_as_it_was(
    log: Interactions, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    before = optuna.logging.get_verbosity()
    with caplog.at_level(logging.DEBUG):
        search(log, trials=2)
    assert optuna.logging.get_verbosity() == before
    assert capfd.readouterr() == ("", "")


def test_without_optuna_it_is_said_how_to_get_it(log: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(NotSupportedError, match=r"pip install 'recaudit\[tune\]'"):
        search(log, trials=1)


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"trials": 0}, "trials"),
        ({"factors": (0, 4)}, "factors"),
        ({"unobserved_weight": (0.0, 1.0)}, "unobserved_weight"),
        ({"regularization": (2.0, 1.0)}, "regularization"),
    ],
)
def test_a_search_that_cannot_be_is_told(log: Interactions, settings: dict[str, object], argument: str) -> None:
    with pytest.raises(InputError, match=argument):
        search(log, **settings)
