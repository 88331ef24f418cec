"""A run ends whole, however often it was killed on the way, and never touches what is not its own."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from recaudit import atomic, audits, lock, runs
from recaudit.audits.lists.accuracy import Accuracy
from recaudit.audits.lists.exposure import Exposure
from recaudit.data import datasets, splits
from recaudit.data.synthetic import World
from recaudit.engines import Step, Threads, listening
from recaudit.errors import DamageWarning, InputError
from recaudit.folders import folder
from recaudit.models import Random, TopPop
from recaudit.runs import Configuration, Run, execute
from recaudit.runs.resumption import Resumption

CONFIG = """
seed = 3
[data]
name = "demo"
[split]
kind = "leave-last"
k = 2
[[model]]
kind = "top-pop"
label = "Most rated"
[[model]]
kind = "random"
[audits.accuracy]
k = 5
by = ["region"]
[audits.exposure]
k = 5
by = ["genre"]
policy = {kind = "softmax", beta = 2.0}
"""
STEPS = [(model, audit) for model in ("Most rated", "Random") for audit in ("accuracy", "exposure")]


def parsed(text: str) -> Configuration:
    return runs.parse(text, source="run.toml", folder=Path())


@pytest.fixture
def config(world: World, monkeypatch: pytest.MonkeyPatch) -> Configuration:
    """A run on a small world, quick enough to be killed and resumed many times."""
    monkeypatch.setattr(datasets, "load", lambda name, path=None: world.data)
    return parsed(CONFIG)


def tables(path: Path) -> dict[str, pl.DataFrame]:
    """Every table that a reader of the folder would take for finished."""
    found = {}
    for file in path.rglob("*.parquet"):
        parts = file.relative_to(path).parts
        if not any(part.startswith(atomic.PREFIX) for part in parts):
            found["/".join(parts)] = pl.read_parquet(file)
    return found


def assert_same_tables(one: dict[str, pl.DataFrame], other: dict[str, pl.DataFrame]) -> None:
    assert one.keys() == other.keys()
    for name, table in one.items():
        assert_frame_equal(table, other[name], check_exact=True)


def told(run: Run) -> str:
    return f"{len(run.manifest.steps)} steps"


class TestACompleteRun:
    def test_the_folder_says_what_was_done(self, config: Configuration, tmp_path: Path) -> None:
        run = execute(config, tmp_path / "out", report=told)
        manifest = run.manifest
        assert manifest.status == "complete"
        assert manifest.config == config.written
        assert manifest.seed == 3
        assert manifest.data.name == "demo"
        assert manifest.data.train + manifest.data.test == manifest.data.ratings
        assert (manifest.data.attributes, manifest.data.categories) == (("region", "age"), ("genre",))
        assert manifest.data.scale == (1.0, 5.0)
        assert {"python", "recaudit", "numpy", "torch", "polars"} <= manifest.versions.keys()
        assert run.models == ("Most rated", "Random")
        assert [(step.model, step.audit) for step in manifest.steps] == STEPS
        assert all(model.fit_seconds is not None for model in manifest.models)
        assert manifest.models[0].settings == TopPop().model_dump()
        assert sorted(path.name for path in run.path.iterdir()) == ["data", "manifest.json", "report.html", "results"]

    def test_every_step_is_reported_by_its_name(self, config: Configuration, tmp_path: Path) -> None:
        heard: list[Step] = []
        with listening(heard.append):
            execute(config, tmp_path / "out", report=told)
        ended = [step.label for step in heard if step.done == step.total == 1]
        steps = [f"{model}: {step}" for model in ("Most rated", "Random") for step in ("fit", "accuracy", "exposure")]
        assert [label for label in ended if label.startswith(("reading", "Most", "Random", "report"))] == [
            "reading demo",
            *steps,
            "report",
        ]

    def test_numbers_are_those_of_the_library(self, config: Configuration, world: World, tmp_path: Path) -> None:
        run = execute(config, tmp_path / "out")
        train, test = splits.leave_last(world.data, k=2)
        result = audits.accuracy(Random().fit(train, rng=3), test, k=5, rng=3, by=["region"])
        assert_frame_equal(run.table("Random", "accuracy", "summary"), result.frame)
        assert_frame_equal(run.table("Random", "accuracy", "groups"), result.groups)

    def test_engines_do_not_change_a_number(self, config: Configuration, tmp_path: Path) -> None:
        execute(config, tmp_path / "serial")
        threads = config.model_copy(update={"engine": Threads(2)})
        execute(threads, tmp_path / "threads")
        assert_same_tables(tables(tmp_path / "serial"), tables(tmp_path / "threads"))

    @pytest.mark.usefixtures("config")
    def test_a_grouping_that_the_data_lacks_is_told_before_any_fit(self, tmp_path: Path) -> None:
        config = parsed(CONFIG.replace("region", "regoin"))
        with pytest.raises(InputError, match="Did you mean 'region'"):
            execute(config, tmp_path / "out")
        assert not (tmp_path / "out").exists()

    @pytest.mark.usefixtures("config")
    def test_every_recommender_can_be_run(self, tmp_path: Path) -> None:
        kinds = ["als", "biased-mf", "item-knn", "user-knn", "ease", "slim", "top-pop", "random"]
        text = '[data]\nname = "demo"\n[audits.exposure]\n'
        run = execute(parsed(text + "".join(f'[[model]]\nkind = "{kind}"\n' for kind in kinds)), tmp_path / "out")
        assert run.models == ("ALS", "BiasedMF", "ItemKNN", "UserKNN", "EASE", "SLIM", "TopPop", "Random")


class TestResuming:
    @pytest.mark.parametrize("failing", range(len(STEPS)))
    def test_finished_steps_are_kept_and_the_rest_is_done(
        self, config: Configuration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
    ) -> None:
        execute(config, tmp_path / "reference")
        with monkeypatch.context() as patch:
            break_audits(patch, at=failing)
            with pytest.raises(KeyboardInterrupt):
                execute(config, tmp_path / "out", report=told)
        halted = Run.open(tmp_path / "out")
        assert halted.manifest.status == "running"
        assert [(step.model, step.audit) for step in halted.manifest.steps] == STEPS[:failing]
        assert not (halted.path / "report.html").exists()

        with monkeypatch.context() as patch:
            calls = break_audits(patch, at=None)
            run = execute(config, tmp_path / "out", report=told)
        assert len(calls) == len(STEPS) - failing
        assert run.manifest.status == "complete"
        assert run.manifest.started == halted.manifest.started
        assert [(step.model, step.audit) for step in run.manifest.steps] == STEPS
        assert (run.path / "report.html").read_text() == "4 steps"
        assert_same_tables(tables(tmp_path / "out"), tables(tmp_path / "reference"))

    def test_a_model_whose_steps_are_finished_is_not_fitted_again(
        self, config: Configuration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            break_audits(patch, at=2)
            with pytest.raises(KeyboardInterrupt):
                execute(config, tmp_path / "out")
        fitted: list[str] = []
        for recommender in (TopPop, Random):
            monkeypatch.setattr(recommender, "fit", counted(recommender.fit, fitted, recommender.__name__))
        execute(config, tmp_path / "out")
        assert fitted == ["Random"]

    def test_killed_at_any_write_nothing_looks_whole_that_is_not(
        self, config: Configuration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        config = config.model_copy(update={"models": config.models[:1]})
        monkeypatch.setattr(os, "fsync", lambda handle: None)  # there is no power cut here
        execute(config, tmp_path / "reference")
        reference = tables(tmp_path / "reference")
        kills, ended = 0, False
        while not ended:
            out = tmp_path / f"out{kills}"
            with monkeypatch.context() as patch:
                die_at_flush(patch, kills)
                try:
                    execute(config, out, report=told)
                    ended = True
                except Killed:
                    kills += 1
            found = tables(out)
            assert_same_tables(found, {name: reference[name] for name in found})
            if not ended:
                run = execute(config, out, report=told)
                assert run.manifest.status == "complete"
                assert_same_tables(tables(out), reference)
                left = [path.name for path in out.rglob("*") if path.name.startswith(atomic.PREFIX)]
                assert left == []
            shutil.rmtree(out)
        assert kills > len(STEPS)

    def test_a_process_that_is_really_killed_is_resumed(self, tmp_path: Path) -> None:
        out = tmp_path / "out"
        code = (
            "import os, pathlib, signal\n"
            "from recaudit import Exposure, runs\n"
            "Exposure.measure = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
            f"config = runs.parse({CONFIG!r}, source='run.toml', folder=pathlib.Path())\n"
            f"runs.execute(config, {str(out)!r})\n"
        )
        done = subprocess.run([sys.executable, "-c", code], check=False)
        assert done.returncode == -signal.SIGKILL
        assert Run.open(out).manifest.status == "running"
        assert (out / lock.NAME).exists()
        assert execute(parsed(CONFIG), out).manifest.status == "complete"
        execute(parsed(CONFIG), tmp_path / "reference")
        assert_same_tables(tables(out), tables(tmp_path / "reference"))

    def test_a_complete_run_is_left_as_it_is(self, config: Configuration, tmp_path: Path) -> None:
        out = tmp_path / "out"
        execute(config, out, report=told)
        before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
        execute(config, out, report=told)
        assert {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()} == before

    def test_what_somebody_deleted_is_made_again(self, config: Configuration, tmp_path: Path) -> None:
        out = tmp_path / "out"
        execute(config, out, report=told)
        before = tables(out)
        shutil.rmtree(out / "results" / "Random" / "exposure")
        (out / "report.html").unlink()
        with pytest.warns(DamageWarning, match=r"Random/exposure/summary.parquet \(missing\)"):
            assert execute(config, out, report=told).manifest.status == "complete"
        assert_same_tables(tables(out), before)
        assert (out / "report.html").exists()

    def test_a_failed_report_is_written_the_next_time(self, config: Configuration, tmp_path: Path) -> None:
        def broken(run: Run) -> str:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            execute(config, tmp_path / "out", report=broken)
        assert Run.open(tmp_path / "out").manifest.status == "running"
        assert execute(config, tmp_path / "out", report=told).manifest.status == "complete"
        assert (tmp_path / "out" / "report.html").exists()


class TestChangedConfiguration:
    """Steps are kept as long as what they depend on is the same."""

    @pytest.fixture(autouse=True)
    def _small(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(datasets, "load", lambda name, path=None: world.data)

    @staticmethod
    def again(config: Configuration, out: Path, **options: Any) -> tuple[Run, Resumption, list[str]]:
        """The run, what became of the former steps, and the audits that were computed."""
        decided: list[Resumption] = []
        with pytest.MonkeyPatch.context() as patch:
            calls = break_audits(patch, at=None)
            run = execute(config, out, report=told, resumed=decided.append, **options)
        return run, decided[0], calls

    def test_only_the_steps_of_a_changed_audit_are_computed_again(self, tmp_path: Path) -> None:
        out = tmp_path / "out"
        execute(parsed(CONFIG), out, report=told)
        changed = CONFIG.replace('k = 5\nby = ["genre"]', 'k = 4\nby = ["genre"]')
        assert changed != CONFIG
        run, decided, calls = self.again(parsed(changed), out)
        assert calls == ["Exposure", "Exposure"]
        assert decided.kept == (("Most rated", "accuracy"), ("Random", "accuracy"))
        assert [(one.model, one.audit) for one in decided.repeated] == [
            ("Most rated", "exposure"),
            ("Random", "exposure"),
        ]
        execute(parsed(changed), tmp_path / "reference")
        assert_same_tables(tables(out), tables(tmp_path / "reference"))
        assert [(step.model, step.audit) for step in run.manifest.steps] == STEPS
        assert run.manifest.status == "complete"
        assert run.manifest.config == parsed(changed).written
        assert (out / "report.html").exists()

    def test_a_new_model_is_added_and_a_removed_one_is_dropped(self, tmp_path: Path) -> None:
        out = tmp_path / "out"
        execute(parsed(CONFIG), out)
        other = CONFIG.replace('kind = "random"', 'kind = "top-pop"\nlabel = "Mean"\nby = "mean"\n')
        run, decided, calls = self.again(parsed("floors = false\n" + other), out)
        assert calls == ["Accuracy", "Exposure"]
        assert decided.dropped == (("Random", "accuracy"), ("Random", "exposure"))
        assert run.models == ("Most rated", "Mean")
        assert not (out / "results" / "Random").exists()

    def test_settings_that_were_set_by_model_copy_count(self, config: Configuration, tmp_path: Path) -> None:
        out = tmp_path / "out"
        execute(config, out)
        audits_of = {**config.audits, "accuracy": config.audits["accuracy"].model_copy(update={"k": 3})}
        changed = config.model_copy(update={"audits": audits_of})
        assert changed.hash != config.hash
        run, _, calls = self.again(changed, out)
        assert calls == ["Accuracy", "Accuracy"]
        assert run.steps("Random")["accuracy"]["k"] == 3

    def test_defaults_that_have_changed_count(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        out, text = tmp_path / "out", CONFIG.replace('k = 5\nby = ["region"]', "")
        execute(parsed(text), out)
        monkeypatch.setattr(Accuracy.model_fields["k"], "default", 7)
        Accuracy.model_rebuild(force=True)
        try:
            run, _, calls = self.again(parsed(text), out)
        finally:
            monkeypatch.undo()
            Accuracy.model_rebuild(force=True)
        assert calls == ["Accuracy", "Accuracy"]
        assert run.steps("Random")["accuracy"]["k"] == 7

    def test_an_interrupted_correction_keeps_what_was_kept(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out, changed = tmp_path / "out", parsed(CONFIG.replace("beta = 2.0", "beta = 3.0"))
        execute(parsed(CONFIG), out)
        with monkeypatch.context() as patch:
            break_audits(patch, at=1)
            with pytest.raises(KeyboardInterrupt):
                execute(changed, out)
        halted = Run.open(out).manifest
        assert [(step.model, step.audit) for step in halted.steps] == [STEPS[0], STEPS[1], STEPS[2]]
        _, _, calls = self.again(changed, out)
        assert calls == ["Exposure"]
        execute(changed, tmp_path / "reference")
        assert_same_tables(tables(out), tables(tmp_path / "reference"))

    def test_a_folder_without_step_records_is_refused_with_its_reason(self, tmp_path: Path) -> None:
        out = tmp_path / "out"
        run = execute(parsed(CONFIG), out)
        old = tuple(step.model_copy(update={"inputs": None}) for step in run.manifest.steps)
        run.folder.note(record=run.manifest.model_copy(update={"steps": old}).kept().record)
        before = tables(out)
        with pytest.raises(InputError, match="records of an earlier version"):
            execute(parsed(CONFIG), out)
        assert_same_tables(tables(out), before)

    def test_a_run_that_kept_everything_is_left_as_it_is_for_another_engine_only(self, tmp_path: Path) -> None:
        out = tmp_path / "out"
        execute(parsed(CONFIG), out, report=told)
        _, decided, calls = self.again(parsed(CONFIG + '[engine]\nkind = "threads"\nworkers = 2\n'), out)
        assert calls == []
        assert decided.kept == tuple(STEPS)


class TestOtherFolders:
    def test_another_configuration_is_refused_and_fresh_starts_over(
        self, config: Configuration, tmp_path: Path
    ) -> None:
        out = tmp_path / "out"
        execute(config, out, report=told)
        before = tables(out)
        other = parsed(CONFIG.replace("seed = 3", "seed = 4"))
        with pytest.raises(InputError, match=r"an audit with another seed.*--fresh"):
            execute(other, out)
        assert_same_tables(tables(out), before)
        assert execute(other, out, fresh=True).manifest.seed == 4

    def test_other_data_is_refused(
        self, config: Configuration, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        execute(config, tmp_path / "out")
        fewer = world.data.subset(np.arange(len(world.data)) > 0)
        monkeypatch.setattr(datasets, "load", lambda name, path=None: fewer)
        with pytest.raises(InputError, match="an audit with other data"):
            execute(config, tmp_path / "out")

    def test_another_version_is_refused(
        self, config: Configuration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        execute(config, tmp_path / "out")
        monkeypatch.setattr(folder, "__version__", "99.0")
        with pytest.raises(InputError, match=r"made by recaudit .* \(this is 99.0\)"):
            execute(config, tmp_path / "out")

    def test_fresh_removes_the_former_runs_tables_and_report_only(self, config: Configuration, tmp_path: Path) -> None:
        out = tmp_path / "out"
        execute(config, out, report=told)
        (out / "notes.txt").write_text("mine")
        execute(parsed(CONFIG.replace("Most rated", "Hits")), out, fresh=True)
        assert sorted(path.name for path in (out / "results").iterdir()) == ["Hits", "Random"]
        assert (out / "notes.txt").read_text() == "mine"
        assert not (out / "report.html").exists()

    @pytest.mark.parametrize("fresh", [True, False])
    @pytest.mark.parametrize("name", ["thesis.tex", "manifest.json"])
    def test_a_folder_with_other_files_is_never_touched(
        self, config: Configuration, tmp_path: Path, fresh: bool, name: str
    ) -> None:
        out = tmp_path / "out"
        out.mkdir()
        (out / name).write_text('{"name": "web app"}')
        with pytest.raises(InputError, match="recaudit leaves this one as it is"):
            execute(config, out, fresh=fresh)
        assert [path.name for path in out.iterdir()] == [name]

    def test_a_file_is_no_folder(self, config: Configuration, tmp_path: Path) -> None:
        (tmp_path / "out").write_text("")
        with pytest.raises(InputError, match="expected a folder"):
            execute(config, tmp_path / "out")

    def test_only_one_process_writes_at_a_time(self, config: Configuration, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        with lock.alone(tmp_path / "out"), pytest.raises(InputError, match="is at work"):
            execute(config, tmp_path / "out")


class Killed(BaseException):
    """As sudden as SIGKILL: nothing is cleaned up after it."""


def die_at_flush(patch: pytest.MonkeyPatch, count: int) -> None:
    """End the process, as it were, at its n-th flush to the disk."""
    flushes = itertools.count()

    def flush(handle: int) -> None:
        if next(flushes) == count:
            # A dead process removes nothing.
            patch.setattr(shutil, "rmtree", lambda *args, **kwargs: None)
            patch.setattr(Path, "unlink", lambda *args, **kwargs: None)
            raise Killed

    patch.setattr(os, "fsync", flush)


def break_audits(patch: pytest.MonkeyPatch, at: int | None) -> list[str]:
    """Interrupt the audit with this number; the list that is returned names those that were begun."""
    calls: list[str] = []
    for audit in (Accuracy, Exposure):
        name, real = audit.__name__, audit.measure

        def counted_audit(
            *args: object, _name: str = name, _real: Callable[..., object] = real, **kwargs: object
        ) -> object:
            if len(calls) == at:
                raise KeyboardInterrupt
            calls.append(_name)
            return _real(*args, **kwargs)

        patch.setattr(audit, "measure", counted_audit)
    return calls


def counted(real: Callable[..., object], calls: list[str], name: str) -> Callable[..., object]:
    def call(*args: object, **kwargs: object) -> object:
        calls.append(name)
        return real(*args, **kwargs)

    return call


class TestFloors:
    """A random and a most-popular recommender stand beside every model, asked for or not."""

    ONE = """
