"""The site has every page, every public name, and the figures that pages show. Building it is `make docs`."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("**/*.md"))
NAV = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]


@pytest.fixture(scope="module")
def website() -> Iterator[Any]:
    """A module of scripts/website, by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        yield lambda name: importlib.import_module(f"website.{name}")


def test_the_navigation_has_every_page_once_and_no_other() -> None:
    named = re.findall(r"(?:- |: )([\w/.-]+\.md)$", NAV, flags=re.MULTILINE)
    assert sorted(named) == [page.relative_to(DOCS).as_posix() for page in PAGES]


def test_every_public_name_is_in_the_reference(website: Any) -> None:
    pages = website("api").pages()
    directives = [path for text in pages.values() for path in re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE)]
    assert len(directives) == len(set(directives)) > 150
    assert {"recaudit.reachability", "recaudit.models.ALS", "recaudit.Result"} <= set(directives)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_lists_are_lists_on_the_site_too(page: Path) -> None:
    """GitHub begins a list below a line of text, and nests it by two spaces; the site needs an empty line, and four."""
    text = re.sub(r"^( *)```.*?^\1```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    item = r"(?:[-*]|\d+\.) "
    assert not re.findall(rf"^(?! *{item})[^\s<#|].*\n{item}.*", text, flags=re.MULTILINE)
    assert not re.findall(rf"^ {{1,3}}{item}.*", text, flags=re.MULTILINE)


def test_a_notebook_becomes_a_page(website: Any, tmp_path: Path) -> None:
    outputs = [
        {"output_type": "stream", "text": ["\x1b[1mone\x1b[0m\n", "two\n"]},
        {"output_type": "display_data", "data": {"image/png": "aGk=\n", "text/plain": "<Figure>"}},
        {"output_type": "execute_result", "data": {"text/html": ["<b>3</b>\n", "\n", "4"], "text/plain": "3"}},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# A title\n", "\n", "Words."]},
        {"cell_type": "code", "source": "print(1)", "outputs": outputs},
    ]
    file = tmp_path / "first.ipynb"
    file.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    page = website("notebooks").page(file)
    assert page.startswith('# A title\n\n<a class="notebook-link" href="first.ipynb" download>')
    assert "````python\nprint(1)\n````\n\n````text\none\ntwo\n````" in page
    assert 'src="data:image/png;base64,aGk="' in page
    assert '<div class="output">\n<b>3</b>\n4\n</div>' in page
    file.write_text(json.dumps({"cells": cells[1:]}), encoding="utf-8")
    with pytest.raises(ValueError, match="heading"):
        website("notebooks").page(file)
