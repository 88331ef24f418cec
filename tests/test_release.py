"""What a release is held to, without building one: `make release-check` does that."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from recaudit import __version__, runs
from recaudit.errors import InputError
from recaudit.folders import Folder, verify
from recaudit.report import render, render_statement
from recaudit.runs import Run
from recaudit.runs.changes import changes
from report.crafted_runs import Model, accuracy, write_run

ROOT = Path(__file__).parents[1]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECK, README = script("release_check"), script("package_readme")
DESCRIBED = """\
Metadata-Version: 2.4
Name: recaudit
Version: 0.2.0
Summary: Audits.
Project-URL: Homepage, https://example.org
Author: Us
License-Expression: MIT
License-File: LICENSE
Keywords: audit
Classifier: Typing :: Typed
Requires-Python: >=3.11
Description-Content-Type: text/markdown

# recaudit

[docs](https://example.org/docs)
"""


def test_the_version_is_the_same_everywhere() -> None:
    assert CHECK.version_faults(ROOT) == []


def test_a_version_that_differs_is_told(tmp_path: Path) -> None:
    (tmp_path / "src" / "recaudit").mkdir(parents=True)
    (tmp_path / "src" / "recaudit" / "version.py").write_text('__version__ = "9.9.9"\n')
    (tmp_path / "papers" / "src" / "recaudit_papers").mkdir(parents=True)
    (tmp_path / "papers" / "src" / "recaudit_papers" / "version.py").write_text('__version__ = "9.9.9"\n')
    for name in ("CITATION.cff", "CHANGELOG.md"):
        (tmp_path / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    assert [fault.split(" has ")[0] for fault in CHECK.version_faults(tmp_path)] == ["CITATION.cff", "CHANGELOG.md"]
    assert any(fault.startswith("the tag has") for fault in CHECK.version_faults(tmp_path, "v9.9.8"))
    (tmp_path / "papers" / "src" / "recaudit_papers" / "version.py").write_text('__version__ = "9.9.8"\n')
    assert any(fault.startswith("recaudit-papers has") for fault in CHECK.version_faults(tmp_path))
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n\n## [9.9.9] - 2026-01-01\n")
    assert any("Unreleased has the date" in fault for fault in CHECK.version_faults(tmp_path, "v9.9.9"))
    assert not any("Unreleased" in fault for fault in CHECK.version_faults(tmp_path))


def test_a_version_under_development_names_the_last_release_and_cannot_be_tagged(tmp_path: Path) -> None:
    for folder in ("src/recaudit", "papers/src/recaudit_papers"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "version.py").write_text('__version__ = "1.3.0.dev0"\n')
    (tmp_path / "CITATION.cff").write_text("version: 1.2.0\ndate-released: 2026-01-01\n")
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n\n## [1.2.0] - 2026-01-01\n")
    assert CHECK.version_faults(tmp_path) == []
    assert any(
        fault.startswith("CITATION.cff has version 1.2.0") for fault in CHECK.version_faults(tmp_path, "v1.3.0.dev0")
    )
    (tmp_path / "CITATION.cff").write_text("version: 1.1.0\ndate-released: 2026-01-01\n")
    assert CHECK.version_faults(tmp_path) == ["CITATION.cff has version 1.1.0, and not 1.2.0"]


def test_what_is_not_committed_or_is_somebodys_own_is_found() -> None:
    found = {"a.py": b"", "b.parquet": b"", "c.md": b"in /home/" + b"anna/audits", "x/__pycache__/d.pyc": b"\0"}
    told = CHECK.content_faults(found, {"a.py", "b.parquet", "c.md", "missing.cu"}, "the wheel")
    assert told == [
        "the wheel lacks missing.cu",
        "the wheel has x/__pycache__/d.pyc, which is not committed",
        "the wheel has b.parquet: data, a cache or a run folder",
        "the wheel has x/__pycache__/d.pyc: data, a cache or a run folder",
        f"the wheel: c.md names the folder {Path('/home', 'anna')}",
    ]


def test_metadata_that_is_well_is_let_be() -> None:
    assert CHECK.metadata_faults(DESCRIBED.encode(), "0.2.0") == []


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("Typing :: Typed", "Typing :: Guessed", "classifier 'Typing :: Guessed'"),
        ("License-Expression: MIT\n", "", "no License-Expression"),
        ("https://example.org/docs", "docs/index.md", "leads to docs/index.md"),
        ("text/markdown", "text/plain", "README.md is not its description"),
        ("Version: 0.2.0", "Version: 0.2.1", "version is 0.2.1"),
        ("Requires-Python: >=3.11", "Requires-Python: three", "requires-python"),
        ("https://example.org\n", "example\n", "'example' is none"),
    ],
)
def test_metadata_that_an_index_would_refuse_is_told(before: str, after: str, fault: str) -> None:
    assert before in DESCRIBED
    told = " ".join(CHECK.metadata_faults(DESCRIBED.replace(before, after).encode(), "0.2.0"))
    assert fault in told


def test_paths_of_the_readme_are_addresses_on_the_packages_page() -> None:
    text = "[a](docs/a.md#b) ![c](docs/c.png) [d](https://d.org) [e](#f)"
    base = "https://github.com/recaudit/recaudit"
    assert README.absolute(text, "v1") == (
        f"[a]({base}/blob/v1/docs/a.md#b) ![c]({base}/raw/v1/docs/c.png) [d](https://d.org) [e](#f)"
    )


def test_a_folder_of_the_version_before_is_read_verified_and_reported_but_not_gone_on_with(tmp_path: Path) -> None:
    old = write_run(tmp_path / "run", [Model("ALS", [accuracy()])])
    assert old.manifest.recaudit == "0.1.0" != __version__
    assert not verify(old.path).lost
    assert "recaudit 0.1.0" in render(Run.open(old.path))
    assert "which recaudit 0.1.0 wrote" in render_statement(old)
    config = runs.parse('data = {name = "demo"}\n[[model]]\nkind = "random"', source="a.toml", folder=tmp_path)
    record = old.folder.manifest.record
    knowing = {**record, "data": {**record["data"], "period": [1.0, 2.0]}}
    new = Run(Folder(old.path, old.folder.manifest.model_copy(update={"record": knowing})))
    assert new.manifest.data.period == (1.0, 2.0)
    assert not list(changes(old, new, {"ALS": ("ALS", "ALS")}))
    with pytest.raises(InputError, match=rf"made by recaudit 0\.1\.0 \(this is {__version__}\)"):
        runs.execute(config, old.path)