[data]
name = "demo"
[[model]]
kind = "biased-mf"
factors = 2
epochs = 1
label = "Random"
[audits.accuracy]
[audits.reachability]
users = 2
refits = 0
"""

    @pytest.fixture(autouse=True)
    def _small(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(datasets, "load", lambda name, path=None: world.data)

    def test_they_are_measured_where_nobody_asked(self, tmp_path: Path, world: World) -> None:
        run = execute(parsed(self.ONE), tmp_path / "run")
        assert run.models == ("Random",)
        assert run.floors == ("Random (floor)", "Most popular")
        assert run.missing == ()
        for floor, recommender in zip(run.floors, (Random(), TopPop()), strict=True):
            assert run.audits(floor) == ("accuracy",)  # they take no ratings in: nothing can be reached
            train, test = splits.RandomSplit().split(world.data, 0)
            own = audits.accuracy(recommender.fit(train), test)
            assert_frame_equal(run.table(floor, "accuracy", "summary"), own.frame)

    def test_a_model_that_is_one_stands_for_it(self, tmp_path: Path) -> None:
        text = self.ONE + "[[model]]\nkind = 'top-pop'\n[[model]]\nkind = 'top-pop'\nby = 'mean'\n"
        assert [model.label for model in parsed(text).measured if model.floor] == ["Random (floor)"]

    def test_they_can_be_left_out(self) -> None:
        config = parsed("floors = false\n" + self.ONE)
        assert [model.label for model in config.measured] == ["Random"]
        assert config.hash != parsed(self.ONE).hash
