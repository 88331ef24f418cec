"""What a run will take is said before it starts: times from slices, by the code that will do the work."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from recaudit import machine, runs
from recaudit.audits import samples
from recaudit.audits.audit import Audit, Context, Subject
from recaudit.audits.reachability import audit as reachability
from recaudit.audits.result import Result
from recaudit.cli import app
from recaudit.cli.estimates import estimate_lines, estimate_table
from recaudit.data import Interactions, datasets
from recaudit.data.splits import Split
from recaudit.data.synthetic import World, demo_world
from recaudit.errors import MachineError
from recaudit.models import EASE, FittedModel, Random, Recommender
from recaudit.registry import AUDITS, MODELS
from recaudit.runs import Configuration, RunEstimate, estimate, execute, execution
from recaudit.runs.estimate import FIT, StepEstimate
from recaudit.runs.slices import Slice, catalogue, people
from recaudit.runs.timing import Sampled

CONFIG = """
floors = false
[data]
name = "demo"
[[model]]
kind = "slow"
[audits.slow]
"""


class Clock:
    """A clock that work moves on."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


CLOCK = Clock()


class SlowFit(Recommender):
    """Takes a moment a rating."""

    def fit(self, data: Interactions, rng: int = 0) -> FittedModel:
        """See `Recommender`."""
        CLOCK.now += 1 + 0.001 * len(data)
        return Random().fit(data, rng)


class SlowAudit(Audit):
    """Takes a moment a user, and one for all."""

    drawn = ("users",)
    users: int | None = None
    """How many."""
    outside: float = 0.25
    """Seconds beside the users'."""
    refits: int = 0
    """How often the recommender is fitted again."""

    def measure(self, subject: Subject, context: Context) -> Result:
        """See `Audit`."""
        assert subject.model is not None
        n = subject.model.data.n_users
        asked = list(range(n if self.users is None else min(n, self.users)))
        CLOCK.now += self.outside
        answers = list(context.engine.map(slow_piece, asked, "slow"))
        assert len(answers) == len(asked)
        if self.refits:
            assert subject.recommender is not None
            subject.recommender.fit(subject.model.data)
            for _ in context.engine.map(subject.recommender.fit, [subject.model.data] * self.refits, "refits"):
                pass
        return Result(self, {}, rng=context.rng)


def slow_piece(piece: int) -> int:
    CLOCK.now += 0.5
    return piece


@pytest.fixture(scope="module")
def many() -> World:
    return demo_world(rng=1, users=2000, items=60)


@pytest.fixture(autouse=True)
def slow(monkeypatch: pytest.MonkeyPatch, many: World) -> None:
    """A recommender and an audit that take known times, as if a package had brought them."""
    monkeypatch.setattr(time, "perf_counter", CLOCK)
    monkeypatch.setattr(datasets, "load", lambda name, path=None: many.data)
    for registry, part in ((AUDITS, "SlowAudit"), (MODELS, "SlowFit")):
        point = EntryPoint("slow", f"{__name__}:{part}", registry.groups[0])
        monkeypatch.setitem(registry.__dict__, "_points", {**registry._points, "slow": point})


def parsed(text: str = CONFIG) -> Configuration:
    return runs.parse(text, source="run.toml", folder=Path())


def seconds(told: RunEstimate) -> dict[str, float | None]:
    return {step.step: step.seconds for step in told.steps}


