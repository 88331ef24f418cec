"""What every run folder says about itself: what it is of, how far it has come, and the digest of every file in it."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, BinaryIO, Literal, final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from recaudit import atomic, lock
from recaudit.errors import DamagedError, InputError
from recaudit.folders.files import Irregular, StoredFile, irregularity, open_regular, read_regular

STATEMENT = "statement.md"
"""What the statement of an audit is called in its folder. No manifest lists it: it is there to be filled in."""
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 64 * 2**20
"""Size of a manifest: one with 500,000 files has 60 MB."""
MAX_NESTING = 64
"""How many tables and lists of a manifest lie within each other."""
MAX_NAME_BYTES, MAX_PATH_BYTES = 255, 4096
"""Length of the name of a file, and of its path in the folder: what file systems accept."""

Fault = Irregular | Literal["damaged", "missing", "outside"]
"""What is wrong with a file: it is not as it was written, it is not there, a symbolic link or a special file is in its
place, or it is outside of the run folder and of every folder that the caller named."""
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
    if not name.isprintable():
        raise ValueError("a name without line breaks, control characters and marks that change the direction of text")
    if not parts or name != "/".join(parts) or {"/", ".."} & set(parts) or set(name) & set("\\:\0"):
        raise ValueError("a path inside the folder")
    if parts[-1] == MANIFEST:
        raise ValueError("no manifest")
    if len(name.encode()) > MAX_PATH_BYTES or any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        raise ValueError("a name that file systems accept")
    return name


Name = Annotated[str, AfterValidator(_inside)]
"""Of a file or folder, relative to the run folder, with forward slashes."""


def _path(text: str) -> str:
    if "\0" in text:
        raise ValueError("a path")
    os.fsencode(text)  # raises a ValueError if no file system can hold the name
    return text


Address = Annotated[str, AfterValidator(_path)]
"""The absolute path of a folder."""


Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""SHA-256, in hexadecimal."""


class Record(BaseModel):
    """A part of a manifest."""

    # Fields that a later version adds do not stop this one from opening the folder.
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, use_attribute_docstrings=True)


@final
class FileRecord(Record):
    """A file as it was written."""

    bytes: int = Field(ge=0, lt=2**63)
    sha256: Digest

    @classmethod
    def of(cls, path: Path) -> FileRecord:
        """Of a file as it is now."""
        with path.open("rb") as file:
            return cls.of_opened(file)

    @classmethod
    def of_opened(cls, file: BinaryIO) -> FileRecord:
        """Of an opened file."""
        digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # any file will do
        return cls(bytes=os.fstat(file.fileno()).st_size, sha256=digest)

    def fault(self, place: StoredFile | None) -> Fault | None:
        """What is wrong with the file now, if anything is; `place` is None for a file that must not be read."""
        if place is None:
            return "outside"
        irregular = irregularity(place.path, place.root)
        if irregular is not None:
            return irregular
        try:
            with open_regular(place.path, place.root) as file:
                same = os.fstat(file.fileno()).st_size == self.bytes and FileRecord.of_opened(file) == self
        except FileNotFoundError:
            return "missing"
        return None if same else "damaged"


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
    folders: dict[Name, Digest | None] = {}
    """Run folders inside this one, each with the digest of its manifest once all of them are complete."""
    elsewhere: dict[Name, Address] = {}
    """Folders whose files are not inside this one, each with the absolute path of the folder that holds them."""

    def path(self, folder: Path, name: str) -> Path:
        """Return the path of a file of this run folder as the manifest has it: of a stranger's folder any path."""
        inside, _, file = name.rpartition("/")
        return Path(self.elsewhere[inside], file) if inside in self.elsewhere else folder / name

    def place(
        self, folder: Path, name: str, *, root: Path | None = None, parts: Path | None = None
    ) -> StoredFile | None:
        """Return where a file of this run folder is, for a reader who does not trust the manifest.

        Args:
            folder: The run folder.
            name: The file, relative to it.
            root: The folder from which no link is followed, if it is above the run folder.
            parts: The folder below which files outside of the run folder may be read.

        Returns:
            The file, or None if it is outside of the run folder and not below `parts`.
        """
        path = self.path(folder, name)
        if name.rpartition("/")[0] not in self.elsewhere:
            return StoredFile(path, folder if root is None else root)
        if parts is None or ".." in path.parts:
            return None
        roots = (parts.absolute(), parts.resolve())
        return next((StoredFile(path, above) for above in roots if path.is_relative_to(above)), None)

    def encoded(self) -> bytes:
        """The file."""
        content = json.loads(self.model_dump_json())
        return _written({**content, "sha256": _digest(content)})


