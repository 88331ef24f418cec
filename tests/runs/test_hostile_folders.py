"""A run folder may come from anybody: what is wrong in it is an error that names the file, whatever reads it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import recaudit as ra
from folders.forged import forge
from recaudit.audits.result import Result
from recaudit.cli import app
from recaudit.data import datasets
from recaudit.data.synthetic import World
from recaudit.errors import DamagedError, MachineError
from recaudit.folders import FileRecord
from recaudit.runs import Run, compare, execute, parse

CONFIG = """
[data]
name = "demo"
[[model]]
kind = "als"
factors = 2
iterations = 2
[[model]]
kind = "ease"
[audits.accuracy]
k = 5
[audits.exposure]
k = 5
[audits.reachability]
actions = {kind = "next-k", k = 2}
users = 2
refits = 2
"""


@pytest.fixture(scope="module")
def good(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is as it was written; tests change copies of it."""
    path = tmp_path_factory.mktemp("good")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "load", lambda name, path=None: world.data)
        execute(parse(CONFIG, source="run.toml", folder=path), path / "run")
    return path / "run"


@pytest.fixture
def run(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "run"))


def step(content: dict[str, Any], audit: str) -> dict[str, Any]:
    found: dict[str, Any] = next(own for own in content["record"]["steps"] if own["audit"] == audit)
    return found


def settings(content: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = step(content, "reachability")["settings"]
    return found


def test_a_good_folder_is_read(run: Path) -> None:
    opened = Run.open(run)
    assert opened.models == ("ALS", "EASE")
    assert opened.result("ALS", "reachability").facts["fidelity"]["pairs"] > 0


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "seed": lambda own: own["record"].__setitem__("seed", -1),
    "started": lambda own: own["record"].__setitem__("started", "soon"),
    "seconds": lambda own: own["record"].__setitem__("seconds", "long"),
    "config": lambda own: own["record"]["config"].__setitem__("split", "x"),
    "data.users": lambda own: own["record"]["data"].__setitem__("users", 2**70),
    "data.scale": lambda own: own["record"]["data"].__setitem__("scale", [1]),
    "data.facts": lambda own: own["record"]["data"].__setitem__("facts", {"a": "b"}),
    "models": lambda own: own["record"].__setitem__("models", []),
    "models ": lambda own: own["record"]["models"].append(own["record"]["models"][0]),
    "steps": lambda own: own["record"]["steps"].append(own["record"]["steps"][0]),
    "steps ": lambda own: step(own, "accuracy").__setitem__("model", "nobody"),
    "asked": lambda own: step(own, "accuracy")["asked"].__setitem__("k", 0),
    "steps  ": lambda own: step(own, "accuracy")["asked"].__setitem__("k", 6),
    "settings.k": lambda own: step(own, "accuracy")["settings"].pop("k"),
    "settings.actions": lambda own: settings(own)["actions"].pop("k"),
    "settings.tolerance": lambda own: settings(own).__setitem__("tolerance", "x"),
    "settings.rng": lambda own: settings(own).__setitem__("rng", 0.5),
    "settings.rule": lambda own: settings(own).__setitem__("rule", None),
    "settings.statuses": lambda own: settings(own).__setitem__("statuses", [1]),
    "settings.statuses.solved": lambda own: settings(own)["statuses"].__setitem__("solved", "many"),
    "settings.fidelity": lambda own: settings(own)["fidelity"].pop("realised_share"),
    "settings.fidelity.shares": lambda own: settings(own)["fidelity"]["shares"].pop("median"),
    "settings.fidelity.median_error": lambda own: settings(own)["fidelity"].__setitem__("median_error", []),
    "settings.beta": lambda own: settings(own).pop("beta"),
}


@pytest.mark.parametrize("field", CHANGES)
def test_a_field_that_cannot_be_true_is_named(run: Path, field: str) -> None:
    forge(run, CHANGES[field])
    with pytest.raises(DamagedError, match=rf"manifest\.json.*{field.strip().split('.')[0]}"):
        _ = Run.open(run).manifest


@pytest.mark.parametrize("command", ["report", "compare", "check", "history"])
@pytest.mark.parametrize("field", ["settings.fidelity", "models", "settings.k"])
def test_every_command_ends_with_exit_code_4(good: Path, run: Path, field: str, command: str, tmp_path: Path) -> None:
    forge(run, CHANGES[field])
    (tmp_path / "gate.toml").write_text('[[rule]]\nmetric = "ndcg"\nat_least = 0.0\n')
    others = {"compare": [str(good)], "history": [str(good)], "check": ["--rules", str(tmp_path / "gate.toml")]}
    found = CliRunner().invoke(app, [command, str(run), *others.get(command, [])])
    assert found.exit_code == (2 if command == "check" else 4), found.output
    assert "manifest.json" in found.output
    assert "Unexpected" not in found.output


