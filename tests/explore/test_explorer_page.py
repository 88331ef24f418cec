"""The page stands alone, runs its own script alone, and shows text as text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from explore.explored import ALS, explored
from recaudit import report
from recaudit.cli import app
from recaudit.errors import InputError
from recaudit.explore import Exploration, explore, render_explorer, write_explorer
from recaudit.explore.page import SCRIPTS
from recaudit.folders import verify
from recaudit.runs import Run
from report.test_page import HOSTILE, Page

SOURCES = Path(__file__).parents[2] / "src/recaudit/explore/scripts"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return explored(tmp_path_factory.mktemp("plain"), models=ALS)


@pytest.fixture(scope="module")
def found(run: Run) -> Exploration:
    return explore(run, users=2, folder=run.path.parent)


@pytest.fixture(scope="module")
def html(found: Exploration) -> str:
    return render_explorer(found, report="report.html")


def test_only_its_own_script_and_style_may_be_used(html: str) -> None:
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]+)"', html)
    policy = policy.replace("&#39;", "'")
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "http" not in policy
    parts = {"script": r'<script type="module">(.*?)</script>', "style": r"<style>(.*?)</style>"}
    for kind, pattern in parts.items():
        [text] = re.findall(pattern, html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_nothing_is_loaded_and_no_link_leads_out(html: str) -> None:
    page = Page(html)
    assert not [name for _, attributes in page.elements for name in attributes if name in ("src", "style", "onclick")]
    links = [attributes["href"] for _, attributes in page.elements if "href" in attributes]
    assert links == ["report.html"]
    [script] = [text for attributes, text in page.scripts if attributes.get("type") == "module"]
    script = re.sub(r"^\s*//[^\n]*|/\*.*?\*/", "", script, flags=re.DOTALL | re.MULTILINE)
    for way_out in ("fetch(", "XMLHttpRequest", "import(", "innerHTML", "insertAdjacentHTML", "eval(", "localStorage"):
        assert way_out not in script
    assert "//" not in script


def test_no_title_changes_the_page(html: str, tmp_path: Path) -> None:
    run = explored(tmp_path, models=ALS, titles=[*HOSTILE, "\u202eright to left", "x" * 500, "__proto__"])
    hostile = render_explorer(explore(run, users=2, folder=tmp_path), report="report.html")
    assert Page(hostile).shape == Page(html).shape
    [packed] = re.findall(r'id="payload">(.*?)</script>', hostile, re.DOTALL)
    titles = json.loads(packed)["items"]["titles"]
    assert len(set(titles)) == len(titles)
    for name in HOSTILE:
        assert any(title.startswith(name) for title in titles)


def test_modules_import_only_from_those_before_them() -> None:
    known: dict[str, set[str]] = {}
    for name in SCRIPTS:
        text = (SOURCES / name).read_text()
        for names, source in re.findall(r'^import \{ ([^}]*) \} from "\./([\w.]+)";$', text, re.MULTILINE):
            assert set(names.split(", ")) <= known[source], name
        assert text.count("\nimport ") + text.startswith("import ") == len(
            re.findall(r"^import \{", text, re.MULTILINE)
        )
        known[name] = set(re.findall(r"^export (?:function|const|class) (\w+)", text, re.MULTILINE))
    every = [one for names in known.values() for one in names]
    assert len(set(every)) == len(every)
    assert {path.name for path in SOURCES.glob("*.js")} == set(SCRIPTS)


def test_it_lies_beside_the_report_which_links_to_it(tmp_path: Path) -> None:
    run = explored(tmp_path, models=ALS)
    assert "explore.html" not in report.render(run)
    done = CliRunner().invoke(app, ["explore", str(run.path), "--users", "2", "--paths", str(tmp_path)])
    assert done.exit_code == 0, done.output
    again = Run.open(run.path)
    assert not verify(run.path).lost
    assert '<a href="explore.html">' in report.render(again)
    assert (run.path / "explore.html").is_file()


def test_or_wherever_it_is_wanted(run: Run, found: Exploration, tmp_path: Path) -> None:
    page = write_explorer(run, found, tmp_path / "deep" / "page.html")
    assert "report.html" not in page.read_text()
    with pytest.raises(InputError, match="outside of the run folder"):
        write_explorer(run, found, run.path / "results" / "page.html")
    with pytest.raises(InputError, match="outside of the run folder"):
        write_explorer(run, found, tmp_path)


def test_the_command_says_what_is_wrong_and_who_was_left_out(run: Run, tmp_path: Path) -> None:
    def told(*more: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["explore", *more])
        return done.exit_code, " ".join(done.output.split())

    paths = ("--paths", str(run.path.parent))
    assert told(str(tmp_path))[0] == 2
    code, words = told(str(run.path), "--model", "SLA", *paths)
    assert code == 2
    assert "a model of this run" in words
    code, words = told(str(run.path), "--user", "nobody", *paths)
    assert code == 2
    assert "nobody" in words
    out = tmp_path / "few.html"
    code, words = told(str(run.path), "--users", "30", "--size", "0.3", "--out", str(out), *paths)
    assert code == 0
    assert "were asked for and left out" in words
    assert 0.15 * 2**20 < out.stat().st_size <= 0.3 * 2**20
