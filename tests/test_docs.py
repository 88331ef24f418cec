"""Every link in the documents leads to a file, and to a heading in it."""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from recaudit.data.sources import OwnData

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.fixture(scope="module")
def made() -> Iterator[set[Path]]:
    """What the build of the site adds to docs/."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        figures, api = (importlib.import_module(f"website.{name}") for name in ("figures", "api"))
        names = [f"figures/{name}.svg" for name in figures.NAMES] + [f"reference/api/{name}.md" for name in api.PAGES]
        yield {ROOT / "docs" / name for name in (*names, "demo/report.html", "demo/explore.html")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path, made: set[Path]) -> None:
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?:)([^)\s]+)\)", text) + re.findall(
        r"(?:src|href)=\"(?!https?:)([^\"]+)\"", text
    )
    for target in targets:
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        assert there.exists() or there in made, target
        if there in made:
            continue
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), target


def test_the_defaults_of_the_page_on_data_are_those_of_the_class() -> None:
    text = (ROOT / "docs" / "guides" / "data.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*`) \| ([^|]*) \|[^|]*\|$", text, flags=re.MULTILINE)
    stated = {
        name.strip("` "): default.strip() for names, defaults in rows for name, default in _paired(names, defaults)
    }
    known = {name: field.get_default(call_default_factory=True) for name, field in OwnData.model_fields.items()}
    del stated["[data]"]  # the heading
    assert len(stated) >= 11
    for name, default in stated.items():
        if default.startswith("`"):
            assert tomllib.loads(f"value = {default.strip('`')}")["value"] == known[name], name
        elif default:
            assert known[name] is None, name


def _paired(names: str, defaults: str) -> list[tuple[str, str]]:
    several, their = names.split(", "), defaults.split(", ")
    return list(zip(several, their if len(their) == len(several) else [defaults] * len(several), strict=True))
