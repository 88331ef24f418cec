"""Every page is true: its code runs as written, in order, in a folder with two small files."""

from __future__ import annotations

import contextlib
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from documentation.blocks import LANGUAGES, blocks, carry_out, write_files

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for page in sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
    if blocks(page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_its_code_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])  # a page may write a module
    held: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page.read_text(encoding="utf-8")):
        assert block.language in LANGUAGES, f"{page}, line {block.line}: name the language of the block"
        if block.runs:
            with warnings.catch_warnings() if block.needs else contextlib.nullcontext():
                if block.needs:
                    warnings.simplefilter("ignore")  # libraries' own
                carry_out(block, held, str(page))
