"""What every run folder says about itself: what it is of, how far it has come, and the digest of every file in it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, final

from pydantic import AfterValidator, BaseModel, ConfigDict

from recaudit import atomic, lock
from recaudit.errors import DamagedError, InputError
from recaudit.folders.places import Place, opened, place_of, size, within

STATEMENT = "statement.md"
"""What the statement of an audit is called in its folder. No manifest lists it: it is there to be filled in."""
MANIFEST = "manifest.json"

Fault = Literal["damaged", "missing"]
Kind = Literal["audit", "simulation", "comparison", "study", "trial", "result", "experiments"]
KINDS: dict[Kind, str] = {
    "audit": "an audit",
    "simulation": "a simulation",
    "comparison": "a comparison of simulations",
    "study": "a simulation study",
    "trial": "a trial",
    "result": "a result",
    "experiments": "a study",
}
"""The kinds of run folders, in words."""


def _inside(name: str) -> str:
    """A name that leads nowhere but into the folder: a manifest may come from a stranger."""
    parts = PurePosixPath(name).parts
    if not parts or name != "/".join(parts) or {"/", ".."} & set(parts) or set(name) & set("\\:\0"):
        raise ValueError("a path inside the folder")
    if parts[-1] == MANIFEST:
        raise ValueError("no manifest")
    return name


Name = Annotated[str, AfterValidator(_inside)]
"""Of a file or folder, relative to the run folder, with forward slashes."""


class Record(BaseModel):
    """A part of a manifest."""

    # Fields that a later version adds do not stop this one from opening the folder.
    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


@final
class FileRecord(Record):
    """A file as it was written."""

    bytes: int
    sha256: str

    @classmethod
    def of(cls, place: Place) -> FileRecord:
        """Of a file as it is now."""
        with opened(place) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # any file will do
        return cls(bytes=size(place) or 0, sha256=digest)

    def fault(self, place: Place) -> Fault | None:
        """What is wrong with the file now, if anything is."""
        there = size(place)
        if there is None:
            return "missing"
        return "damaged" if there != self.bytes or FileRecord.of(place) != self else None


@final
class Manifest(Record):
    """The contents of manifest.json, which ends with the digest of all before it."""

    format: Literal[1] = 1
    kind: Kind
    recaudit: str
    """The version that wrote the folder."""
    status: Literal["running", "complete"] = "running"
    plan: dict[str, Any]
    """Everything that the numbers follow from: a folder is gone on with when it is the same."""
    record: dict[str, Any] = {}
    """What a run of this kind notes as it goes."""
    files: dict[Name, FileRecord] = {}
    """Every file that is whole and in place."""
    folders: dict[Name, str | None] = {}
    """Run folders inside this one, each with the digest of its manifest once all of them are complete."""
    elsewhere: dict[Name, str] = {}
    """Folders whose files are not inside this one, but at an address or in another folder."""

    def place(self, folder: Path, name: str) -> Place:
        """Where a file of this run folder is."""
        inside, _, file = name.rpartition("/")
        return within(place_of(self.elsewhere[inside]), file) if inside in self.elsewhere else folder / name

    def encoded(self) -> bytes:
        """The file."""
        content = json.loads(self.model_dump_json())
        return _written({**content, "sha256": _digest(content)})


def decoded(content: bytes) -> Manifest | None:
    """The manifest, if the file is, byte by byte, as recaudit wrote it."""
    try:
        found = json.loads(content)
        digest = found.pop("sha256")
        if digest == _digest(found) and content == _written({**found, "sha256": digest}):
            return Manifest.model_validate(found)
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):  # pydantic's are ValueErrors
        pass
    return None


def read_manifest(path: Path) -> Manifest | None:
    """The manifest of a run folder; None where there is no run yet: no folder, or an empty one.

    A folder that holds anything else is an error: it is not ours to write to, and never to delete.
    """
    if not path.exists():
        return None
    if not path.is_dir():
        raise InputError("path", received=f"{path}, a file", expected="a folder")
    file = path / MANIFEST
    if not file.is_file():
        # A run killed before its first manifest leaves a lock and unfinished files.
        others = [p.name for p in path.iterdir() if p.name != lock.NAME and not p.name.startswith(atomic.PREFIX)]
        if others:
            shown = ", ".join(sorted(others)[:3])
            raise InputError(
                "path",
                received=f"{path}, a folder with other files ({shown}{', ...' if len(others) > 3 else ''}) and no run",
                expected="a run folder, an empty folder or a new one",
                remedy=f"Choose another folder: recaudit leaves this one as it is. If a {MANIFEST} was lost from it, "
                "put it back from a copy.",
            )
        return None
    found = decoded(file.read_bytes())
    if found is None:
        raise DamagedError(
            "path",
            received=f"{file}, which is damaged, or of another version, or none of recaudit's",
            expected="a manifest as this version of recaudit writes it",
            remedy="Put it back from a copy. Without one, choose another folder, or remove this one and run again: "
            "recaudit leaves this one as it is.",
        )
    return found


def _written(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=2).encode() + b"\n"


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