def replace_table(run: Path, name: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    """Change a table, and its digest with it."""
    path = run / name
    change(pl.read_parquet(path, glob=False)).write_parquet(path)
    forge(run, lambda own: own["files"].__setitem__(name, FileRecord.of(path).model_dump()))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("summary", lambda own: own.drop("status")),
        ("summary", lambda own: own.with_columns(value=pl.lit("x"))),
        ("summary", lambda own: own.with_columns(value=pl.lit(float("nan")))),
        ("summary", lambda own: own.with_columns(metric=pl.lit("x"))),
        ("groups", lambda own: own.with_columns(by=pl.lit(None, pl.String))),
        ("terms", lambda own: own.with_columns(scale=pl.lit("x"))),
        ("terms", lambda own: own.with_columns(weight=pl.lit(0.0))),
        ("people", lambda own: own.with_columns(pl.lit(1.5).alias("history"))),
        ("users", lambda own: own.with_columns(ndcg=pl.lit("x"))),
        ("lists", lambda own: own.with_columns(rank=pl.lit(10**9))),
        ("items", lambda own: own.drop("title")),
    ],
)
def test_a_table_that_no_run_has(run: Path, name: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    audit = "exposure" if name in ("lists", "items") else "accuracy"
    replace_table(run, f"results/ALS/{audit}/{name}.parquet", change)
    opened = Run.open(run)
    with pytest.raises(DamagedError, match=rf"{name}\.parquet"):
        opened.table("ALS", audit, name)
    with pytest.raises(DamagedError, match=rf"{name}\.parquet"):
        opened.result("ALS", audit).table(name)


def rename_audit(run: Path, old: str, new: str) -> None:
    """Give an audit of a run folder, and its metrics, other names."""
    for folder in list((run / "results").glob(f"*/{old}")):
        folder.rename(folder.with_name(new))
    for path in (run / "results").glob(f"*/{new}/*.parquet"):
        table = pl.read_parquet(path, glob=False)
        if "metric" in table.columns:
            table.with_columns(metric=pl.lit("own-") + pl.col("metric")).write_parquet(path)

    def change(content: dict[str, Any]) -> None:
        content["files"] = {
            name.replace(f"/{old}/", f"/{new}/"): record
            if f"/{old}/" not in name or not name.endswith(".parquet")
            else FileRecord.of(run / name.replace(f"/{old}/", f"/{new}/")).model_dump()
            for name, record in content["files"].items()
        }
        content["record"]["audits"] = [new if own == old else own for own in content["record"]["audits"]]
        for own in content["record"]["steps"]:
            if own["audit"] == old:
                own["audit"] = new

    forge(run, change)


@pytest.mark.parametrize("command", ["verify", "report", "compare"])
def test_a_run_with_an_audit_of_a_package_that_is_not_installed_is_read(good: Path, run: Path, command: str) -> None:
    rename_audit(run, "exposure", "own-audit")
    others = {"compare": [str(good)]}
    result = CliRunner().invoke(app, [command, str(run), *others.get(command, [])])
    assert result.exit_code == 0, result.output
    assert Run.open(run).table("ALS", "own-audit", "summary")["metric"].str.starts_with("own-").all()


def test_a_comparison_names_the_table(good: Path, run: Path) -> None:
    replace_table(run, "results/EASE/accuracy/terms.parquet", lambda own: own.with_columns(total=pl.lit(1e300)))
    with pytest.raises(DamagedError, match=r"EASE/accuracy/terms\.parquet"):
        compare(good, run)


def test_memory_is_estimated_before_a_table_is_read(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Run.open(run)
    assert len(opened.table("ALS", "accuracy", "terms")) > 0
    monkeypatch.setattr("recaudit.machine.available_memory", lambda: 2 * 10**5)
    with pytest.raises(MachineError, match=r"terms.*accuracy of ALS"):
        opened.table("ALS", "accuracy", "terms")


@pytest.mark.parametrize(
    "change",
    [
        lambda own: own["record"].pop("kind"),
        lambda own: own["record"].__setitem__("kind", "no audit"),
        lambda own: own["record"]["audit"].__setitem__("k", "x"),
        lambda own: own["record"].__setitem__("rng", -1),
        lambda own: own["record"].__setitem__("facts", {"fidelity": {}}),
    ],
)
def test_a_saved_result_is_checked_too(
    world: World, tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    model = ra.models.TopPop().fit(world.data)
    ra.exposure(model, k=5).save(tmp_path / "result")
    assert Result.load(tmp_path / "result")["coverage"] > 0
    forge(tmp_path / "result", change)
    with pytest.raises(DamagedError, match=r"manifest\.json"):
        Result.load(tmp_path / "result")
