"""A run folder under way: a file is in its manifest once it is whole and in place, and is checked when it is read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from recaudit import atomic, lock
from recaudit.errors import DamagedError, DamageWarning, InputError
from recaudit.folders.files import not_regular
from recaudit.folders.manifest import KINDS, MANIFEST, Fault, FileRecord, Kind, Manifest, read_manifest
from recaudit.folders.tables import CheckedTable, TableRules, check_table
from recaudit.folders.verification import LostFile, cut_links, verify
from recaudit.version import __version__

REPORT = "report.html"

Writer = Callable[[Path], object]
"""Writes a file where it is told to."""


@final
class Folder:
    """Reads and writes one run folder."""

    def __init__(self, path: Path, manifest: Manifest, *, root: Path | None = None, parts: Path | None = None) -> None:
        self.path, self.manifest = path, manifest
        self.root = path if root is None else root
        """The folder that the caller named, from which no link is followed: this one, or one above it."""
        self.parts = parts
        """The folder below which tables outside of this folder may be read."""
        self._checked: set[Path] = set()
        self._tables: dict[Path, CheckedTable] = {}

    @classmethod
    def open(cls, path: Path, *kinds: Kind, root: Path | None = None, parts: Path | None = None) -> Folder:
        """A folder that holds a run of one of these kinds, to be read; see the attributes for `root` and `parts`."""
        expected = " or ".join(f"of {KINDS[kind]}" for kind in kinds)
        manifest = read_manifest(path, root)
        if manifest is None:
            raise InputError(
                "path",
                received=str(path),
                expected=f"a run folder {expected}, which holds a {MANIFEST}",
                remedy="Make one with 'recaudit audit' or 'recaudit simulate'.",
            )
        if manifest.kind not in kinds:
            raise InputError(
                "path", received=f"{path}, the folder of {KINDS[manifest.kind]}", expected=f"one {expected}"
            )
        return cls(path, manifest, root=root, parts=parts)

    @classmethod
    def begin(
        cls, path: Path, new: Manifest, *, fresh: bool = False, nested: bool = False, parts: Path | None = None
    ) -> Folder:
        """Start in an empty folder or, with `fresh`, over a former run; else go on with the same run.

        A `nested` folder is a part of another that is already ours: one that is not as it must be is started over.
        Whoever calls this holds the lock of the run.
        """
        if nested:
            former = _as_planned(path, new)
        else:
            former = None if fresh else read_manifest(path)
            if former is not None:
                check_same(path, former, new.kind, new.plan)
        path.mkdir(parents=True, exist_ok=True)
        folder = cls(path, former or new, parts=parts)
        if former is None:
            folder._save()
        atomic.sweep(path)
        return folder

    def put(
        self, files: Mapping[str, Writer | bytes | FileRecord], *, without: Iterable[str] = (), **changes: Any
    ) -> None:
        """Write files by name, each whole or not at all; note them, together with `changes` of the manifest.

        A file that has a record is in place already. Files `without` which it is are removed last: killed at any
        moment, it holds all that its manifest lists.
        """
        written = {name: how if isinstance(how, FileRecord) else self._write(name, how) for name, how in files.items()}
        gone = set(without) - written.keys()
        kept = {name: record for name, record in self.manifest.files.items() if name not in gone}
        self.note(files=kept | written, **changes)
        for name in gone:
            cut_links(self.path, name)
            atomic.discard(self.path / name)

    def note(self, **changes: Any) -> None:
        """Change the manifest, if this changes it."""
        changed = self.manifest.model_copy(update=changes)
        if changed != self.manifest:
            self.manifest = changed
            self._save()

    def checked(self, name: str) -> Path:
        """Where a file of the manifest is, if it is as it was written."""
        path = self.manifest.path(self.path, name)
        if path not in self._checked:
            place = self.manifest.place(self.path, name, root=self.root, parts=self.parts)
            fault = self.manifest.files[name].fault(place)
            if fault is not None:
                raise damaged(path, fault)
            self._checked.add(path)
        return path

    def checked_table(self, name: str, rules: TableRules | None = None) -> tuple[Path, CheckedTable]:
        """Return the path of a table of the manifest that is as it was written and can be read, and what it holds.

        Args:
            name: The file, relative to the folder.
            rules: What tables of its name have in every run.

        Raises:
            DamagedError: The table is not as it was written, or recaudit did not write it.
        """
        path = self.checked(name)
        if path not in self._tables:
            place = self.manifest.place(self.path, name, root=self.root, parts=self.parts)
            assert place is not None  # otherwise `checked` has raised
            self._tables[path] = check_table(place, rules)
        return path, self._tables[path]

    def sweep(self, *owned: str) -> None:
        """Remove every file inside these folders that the manifest does not list: left by a kill, or a stranger's."""
        for name in owned:
            cut_links(self.path, name)
            self._sweep(self.path / name)

    def complete(self) -> None:
        """Note that nothing is left to do here, and which of the folders inside are complete."""
        self.note(status="complete", folders={name: _seal(self.path / name) for name in self.manifest.folders})

    def _sweep(self, folder: Path) -> None:
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.is_dir() and not path.is_symlink():
                self._sweep(path)
                if not any(path.iterdir()):
                    path.rmdir()
            elif path.relative_to(self.path).as_posix() not in self.manifest.files | {MANIFEST: None}:
                atomic.discard(path)

    def _write(self, name: str, how: Writer | bytes) -> FileRecord:
        path = self.path / name
        cut_links(self.path, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise DamagedError(
                "path",
                received=f"the folder {path}",
                expected=f"a file, or nothing, at {name} of a run folder",
                remedy="Remove or rename this folder, and run the same command again.",
            )
        with atomic.file(path) as aside:
            if isinstance(how, bytes):
                aside.write_bytes(how)
            else:
                how(aside)
            return FileRecord.of(aside)

    def _save(self) -> None:
        self._checked.clear()
        self._tables.clear()
        atomic.write(self.path / MANIFEST, self.manifest.encoded())


@contextmanager
def claimed(path: Path, new: Manifest, *, owned: Iterable[str] = (), nested: bool = False) -> Iterator[Folder]:
    """Hold the folder of a run that has folders inside: a new one, or the one that is in it already.

    What is not as it was written, here or further inside, is told and taken away, so that it is made again.
    """
    path.mkdir(parents=True, exist_ok=True)
    with lock.alone(path):
        folder = Folder.begin(path, new, nested=nested)
        for name in (*folder.manifest.folders, *new.folders):
            cut_links(path, name)
            atomic.sweep((path / name).parent)
        lost = () if nested else verify(path).lost
        tell_lost(path, lost)
        for finding in lost:
            _take_away(path, finding)
        if lost:
            folder = Folder(path, read_manifest(path) or new)
        inside = {name: seal for name, seal in folder.manifest.folders.items() if (path / name / MANIFEST).is_file()}
        sealed = inside == folder.manifest.folders and all(inside.get(name) for name in new.folders)
        if lost or not sealed or folder.manifest.record != new.record:
            folder.note(status="running", record=new.record, folders=dict.fromkeys([*inside, *new.folders]))
        folder.sweep(*owned)
        yield folder


def keep(path: Path, name: str, content: bytes) -> Path:
    """Put one more file into a folder that nobody is at work in."""
    with lock.alone(path):
        Folder.open(path, *KINDS).put({name: content})
    return path / name


def check_same(path: Path, former: Manifest, kind: Kind, plan: Mapping[str, Any]) -> None:
    """That the folder's run is this very run, so that what is finished can be kept; of the plan, the parts given."""
    if former.recaudit != __version__:
        other = f"made by recaudit {former.recaudit} (this is {__version__})"
    elif former.kind != kind:
        other = ""
    else:
        differs = next((name for name, value in plan.items() if former.plan.get(name) != value), None)
        if differs is None:
            return
        other = f"with other {differs}{_difference(former.plan.get(differs), plan[differs])}"
    raise InputError(
        "out",
        received=f"{path}, which holds {KINDS[former.kind]} {other}".rstrip(),
        expected=f"a new folder, or one with this very {kind} in it",
        remedy="Choose another folder, remove this one, or start it over: --fresh, or in Python fresh=True, where it "
        "is an argument.",
    )


def damaged(path: Path, fault: Fault) -> InputError:
    """The error about one file."""
    if fault in {"link", "special"}:
        return not_regular(path, fault)
    if fault == "outside":
        return InputError(
            "parts",
            received=f"a run with tables in {path.parent}, outside of the run folder",
            expected="tables inside the run folder, or below a folder that you name",
            remedy="If you trust the folder in which they are, name it or one above it: --parts FOLDER, or in Python "
            "parts='FOLDER'.",
        )
    said = "which is missing" if fault == "missing" else "which is not as it was written"
    return DamagedError(
        "path",
        received=f"{path}, {said}",
        expected="the file that the run wrote",
        remedy="Run the same command again, which works it out anew; 'recaudit verify' checks the whole folder.",
    )


def tell_lost(path: Path, lost: Iterable[LostFile]) -> None:
    """Warn of all files by name, if there are any."""
    named = [f"{finding.name} ({finding.fault})" for finding in lost]
    if named:
        told = f"{path}: not as it was written, and worked out again: {', '.join(named)}."
        warnings.warn(told, DamageWarning, stacklevel=2)


def _seal(path: Path) -> str | None:
    """The digest of the manifest of a folder inside ours; None where it is not complete, and so may change."""
    manifest = read_manifest(path)
    return FileRecord.of(path / MANIFEST).sha256 if manifest is not None and manifest.status == "complete" else None


def _as_planned(path: Path, new: Manifest) -> Manifest | None:
    """The manifest of a folder inside ours, if it is there, whole and of this plan; else nothing is left of it."""
    try:
        former = read_manifest(path)
        if former is not None:
            check_same(path, former, new.kind, new.plan)
    except InputError:
        tell_lost(path, [LostFile("", MANIFEST, "damaged" if (path / MANIFEST).is_file() else "missing")])
        atomic.discard(path)
        return None
    return former


def _take_away(path: Path, finding: LostFile) -> None:
    """A trial is whole or begins anew, and so does a folder without a manifest; elsewhere a file goes alone."""
    inside = path / finding.folder
    manifest = read_manifest(inside) if finding.file != MANIFEST and inside.exists() else None
    if manifest is None or manifest.kind == "trial":
        if finding.folder and inside.exists():
            atomic.discard(inside)
    else:
        Folder(inside, manifest).put({}, without=[finding.file], status="running")


def _difference(former: object, new: object, where: str = "") -> str:
    """The first setting that differs, by its place in the plan."""
    if isinstance(former, dict) and isinstance(new, dict):
        both = [*new, *(name for name in former if name not in new)]
        differs = next(name for name in both if former.get(name) != new.get(name))
        return _difference(former.get(differs), new.get(differs), f"{where}.{differs}" if where else differs)
    return f" ({where}: it has {former!r}, this has {new!r})" if where else ""
