"""The examples are configurations that work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from recaudit.runs import read

FILES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))
OTHERS = ("[[environment]]", "[[change]]")
EXAMPLES = [path for path in FILES if not any(key in path.read_text(encoding="utf-8") for key in OTHERS)]
"""Those of `recaudit audit`; those of `recaudit simulate` and `recaudit study own` are read by their own tests."""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_valid(example: Path, tmp_path: Path) -> None:
    text = example.read_text(encoding="utf-8")
    for name in re.findall(r'"([\w.]+\.(?:csv|npz))"', text):
        (tmp_path / name).touch()
    (tmp_path / "copy.toml").write_text(text, encoding="utf-8")
    assert read(tmp_path / "copy.toml").models


def test_there_are_examples() -> None:
    assert {"movielens.toml", "own-data.toml", "own-factors.toml"} <= {path.name for path in EXAMPLES}
