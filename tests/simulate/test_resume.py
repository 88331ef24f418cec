"""An interrupted simulation goes on, with the numbers of one that never was."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import recaudit as ra
from recaudit import atomic, simulate
from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.lists.exposure import Exposure
from recaudit.data import Interactions
from recaudit.errors import DamageWarning, InputError
from recaudit.folders import verify
from recaudit.models import FittedModel
from recaudit.policies import EpsilonGreedy
from recaudit.simulate.loop import trial

SMALL = simulate.Topics(users=50, items=60, topics=4, users_per_step=10, affinity=0.1, boredom_penalty=1.0)
MF = ra.models.BiasedMF(factors=3, epochs=2)
run = partial(simulate.run, SMALL, ratings=300, steps=20)


class StopError(Exception):
    """Stands for a kill."""


class Fragile(ra.models.Recommender):
    """Works until it does not."""

    def fit(self, data: Interactions, rng: int = 0) -> FittedModel:
        if len(data) >= LIMIT[0]:
            raise StopError
        return MF.fit(data, rng)

    def warm_fit(self, model: FittedModel, data: Interactions, rng: int = 0) -> FittedModel:
        if len(data) >= LIMIT[0]:
            raise StopError
        return MF.warm_fit(model, data, rng)


LIMIT = [10**9]


@pytest.fixture(autouse=True)
def _save_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    LIMIT[0] = 10**9
    monkeypatch.setattr(trial, "SAVE_SECONDS", -1.0)


@pytest.mark.parametrize("settings", [{}, {"warm": True}, {"retrain": 3}, {"retrain": 0}, {"retrain": 4, "warm": True}])
def test_goes_on_bit_by_bit(settings: dict[str, Any], tmp_path: Path) -> None:
    audits = {"exposure": Exposure(k=2)}
    ask = partial(run, Fragile(), EpsilonGreedy(), trials=2, audits=audits, audit_every=5, **settings)
    whole = ask(out=tmp_path / "whole")
    LIMIT[0] = 360
    broken = pytest.raises(StopError) if settings.get("retrain") != 0 else _nothing_happens()
    with broken:
        ask(out=tmp_path / "broken")
    LIMIT[0] = 10**9
    again = ask(out=tmp_path / "broken")
    assert again.steps.equals(whole.steps)
    assert again.audits.equals(whole.audits)
    assert again.slates().collect().equals(whole.slates().collect())


class _nothing_happens:  # noqa: N801  reads as what it says
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


class Opaque(ra.models.Recommender):
    """Goes on from models of a class that is not recaudit's."""

    def fit(self, data: Interactions, rng: int = 0) -> FittedModel:
        if len(data) >= LIMIT[0]:
            raise StopError
        return Wrapped(MF.fit(data, rng))

    def warm_fit(self, model: FittedModel, data: Interactions, rng: int = 0) -> FittedModel:
        if len(data) >= LIMIT[0]:
            raise StopError
        assert isinstance(model, Wrapped)
        return Wrapped(MF.warm_fit(model.inside, data, rng))


class Wrapped(FittedModel):
    def __init__(self, inside: FittedModel) -> None:
        self.inside, self.data = inside, inside.data

    def scores(self, users: IntArray) -> FloatArray:
        return self.inside.scores(users)


@pytest.mark.parametrize("retrain", [1, 3])
def test_a_model_that_cannot_be_kept_is_fitted_again_and_that_is_said(retrain: int, tmp_path: Path) -> None:
    ask = partial(run, Opaque(), warm=True, retrain=retrain)
    whole = ask()
    LIMIT[0] = 360
    with pytest.raises(StopError):
        ask(out=tmp_path / "broken")
    LIMIT[0] = 10**9
    with pytest.warns(UserWarning, match=r"Opaque: its model cannot be kept as arrays.* fits again"):
        again = ask(out=tmp_path / "broken")
    assert again.steps.equals(whole.steps)


def test_a_finished_simulation_is_read_and_not_run_again(tmp_path: Path) -> None:
    whole = run(Fragile(), out=tmp_path / "run")
    LIMIT[0] = 0
    assert run(Fragile(), out=tmp_path / "run").steps.equals(whole.steps)


def test_more_trials_are_added_to_those_there(tmp_path: Path) -> None:
    one = run(MF, out=tmp_path / "run")
    two = run(MF, out=tmp_path / "run", trials=2)
    assert two.steps.filter(two.steps["trial"] == 0).equals(one.steps)


class Killed(BaseException):
    """As sudden as SIGKILL: nothing is cleaned up after it."""


def test_killed_at_any_write_it_goes_on_bit_by_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = partial(simulate.run, SMALL, MF, ratings=300, steps=2, warm=True)
    whole = ask(out=tmp_path / "whole")
    kills, ended = 0, False
    while not ended:
        flushes = iter(range(1000))

        def flush(handle: int, flushes: Iterator[int] = flushes, last: int = kills) -> None:
            if next(flushes) == last:
                # A dead process removes nothing.
                patch.setattr(shutil, "rmtree", lambda *args, **kwargs: None)
                patch.setattr(Path, "unlink", lambda *args, **kwargs: None)
                raise Killed

        out = tmp_path / f"out{kills}"
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", flush)
            try:
                ask(out=out)
                ended = True
            except Killed:
                kills += 1
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lambda handle: None)
            again = ask(out=out)
        assert again.steps.equals(whole.steps)
        assert again.slates().collect().equals(whole.slates().collect())
        assert (verify(out).lost, verify(out).unknown) == ((), ())
        assert not [path for path in out.rglob("*") if path.name.startswith(atomic.PREFIX)]
    assert kills > 20


def test_a_trial_that_is_lost_and_not_asked_for_is_no_longer_the_folders(tmp_path: Path) -> None:
    whole = run(MF, out=tmp_path / "run", trials=3)
    shutil.rmtree(tmp_path / "run" / "trial-002")
    with pytest.warns(DamageWarning, match="trial-002"):
        run(MF, out=tmp_path / "run", trials=2)
    assert verify(tmp_path / "run").lost == ()
    assert run(MF, out=tmp_path / "run", trials=3).steps.equals(whole.steps)


def test_other_settings_are_refused(tmp_path: Path) -> None:
    run(MF, out=tmp_path / "run")
    with pytest.raises(InputError, match="other settings"):
        run(MF, EpsilonGreedy(), out=tmp_path / "run")


def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"notes\.txt"):
        run(MF, out=tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_what_was_half_written_is_swept_away(tmp_path: Path) -> None:
    whole = run(MF, out=tmp_path / "run")
    left = tmp_path / "run" / "trial-000" / "parts" / ".recaudit-0123"
    left.mkdir()
    assert run(MF, out=tmp_path / "run").steps.equals(whole.steps)
    assert not left.exists()