class TestTimes:
    def test_what_grows_is_told_from_what_does_not(self, many: World, tmp_path: Path) -> None:
        told = seconds(estimate(parsed()))
        manifest = execute(parsed(), tmp_path / "out").manifest
        assert manifest.models[0].fit_seconds == pytest.approx(1 + 0.001 * manifest.data.train, rel=1e-9)
        assert told[FIT] == pytest.approx(manifest.models[0].fit_seconds, rel=0.2)  # users differ in their ratings
        assert told["slow"] == pytest.approx(0.25 + 0.5 * many.data.n_users, rel=1e-6)
        assert told["slow"] == pytest.approx(manifest.steps[0].seconds, rel=1e-6)

    def test_a_sample_takes_no_longer_among_more_people(self) -> None:
        told = seconds(estimate(parsed(CONFIG + "users = 20\n")))["slow"]
        assert told is not None
        assert 0.25 + 0.5 * 20 <= told <= 0.5 * 20 + 0.25 * 2000 / 128

    def test_what_the_large_slice_settles_is_not_timed_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[int] = []
        real = SlowAudit.measure

        def measure(self: SlowAudit, subject: Subject, context: Context) -> Result:
            assert subject.model is not None
            seen.append(subject.model.data.n_users)
            return real(self, subject, context)

        monkeypatch.setattr(SlowAudit, "measure", measure)
        told = seconds(estimate(parsed(CONFIG + "users = 20\noutside = 0.01\n")))
        assert told["slow"] == pytest.approx(0.5 * 20, rel=0.05)
        assert set(seen) == {128}

    def test_what_an_audit_fits_itself_grows_as_the_fit_does(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        real, seen = SlowAudit.measure, set[int]()

        def measure(self: SlowAudit, subject: Subject, context: Context) -> Result:
            assert subject.recommender is not None
            assert subject.data is not None
            subject.recommender.fit(subject.data)
            seen.add(subject.data.n_users)
            return real(self, subject, context)

        monkeypatch.setattr(SlowAudit, "measure", measure)
        monkeypatch.setattr(SlowAudit, "needs", ("model", "recommender", "data"))
        asked = parsed(CONFIG + "users = 20\n")
        told = seconds(estimate(asked))["slow"]
        assert seen == {128}
        assert told == pytest.approx(execute(asked, tmp_path / "out").manifest.steps[0].seconds, rel=0.25)

    def test_everybody_who_is_measured_beside_a_sample_counts(
        self, many: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = SlowAudit.measure

        def measure(self: SlowAudit, subject: Subject, context: Context) -> Result:
            real(self.model_copy(update={"users": None}), subject, context)
            return real(self, subject, context)

        monkeypatch.setattr(SlowAudit, "measure", measure)
        monkeypatch.setattr(SlowAudit, "measures_all", True)
        told = estimate(parsed(CONFIG + "users = 20\n"))
        assert seconds(told)["slow"] == pytest.approx(0.5 * (many.data.n_users + 20) + 2 * 0.25, rel=1e-6)
        assert not told.advice  # fewer would hardly save anything

    def test_people_asked_about_by_name_are_in_every_slice(self, many: World, tmp_path: Path) -> None:
        ids = [str(many.data.user_ids[-1]), str(many.data.user_ids[0])]
        text = CONFIG.replace("[audits.slow]", f"[audits.reachability]\nusers = {ids}").replace('"slow"', '"als"')
        told = seconds(estimate(parsed(text)))
        assert told["reachability"] is not None

    def test_a_sample_larger_than_a_slice_is_counted_by_its_own_people(self) -> None:
        told = seconds(estimate(parsed(CONFIG + "users = 400\n")))
        assert told["slow"] == pytest.approx(0.25 + 0.5 * 400, rel=1e-6)

    @pytest.mark.parametrize("model", ["als", "ease"])
    def test_people_who_are_drawn_where_nothing_is_said_are_those_of_the_whole_log(
        self, monkeypatch: pytest.MonkeyPatch, model: str
    ) -> None:
        # 120 of 2,000 users are measured by default, for 50 of 60 items; of a slice all would be, for all items.
        for part in (reachability, samples):
            monkeypatch.setattr(part, "MOST_SCORES", 1_000_000)
            monkeypatch.setattr(part, "DRAWN_SCORES", 120 * 50 * 60)
            monkeypatch.setattr(part, "DRAWN_TARGETS", 50)
        asked = list[object]()
        real = reachability.Reachability.measure

        def measure(self: reachability.Reachability, subject: Subject, context: Context) -> Result:
            found = real(self, subject, context)
            asked.append((len(found.users), found.pairs["item"].n_unique()))
            return found

        monkeypatch.setattr(reachability.Reachability, "measure", measure)
        text = CONFIG.replace("[audits.slow]", "[audits.reachability]\nrefits = 0").replace('"slow"', f'"{model}"')
        told = estimate(parsed(text))
        assert set(asked) == {(120, 50)}
        assert all(step.seconds is not None for step in told.steps)

    def test_little_is_worked_out(self) -> None:
        begun = CLOCK.now
        told = estimate(parsed())
        assert CLOCK.now - begun < 0.05 * told.seconds
        assert told.spent == pytest.approx(CLOCK.now - begun)

    def test_it_says_what_half_of_the_people_would_save_and_lose(self) -> None:
        (line,) = estimate(parsed()).advice
        assert line.startswith("slow: users = 1000 instead of 2,000 saves up to half of its 1,000 s")
        assert "wider by a factor of 1.4" in line

    def test_what_was_made_elsewhere_is_not_asked(self, tmp_path: Path, many: World) -> None:
        users, items = np.ones((many.data.n_users, 2)), np.ones((many.data.n_items, 2))
        np.savez(tmp_path / "m.npz", user_factors=users, item_factors=items)
        text = f"[[model]]\nkind = 'factors'\npath = '{tmp_path / 'm.npz'}'\npredicts_ratings = false\n"
        told = estimate(parsed(CONFIG.replace('[[model]]\nkind = "slow"\n', text)))
        assert [step.seconds for step in told.steps] == [None, None]
        assert {step.why for step in told.unknown} == {"what was made elsewhere is not asked before the run"}

    def test_a_question_without_an_answer_takes_no_time(self) -> None:
        told = estimate(parsed(CONFIG.replace("[audits.slow]", "[audits.reachability]\nusers = 5\nbudget = 1")))
        (step,) = [step for step in told.steps if step.step == "reachability"]
        assert step.seconds == 0
        assert "no formula" in step.why


class TestSlicesThatFail:
    STEPS = ((SlowFit, "fit"), (SlowAudit, "measure"))

    def fail(self, patch: pytest.MonkeyPatch, part: type, name: str, below: int, error: Exception) -> None:
        """Let a step fail on logs of fewer users."""
        real = getattr(part, name)

        def step(self: object, given: Any, *rest: object, **more: object) -> object:
            log = given.model.data if part is SlowAudit else given
            if log.n_users < below:
                raise error
            return real(self, given, *rest, **more)

        patch.setattr(part, name, step)

    @pytest.mark.parametrize(("part", "name"), STEPS)
    def test_which_step_failed_and_that_the_run_may_work(
        self, toml: Path, monkeypatch: pytest.MonkeyPatch, part: type, name: str
    ) -> None:
        self.fail(monkeypatch, part, name, 2000, ValueError("the moon is full"))
        done = CliRunner().invoke(app, ["audit", str(toml), "--dry-run"])
        assert done.exit_code == 0, done.output
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("Not known: ")]
        steps = "fit of SlowFit, slow of SlowFit: the fit" if name == "fit" else "slow of SlowFit: the audit"
        assert line == (
            f"Not known: {steps} failed on a slice with 128 of the users; on the whole log it may work, or fail alike. "
            "It said: ValueError: the moon is full."
        )
        assert " without what is not known, within a factor of two" in done.stdout

    def test_a_large_run_goes_on_without_its_estimate(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(execution, "LARGE", 10)
        self.fail(monkeypatch, SlowFit, "fit", 2000, ValueError("the moon is full"))
        told = list[RunEstimate]()
        assert execute(parsed(), tmp_path / "out", before=told.append).manifest.status == "complete"
        assert {step.step for step in told[0].unknown} == {FIT, "slow"}

    @pytest.mark.parametrize(("part", "name"), STEPS)
    def test_the_large_slice_alone_is_enough(self, monkeypatch: pytest.MonkeyPatch, part: type, name: str) -> None:
        self.fail(monkeypatch, part, name, 128, ValueError("the moon is full"))
        assert seconds(estimate(parsed()))["slow"] == pytest.approx(0.5 * 2000, rel=0.1)

    def test_what_the_machine_lacks_is_lacking_in_the_run_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fail(monkeypatch, SlowFit, "fit", 2000, MemoryError())
        with pytest.raises(MemoryError):
            estimate(parsed())

    def test_an_audit_without_memory_is_not_tried_on_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """In part first; the whole needs no less memory than a part."""
        tried: list[bool] = []

        def measure(self: SlowAudit, subject: Subject, context: Context) -> Result:
            assert isinstance(context.engine, Sampled)
            tried.append(context.engine.whole)
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 19142390448 bytes")

        monkeypatch.setattr(SlowAudit, "measure", measure)
        with pytest.raises(RuntimeError, match="can't allocate"):
            estimate(parsed())
        assert tried == [False]


def test_a_fit_that_grows_with_the_catalogue_is_timed_on_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = EASE.fit

    def fit(self: EASE, data: Interactions, rng: int = 0) -> FittedModel:
        CLOCK.now += 1e-4 * data.n_items**3
        return real(self, data, rng)

    monkeypatch.setattr(EASE, "fit", fit)
    told = seconds(estimate(parsed(CONFIG.replace('"slow"', '"ease"', 1))))
    assert told[FIT] == pytest.approx(1e-4 * 60**3, rel=1e-6)


@pytest.mark.parametrize("outside", [0.25, 5.0], ids=["one slice is enough", "both are timed"])
def test_refits_take_as_long_as_the_fit(tmp_path: Path, outside: float) -> None:
    config = parsed(f"{CONFIG}users = 100\nrefits = 10\noutside = {outside}")
    told, truth = seconds(estimate(config))["slow"], execute(config, tmp_path / "out").manifest.steps[0].seconds
    assert truth > 0.5 * 100 + 11 * 20
    assert told == pytest.approx(truth, rel=0.2)  # users differ in their ratings


class TestSlices:
    def test_people_keep_their_ratings_and_what_is_known_about_them(self, world: World) -> None:
        users = np.array([3, 7, 50])
        part = people(world.data, users)
        assert part.user_ids.to_list() == world.data.user_ids.gather(users).to_list()
        assert part.attributes.equals(world.data.attributes[users])
        whole = world.data.frame().filter(pl.col("user").is_in(part.user_ids.implode()))
        assert part.frame().equals(whole)
        assert part.n_items == world.data.n_items

    def test_of_nobody_there_are_no_ratings(self, world: World) -> None:
        part = people(world.data, np.empty(0, dtype=np.int64))
        assert (part.n_users, len(part), part.n_items) == (0, 0, world.data.n_items)

    def test_a_catalogue_keeps_the_ratings_of_its_items(self, world: World) -> None:
        items = np.array([0, 5, 6, 40])
        part = catalogue(world.data, items)
        ids = world.data.item_ids.gather(items)
        assert part.item_ids.to_list() == ids.to_list()
        kept = world.data.frame().filter(pl.col("item").is_in(ids.implode())).select("user", "item", "rating")
        assert part.frame().select("user", "item", "rating").equals(kept)

    def test_of_some_items_everybody_is_asked_who_is_asked_of_all(self) -> None:
        """So that lists which an audit makes of everybody are of everybody there too."""
        data = demo_world(users=200, items=400).data
        data = data.subset(np.arange(len(data)) % 20 == 0)
        held = (np.arange(len(data)) == data.indptr[1:][data.users] - 1) & (data.users % 3 > 0)
        split = Split(data.subset(~held), data.subset(held))
        part = Slice.of_items(data, split, 0)
        asked = split.test.user_counts[data.users_at(part.data.user_ids)] > 0
        assert part.data.n_items < data.n_items
        assert 0 < asked.sum() < len(asked) < data.n_users
        assert (part.test.user_counts == asked).all()
        assert (part.train.user_counts[asked] > 0).all()
        assert len(part.train) + len(part.test) == len(part.data)


class TestMemory:
    def test_what_the_machine_lacks_is_refused_before_anything_is_fitted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(machine, "available_memory", lambda: 100_000)
        monkeypatch.setattr(EASE, "fit", lambda *_: pytest.fail("it was fitted"))
        with pytest.raises(MachineError, match=r"slow of EASE needs .* GiB are available"):
            estimate(parsed(CONFIG.replace('"slow"', '"ease"', 1)))

    def test_the_largest_step_counts_with_its_model(self) -> None:
        told = estimate(parsed(CONFIG.replace('"slow"', '"ease"', 1)))
        assert told.memory == 8 * 60**2 + 8 * 4 * 256 * 60

    def test_what_a_function_of_ones_own_takes_is_not_known(self, tmp_path: Path) -> None:
        (tmp_path / "own_function.py").write_text("import recaudit\ndef own(data): return recaudit.models.TopPop()\n")
        own = 'kind = "python"\nlabel = "Mine"\nobject = "own_function:own"'
        (tmp_path / "own.toml").write_text(CONFIG.replace('kind = "slow"', own))
        asked = ["audit", str(tmp_path / "own.toml"), "--dry-run"]
        said = " ".join(CliRunner().invoke(app, asked).stdout.split())
        assert "beside the log: what Mine needs is not known." in said
        assert "and at least " in said
        document = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
        assert {step["step"]: step["memory"] is None for step in document["steps"]} == {"fit": True, "slow": False}


class TestBeforeARun:
    @pytest.fixture
    def told(self) -> list[RunEstimate]:
        return []

    def test_a_large_log_is_estimated_and_only_what_is_left(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[RunEstimate]
    ) -> None:
        monkeypatch.setattr(execution, "LARGE", 10)
        text = CONFIG.replace('kind = "slow"\n', 'kind = "slow"\n[[model]]\nkind = "slow"\nlabel = "Second"\n')

        def stop(estimated: RunEstimate) -> None:
            told.append(estimated)

        fail = iter([False, True])
        real = SlowAudit.measure

        def measure(self: SlowAudit, subject: Subject, context: Context) -> Result:
            if not isinstance(context.engine, Sampled) and next(fail):
                raise KeyboardInterrupt
            return real(self, subject, context)

        with monkeypatch.context() as patch:
            patch.setattr(SlowAudit, "measure", measure)
            with pytest.raises(KeyboardInterrupt):
                execute(parsed(text), tmp_path / "out", before=stop)
        execute(parsed(text), tmp_path / "out", before=stop)
        execute(parsed(text), tmp_path / "out", before=stop)
        models = [{step.model for step in each.steps} for each in told]
        assert models == [{"SlowFit", "Second"}, {"Second"}]

    def test_a_small_one_is_not(self, tmp_path: Path, told: list[RunEstimate], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(execution, "LARGE", 10**9)
        execute(parsed(), tmp_path / "out", before=told.append)
        assert told == []


@pytest.fixture
def toml(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "run.toml"
    path.write_text(CONFIG, encoding="utf-8")
    yield path
    assert [file.name for file in tmp_path.iterdir()] == ["run.toml"], "a dry run has written something"


class TestDryRun:
    def test_it_says_what_the_run_will_take_and_does_nothing(self, toml: Path) -> None:
        done = CliRunner().invoke(app, ["audit", str(toml), "--out", str(toml.parent / "out"), "--dry-run"])
        assert done.exit_code == 0, done.output
        said = " ".join(done.stdout.split())
        assert "SlowFit slow 17 min" in said
        assert "within a factor of two" in said
        assert "slow: users = 1000 instead of 2,000" in said

    def test_it_says_what_will_have_no_result(self, toml: Path) -> None:
        toml.write_text(CONFIG.replace("floors = false", "") + "[audits.reachability]\nusers = 5\nbudget = 1\n")
        said = CliRunner().invoke(app, ["audit", str(toml), "--dry-run"]).stdout
        (line,) = [line for line in said.splitlines() if line.startswith("No result to expect: ")]
        assert "reachability of SlowFit: " in line
        assert "no formula" in line

    def test_for_programs(self, toml: Path) -> None:
        done = CliRunner().invoke(app, ["audit", str(toml), "--dry-run", "--json"])
        document = json.loads(done.stdout)
        assert [step["step"] for step in document["steps"]] == ["fit", "slow"]
        assert document["seconds"] == pytest.approx(sum(step["seconds"] for step in document["steps"]))


def test_steps_of_less_than_a_second_say_so() -> None:
    steps = tuple(StepEstimate("m", f"step {place}", 0.1, 0) for place in range(9))
    table = estimate_table(RunEstimate(steps, (), 0.0))
    assert set(table.columns[2].cells) == {"<1 s"}
    assert next(estimate_lines(RunEstimate(steps, (), 0.0))).startswith("In all less than a second,")
    assert next(estimate_lines(RunEstimate(steps * 2, (), 0.0))).startswith("In all about 2 s,")
