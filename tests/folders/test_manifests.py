"""A manifest may come from anybody: what cannot be true in it is an error that names the file and the field."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from folders.forged import forge
from recaudit.errors import DamagedError
from recaudit.folders import MANIFEST, Folder, Manifest, verify
from recaudit.folders import manifest as module
from recaudit.folders.manifest import MAX_NESTING


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    new = Manifest(kind="study", recaudit="0.0.0", plan={"a": 1}, record={"b": [1, 2]})
    Folder.begin(tmp_path / "run", new).put({"results/a.txt": b"x"})
    return tmp_path / "run"


def record(content: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = content["files"]["results/a.txt"]
    return found


def refused(folder: Path, what: str) -> None:
    with pytest.raises(DamagedError, match=rf"manifest\.json.*{what}"):
        Folder.open(folder, "study")
    assert [(lost.file, lost.fault) for lost in verify(folder).lost] == [(MANIFEST, "damaged")]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda own: own.__setitem__("kind", "novel"), "kind"),
        (lambda own: own.__setitem__("status", None), "status"),
        (lambda own: own.__setitem__("plan", []), "plan"),
        (lambda own: own.__setitem__("record", 10**9), "record"),
        (lambda own: own.pop("recaudit"), "recaudit"),
        (lambda own: record(own).__setitem__("bytes", -1), "bytes"),
        (lambda own: record(own).__setitem__("bytes", 10**400), "bytes"),
        (lambda own: record(own).__setitem__("sha256", "x"), "sha256"),
        (lambda own: own["folders"].__setitem__("inside", "0" * 63), "inside"),
        (lambda own: own["files"].__setitem__("../up", own["files"]["results/a.txt"]), "inside the folder"),
        (lambda own: own["files"].__setitem__("a" * 300, own["files"]["results/a.txt"]), "file systems"),
        (lambda own: own["files"].__setitem__("a/" * 3000 + "b", own["files"]["results/a.txt"]), "file systems"),
        (lambda own: own["plan"].__setitem__("a", float("nan")), "NaN"),
        (lambda own: own["plan"].__setitem__("a", float("-inf")), "-Infinity"),
        (lambda own: own["record"].__setitem__("b", "\ud800"), "damaged"),
        (lambda own: own["record"].__setitem__("\udfff", 1), "damaged"),
    ],
)
def test_a_field_that_cannot_be_true(folder: Path, change: Callable[[dict[str, Any]], object], what: str) -> None:
    forge(folder, change)
    refused(folder, what)


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def test_tables_within_tables(folder: Path) -> None:
    forge(folder, lambda own: own["record"].__setitem__("b", nested(MAX_NESTING - 10)))
    assert Folder.open(folder, "study").manifest.record["b"] == nested(MAX_NESTING - 10)
    forge(folder, lambda own: own["record"].__setitem__("b", nested(MAX_NESTING)))
    refused(folder, "tables within tables")


@pytest.mark.parametrize("pair", ["[]", ('{"a":', "}")])
def test_very_deep_nesting_ends_in_an_error(folder: Path, pair: tuple[str, str]) -> None:
    (folder / MANIFEST).write_text(pair[0] * 100_000 + pair[1] * 100_000)
    refused(folder, "damaged")


@pytest.mark.parametrize("text", ["", "null", "[]", '"x"', "1", '{"sha256": []}', "{", "\ufeff{}"])
def test_what_is_no_manifest(folder: Path, text: str) -> None:
    (folder / MANIFEST).write_text(text, encoding="utf-8")
    refused(folder, "damaged")


def test_bytes_that_are_no_text(folder: Path) -> None:
    content = (folder / MANIFEST).read_bytes()
    (folder / MANIFEST).write_bytes(content.replace(b'"plan"', b'"pl\xff\xfen"'))
    refused(folder, "damaged")


def test_a_key_that_is_there_twice(folder: Path) -> None:
    content = (folder / MANIFEST).read_text()
    (folder / MANIFEST).write_text(content.replace('"plan": {', '"plan": {"a": 2}, "plan": {'))
    refused(folder, "damaged")


def test_a_manifest_has_a_largest_size(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads((folder / MANIFEST).read_bytes())
    for read_by in (module, pytest.importorskip("recaudit.folders.verification")):
        monkeypatch.setattr(read_by, "MAX_MANIFEST_BYTES", 100)
    refused(folder, "longer than")
