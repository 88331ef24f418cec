"""A real browser: the one that the machine has, offline. Without one these tests are skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from explore.explored import ALLOWED, ALS, LABELS, explored
from recaudit.explore import Exploration, explore, render_explorer
from report.test_page import HOSTILE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = os.environ.get("RECAUDIT_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder need a browser: without one nothing is made ready for them."""
    missing = "" if BROWSER else "no browser was found: install Chromium, or name one in RECAUDIT_BROWSER"
    if not find_spec("playwright"):
        missing = "playwright is not installed: pip install playwright"
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")
            if missing:
                item.add_marker(pytest.mark.skip(reason=missing))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = os.environ.get("RECAUDIT_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no browser was found: install Chromium, or name one in RECAUDIT_BROWSER")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="session")
def content(tmp_path_factory: pytest.TempPathFactory) -> Exploration:
    """A run with models of every kind."""
    folder = tmp_path_factory.mktemp("browsed")
    return explore(explored(folder), users=3, models=LABELS, folder=folder, allow_code=ALLOWED)


@pytest.fixture(scope="session")
def address(content: Exploration, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the page of it is."""
    return _saved(content, tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="session")
def hostile_address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page whose titles try to be more than titles."""
    folder = tmp_path_factory.mktemp("hostile")
    titles = [*HOSTILE, "\u202eright to left", "x" * 500, "__proto__", "constructor", " ", "#&=%"]
    return _saved(explore(explored(folder, models=ALS, titles=titles), users=2, folder=folder), folder)


@pytest.fixture(scope="session")
def half_stars(tmp_path_factory: pytest.TempPathFactory) -> tuple[Exploration, str]:
    """A page with ten stars for each rating: sliders."""
    folder = tmp_path_factory.mktemp("halves")
    content = explore(explored(folder, models=ALS, scale="[0.5, 5]"), users=1, folder=folder)
    return content, _saved(content, folder)


@pytest.fixture(scope="session")
def large_address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page with two thousand items."""
    folder = tmp_path_factory.mktemp("large")
    run = explored(folder, users=300, items=3_000, models=ALS)
    return _saved(explore(run, users=1, folder=folder), folder)


def _saved(content: Exploration, folder: Path) -> str:
    page = folder / "explore.html"
    page.write_text(render_explorer(content), encoding="utf-8")
    return page.as_uri()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page; that anything is loaded, said to the console or wrong fails the test."""
    opened = browser.new_page(viewport={"width": 1200, "height": 900})
    faults: list[str] = []
    opened.on("console", lambda message: faults.append(message.text))
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("dialog", lambda dialog: faults.append(dialog.message))
    opened.on("request", lambda request: None if request.url.startswith("file:") else faults.append(request.url))
    yield opened
    opened.close()
    assert not faults
