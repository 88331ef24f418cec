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
    audits = "[audits.accuracy]\nsamples = 2\nby = []"

    def run(label: str) -> Run:
        config = parse(text.format(label) + audits, source="run.toml", folder=tmp_path)
        return execute(config, tmp_path / "a run [1]")

    return run


def test_tables_and_models_by_name(make: Callable[[str], Run]) -> None:
    run = make("Hits")
    assert run.models == ("Hits", "Random")
    assert run.audits("Hits") == ("accuracy",)
    assert "ndcg" in run.table("Hits", "accuracy", "summary")["metric"]


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
