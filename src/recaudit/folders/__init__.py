"""Run folders: one manifest with a digest of every file; gone on with after a kill, checked by whoever gets one."""

from recaudit.atomic import file as write_whole
from recaudit.folders.files import open_input, open_regular, read_regular
from recaudit.folders.folder import REPORT, Folder, Writer, check_same, claimed, damaged, keep, tell_lost
from recaudit.folders.manifest import KINDS, MANIFEST, STATEMENT, FileRecord, Kind, Manifest, read_manifest
from recaudit.folders.verification import LostFile, Verdict, cut_links, verify
from recaudit.lock import alone as hold_folder

__all__ = [
    "KINDS",
    "MANIFEST",
    "REPORT",
    "STATEMENT",
    "FileRecord",
    "Folder",
    "Kind",
    "LostFile",
    "Manifest",
    "Verdict",
    "Writer",
    "check_same",
    "claimed",
    "cut_links",
    "damaged",
    "hold_folder",
    "keep",
    "open_input",
    "open_regular",
    "read_manifest",
    "read_regular",
    "tell_lost",
    "verify",
    "write_whole",
]
