"""Markdown pages of the published results: `python -m recaudit_papers.pages [FOLDER]`.

The results of the studies at the papers' size take hours to measure, so they are kept in two Parquet files, with the
version of recaudit that measured them:

- `comparisons.parquet`: one row for each number or claim of a paper, with recaudit's own number and how they compare;
- `blocks.parquet`: everything else on a page, in order: headings, paragraphs and the cells of other tables.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from recaudit_papers.studies.pages import LADDER, markdown_table, paragraph, plain_text

HEADINGS = ("", "published", "ours", "difference", "", "why")
"""Headings of a table of comparisons."""


def results_folder() -> Path:
    """Return the folder of the published results: in the installed package, or next to the sources."""
    installed = Path(__file__).parent / "results"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "results"


def comparisons() -> pl.DataFrame:
    """Read the comparisons with the papers: columns study, version, section, row, published, ours, ..., why."""
    return pl.read_parquet(results_folder() / "comparisons.parquet")


def studies() -> list[str]:
    """Return the names of the studies that have published results."""
    return sorted(comparisons()["study"].unique())


def page(study: str) -> str:
    """Render the page of a study.

    Args:
        study: Name of the study: agency, calibration, folding, reachability or reclab.
    """
    blocks = pl.read_parquet(results_folder() / "blocks.parquet").filter(study=study)
    rows = comparisons().filter(study=study)
    parts = _parts(blocks, rows)
    return "\n\n".join(parts) + "\n"


def _parts(blocks: pl.DataFrame, rows: pl.DataFrame) -> Iterator[str]:
    section = ""
    for cells in blocks.partition_by("block", maintain_order=True):
        kind, text = cells["kind"][0], cells["text"][0]
        match kind:
            case "heading":
                level, section = cells["row"][0], text
                yield f"{'#' * level} {plain_text(text)}"
            case "code":
                yield f"    {text}"
            case "verdict":
                yield f"**{text}**"
            case "list":
                yield "\n".join(f"- {item}" for item in cells["text"])
            case "ladder":
                yield LADDER
            case "table":
                head, *lines = _grid(cells)
                yield markdown_table(head, lines)
            case "comparisons":
                own = rows.filter(section=section)
                yield markdown_table(HEADINGS, [_line(one) for one in own.iter_rows(named=True)])
            case _:
                yield paragraph(text)


def _grid(cells: pl.DataFrame) -> list[Sequence[str]]:
    """Return the rows of a table from its cells."""
    return [row["text"].to_list() for row in cells.partition_by("row", maintain_order=True)]


def _line(row: dict[str, str]) -> Sequence[str]:
    over = f" ({row['over']})" if row["over"] else ""
    return row["row"], row["published"], f"{row['ours']}{over}", row["difference"], row["agreement"], row["why"]


def main(arguments: Sequence[str]) -> None:
    """Write the page of every study into a folder."""
    folder = Path(arguments[0]) if arguments else Path("pages")
    folder.mkdir(parents=True, exist_ok=True)
    for study in studies():
        (folder / f"{study}.md").write_text(page(study), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
