"""The page: one HTML file that loads nothing, runs its own script and no other, and shows text as text."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib import resources
from pathlib import Path

import jinja2
from markupsafe import Markup

from recaudit import atomic
from recaudit.errors import InputError
from recaudit.explore.gather import Exploration
from recaudit.folders import keep
from recaudit.report.kit.document import script_json
from recaudit.report.page import EXPLORER
from recaudit.runs import Run

SCRIPTS = (
    "twin.js",
    "payload.js",
    "address.js",
    "words.js",
    "ratings.js",
    "outcome.js",
    "wish.js",
    "list.js",
    "explore.js",
)
"""In the order of who needs whom: each imports from those before it alone."""


def render_explorer(exploration: Exploration, *, report: str | None = None) -> str:
    """The page as text; `report` is the address of the run's report, if it lies beside it."""
    style = _file("recaudit.report", "templates", "style.css") + _file("recaudit.explore", "templates", "explore.css")
    script = script_of(*SCRIPTS)
    allowed = f"script-src {_digest(script)}; style-src {_digest(style)}"
    return _template().render(
        content_policy=f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'",
        style=Markup(style),
        script=Markup(script),
        payload=script_json(exploration.payload),
        data=exploration.payload["data"],
        version=exploration.payload["version"],
        kept=exploration.told,
        report=report,
    )


def write_explorer(run: Run, exploration: Exploration, path: Path | None = None) -> Path:
    """Write the page, whole or not at all: into the run's folder, or elsewhere, and say where it is."""
    if path is None or path.resolve() == (run.path / EXPLORER).resolve():
        return keep(run.path, EXPLORER, render_explorer(exploration, report=run.report.name).encode())
    if path.resolve().is_relative_to(run.path.resolve()) or path.is_dir():
        expected = f"a file outside of the run folder, or nothing: {run.path / EXPLORER}"
        raise InputError("out", received=str(path), expected=expected, remedy="Choose another name.")
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, render_explorer(exploration).encode())
    return path


@cache
def script_of(*names: str) -> str:
    """Modules as one: what they import from each other is above them."""
    parts = [_file("recaudit.explore", "scripts", name) for name in names]
    return re.sub(r"^import [^;]*;\n|^export (?=\w)", "", "\n".join(parts), flags=re.MULTILINE)


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("recaudit.explore"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    return environment.get_template("explore.html.j2")


def _file(package: str, *path: str) -> str:
    return resources.files(package).joinpath(*path).read_text(encoding="utf-8")
