"""An installation without torch: everything works but what needs it, and that raises an error with the pip command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).with_name("without_torch.py")


def run(program: str, *arguments: str) -> dict[str, Any]:
    """Run a program of `without_torch` and return what it printed."""
    command = [sys.executable, "-W", "error", str(PROGRAMS), program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outcomes: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return outcomes


def test_every_audit_of_models_with_closed_forms_works() -> None:
    outcomes = run("audits")
    assert len(outcomes) > 50
    # BiasedMF and the others say themselves which questions they cannot answer; torch is never the reason.
    failed = {
        name: told for name, told in outcomes.items() if told != "done" and not told.startswith("NotSupportedError")
    }
    assert not failed
    assert not [told for told in outcomes.values() if "torch" in told]
    for name in ("ALS", "BiasedMF"):
        assert [told for key, told in outcomes.items() if key.endswith(name) and told != "done"] == []


def test_every_command_works(tmp_path: Path) -> None:
    outcomes = run("commands", str(tmp_path))
    assert {name: told for name, told in outcomes.items() if told != "done"} == {}


def test_what_needs_torch_names_the_pip_command() -> None:
    outcomes = run("needs_torch")
    assert len(outcomes) == 3
    for told in outcomes.values():
        assert told.startswith("NotSupportedError")
        assert "pip install 'recaudit[torch]'" in told


def test_imports_load_nothing_heavy() -> None:
    outcomes = run("imports")
    assert outcomes["import recaudit"] == []
    assert outcomes["recaudit --help"] == []
    assert "torch" not in outcomes["from recaudit import reachability"]


@pytest.mark.parametrize("module", ["recaudit", "recaudit.cli", "recaudit.audits.reachability.audit"])
def test_torch_is_not_loaded_where_it_is_installed(module: str) -> None:
    code = f"import sys, {module}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
