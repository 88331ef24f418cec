"""Numbers of the committed sample are those of today, and the comparison finds what differs."""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import polars as pl
import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "frozen_numbers.py"
SAMPLE = Path(__file__).parent / "frozen"
Make = Callable[..., Any]


def run_script(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ})


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    monkeypatch.syspath_prepend(SCRIPT.parent)
    return lambda name: importlib.import_module(f"frozen_{name}")


def test_the_numbers_of_the_sample_are_the_same(tmp_path: Path) -> None:
    recorded = run_script("record", tmp_path / "new", "--sample")
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    compared = run_script("compare", SAMPLE, tmp_path / "new")
    assert compared.returncode == 0, compared.stdout


def test_the_sample_is_small() -> None:
    assert sum(path.stat().st_size for path in SAMPLE.rglob("*") if path.is_file()) < 1_000_000


# Completeness


def registered(frozen: Callable[[str], Any], group: str) -> set[str]:
    points = entry_points(group=f"recaudit.{frozen('names').NAMES.group(group)}")
    return {point.name for point in points if point.dist is not None and point.dist.name == "recaudit"}


def renamed(frozen: Callable[[str], Any], group: str, kinds: set[str]) -> set[str]:
    names = frozen("names").NAMES
    return {names.kind(kind, group) for kind in kinds}


def test_every_registered_part_has_a_case(frozen: Callable[[str], Any]) -> None:
    cases = frozen("cases")
    settings = [entry.settings for entry in cases.AUDITS.values()]
    used = cases.kinds_in(settings)
    simulated = [entry.settings for entry in cases.SIMULATIONS.values()]
    covered = {
        "audits": {entry.kind for entry in cases.AUDITS.values()},
        "models": {entry.kind or name for name, entry in cases.RECOMMENDERS.items()}
        | set(cases.RECOMMENDERS_WITHOUT_A_CASE),
        "adapters": set(cases.ADAPTERS) | set(cases.ADAPTERS_WITHOUT_A_CASE),
        "policies": cases.kinds_in(list(cases.POLICIES.values())),
        "actions": used,
        "environments": {entry.environment for entry in cases.SIMULATIONS.values()} | set(cases.OTHER_SIMULATIONS),
        "choices": cases.kinds_in(simulated),
    }
    for group, kinds in covered.items():
        assert registered(frozen, group)
        assert registered(frozen, group) - renamed(frozen, group, kinds) == set(), group


def test_every_public_solver_has_a_case(frozen: Callable[[str], Any]) -> None:
    from recaudit import solvers

    names = frozen("names").NAMES
    tested = {names.path(f"solvers.{name.partition('-')[0]}").rpartition(".")[2] for name in frozen("cases").SOLVERS}
    functions = {name for name in solvers.__all__ if not isinstance(getattr(solvers, name), type)}
    assert functions - tested == set()


# The comparison


def write(folder: Path, tables: dict[str, pl.DataFrame], **index: Any) -> Path:
    """Write a recording of one case, reachability-one."""
    case = folder / "reachability-one"
    case.mkdir(parents=True)
    for name, frame in tables.items():
        frame.write_parquet(case / f"{name}.parquet")
    entry = {"family": "reachability", "tables": sorted(tables), "trained": []} | index.pop("entry", {})
    whole = {"names": "new", "cases": {"reachability-one": entry}, "skipped": {}, "failed": {}} | index
    (folder / "recording.json").write_text(json.dumps(whole), encoding="utf-8")
    return folder


def pairs(**changed: list[Any]) -> pl.DataFrame:
    columns: dict[str, list[Any]] = {
        "user": ["a", "a", "b"],
        "item": ["x", "y", "x"],
        "value": [0.25, None, math.nan],
        "lower": [0.25, 0.1, 0.3],
        "upper": [0.5, 0.1, 0.3],
        "status": ["bounded", "solved", "failed"],
        "ranks": [[1, 2], [], [3]],
    }
    return pl.DataFrame(columns | changed, strict=False)


