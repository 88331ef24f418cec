"""Lists in a file, audited by a configuration."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import recaudit as ra
from recaudit.errors import ConfigError
from recaudit.report import render
from recaudit.runs import Run, execute, parse

AUDITS = """
[audits.accuracy]
[audits.exposure]
[audits.calibration]
k = 10
tested = 20
[audits.folding]
[audits.reachability]
users = 3
[audits.instability]
viewers = 3
editors = 3
[audits.agency]
users = 3
followed = 3
editors = 3
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lists of the most popular items, for all users but the first 100, under other column names."""
    made = tmp_path_factory.mktemp("lists")
    config = configuration(made, '[[model]]\nkind = "top-pop"')
    train, _ = config.split.split(config.data.load(), config.seed)
    shown = ra.recommend(ra.models.TopPop().fit(train), users=train.user_ids[100:])
    shown.select(who="user", what="item", place="rank").write_parquet(made / "lists.parquet")
    return made


def configuration(folder: Path, models: str, audits: str = "") -> ra.runs.Configuration:
    return parse(f'[data]\nname = "demo"\n{models}\n{audits}', source="run.toml", folder=folder)


LISTS = '[[model]]\nkind = "lists"\npath = "lists.parquet"\nuser = "who"\nitem = "what"\nrank = "place"\n'


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    return execute(configuration(folder, f'{LISTS}[[model]]\nkind = "top-pop"', AUDITS), folder / "run")


def test_what_lists_say_is_measured(run: Run) -> None:
    for audit, metric in (("exposure", "novelty"), ("calibration", "calibration_kl"), ("accuracy", "ndcg")):
        tables = [run.table(model, audit, "summary") for model in ("Lists", "TopPop")]
        own, other = (table.row(by_predicate=pl.col("metric") == metric, named=True) for table in tables)
        assert own["status"] == "solved"
        assert other["users"] - 100 <= own["users"] < other["users"]
        assert own["users"] + own["excluded"] == other["users"] + other["excluded"]
    (told,) = (
        step.settings["lists"] for step in run.manifest.steps if (step.model, step.audit) == ("Lists", "exposure")
    )
    assert told["without"] == 100


def test_what_they_do_not_say_is_skipped_with_the_reason(run: Run) -> None:
    reasons = {skip.audit: skip.reason for skip in run.manifest.skipped if skip.model == "Lists"}
    assert set(reasons) == {"reachability", "instability", "agency"}
    assert all("after other ratings" in reason for reason in reasons.values())


def test_the_report_shows_both(run: Run) -> None:
    page = render(run)
    assert "Unrelated share@10" in page
    assert "has no user and item vectors" in page


def test_other_lists_are_measured_again(folder: Path, tmp_path: Path) -> None:
    audits = "[audits.exposure]"
    frame = pl.read_parquet(folder / "lists.parquet")
    frame.write_parquet(tmp_path / "lists.parquet")
    first = execute(configuration(tmp_path, LISTS, audits), tmp_path / "run")
    before = first.table(first.models[0], "exposure", "lists")
    frame[:-1].write_parquet(tmp_path / "lists.parquet")
    again = execute(configuration(tmp_path, LISTS, audits), tmp_path / "run")
    assert len(again.table(again.models[0], "exposure", "lists")) == len(before) - 1


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\[0\]\.path.*a file that exists"):
        configuration(tmp_path, LISTS)
