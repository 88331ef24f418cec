"""A simulation that is configured is carried out, stopped and gone on with."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from recaudit import simulate
from recaudit.errors import InputError
from recaudit.models import ALS
from recaudit.policies import EpsilonGreedy
from recaudit.registry import MODELS
from recaudit.runs.simulation import SimulationConfiguration, execute_simulation, parse_simulation
from recaudit.simulate.loop import trial
from recaudit.simulate.loop.trial import slates
from recaudit.simulate.offline import comparison
from recaudit.specification import as_data

SIZES = "users = 60\nitems = 80\nusers_per_step = 12\nratings = 500\nsteps = 4\n"
ENVIRONMENT = f'[[environment]]\nname = "topics-static"\n{SIZES}'
RECOMMENDER = '[[recommender]]\nkind = "als"\n'
SMALLEST = ENVIRONMENT + RECOMMENDER
OWN = '[[environment]]\ndata = {file = "ratings.csv"}\nratings = 300\nsteps = 2\n'


def parsed(text: str, folder: Path = Path()) -> SimulationConfiguration:
    return parse_simulation(text, source="my.toml", folder=folder)


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    """The folder of ratings.csv: 40 users, 30 items."""
    draw = np.random.default_rng(0)
    pairs = draw.choice(40 * 30, 700, replace=False)
    frame = pl.DataFrame({"user": pairs // 30, "item": pairs % 30, "rating": draw.integers(1, 6, 700)})
    frame.write_csv(tmp_path / "ratings.csv")
    return tmp_path


AUDITS = """
[audits]
every = 2
[audits.exposure]
k = 3
[audits.reachability]
users = 3
[audits.folding]
[audits.calibration]
k = 3
tested = 2
"""
TWO = ENVIRONMENT + '[[recommender]]\nkind = "als"\nfactors = 3\n[[recommender]]\nkind = "random"\n'


class TestExecution:
    @pytest.fixture(autouse=True)
    def _few_samples(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(comparison, "_SAMPLES", 10)

    def test_the_numbers_are_those_of_the_call(self, tmp_path: Path) -> None:
        settings = 'seed = 3\ntrials = 2\nfolds = 2\nk = 5\nretrain = 2\npolicy = {kind = "epsilon-greedy"}\n'
        found = execute_simulation(parsed(settings + TWO), tmp_path / "out")
        expected = simulate.offline_online(
            [simulate.paper("topics-static", users=60, items=80, users_per_step=12, ratings=500, steps=4)],
            {"ALS": ALS(factors=3), "Random": ra.models.Random()},
            2,
            folds=2,
            k=5,
            retrain=2,
            policy=EpsilonGreedy(),
            rng=3,
        )
        assert found.points().equals(expected.points())

    def test_what_is_tuned_is_said(self, tmp_path: Path) -> None:
        tuned = "tune = {factors = [1, 2]}\n"
        text = "trials = 1\nfolds = 2\n" + TWO.replace("factors = 3\n", tuned)
        used = execute_simulation(parsed(text), tmp_path / "out").recommenders
        assert used["tuned"].to_list() == [True, False]
        assert json.loads(used["settings"][0]) in [as_data(ALS(factors=n), MODELS) for n in (1, 2)]

    def test_audits_are_asked_on_the_way(self, tmp_path: Path) -> None:
        found = execute_simulation(parsed(f"trials = 1\nfolds = 2\n{TWO}{AUDITS}"), tmp_path / "out")
        asked = found.comparisons["topics-static"]
        steps = asked["ALS"].audits.group_by("audit").agg(pl.col("step").unique().sort()).sort("audit")
        assert steps["audit"].to_list() == ["calibration", "exposure", "folding", "reachability"]
        assert steps["step"].to_list() == [[0, 2, 3]] * 4
        assert asked["ALS"].audits["value"].null_count() == 0
        folding = asked["Random"].audits.filter(audit="folding")
        assert folding.filter(metric="folding")["status"].unique().to_list() == ["not_applicable"]
        assert folding.filter(metric="unrelated_share")["status"].unique().to_list() == ["solved"]

    def test_an_audit_asks_what_the_function_asks(self) -> None:
        model = ALS(factors=3).fit(simulate.Topics(users=30, items=40, users_per_step=5).offline(400))
        audit = parsed(f"{SMALLEST}[audits.exposure]\nk = 3").audits.audits["exposure"]
        assert audit.observe(model, 7).frame.equals(ra.exposure(model, k=3, by=(), rng=7).frame)
        assert pickle.loads(pickle.dumps(audit)) == audit

    def test_audits_that_the_data_does_not_bear_are_told_before_anything_is_done(self, tmp_path: Path) -> None:
        config = parsed(f"{TWO}[audits.folding]\nrelatedness = 'genre'")
        with pytest.raises(InputError, match="genre"):
            execute_simulation(config, tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_an_interrupted_simulation_goes_on_with_the_same_numbers(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        config = parsed(f"trials = 2\nfolds = 2\n{TWO}[audits.exposure]")
        whole = execute_simulation(config, tmp_path / "whole")
        calls = iter(range(1000))

        def fragile(*args: object, **kwargs: object) -> object:
            if next(calls) == 6:
                raise KeyboardInterrupt
            return slates(*args, **kwargs)  # type: ignore[arg-type]  # as they came

        monkeypatch.setattr(trial, "SAVE_SECONDS", -1.0)
        monkeypatch.setattr(trial, "slates", fragile)
        with pytest.raises(KeyboardInterrupt):
            execute_simulation(config, tmp_path / "broken")
        resumed = execute_simulation(config, tmp_path / "broken")
        assert next(calls) - 7 == 2 * 2 * 4 - 6  # what was done is not done again
        assert resumed.points().equals(whole.points())
        for name in ("ALS", "Random"):
            a, b = (found.comparisons["topics-static"][name].audits for found in (whole, resumed))
            assert a.equals(b)

    def test_fresh_starts_over_and_nothing_else_does(self, tmp_path: Path) -> None:
        out = tmp_path / "out"
        text = f"trials = 1\nfolds = 2\n{TWO}"
        execute_simulation(parsed(text), out)
        other = parsed("seed = 1\n" + text)
        with pytest.raises(InputError, match="other settings"):
            execute_simulation(other, out)
        (out / "report.html").write_text("old")
        execute_simulation(other, out, fresh=True)
        assert not (out / "report.html").exists()
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "thesis.txt").write_text("mine")
        with pytest.raises(InputError, match="and no run"):
            execute_simulation(other, tmp_path / "full", fresh=True)
        assert (tmp_path / "full" / "thesis.txt").read_text() == "mine"
