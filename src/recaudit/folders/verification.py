"""Whether a run folder is as it was written: every file, in every folder inside it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import final

from recaudit import atomic, lock
from recaudit.errors import DamagedError, InputError
from recaudit.folders.files import Irregular, irregularity, read_regular
from recaudit.folders.manifest import MANIFEST, MAX_MANIFEST_BYTES, STATEMENT, Fault, Manifest, decoded


@final
@dataclass(frozen=True)
class LostFile:
    """A file that is not as it was written."""

    folder: str
    """The run folder that it belongs to, relative to the one that was verified; empty for that one itself."""
    file: str
    """Its name there."""
    fault: Fault

    @property
    def name(self) -> str:
        """The file, relative to the folder that was verified."""
        return _joined(self.folder, self.file)


@final
@dataclass(frozen=True)
class Verdict:
    """What was found in a run folder."""

    path: Path
    manifest: Manifest | None
    """None where it is damaged or missing."""
    whole: tuple[str, ...]
    """Files that are as they were written."""
    lost: tuple[LostFile, ...]
    """Files that are not."""
    unknown: tuple[str, ...]
    """Files that no manifest lists: somebody's own, or what a killed run had not finished. Nothing reads them."""
    statement: str | None = None
    """The statement of the audit, where the folder has one: there to be filled in, and so without a digest."""
    irregular: tuple[LostFile, ...] = ()
    """Symbolic links, pipes, sockets and devices that no manifest lists. Nothing follows or opens them."""


def verify(path: Path, parts: Path | None = None) -> Verdict:
    """Check every file of a run folder, finished or interrupted, against what was written; changes nothing.

    Args:
        path: The run folder.
        parts: The folder below which tables outside of the run folder may be read; without it they count as lost, as
            "outside".
    """
    if not path.is_dir():
        raise InputError("path", received=str(path), expected="a run folder")
    whole: list[str] = []
    lost: list[LostFile] = []
    manifest = _verify(path, parts, whole, lost)
    known = {*whole, *(finding.name for finding in lost)}
    others = {name: kind for name, kind in _files(path, path) if name not in known}
    if others.pop(lock.NAME, None) is not None:  # not a regular file: no command that writes would open it
        lost.append(LostFile("", lock.NAME, irregularity(path / lock.NAME, path) or "special"))
    irregular = tuple(LostFile("", name, kind) for name, kind in sorted(others.items()) if kind is not None)
    unknown = sorted(name for name, kind in others.items() if kind is None) if manifest else []
    statement = STATEMENT if manifest and manifest.kind == "audit" and STATEMENT in unknown else None
    if not lost and any(Path(name).name == MANIFEST for name in unknown):
        # A run folder inside that this manifest knows nothing of: it is another folder's.
        return Verdict(path, None, (), (LostFile("", MANIFEST, "damaged"),), (), None, irregular)
    unlisted = tuple(name for name in unknown if name != statement)
    return Verdict(path, manifest, tuple(whole), tuple(lost), unlisted, statement, irregular)


def _verify(root: Path, parts: Path | None, whole: list[str], lost: list[LostFile]) -> Manifest | None:
    """Check the folder and those inside it, and return its manifest."""
    outermost: Manifest | None = None
    left: list[tuple[str, str | None]] = [("", None)]  # folders, with the digest of the manifest where it is known
    while left:
        folder, digest = left.pop()
        found = _manifest(root, folder, digest)
        if not isinstance(found, Manifest):
            lost.append(LostFile(folder, MANIFEST, found))
            continue
        outermost = outermost or found
        whole.append(_joined(folder, MANIFEST))
        for name, record in found.files.items():
            fault = record.fault(found.place(root / folder, name, root=root, parts=parts))
            if fault is None:
                whole.append(_joined(folder, name))
            else:
                lost.append(LostFile(folder, name, fault))
        # Of a run that is not complete, folders that are not begun are not missing.
        inside = ((_joined(folder, name), seal) for name, seal in found.folders.items())
        left += reversed([(name, seal) for name, seal in inside if seal is not None or _is_begun(root, name)])
    return outermost


def _manifest(root: Path, folder: str, digest: str | None) -> Manifest | Fault:
    """The manifest of a folder, or what is wrong with it."""
    file = root / folder / MANIFEST
    try:
        content = read_regular(file, root, MAX_MANIFEST_BYTES)
    except FileNotFoundError:
        return "missing"
    except DamagedError:
        return irregularity(file, root) or "damaged"
    found = decoded(content)
    if found is None or (digest is not None and hashlib.sha256(content).hexdigest() != digest):
        return "damaged"
    return found


def _is_begun(root: Path, folder: str) -> bool:
    """Whether a folder inside holds any file; one that is reached through a link holds none of ours."""
    if any(part.is_symlink() for part in _way(root, folder)) or not (root / folder).is_dir():
        return False
    return any(True for _ in _files(root, root / folder))


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def cut_links(folder: Path, name: str) -> None:
    """Remove links on the way to a file of the folder: what they lead to is not ours to change."""
    for part in _way(folder, name):
        if part.is_symlink():
            part.unlink()


def _way(folder: Path, name: str) -> list[Path]:
    """From the folder to the file, without the folder."""
    parts = Path(name).parts
    return [folder.joinpath(*parts[:length]) for length in range(1, len(parts) + 1)]


def _files(root: Path, folder: Path) -> Iterator[tuple[str, Irregular | None]]:
    """Every file by name, with what it is if it is not regular; regular traces of a run at work are left out."""
    left = [folder]
    while left:
        # A run at work may remove a file or a folder meanwhile.
        with suppress(FileNotFoundError), os.scandir(left.pop()) as entries:
            for entry in entries:
                path = Path(entry.path)
                try:
                    mode = entry.stat(follow_symlinks=False).st_mode
                except FileNotFoundError:
                    continue
                of_run = entry.name == lock.NAME or entry.name.startswith(atomic.PREFIX)
                if stat.S_ISDIR(mode) and entry.name == lock.NAME:
                    yield path.relative_to(root).as_posix(), "special"
                elif stat.S_ISDIR(mode):
                    if not entry.name.startswith(atomic.PREFIX):
                        left.append(path)
                elif stat.S_ISLNK(mode):
                    yield path.relative_to(root).as_posix(), "link"
                elif not stat.S_ISREG(mode):
                    yield path.relative_to(root).as_posix(), "special"
                elif not of_run:
                    yield path.relative_to(root).as_posix(), None
