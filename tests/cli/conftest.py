"""A run that is quick enough to be made by every command."""

from __future__ import annotations

from pathlib import Path

import pytest

CONFIG = """
[data]
name = "demo"
[split]
kind = "leave-last"
[[model]]
kind = "top-pop"
label = "[red]Hits[/red] <b>"
[audits.accuracy]
samples = 2
by = []
[audits.exposure]
samples = 2
by = []
"""


@pytest.fixture
def toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """quick.toml, in the folder where the command is run."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "quick.toml"
    path.write_text(CONFIG, encoding="utf-8")
    return path
