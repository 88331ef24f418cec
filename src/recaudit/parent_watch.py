"""Processes that end when the process that started them ends, however that one ends.

The parent holds the writing end of a pipe, which the system closes with it. Linux then ends the child by a signal, also
while native code holds Python's lock; elsewhere a thread of the child sees it. This module imports nothing that takes
time, so that a process is watched before it loads torch.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from multiprocessing.connection import Connection

_SECONDS_BETWEEN_CHECKS = 1.0
"""After which the parent's process id is looked at: a process that the parent has forked holds the pipe open."""
_PARENT_HAS_ENDED = 1
"""Exit code, which nobody reads."""


def run_while_parent_lives(parent: int, pipe: Connection, function: str, *arguments: object) -> None:
    """Call a function in this new process, which ends at once when its parent ends.

    Args:
        parent: Process id of the parent.
        pipe: Reading end of a pipe, of which the parent alone holds the writing end and to which it writes nothing.
        function: "module:name" of the function, imported once the parent is watched.
        arguments: Passed to the function.
    """
    end_with_parent(parent, pipe)
    module, name = function.split(":")
    getattr(importlib.import_module(module), name)(*arguments)


def end_with_parent(parent: int, pipe: Connection) -> None:
    """End this process without delay when `pipe` is closed by the process `parent`, or that one is not its parent."""

    def wait() -> None:
        while os.getppid() == parent and not pipe.poll(_SECONDS_BETWEEN_CHECKS):
            pass
        os._exit(_PARENT_HAS_ENDED)

    threading.Thread(target=wait, name="recaudit parent watch", daemon=True).start()
    if sys.platform == "linux":
        import fcntl  # noqa: PLC0415  not on every system

        # When the pipe is closed, the system sends SIGIO, which ends a process that does not handle it.
        signal.signal(signal.SIGIO, signal.SIG_DFL)
        fcntl.fcntl(pipe.fileno(), fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(pipe.fileno(), fcntl.F_SETFL, fcntl.fcntl(pipe.fileno(), fcntl.F_GETFL) | os.O_ASYNC)
