"""The README is true: its Python runs as written."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.filterwarnings("ignore:OpenBLAS is configured")  # implicit says so once
@pytest.mark.parametrize("block", BLOCKS, ids=["api", "own-data"])
def test_the_examples_run(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    draw = np.random.default_rng(0)
    pairs = draw.permutation(30 * 20)[:300]
    log = {"userId": pairs // 20, "movieId": pairs % 20, "stars": draw.integers(1, 6, 300)}
    pl.DataFrame(log).write_csv(tmp_path / "ratings.csv")
    np.save(tmp_path / "users.npy", draw.standard_normal((30, 4)))
    np.save(tmp_path / "items.npy", draw.standard_normal((20, 4)))
    monkeypatch.chdir(tmp_path)
    # The example itself is under test.
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out.count("\n") > 10


def test_files_that_it_points_to_are_there() -> None:
    root = Path(__file__).parents[1]
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (root / target).exists(), target
