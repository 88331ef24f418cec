"""The pages of the papers' results: recaudit-papers renders them from its Parquet files."""

from __future__ import annotations

NAMES = ("agency", "calibration", "folding", "reachability", "reclab")
"""Studies with published results."""


def pages() -> dict[str, str]:
    """Return each page as Markdown, by the name of its study."""
    from recaudit_papers.pages import page  # noqa: PLC0415  another package, which only this needs

    return {name: page(name) for name in NAMES}