@pytest.fixture
def compare(frozen: Callable[[str], Any], tmp_path: Path) -> Make:
    """Compare two tables of pairs; return differences and notes."""

    def compared(
        old: pl.DataFrame | None = None, new: pl.DataFrame | None = None, names: Any = None, **declared: Any
    ) -> Any:
        comparison, declarations = frozen("comparison"), frozen("names")
        entry = declared.pop("entry", {})
        folders = [
            write(tmp_path / name, {"pairs": pairs() if frame is None else frame}, entry=entry, names=edition)
            for name, frame, edition in (("one", old, "old"), ("two", new, "new"))
        ]
        recordings = [comparison.Recording.read(folder) for folder in folders]
        return comparison.compare_recordings(
            *recordings, names or declarations.Names(), comparison.Declared(**declared)
        )

    return compared


def test_equal_tables_are_equal(compare: Make) -> None:
    close = pairs(value=[0.25 * (1 + 9e-10), None, math.nan], lower=[0.25, 0.1 + 1e-10, 0.3])
    result = compare(new=close.sample(3, shuffle=True, seed=1))
    assert result.differences == []
    assert result.compared == 1


@pytest.mark.parametrize(
    ("changed", "column"),
    [
        ({"value": [0.25 * (1 + 2e-9), None, math.nan]}, "value"),
        ({"value": [0.25, 0.0, math.nan]}, "value"),
        ({"value": [0.25, math.nan, math.nan]}, "value"),
        ({"value": [0.25, None, None]}, "value"),
        ({"lower": [0.25, 0.1, math.inf]}, "lower"),
        ({"status": ["bounded", "bounded", "failed"]}, "status"),
        ({"ranks": [[2, 1], [], [3]]}, "ranks"),
        ({"ranks": [[1], [], [3]]}, "ranks"),
        ({"user": ["a", "a", "c"]}, "user"),
        ({"ranks": ["1", "", "3"]}, "ranks"),
    ],
)
def test_what_differs_is_found(compare: Make, changed: dict[str, list[Any]], column: str) -> None:
    [difference] = compare(new=pairs(**changed)).differences
    assert difference.startswith(f"reachability-one/pairs: {column}: ")


@pytest.mark.parametrize(("number", "is_equal"), [(9e-13, True), (2e-12, False)])
def test_small_numbers_may_differ_absolutely(compare: Make, number: float, is_equal: bool) -> None:
    old, new = (pairs(value=[value, None, math.nan]) for value in (0.0, number))
    assert (compare(old, new).differences == []) is is_equal


def test_missing_rows_are_found(compare: Make) -> None:
    assert "3 rows before, 2 now" in compare(new=pairs().head(2)).differences[0]


def test_a_missing_column_is_found_and_an_added_one_is_noted(compare: Make) -> None:
    result = compare(new=pairs().rename({"upper": "top"}))
    assert result.differences == ["reachability-one/pairs: the new table has no columns upper"]
    assert result.notes == ["reachability-one/pairs: added columns top"]


def test_renamed_columns_and_values_are_followed(compare: Make, frozen: Callable[[str], Any]) -> None:
    names = frozen("names").Names(
        columns={"reachability/pairs.lower": "bound_lower", "*/pairs.upper": "bound_upper"},
        values={"status.failed": "broken"},
    )
    new = pairs(status=["bounded", "solved", "broken"]).rename({"lower": "bound_lower", "upper": "bound_upper"})
    assert compare(new=new, names=names).differences == []


def test_an_intended_change_is_a_note(compare: Make, frozen: Callable[[str], Any]) -> None:
    change = frozen("names").Change("reachability/*", "val*", "a better estimate")
    result = compare(new=pairs(value=[0.5, 0.5, 0.5], status=["solved"] * 3), changes=[change])
    assert result.notes == ["reachability-one/pairs: value not compared (intended: a better estimate)"]
    assert len(result.differences) == 1


