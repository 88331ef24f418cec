"""What the machine has: memory before it is asked for, and its own faults told as what they are."""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from recaudit.errors import DamagedError, MachineError

_AGAIN = "Then run the same command again: a run goes on where it stopped."

_FAULTS = {
    errno.ENOSPC: ("the disk is full", f"Make room, or choose a folder on another disk. {_AGAIN}"),
    errno.EDQUOT: ("the quota of the disk is used up", f"Make room, or choose a folder on another disk. {_AGAIN}"),
    errno.EROFS: ("the file system is read-only", "Choose a folder that can be written to."),
    errno.EACCES: ("there is no permission", f"Choose another folder, or ask for permission. {_AGAIN}"),
    errno.EPERM: ("there is no permission", f"Choose another folder, or ask for permission. {_AGAIN}"),
    errno.EFBIG: ("a file is larger than is allowed", f"Raise the limit of file sizes (ulimit -f). {_AGAIN}"),
    errno.EMFILE: ("too many files are open", f"Raise the limit of open files (ulimit -n). {_AGAIN}"),
    errno.ENFILE: ("too many files are open on this machine", f"Close other programs. {_AGAIN}"),
    errno.EIO: ("the disk cannot be read or written", f"Check the disk, or choose a folder on another. {_AGAIN}"),
    errno.ENOMEM: (
        "memory ran out",
        f"Close other programs, use fewer workers, or ask for less: fewer users, items or factors. {_AGAIN}",
    ),
}
"""What a system's error number means, and what to do."""

_NO_MEMORY = re.compile(r"not enough memory|can't allocate memory|out of memory|cannot allocate memory", re.IGNORECASE)
_NUMBERED = re.compile(r"(?:\(os error |Os \{ code: )(\d+)")
"""As libraries written in Rust tell the system's number."""


def machine_error(error: BaseException) -> MachineError | None:
    """The error as the machine's, if it, or what led to it, is the machine's and not recaudit's."""
    for cause in causes(error):
        number = _number(cause)
        if number in _FAULTS:
            what, remedy = _FAULTS[number]
            place = getattr(cause, "filename", None)
            return MachineError(f"{what}{f' ({place})' if place else ''}: {_first_line(cause)}. {remedy}")
    return None


def reason_not_measured(error: Exception) -> str:
    """The reason why something optional cannot be measured.

    Raises the error itself if it says nothing about the measurement: a fault of the machine, or a damaged file.
    """
    if isinstance(error, MachineError | DamagedError) or machine_error(error) is not None:
        raise error
    return str(error)


def check_memory(needed: int, what: str, remedy: str) -> None:
    """That so many bytes can be had, before they are asked for; `what` needs them, `remedy` does with fewer."""
    there = available_memory()
    if there is not None and needed > there:
        raise MachineError(
            f"{what} needs {needed / 2**30:,.1f} GiB of memory, and {there / 2**30:,.1f} GiB are available. {remedy}"
        )


def release_memory() -> None:
    """Give what was freed back to the system: glibc keeps it, for each thread apart, behind the next thing in use."""
    with suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def memory_words(count: int) -> str:
    """So many bytes, for a person."""
    return f"{count / 2**20:,.0f} MiB" if count < 2**30 else f"{count / 2**30:,.1f} GiB"


def available_memory() -> int | None:
    """Bytes that this process can still have: of the machine, of its container and of its own limit; None if unsaid."""
    found = [_of_machine(), *_of_containers(), _of_process()]
    return min((max(0, room) for room in found if room is not None), default=None)


def _of_machine() -> int | None:
    with suppress(OSError):
        said = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="utf-8"), re.MULTILINE)
        return int(said[1]) * 1024 if said else None
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def _of_containers(root: Path = Path("/sys/fs/cgroup"), groups: Path = Path("/proc/self/cgroup")) -> Iterator[int]:
    """What each control group around this process has left; files in memory that can be dropped are not used up."""
    lines: list[str] = []
    with suppress(OSError):
        lines = groups.read_text(encoding="utf-8").splitlines()
    for line in lines:
        _, controllers, inside = line.split(":", 2)
        if controllers == "":
            top, names = root, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            top, names = root / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        own = top / inside.lstrip("/")
        # Inside a container the path may be the host's: then only the top is there.
        for group in {folder for folder in (own, *own.parents) if folder.is_relative_to(top)}:
            with suppress(OSError, ValueError):
                limit, used = (int((group / name).read_text(encoding="utf-8")) for name in names[:2])
                stat = (group / "memory.stat").read_text(encoding="utf-8")
                idle = re.search(rf"^{names[2]} (\d+)$", stat, re.MULTILINE)
                yield limit - used + (int(idle[1]) if idle else 0)


def _of_process() -> int | None:
    """What `ulimit -v` and `ulimit -d` leave: of the address space, and of private memory that can be written."""
    try:
        import resource  # noqa: PLC0415  not on every system

        pages = Path("/proc/self/statm").read_text(encoding="utf-8").split()
        limits = ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5]))
        left = [
            limit - int(used) * resource.getpagesize()
            for kind, used in limits
            if (limit := resource.getrlimit(kind)[0]) != resource.RLIM_INFINITY
        ]
        return min(left, default=None)
    except (ImportError, OSError, ValueError, IndexError):
        return None


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what led to it, and so on."""
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield at
        at = at.__cause__ or at.__context__


def _number(error: BaseException) -> int | None:
    """The system's number of an error; libraries tell it in their own ways."""
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    numbered = _NUMBERED.search(str(error))
    if numbered:
        return int(numbered[1])
    return errno.ENOMEM if isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error)) else None


def _first_line(error: BaseException) -> str:
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (said.splitlines() or [type(error).__name__])[0].rstrip(".") or type(error).__name__
