"""Whether a run folder is as it was written: every file, in every folder inside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

from recaudit import atomic, lock
from recaudit.errors import InputError
from recaudit.folders.manifest import MANIFEST, STATEMENT, Fault, FileRecord, Manifest, decoded


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


def verify(path: Path) -> Verdict:
    """Check every file of a run folder, finished or interrupted, against what was written; changes nothing."""
    if not path.is_dir():
        raise InputError("path", received=str(path), expected="a run folder")
    whole: list[str] = []
    lost: list[LostFile] = []
    manifest = _verify(path, "", None, whole, lost)
    known = {*whole, *(finding.name for finding in lost)}
    unknown = sorted(name for name in _files(path, path) if name not in known) if manifest else []
    statement = STATEMENT if manifest and manifest.kind == "audit" and STATEMENT in unknown else None
    if not lost and any(Path(name).name == MANIFEST for name in unknown):
        # A run folder inside that this manifest knows nothing of: it is another folder's.
        return Verdict(path, None, (), (LostFile("", MANIFEST, "damaged"),), ())
    others = tuple(name for name in unknown if name != statement)
    return Verdict(path, manifest, tuple(whole), tuple(lost), others, statement)


def _verify(root: Path, folder: str, digest: str | None, whole: list[str], lost: list[LostFile]) -> Manifest | None:
    """One folder and those inside it; `digest` is that of its manifest, where the folder around it knows it."""
    file = root / folder / MANIFEST
    there = file.is_file() and not _leads_away(root, _joined(folder, MANIFEST))
    manifest = decoded(file.read_bytes()) if there else None
    if manifest is None or (digest is not None and FileRecord.of(file).sha256 != digest):
        lost.append(LostFile(folder, MANIFEST, "damaged" if there else "missing"))
        return None
    whole.append(_joined(folder, MANIFEST))
    for name, record in manifest.files.items():
        fault = "missing" if _leads_away(root / folder, name) else record.fault(manifest.place(root / folder, name))
        if fault is None:
            whole.append(_joined(folder, name))
        else:
            lost.append(LostFile(folder, name, fault))
    for name, inside in manifest.folders.items():
        # Of a run that is not complete, folders that are not begun are not missing.
        place = root / folder / name
        if inside is not None or (place.is_dir() and any(_files(root, place))):
            _verify(root, _joined(folder, name), inside, whole, lost)
    return manifest


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _leads_away(folder: Path, name: str) -> bool:
    """Whether the file is reached through a link, and so may be anybody's."""
    return any(part.is_symlink() for part in _way(folder, name))


def cut_links(folder: Path, name: str) -> None:
    """Remove links on the way to a file of the folder: what they lead to is not ours to change."""
    for part in _way(folder, name):
        if part.is_symlink():
            part.unlink()


def _way(folder: Path, name: str) -> list[Path]:
    """From the folder to the file, without the folder."""
    parts = Path(name).parts
    return [folder.joinpath(*parts[:length]) for length in range(1, len(parts) + 1)]


def _files(root: Path, folder: Path) -> Iterator[str]:
    """Every file, links as what they are, without the traces of a run at work."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            if not path.name.startswith(atomic.PREFIX):
                yield from _files(root, path)
        elif path.name != lock.NAME and not path.name.startswith(atomic.PREFIX):
            yield path.relative_to(root).as_posix()
