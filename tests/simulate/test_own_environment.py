"""Environments of users: a resumed trial has the same numbers or is refused, and drift is not invented."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recaudit as ra
from recaudit.arrays import FloatArray, IntArray
from recaudit.errors import InputError
from recaudit.models import ItemKNN
from recaudit.seeding import generator
from recaudit.simulate import Environment, Population
from recaudit.simulate.loop import trial

SIZES: dict[str, Any] = {"users": 60, "items": 80, "users_per_step": 20}


class Camp(Population):
    """Users of two camps, whose tastes move towards what they take."""

    def __init__(self, environment: Environment, seed: int) -> None:
        draw = generator(seed, "camps")
        self.n_users, self.n_items = environment.users, environment.items
        self.scale, self.noise = environment.scale, environment.noise
        self.taste, self.boredom = draw.choice([-1.0, 1.0], environment.users), np.zeros(environment.users)
        self.side, self.quality = draw.choice([-1.0, 1.0], environment.items), draw.normal(3, 0.5, environment.items)

    def utilities(self, users: IntArray) -> FloatArray:
        utilities: FloatArray = self.quality + np.outer(self.taste[users], self.side) - self.boredom[users, None]
        return utilities

    def take(self, users: IntArray, items: IntArray) -> None:
        self.taste[users] += 0.05 * self.side[items]
        self.boredom[users] += 0.01


class DescribedCamp(Camp):
    changing = ("taste", "boredom")


class HalfDescribedCamp(Camp):
    changing = ("taste",)


class Still(Camp):
    take = Population.take


class Camps(Environment):
    def population(self, seed: int = 0) -> Population:
        return Camp(self, seed)


class DescribedCamps(Environment):
    def population(self, seed: int = 0) -> Population:
        return DescribedCamp(self, seed)


class HalfDescribedCamps(Environment):
    def population(self, seed: int = 0) -> Population:
        return HalfDescribedCamp(self, seed)


class StillCamps(Environment):
    def population(self, seed: int = 0) -> Population:
        return Still(self, seed)


def run(environment: Environment, out: Path | None = None, steps: int = 6) -> ra.simulate.Simulation:
    return ra.simulate.run(environment, ItemKNN(neighbours=5), ratings=300, steps=steps, out=out)


def interrupted(environment: Environment, out: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Run until a step, save there, and stop."""
    monkeypatch.setattr(trial, "SAVE_SECONDS", 0.0)
    live = trial._Trial._live

    def stopping(self: trial._Trial, at: int, model: ra.models.FittedModel) -> None:
        if at == step:
            raise KeyboardInterrupt
        live(self, at, model)

    with monkeypatch.context() as patch:
        patch.setattr(trial._Trial, "_live", stopping)
        with pytest.raises(KeyboardInterrupt):
            run(environment, out)


def test_a_population_that_does_not_say_what_changes_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        run(Camps(**SIZES), tmp_path / "run")
    assert refused.value.argument == "environment"
    assert "changing" in refused.value.remedy
    assert run(Camps(**SIZES))["mean_rating"] > 1


def test_a_resumed_trial_has_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = DescribedCamps(**SIZES)
    whole = run(environment)
    interrupted(environment, tmp_path / "run", monkeypatch, 3)
    resumed = run(environment, tmp_path / "run")
    assert resumed.steps.equals(whole.steps)


def test_a_population_that_forgets_what_changes_is_not_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = HalfDescribedCamps(**SIZES)
    interrupted(environment, tmp_path / "run", monkeypatch, 3)
    with pytest.raises(InputError) as refused:
        run(environment, tmp_path / "run")
    assert "HalfDescribedCamp" in refused.value.received


def test_a_population_that_does_not_change_needs_no_description(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = StillCamps(**SIZES)
    interrupted(environment, tmp_path / "run", monkeypatch, 3)
    assert run(environment, tmp_path / "run").steps.equals(run(environment).steps)


def test_drift_is_unknown_where_it_is_not_defined() -> None:
    assert run(Camps(**SIZES), steps=2).steps["drift"].is_null().all()
    found = run(Camps(**SIZES), steps=2).overall().filter(measure="drift")
    assert found["value"].to_list() == [None]
    assert (run(StillCamps(**SIZES), steps=2).steps["drift"] == 0).all()


def test_fewer_than_four_trials_have_no_interval() -> None:
    three, four = (
        ra.simulate.run(StillCamps(**SIZES), ItemKNN(neighbours=5), ratings=300, steps=2, trials=trials).overall()
        for trials in (3, 4)
    )
    assert three.filter(measure="mean_rating")["lower"].to_list() == [None]
    row = four.filter(measure="mean_rating").row(0, named=True)
    assert row["lower"] < row["value"] < row["upper"]
