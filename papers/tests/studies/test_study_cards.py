"""A table of a study in a notebook."""

from __future__ import annotations

import polars as pl

from recaudit_papers.studies import Published, Quantity, StudyRow, StudyTable
from recaudit_papers.studies.figures import lines

EVIL = "</style><script>alert('\"&')</script>"


def test_a_table_of_a_study() -> None:
    points = pl.DataFrame({"x": [1, 2], "y": [0.1, 0.2], "name": [EVIL, EVIL]})
    figure = lines("drawn", points, "x", "y", "name", x_title="x", y_title="y")
    row = StudyRow(EVIL, Published.number("0.5"), Quantity(0.501, 0.49, 0.52))
    table = StudyTable("figure-1", "Figure 1", (row,), EVIL, (figure,))
    html = table._repr_html_()
    assert "0.501 [0.490, 0.520]" in html
    assert "agrees" in html
    assert "<svg" in html
    assert "<script" not in html
    assert repr(table).startswith("Figure 1\n")
