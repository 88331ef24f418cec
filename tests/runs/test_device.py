"""A run has one device: what can use it does, what cannot is computed on the CPU, and the run says which is which."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import recaudit as ra
from recaudit import runs
from recaudit.audits.audit import Audit, Context, Subject
from recaudit.audits.result import Result
from recaudit.cli import app
from recaudit.data import datasets
from recaudit.data.synthetic import World
from recaudit.errors import ConfigError, InputError, NotSupportedError
from recaudit.models import FittedModel, Recommender, TopPop
from recaudit.models.factor.model import FactorModel
from recaudit.registry import AUDITS, MODELS, SIMULATED_MODELS
from recaudit.report import render
from recaudit.runs import Configuration, execute, execute_simulation, parse_simulation
from recaudit.runs.resumption import Resumption

CONFIG = """
{top}
floors = false
[data]
name = "demo"
[[model]]
kind = "random"
[[model]]
kind = "als"
factors = 2
iterations = 2
[audits.exposure]
[audits.where]
"""
NEURAL = """
{top}
floors = false
[data]
name = "demo"
[[model]]
kind = "trained"
[[model]]
kind = "trained"
label = "At home"
device = "cpu"
[[model]]
kind = "als"
"""


class Trained(Recommender):
    """A recommender that trains somewhere."""

    device: str = "cpu"

    def fit(self, data: ra.Interactions, rng: int = 0) -> FittedModel:
        """Learn nothing."""
        return TopPop().fit(data)


class Where(Audit):
    """On which device was it computed?"""

    uses_device = True

    def idle(self, model: FittedModel | None) -> str:
        """See `Audit`."""
        return "" if isinstance(model, FactorModel) else "is of use for factors alone"

    def measure(self, subject: Subject, context: Context) -> Result:
        """Say it."""
        return Result(self, {}, rng=context.rng, facts={"seen": context.device})


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    """A small log, and the audit as if a package had brought it."""
    monkeypatch.setattr(datasets, "load", lambda name, path=None: world.data)
    point = EntryPoint("where", f"{__name__}:Where", "recaudit.audits")
    monkeypatch.setitem(AUDITS.__dict__, "_points", {**AUDITS._points, "where": point})
    for models in (MODELS, SIMULATED_MODELS):
        trained = EntryPoint("trained", f"{__name__}:Trained", "recaudit.models")
        monkeypatch.setitem(models.__dict__, "_points", {**models._points, "trained": trained})


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the machine had one; nothing here computes on it."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)


def parsed(text: str, top: str = "") -> Configuration:
    return runs.parse(text.format(top=top), source="run.toml", folder=Path())


CUDA = "device = 'cuda'"


class TestARun:
    @pytest.mark.usefixtures("gpu")
    def test_what_can_use_the_device_does_and_the_run_says_what_does_not(self, tmp_path: Path) -> None:
        run = execute(parsed(CONFIG, CUDA), tmp_path / "out")
        assert run.result("ALS", "where").facts["seen"] == "cuda"
        assert run.result("Random", "where").facts["seen"] == "cpu"
        assert run.manifest.device == "cuda"
        told = "Computed on cuda: where of ALS. Computed on the CPU: exposure, where of Random."
        assert run.manifest.computed == told
        assert told in render(run)

    def test_on_the_cpu_nothing_is_said(self, tmp_path: Path) -> None:
        run = execute(parsed(CONFIG), tmp_path / "out")
        assert {step.device for step in run.manifest.steps} == {"cpu"}
        assert run.manifest.computed == ""
        assert "<dt>Device</dt>" not in render(run)

    @pytest.mark.usefixtures("gpu")
    def test_a_device_that_nothing_uses_is_named(self, tmp_path: Path) -> None:
        text = CONFIG.replace("[audits.where]", "")
        run = execute(parsed(text, CUDA), tmp_path / "out")
        assert run.manifest.computed == "Nothing in this run uses cuda. Computed on the CPU: exposure."

    def test_a_device_that_is_not_there_is_refused_before_anything_is_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
        with pytest.raises(InputError, match=r"device: received cuda; expected .*: cpu.*recaudit doctor"):
            execute(parsed(CONFIG, CUDA), tmp_path / "out")
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("name", ["auto", "gpu", "CUDA", "cuda:", ""])
    def test_no_device_is_chosen_for_anybody(self, name: str) -> None:
        with pytest.raises(ConfigError, match=r"device: received .*expected 'cpu', 'cuda' or 'cuda:1'.*none is chosen"):
            parsed(CONFIG, f"device = '{name}'")

    @pytest.mark.usefixtures("gpu")
    def test_what_another_device_computes_is_computed_again(self, tmp_path: Path) -> None:
        execute(parsed(CONFIG), tmp_path / "out")
        on_gpu = parsed(CONFIG).with_settings(device="cuda")
        decided: list[Resumption] = []
        run = execute(on_gpu, tmp_path / "out", resumed=decided.append)
        assert run.manifest.device == "cuda"
        assert {audit for _, audit, _ in decided[0].repeated} == {"where"}
        assert {audit for _, audit in decided[0].kept} == {"exposure"}
        execute(parsed(CONFIG, CUDA), tmp_path / "out", resumed=decided.append)  # in the file or by --device: the same
        assert decided[1].repeated == ()

    def test_the_cpu_is_the_default_by_whatever_name(self) -> None:
        assert parsed(CONFIG, "device = 'cpu'").hash == parsed(CONFIG).hash


class TestTraining:
    def devices(self, config: Configuration) -> dict[str, object]:
        return {model.label: getattr(model.recommender, "device", None) for model in config.measured}

    def test_models_follow_the_run_unless_they_say_otherwise(self) -> None:
        assert self.devices(parsed(NEURAL, CUDA)) == {"Trained": "cuda", "At home": "cpu", "ALS": None}
        assert self.devices(parsed(NEURAL)) == {"Trained": "cpu", "At home": "cpu", "ALS": None}

    def test_the_command_line_overrides_the_file(self) -> None:
        config = parsed(NEURAL, CUDA).model_copy(update={"device": "cpu"})
        assert self.devices(config) == {"Trained": "cpu", "At home": "cpu", "ALS": None}
        assert config.hash == parsed(NEURAL).hash

    @pytest.mark.usefixtures("gpu")
    def test_those_of_a_simulation_too(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[object] = []

        def fit(self: Trained, data: object, rng: int = 0) -> FittedModel:
            asked.append(self.device)
            raise KeyboardInterrupt

        monkeypatch.setattr(Trained, "fit", fit)
        text = """
            device = "cuda"
            trials = 1
            [[environment]]
            name = "topics-static"
            users = 20
            items = 20
            users_per_step = 5
            ratings = 100
            steps = 1
            [[recommender]]
            kind = "trained"
        """
        with pytest.raises(KeyboardInterrupt):
            execute_simulation(parse_simulation(text, source="s.toml", folder=Path()), tmp_path / "out")
        assert asked == ["cuda"]


class TestVerbs:
    def test_a_verb_that_has_no_use_for_it_says_so(self, world: World) -> None:
        model = ra.models.Random().fit(world.data)
        with pytest.raises(NotSupportedError, match=r"device='cuda' is not used by exposure, which is computed on the"):
            ra.exposure(model, device="cuda")

    @pytest.mark.parametrize("name", [name for name in AUDITS if not AUDITS[name].uses_device])
    def test_every_audit_without_it_says_so_in_one_line(self, name: str) -> None:
        audit = AUDITS[name].model_construct()
        assert audit.idle(None) == f"is not used by {name}, which is computed on the CPU"


@pytest.mark.usefixtures("gpu")
def test_the_command_says_what_was_computed_where(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(CONFIG.format(top=""), encoding="utf-8")
    asked = ["audit", str(path), "--out", str(tmp_path / "out"), "--device"]
    done = CliRunner().invoke(app, [*asked, "cuda"])
    assert done.exit_code == 0, done.output
    assert "Computed on the CPU: exposure, where of Random." in " ".join(done.stderr.split())
    refused = CliRunner().invoke(app, [*asked, "auto"])
    assert refused.exit_code == 2
    assert "device: received 'auto'" in refused.stderr