class ManifestError(ValueError):
    """The file is no manifest as recaudit writes it; the message says in what way."""


def parsed(content: bytes) -> Manifest:
    """Return the manifest in a file.

    Raises:
        ManifestError: The file is not, byte by byte, as recaudit writes it, or a field of it cannot be true.
    """
    try:
        found = json.loads(content, parse_constant=_no_constant)
        _check_nesting(found)
        digest = found.pop("sha256")
        if digest != _digest(found) or content != _written({**found, "sha256": digest}):
            raise ManifestError("which is damaged, or of another version, or none of recaudit's")
        return Manifest.model_validate(found)
    except ValidationError as error:
        raise ManifestError(f"in which {field_words(error)}") from None
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        if isinstance(error, ManifestError):
            raise
        raise ManifestError("which is damaged, or of another version, or none of recaudit's") from None


def decoded(content: bytes) -> Manifest | None:
    """The manifest, if the file is, byte by byte, as recaudit wrote it."""
    try:
        return parsed(content)
    except ManifestError:
        return None


def field_words(error: ValidationError, *inside: str | int) -> str:
    """Return what is wrong with the first field that is not as it must be; `inside` leads to the part that was read."""
    first, count = error.errors(include_url=False)[0], error.error_count()
    others = f", and {count - 1} more" if count > 1 else ""
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in (*inside, *first["loc"]))
    said = first["msg"].removeprefix("Value error, ")
    return f"the field {place.removeprefix('.')[:200]!a} is wrong ({said[:300]}{others})"


def damaged_manifest(file: Path, what: str) -> DamagedError:
    """Return the error about a manifest in which `what` is wrong."""
    return DamagedError(
        "path",
        received=f"{file}, {what}",
        expected="a manifest as this version of recaudit writes it",
        remedy="Put it back from a copy. Without one, choose another folder, or remove this one and run again: "
        "recaudit leaves this one as it is.",
    )


def read_manifest(path: Path, root: Path | None = None) -> Manifest | None:
    """The manifest of a run folder; None where there is no run yet: no folder, or an empty one.

    No link is followed from `root` on: the folder itself, or one above it.

    A folder that holds anything else is an error: it is not ours to write to, and never to delete.
    """
    if not path.exists():
        return None
    if not path.is_dir():
        raise InputError("path", received=f"{path}, a file", expected="a folder")
    file = path / MANIFEST
    try:
        content = read_regular(file, path if root is None else root, MAX_MANIFEST_BYTES)
    except FileNotFoundError:
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
            ) from None
        return None
    try:
        return parsed(content)
    except ManifestError as error:
        raise damaged_manifest(file, str(error)) from None


def _written(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=2).encode() + b"\n"


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _no_constant(name: str) -> None:
    raise ManifestError(f"which has the number {name}")


def _check_nesting(content: object) -> None:
    """Raise a ManifestError about tables within tables that no run writes, and texts that no encoding has."""
    level = [content]
    for _ in range(MAX_NESTING):
        inside: list[object] = []
        for value in level:
            if isinstance(value, str):
                value.encode()  # half of a surrogate pair is a ValueError
            elif isinstance(value, dict):
                inside += [*value, *value.values()]
            elif isinstance(value, list):
                inside += value
        if not inside:
            return
        level = inside
    raise ManifestError(f"which has tables within tables, more than {MAX_NESTING} deep")