@pytest.mark.parametrize(
    ("changed", "count"),
    [
        ({"lower": [0.4, 0.1, 0.3], "upper": [0.4, 0.1, 0.3], "status": ["solved", "solved", "failed"]}, 0),
        ({"lower": [0.6, 0.1, 0.3], "upper": [0.7, 0.1, 0.3]}, 1),
        ({"lower": [0.25, None, 0.3]}, 1),
        ({"status": ["failed", "solved", "failed"]}, 1),
        ({"user": ["a", "a", "c"]}, 1),
    ],
)
def test_bounds_of_a_replaced_solver_overlap(
    compare: Make, frozen: Callable[[str], Any], changed: dict[str, list[Any]], count: int
) -> None:
    replaced = frozen("names").Replacement("reachability-*/pairs", "another solver")
    result = compare(new=pairs(**({"value": [9.0, 9.0, 9.0]} | changed)), solvers=[replaced])
    assert len(result.differences) == count
    assert any("solved 50.0% of pairs before" in note for note in result.notes)


@pytest.mark.parametrize(("shift", "count"), [(0.004, 0), (0.2, 1)])
def test_replaced_training_keeps_the_means(
    compare: Make, frozen: Callable[[str], Any], shift: float, count: int
) -> None:
    values = [1.0 + 0.001 * (seed % 5) for seed in range(20)]
    old = pl.DataFrame({"seed": range(20), "rmse": values, "ndcg": [None] * 20}, schema_overrides={"ndcg": pl.Float64})
    replaced = [frozen("names").Replacement("als", "another algorithm")]
    entry = {"family": "seeds", "trained": ["als"]}
    result = compare(old, old.with_columns(pl.col("rmse") + shift), training=replaced, entry=entry)
    assert len(result.differences) == count


def test_other_tables_of_replaced_training_are_not_compared(compare: Make, frozen: Callable[[str], Any]) -> None:
    replaced = [frozen("names").Replacement("als", "another algorithm")]
    result = compare(new=pairs(value=[1.0, 1.0, 1.0]), training=replaced, entry={"trained": ["als"]})
    assert result.differences == []
    assert result.compared == 0


def test_cases_that_failed_or_are_missing_are_differences(frozen: Callable[[str], Any], tmp_path: Path) -> None:
    comparison, names = frozen("comparison"), frozen("names")
    old = write(tmp_path / "old", {"pairs": pairs()})
    for name, index in (
        ("failed", {"cases": {}, "failed": {"reachability-one": "ValueError"}}),
        ("skipped", {"cases": {}, "skipped": {"reachability-one": "no data"}}),
        ("none", {"cases": {}}),
    ):
        new = write(tmp_path / name, {}, **index)
        recordings = [comparison.Recording.read(folder) for folder in (old, new)]
        result = comparison.compare_recordings(*recordings, names.Names(), comparison.Declared())
        assert len(result.differences) == 1
        change = names.Change("reachability/*", "*", "dropped")
        result = comparison.compare_recordings(*recordings, names.Names(), comparison.Declared(changes=[change]))
        assert len(result.differences) == (name == "failed")


def test_settings_are_renamed_in_nested_parts(frozen: Callable[[str], Any]) -> None:
    names = frozen("names").Names(
        kinds={"top": "in-top-k", "models/random": "uniform"},
        settings={"instability.edits": "actions", "top.n": "k", "*.rng": "seed"},
    )
    settings = {"edits": {"kind": "next-k", "k": 3}, "goal": {"kind": "top", "n": 5}, "rng": 1}
    expected = {"actions": {"kind": "next-k", "k": 3}, "goal": {"kind": "in-top-k", "k": 5}, "seed": 1}
    assert names.renamed_settings("instability", settings) == expected
    assert names.kind("random", "models") == "uniform"
    assert names.kind("random", "splits") == "random"


def test_the_script_tells_by_its_exit_code(tmp_path: Path) -> None:
    old, new = write(tmp_path / "old", {"pairs": pairs()}), write(tmp_path / "new", {"pairs": pairs(value=[1, 1, 1])})
    assert run_script("compare", old, old).returncode == 0
    compared = run_script("compare", old, new)
    assert compared.returncode == 1
    assert "DIFFERENT: reachability-one/pairs: value: 3 of 3 rows differ" in compared.stdout
