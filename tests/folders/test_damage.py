"""A slice of scripts/damage_runs.py: whatever is done to a run folder, no number changes and nothing falls over."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from recaudit import report
from recaudit.report import page
from recaudit.report.simulation import page as simulation_page
from recaudit.runs import Run
from recaudit.simulate import OfflineOnline

SCRIPT = Path(__file__).parents[2] / "scripts" / "damage_runs.py"


def told(run: Run) -> str:
    """A page without charts, from tables that are read as any page reads them."""
    steps = [(model, audit) for model in run.models for audit in run.audits(model)]
    return "\n".join(str(run.table(model, audit, "summary").to_dicts()) for model, audit in steps)


def told_simulation(result: OfflineOnline, **_: object) -> str:
    return str(result.points().to_dicts())


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # there is no power cut here
    monkeypatch.setattr(report, "render", told)
    monkeypatch.setattr(page, "render", told)
    monkeypatch.setattr(simulation_page, "render_simulation", told_simulation)
    spec = importlib.util.spec_from_file_location("damage_runs", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "damage_runs", module)
    spec.loader.exec_module(module)
    return module


def test_damaged_runs_are_mended_or_refused(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(damages=32, seed=5) == 0, capsys.readouterr().err
    ended = capsys.readouterr().out.splitlines()[-1]
    assert "mended" in ended
    assert "VIOLATION" not in ended


def test_the_script_sees_a_wrong_number(
    script: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from recaudit.folders import FileRecord

    monkeypatch.setattr(FileRecord, "fault", lambda self, place: None if place.path.is_file() else "missing")
    assert script.main(damages=4, seed=5) == 1
    assert "verify found nothing" in capsys.readouterr().err
