"""The published results: what is in the files, and the pages that are rendered from them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from recaudit_papers import pages
from recaudit_papers.studies import Agreement

ROWS = {"agency": 53, "calibration": 163, "folding": 47, "reachability": 96, "reclab": 118}
"""Numbers and claims of each paper that were compared."""
SMALL = 2_000_000
"""Bytes of all files together."""


def test_every_comparison_is_there_with_its_version() -> None:
    found = pages.comparisons()
    assert dict(found.group_by("study").len().iter_rows()) == ROWS
    assert set(found["version"]) == {"0.1.0"}
    assert set(found["agreement"]) <= {mark.value for mark in Agreement}
    assert sum(file.stat().st_size for file in pages.results_folder().iterdir()) < SMALL


def test_numbers_are_those_of_the_text_and_inside_their_intervals() -> None:
    found = pages.comparisons()
    assert found.filter(pl.col("value").is_null())["ours"].unique().to_list() == ["n/a"]
    text = found["ours"].str.split(" ").list.first().cast(pl.Float64, strict=False)
    assert text.drop_nulls().equals(found["value"].drop_nulls(), check_names=False)
    known = found.drop_nulls("lower")
    assert len(known) > 300
    assert (known["lower"] <= known["upper"]).all()


@pytest.mark.parametrize("study", sorted(ROWS))
def test_a_page_has_every_row_and_says_what_it_was_measured_with(study: str) -> None:
    text = pages.page(study)
    assert text.startswith("# ")
    assert "recaudit 0.1.0" in text
    marks = [f"| {mark.value} |" for mark in Agreement]
    head, _, body = text.partition("\n## ")
    assert sum(line.count(mark) for line in body.splitlines() for mark in marks) == ROWS[study]
    assert f"**{ROWS[study]} rows" in head


def test_the_pages_are_written(tmp_path: Path) -> None:
    pages.main([str(tmp_path / "pages")])
    assert {file.stem for file in (tmp_path / "pages").iterdir()} == set(ROWS)
