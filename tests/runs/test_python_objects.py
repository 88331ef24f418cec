"""Models that a function of one's own makes, named in a configuration."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from recaudit.data import Interactions, splits
from recaudit.errors import ConfigError, InputError
from recaudit.models import ALS
from recaudit.models.base import FittedModel
from recaudit.models.given import python
from recaudit.models.given.python import PythonObject
from recaudit.runs import execute, parse

SOURCE = """
from recaudit.models import ALS, TopPop

settings = {"factors": 2}

def recommender(data, factors=3):
    return ALS(factors=factors, iterations=2)

def fitted(data):
    return TopPop().fit(data)

def broken(data):
    raise RuntimeError("no licence")

def other(data):
    return {"user_factors": 3}

def memory(data):
    raise MemoryError

def disk(data):
    raise OSError(28, "No space left on device")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """With a module of its own; what was imported from it is forgotten afterwards."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(python, "_LOADED", {})
    (tmp_path / "own_parts").mkdir()
    (tmp_path / "own_parts" / "__init__.py").write_text("", encoding="utf-8")
    for name in ("own_models.py", "own_parts/deep.py"):
        (tmp_path / name).write_text(SOURCE, encoding="utf-8")
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("own_"):
            del sys.modules[name]


def named(folder: Path, name: str, more: str = "") -> PythonObject:
    text = f'[data]\nname = "demo"\n[[model]]\nkind = "python"\nobject = "{name}"\n{more}'
    made = parse(text, source="run.toml", folder=folder).models[0].recommender
    assert isinstance(made, PythonObject)
    return made


class TestWhatItReturns:
    def test_a_recommender_is_fitted_with_the_seed(self, folder: Path, world_log: Interactions) -> None:
        found = named(folder, "own_models:recommender", "arguments = {factors = 2}").fit(world_log, rng=5)
        expected = ALS(factors=2, iterations=2).fit(world_log, rng=5)
        assert type(found) is type(expected)
        assert (found.user_factors == expected.user_factors).all()

    def test_a_fitted_model_is_taken_as_it_is(self, folder: Path, tiny: Interactions) -> None:
        found = named(folder, "own_parts.deep:fitted").fit(tiny)
        assert isinstance(found, FittedModel)
        assert found.data is tiny

    def test_another_librarys_model_is_adapted(
        self, folder: Path, tiny: Interactions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        adapted = ModuleType("recaudit.models.adapt")
        model = ALS(factors=2, iterations=1).fit(tiny)
        adapted.adapt = lambda made, data: {3: model}[made["user_factors"]]  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "recaudit.models.adapt", adapted)
        assert named(folder, "own_models:other").fit(tiny) is model

        def refuse(made: object, data: Interactions) -> FittedModel:
            raise InputError("model", received="a dict", expected="a model of a known library")

        adapted.adapt = refuse  # type: ignore[attr-defined]
        with pytest.raises(InputError, match=r"own_models:other, which returned dict: .*expected a fitted model"):
            named(folder, "own_models:other").fit(tiny)

    def test_a_model_of_another_log_is_refused(self, folder: Path, tiny: Interactions, split: splits.Split) -> None:
        other = ALS(factors=2, iterations=1).fit(split.train)
        source = folder / "own_models.py"
        source.write_text("model = None\ndef given(data):\n    return model\n", encoding="utf-8")
        asked = named(folder, "own_models:given")
        asked._module().model = other  # type: ignore[attr-defined]
        with pytest.raises(InputError, match="a model of the log that it was called with"):
            asked.fit(tiny)


class TestMistakes:
    @pytest.mark.parametrize(
        ("name", "told"),
        [
            ("no_such_module:f", "a module 'no_such_module' that can be imported"),
            ("own_parts.nothing:f", r"a module 'own_parts\.nothing' that can be imported"),
            ("own_models", "object"),
            ("own_models:a.b", "object"),
            ("sys:exit", "a module 'sys'"),
        ],
    )
    def test_told_before_anything_runs(self, folder: Path, name: str, told: str) -> None:
        with pytest.raises(ConfigError, match=told):
            named(folder, name)
        assert "own_models" not in sys.modules

    @pytest.mark.parametrize(
        ("name", "told"),
        [
            ("own_models:recomender", "own_models:recomender, which own_models.py does not have.*'recommender'"),
            ("own_models:settings", "own_models:settings, dict"),
            ("own_models:broken", "own_models:broken, which raised RuntimeError: no licence"),
        ],
    )
    def test_told_when_it_is_fitted(self, folder: Path, tiny: Interactions, name: str, told: str) -> None:
        with pytest.raises(InputError, match=told):
            named(folder, name).fit(tiny)

    def test_what_it_raised_is_the_cause(self, folder: Path, tiny: Interactions) -> None:
        with pytest.raises(InputError) as error:
            named(folder, "own_models:broken").fit(tiny)
        assert isinstance(error.value.__cause__, RuntimeError)

    @pytest.mark.parametrize(("name", "kind"), [("own_models:memory", MemoryError), ("own_models:disk", OSError)])
    def test_errors_of_the_machine_are_not_those_of_the_function(
        self, folder: Path, tiny: Interactions, name: str, kind: type[Exception]
    ) -> None:
        with pytest.raises(kind):
            named(folder, name).fit(tiny)

    def test_a_module_that_cannot_be_imported(self, folder: Path, tiny: Interactions) -> None:
        (folder / "own_bad.py").write_text("import nothing_like_this", encoding="utf-8")
        with pytest.raises(InputError, match=r"own_bad:f, whose import raised ModuleNotFoundError.*nothing_like_this"):
            named(folder, "own_bad:f").fit(tiny)

    def test_a_name_that_another_module_has(self, folder: Path, tiny: Interactions) -> None:
        (folder / "pickle.py").write_text("def f(data): ...", encoding="utf-8")
        with pytest.raises(InputError, match=r"beside a module 'pickle'.*Rename"):
            named(folder, "pickle:f").fit(tiny)


class TestIdentity:
    def test_settings_are_the_name_the_arguments_and_the_contents(self, folder: Path) -> None:
        asked = named(folder, "own_models:recommender", "arguments = {factors = 2}")
        settings = asked.model_dump(mode="json")
        assert settings.pop("sha256") == asked.sha256
        assert settings == {"object": "own_models:recommender", "arguments": {"factors": 2}}
        (folder / "own_models.py").write_text(SOURCE + "\n# another", encoding="utf-8")
        assert named(folder, "own_models:recommender").sha256 != asked.sha256

    def test_what_is_recorded_is_what_is_run(self, folder: Path, tiny: Interactions) -> None:
        first = named(folder, "own_models:recommender").fit(tiny)
        (folder / "own_models.py").write_text(SOURCE.replace("factors=3", "factors=1"), encoding="utf-8")
        second = named(folder, "own_models:recommender").fit(tiny)
        shapes = [model.user_factors.shape[1] for model in (first, second)]  # type: ignore[attr-defined]
        assert shapes == [3, 1]

    def test_a_run_is_recorded(self, folder: Path, tmp_path: Path) -> None:
        text = '[data]\nname = "demo"\n[[model]]\nkind = "python"\nobject = "own_models:fitted"\n'
        config = parse(f"{text}[audits.exposure]\n", source="run.toml", folder=folder)
        run = execute(config, tmp_path / "run")
        model, *_floors = run.manifest.models
        assert (model.kind, model.label) == ("python", "PythonObject")
        assert model.settings["object"] == "own_models:fitted"
        assert len(model.settings["sha256"]) == 64


@pytest.fixture
def world_log(split: splits.Split) -> Interactions:
    return split.train
