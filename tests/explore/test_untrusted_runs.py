"""A run folder of a stranger: nothing that it names is imported, called, contacted, downloaded or read."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
from typer.testing import CliRunner

from explore.explored import ALS, explored
from folders.forged import forge
from recaudit.cli import app
from recaudit.data.datasets import dataset
from recaudit.errors import ConfigError, DamagedError, InputError, NotSupportedError
from recaudit.explore import explore
from recaudit.folders import FileRecord, open_input
from recaudit.runs import Run

EVIL = "strangers_module"
CODE = """
from os import system
from pathlib import Path
import recaudit as ra
Path("imported").touch()
def model(data, factors=6):
    Path("called").touch()
    return ra.models.ALS(factors=factors)
"""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original")
    explored(folder, models=ALS, more="[audits.exposure]\n")
    return folder


@pytest.fixture
def run(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run in the folder `run` of the working directory, with its data and a module of a stranger."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(original, tmp_path, dirs_exist_ok=True)
    monkeypatch.delitem(sys.modules, EVIL, raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path(f"{EVIL}.py").write_text(CODE)
    return Run.open("run")


def with_model(run: Run, table: dict[str, Any], **settings: Any) -> Run:
    """The run, with its only model replaced by another table."""

    def change(content: dict[str, Any]) -> None:
        content["record"]["config"]["model"] = [table]
        [model] = [one for one in content["record"]["models"] if not one["floor"]]
        model.update(kind=table["kind"], settings=settings)

    forge(run.path, change)
    return Run.open(run.path)


def with_data(run: Run, **settings: Any) -> Run:
    forge(run.path, lambda content: content["record"]["config"]["data"].update(settings))
    return Run.open(run.path)


def python(name: str, **arguments: object) -> dict[str, Any]:
    return {"kind": "python", "object": name, "arguments": arguments}


def untouched() -> bool:
    return EVIL not in sys.modules and not any(Path(name).exists() for name in ("imported", "called", "victim"))


COMMANDS = [
    ["verify", "run"],
    ["verify", "run", "--json"],
    ["report", "run"],
    ["report", "run", "--format", "md"],
    ["compare", "run", "other"],
    ["history", "run", "other"],
    ["check", "run", "--suggest"],
    ["check", "run", "--rules", "gate.toml", "--baseline", "other"],
    ["explore", "run"],
    ["explore", "run", "--model", "ALS"],
]


def test_no_command_imports_or_calls_what_a_folder_names(run: Run, tmp_path: Path) -> None:
    explored(tmp_path / "second", models=ALS).path.rename("other")
    Path("gate.toml").write_text('[[rule]]\nmetric = "ndcg"\nat_least = 0.0\n')
    with_model(run, python("pydoc:pipepager", cmd="touch victim"))
    for name in ("pydoc:pipepager", f"{EVIL}:model"):
        with_model(run, python(name, cmd="touch victim"))
        for command in COMMANDS:
            Path("run/statement.md").unlink(missing_ok=True)
            result = CliRunner().invoke(app, command)
            refuses = command[0] == "explore"
            assert result.exit_code == 2 * refuses, result.output
            assert not refuses or f"--allow-code {name.partition(':')[0]}" in result.output
            assert untouched()


def test_a_module_that_the_user_allows_is_used(run: Run) -> None:
    settings = run.manifest.models[0].settings
    with_model(run, python(f"{EVIL}:model"))
    for allowed in ((), (EVIL[:-1],), (f"{EVIL}.model",), ("os",), ("recaudit",)):
        with pytest.raises(NotSupportedError, match=f"--allow-code {EVIL}"):
            explore(Run.open(run.path), users=1, allow_code=allowed)
        assert untouched()
    record = {"object": f"{EVIL}:model", "arguments": {}, "sha256": FileRecord.of(Path(f"{EVIL}.py")).sha256}
    again = with_model(run, python(f"{EVIL}:model"), **record)
    found = explore(again, users=1, allow_code=[EVIL])
    assert [model["label"] for model in found.payload["models"]] == ["ALS"]
    assert Path("called").exists()
    assert settings["factors"] == 6


def test_a_module_that_is_allowed_does_not_lend_the_functions_of_others(run: Run) -> None:
    digest = FileRecord.of(Path(f"{EVIL}.py")).sha256
    again = with_model(run, python(f"{EVIL}:system"), object=f"{EVIL}:system", arguments={}, sha256=digest)
    with pytest.raises(InputError, match="code of the module posix"):
        explore(again, users=1, allow_code=[EVIL])


@pytest.mark.parametrize("name", ["", "a b", "a.", "../x", "a:b", "-c"])
def test_only_a_module_can_be_allowed(run: Run, name: str) -> None:
    with pytest.raises(InputError) as refused:
        explore(run, allow_code=[name])
    assert refused.value.argument == "allow_code"


def test_the_code_of_recaudit_is_no_function_for_strangers(run: Run) -> None:
    """Only its kinds of models are: an object of recaudit is as foreign as any other."""
    again = with_model(run, python("recaudit.cli.messages:print_json"))
    with pytest.raises(NotSupportedError, match=r"--allow-code recaudit\.cli\.messages"):
        explore(again, users=1)


def test_the_models_that_may_be_fitted_are_shown_beside_those_that_may_not(run: Run) -> None:
    def change(content: dict[str, Any]) -> None:
        content["record"]["config"]["model"].append(python(f"{EVIL}:model"))
        content["record"]["models"].insert(1, {"label": "Theirs", "kind": "python", "settings": {}})

    forge(run.path, change)
    found = explore(Run.open(run.path), users=1)
    assert [model["label"] for model in found.payload["models"]] == ["ALS"]
    assert f"Theirs is not: It is made by code of the module {EVIL}" in found.told
    assert untouched()


def test_a_service_is_not_queried(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def connected(*_: object) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", connected)
    monkeypatch.setattr(socket, "getaddrinfo", connected)
    again = with_model(run, {"kind": "http", "url": "http://127.0.0.1:9/{user}", "headers": {"X": "${HOME}"}})
    with pytest.raises(NotSupportedError, match="It is a service"):
        explore(again, users=1)


def test_nothing_is_downloaded(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def downloaded(*_: object, **__: object) -> None:
        raise AssertionError("a download")

    monkeypatch.setattr(dataset, "download", downloaded)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("RECAUDIT_DATA", raising=False)
    for path in ({}, {"path": str(tmp_path)}, {"path": "/etc"}):

        def change(content: dict[str, Any], path: dict[str, str] = path) -> None:
            content["record"]["config"]["data"] = {"name": "ml-100k", **path}

        forge(run.path, change)
        with pytest.raises(InputError, match="recaudit data fetch ml-100k"):
            explore(Run.open(run.path), users=1)
    assert not (tmp_path / "cache").exists()


def test_a_data_set_is_read_from_the_folder_of_the_user_alone(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "theirs" / "ml-100k"
    theirs.mkdir(parents=True)
    for name in dataset.info("ml-100k").files:
        (theirs / name).write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("RECAUDIT_DATA", raising=False)
    forge(
        run.path,
        lambda content: content["record"]["config"].update(data={"name": "ml-100k", "path": str(theirs.parent)}),
    )
    with pytest.raises(InputError, match="on this machine"):
        explore(Run.open(run.path), users=1)


class TestFilesOutside:
    def test_the_files_of_the_run_are_read(self, run: Run) -> None:
        assert explore(run, users=1).kept

    def test_a_link_of_the_users_own_to_the_file_is_followed(self, run: Run) -> None:
        Path("ratings.parquet").rename("moved.parquet")
        Path("ratings.parquet").symlink_to("moved.parquet")
        assert explore(run, users=1).kept

    @pytest.mark.parametrize("key", ["file", "items"])
    def test_another_file_is_refused_and_not_even_opened(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, key: str
    ) -> None:
        Path("secret").write_text("secret")
        again = with_data(run, **{key: "secret"})
        opened = list[int]()

        def noted(path: Path) -> BinaryIO:
            opened.append(path.stat().st_ino)
            return open_input(path)

        monkeypatch.setattr("recaudit.explore.refit.open_input", noted)
        monkeypatch.setattr("recaudit.data.loading.load", lambda *_: pytest.fail("read"))
        with pytest.raises(ConfigError, match="size and content that the run has noted"):
            explore(again, users=1)
        assert opened
        assert Path("secret").stat().st_ino not in opened

    def test_a_file_of_the_same_size_is_refused(self, run: Run) -> None:
        content = bytearray(Path("ratings.parquet").read_bytes())
        content[100] ^= 1
        Path("ratings.parquet").write_bytes(content)
        with pytest.raises(ConfigError, match="it has changed since"):
            explore(run, users=1)

    @pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
    def test_a_pipe_does_not_block(self, run: Run, make: Callable[[str], None]) -> None:
        make("special")
        with pytest.raises(ConfigError, match=r"data\.file"):
            explore(with_data(run, file="special"), users=1)

    @pytest.mark.parametrize("file", ["/dev/zero", "/proc/kmsg", "~nobody_here/x", "\0", "x" * 5000, "\ud800"])
    def test_no_path_is_a_fault(self, run: Run, file: str) -> None:
        with pytest.raises((ConfigError, DamagedError)):
            explore(with_data(run, file=file), users=1)

    def test_vectors(self, run: Run, tmp_path: Path) -> None:
        log = explored(tmp_path / "first", models=ALS)
        users, items = log.manifest.data.users, log.manifest.data.items
        draw = np.random.default_rng(0)
        P, Q = draw.normal(size=(users, 3)), draw.normal(size=(items, 3))
        np.savez(tmp_path / "model.npz", user_factors=P, item_factors=Q)
        table = '[[model]]\nkind = "factors"\nlabel = "Vectors"\npredicts_ratings = true\npath = "model.npz"\n'
        own = explored(tmp_path / "own", models=table.replace("model.npz", f"{tmp_path}/model.npz"))
        assert explore(own, users=1, folder=tmp_path / "own").kept
        np.savez(tmp_path / "model.npz", user_factors=2 * P, item_factors=2 * Q)
        with pytest.raises(ConfigError, match=r"model\[0\]\.path.* it has changed since"):
            explore(own, users=1, folder=tmp_path / "own")


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record["config"].update(seed=5),
        lambda record: record["config"].update(split={"kind": "random", "fraction": 0.5}),
        lambda record: record["config"]["model"][0].update(factors=7),
        lambda record: record["config"]["model"][0].update(kind="ease"),
        lambda record: record["config"].update(model=[]),
        lambda record: record["config"].update(model="x"),
        lambda record: record["config"]["model"].append(3),
        lambda record: record["config"].update(data="x"),
        lambda record: record["config"].pop("data"),
        lambda record: record["config"]["model"][0].update(kind=["x"]),
        lambda record: record["config"]["model"][0].update(kind="nobody"),
    ],
)
def test_a_configuration_that_does_not_belong_to_the_run(run: Run, change: Callable[[dict[str, Any]], object]) -> None:
    forge(run.path, lambda content: change(content["record"]))
    with pytest.raises((InputError, NotSupportedError)):
        explore(Run.open(run.path), users=1)
