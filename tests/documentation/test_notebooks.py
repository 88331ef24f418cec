"""Every notebook runs in a real kernel, at a smaller size: its claims hold, nothing is said on stderr, answers draw."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("nbclient")
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
SMALLER: dict[str, dict[str, Any]] = {
    "01-audit-an-implicit-model": {"users, items": (150, 120), "asked": 6},
    "02-compare-before-a-release": {"k": 10},
    "03-reachability-and-recourse-of-one-person": {"wishes": 4, "draws": 500},
    "04-a-policy-of-your-own-in-a-simulation": {"users, items": (60, 80), "steps, trials": (12, 4)},
    "05-reproduce-a-papers-figure": {"worlds": 1},
}
PROGRESS = (
    """
import recaudit as ra
from recaudit.engines import notebook_line

said, show = [], notebook_line.NotebookLine._show
notebook_line.PATIENCE = notebook_line.PAUSE = 0.0
notebook_line.NotebookLine._show = lambda line, text: (said.append(text), show(line, text))
for _ in ra.engines.track(range(3), "<b>users</b>", 3):
    pass
""",
    """
try:
    for _ in ra.engines.track(range(3), "given up", 3):
        raise ZeroDivisionError
except ZeroDivisionError:
    print(said)
""",
    """
steps = []
with ra.engines.listening(steps.append):
    for _ in ra.engines.track(range(2), "heard elsewhere", 2):
        pass
print(said[-1:], len(steps))
""",
)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks_script", ROOT / "scripts" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def executed(script: ModuleType, books: dict[str, NotebookNode]) -> dict[str, list[NotebookNode]]:
    """The code cells of each with their outputs, all in one kernel: imports are much of the time."""
    own = {name: [cell for cell in book.cells if cell.cell_type == "code"] for name, book in books.items()}
    script.execute(
        new_notebook(cells=[cell for cells in own.values() for cell in (new_code_cell("%reset -f"), *cells)])
    )
    return own


def test_notebooks_run_and_their_claims_hold(script: ModuleType) -> None:
    pytest.importorskip("implicit")
    books = {path.stem: script.read(path, SMALLER[path.stem]) for path in NOTEBOOKS}
    assert list(books) == list(SMALLER)
    books["progress"] = new_notebook(cells=[new_code_cell(text) for text in PROGRESS])
    found = executed(script, books)
    progress = found.pop("progress")
    for name, cells in found.items():
        outputs = [output for cell in cells for output in cell.outputs]
        assert [output.text for output in outputs if output.get("name") == "stderr"] == [], name
        drawn = [output.data.get("text/html", "") for output in outputs if "data" in output]
        assert any('class="recaudit"' in html and "<svg" in html for html in drawn), name
        assert "assert " in cells[-1].source, name
        assert cells[-1].outputs, name
    check_progress(*progress)


def check_progress(first: NotebookNode, second: NotebookNode, third: NotebookNode) -> None:
    """One line that is updated, and gone when the cell has run, of work that was given up too."""
    assert first.outputs == []
    [told] = second.outputs
    assert told.text.startswith("['<b>users</b>: 0 of 3', '<b>users</b>: 1 of 3, about 0 s left'")
    assert told.text.endswith("'', 'given up: 0 of 3']\n")  # the first line was gone before the second came
    [told] = third.outputs
    assert told.text == "[''] 4\n"  # who listens hears it, and no line is drawn


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_small_and_without_outputs(path: Path, script: ModuleType) -> None:
    cells = script.read(path).cells
    assert 12 <= len(cells) <= 25
    assert cells[0].source.startswith("# ")
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
    links = [link for cell in cells for link in re.findall(r"\]\((?!https?:)([^)#\s]+)", cell.source)]
    assert [link for link in links if not (path.parent / link).exists()] == []
