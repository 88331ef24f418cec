"""docs/papers/own-study.md is true: its file is a study, and its lines run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "papers" / "own-study.md").read_text(encoding="utf-8")


def test_its_file_and_its_lines_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [study] = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    [code] = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    (tmp_path / "question.toml").write_text(study, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    held: dict[str, object] = {"__name__": "page"}
    exec(compile(code, "own-study.md", "exec"), held)
    told = capsys.readouterr().out
    for change in ("ten ratings instead of five", "and a sharper policy", "another seed (3 tried)"):
        assert change in told
    assert told.splitlines()[0] == "What decides how far people can move their recommendations?"
    assert 'Lift: claimed "people can move their recommendations", ours 3.738' in told
