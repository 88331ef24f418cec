"""The code of a page: its blocks, and how one is carried out."""

from __future__ import annotations

import re
import shlex
import textwrap
import tomllib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from recaudit import runs
from recaudit.cli import app
from recaudit.runs.gate import parse_gate

LANGUAGES = {"python", "toml", "sh", "jinja", "text"}
_FENCE = re.compile(r"^( *)```+(\w*)[^\n]*\n(.*?)^\1```+$", flags=re.DOTALL | re.MULTILINE)
_REMARK = re.compile(r"<!-- (not run|needs): (.+?) -->\s*\Z")
_FILE = re.compile(r"`([\w.-]+\.\w+)`:\s*\Z")


@dataclass(frozen=True)
class Block:
    """A block of a page."""

    language: str
    text: str
    line: int
    file: str | None = None
    """The file that the line before says it is: "This is `mine.toml`:"."""
    not_run: str | None = None
    """Why not."""
    needs: str | None = None
    """The module without which it is left out."""

    @property
    def runs(self) -> bool:
        return self.not_run is None and (self.needs is None or find_spec(self.needs) is not None)


def blocks(page: str) -> list[Block]:
    """Those of a page, in order."""
    found = []
    for fence in _FENCE.finditer(page):
        before = page[: fence.start()]
        remark = _REMARK.search(before)
        said: dict[str, str] = {} if remark is None else {remark[1].replace(" ", "_"): remark[2]}
        named = _FILE.search(before if remark is None else before[: remark.start()])
        text = textwrap.dedent(fence[3])
        found.append(Block(fence[2], text, before.count("\n") + 1, named and named[1], **said))
    return found


def carry_out(block: Block, held: dict[str, Any], page: str) -> None:
    """Run a block in this folder: Python among these names, commands of ours, and TOML as what it is."""
    if block.file is not None and block.language != "text":
        Path(block.file).write_text(block.text, encoding="utf-8")
    if block.language == "python":
        # Lines are those of the page in a traceback.
        exec(compile("\n" * block.line + block.text, page, "exec"), held)
    elif block.language == "toml":
        read_toml(block.text)
    elif block.language == "sh":
        for line in block.text.replace("\\\n", " ").splitlines():
            if line.startswith("recaudit "):
                told = CliRunner().invoke(app, shlex.split(line, comments=True)[1:], env={"COLUMNS": "120"})
                assert told.exit_code == 0, f"{line}\n{told.output}"


def read_toml(text: str) -> None:
    """A configuration, a gate or a simulation by its tables; else TOML of some kind."""
    tables = tomllib.loads(text)
    if "rule" in tables:
        parse_gate(text, source="page")
    elif "environment" in tables:
        runs.parse_simulation(text, source="page", folder=Path())
    elif "model" in tables or "data" in tables:
        runs.parse(text, source="page", folder=Path())


def write_files(folder: Path) -> None:
    """ratings.csv and movies.csv of 60 people and 40 films, and vectors of both."""
    draw = np.random.default_rng(0)
    tastes, films, popularity = draw.normal(size=(60, 3)), draw.normal(size=(40, 3)), draw.normal(size=40)
    shares = np.exp(popularity) / np.exp(popularity).sum()
    ratings = ["userId,movieId,stars,when"]
    for user in range(60):
        n = int(draw.integers(12, 30))
        seen = draw.choice(40, n, replace=False, p=shares)
        times = 1_600_000_000 + np.cumsum(draw.integers(60, 90_000, n))
        for film, time in zip(seen, times, strict=True):
            liked = 3.3 + 0.5 * tastes[user] @ films[film] + 0.4 * popularity[film] + draw.normal(0, 0.5)
            ratings.append(f"{user + 1},{100 + film},{int(np.clip(np.rint(liked), 1, 5))},{time}")
    genres = ["Drama", "Comedy", "Action", "Horror", "Documentary"]
    movies = ["movieId,title,genres"]
    for film in range(40):
        movies.append(f"{100 + film},Film {film + 1},{'|'.join(sorted(set(draw.choice(genres, 2))))}")
    for name, lines in (("ratings.csv", ratings), ("movies.csv", movies)):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
