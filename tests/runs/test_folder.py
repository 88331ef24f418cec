"""A run folder is read by name, whatever its models are called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from recaudit.data import datasets
from recaudit.data.synthetic import World
from recaudit.errors import InputError
from recaudit.runs import Run, execute, parse


@pytest.fixture
def make(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Run]:
    """A run of two models, the first of which has this label."""
    monkeypatch.setattr(datasets, "load", lambda name, path=None: world.data)
    text = "[data]\nname = 'demo'\n[[model]]\nkind = 'top-pop'\nlabel = '{}'\n[[model]]\nkind = 'random'\n"
    audits = "[audits.accuracy]\nby = []"

    def run(label: str) -> Run:
        config = parse(text.format(label) + audits, source="run.toml", folder=tmp_path)
        return execute(config, tmp_path / "a run [1]")

    return run


def test_tables_and_models_by_name(make: Callable[[str], Run]) -> None:
    run = make("Hits")
    assert repr(run) == f"<{run.path}: complete; accuracy of Hits, Random>"
    assert run.models == ("Hits", "Random")
    assert run.audits("Hits") == ("accuracy",)
    assert "ndcg" in run.table("Hits", "accuracy", "summary")["metric"]


def test_what_was_asked_is_read_back_whatever_it_turned_out_to_be(
    make: Callable[[str], Run], world: World, tmp_path: Path
) -> None:
    """A curve says k = 10 of its numbers, the longest of the lengths that were asked for."""
    make("Hits")  # the data stands in for the demo's
    text = "[data]\nname = 'demo'\n[[model]]\nkind = 'als'\nfactors = 2\niterations = 2\n"
    asked = "[audits.calibration-curve]\nk = [5, 10]\nweights = [0.0, 0.9]\n"
    run = execute(parse(text + asked, source="run.toml", folder=tmp_path), tmp_path / "curve")
    found = run.result("ALS", "calibration-curve")
    assert found.audit.k == (5, 10)  # type: ignore[attr-defined]
    assert found.facts["k"] == 10
    assert found.settings == run.steps("ALS")["calibration-curve"]


def test_misspelt_names_are_helped(make: Callable[[str], Run]) -> None:
    run = make("Hits")
    with pytest.raises(InputError, match="Did you mean 'Random'"):
        run.audits("Randm")
    with pytest.raises(InputError, match="Did you mean 'accuracy'"):
        run.table("Random", "acuracy", "summary")
    with pytest.raises(InputError, match="Did you mean 'summary'"):
        run.table("Random", "accuracy", "sumary")


@pytest.mark.parametrize(
    "label", ["../../up", ".hidden", "a/b", 'c:\\d<e>|"f"*?', "[x]", "50%", "dot.", "日本語", "manifest.json"]
)
def test_any_label_names_a_folder_inside_the_run(make: Callable[[str], Run], label: str) -> None:
    run = make(label)
    assert not run.table(label, "accuracy", "summary").is_empty()
    assert len(list((run.path / "results").iterdir())) == 2


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a run folder of an audit, which holds a manifest"):
        Run.open(tmp_path / "nowhere")
