"""Ctrl-C: the first ends a command as soon as Python runs, or what it waits for is printed; a second ends it at once.

Python raises `KeyboardInterrupt` between two of its own instructions, which may be an hour away while LAPACK runs, or
compiled code of another package. So the kernel is told to restore the default action of SIGINT once the first one has
been delivered (`SA_RESETHAND`): a second one then ends the process, whatever runs in it. A thread prints what the
command waits for as soon as Python lets it run.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from recaudit.engines import Step

PATIENCE = 2.0
"""Seconds from the first Ctrl-C until it is printed what the command waits for."""
_STOP = b"\0"
"""Sent to the thread at the end; no signal has this number."""
_MESSAGE_BYTES = 2000
_RESET_FLAGS = {"linux": (136, 0x80000000), "darwin": (12, 0x4)}
"""Position of `sa_flags` in C's `struct sigaction`, in bytes, and SA_RESETHAND, for each system."""


@contextmanager
def ends_on_second_interrupt() -> Iterator[None]:
    """Let a second Ctrl-C inside the block end this process at once, whatever runs.

    SIGINT then ends the process itself: a shell sees exit code 130. Does nothing outside of the main thread, if Ctrl-C
    is ignored or handled otherwise, and on Windows.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if os.name != "posix" or not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    former = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(receiver,), name="recaudit interruption", daemon=True)
    watcher.start()
    _handle_once()
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.set_wakeup_fd(former)
        sender.send(_STOP)
        watcher.join()
        sender.close()
        receiver.close()


def _handle_once() -> None:
    """Make the kernel restore the default action of SIGINT after the next one, with the handler as it is."""
    system = _RESET_FLAGS.get(sys.platform)
    if system is None:
        return
    position, reset = system
    libc = ctypes.CDLL(None)
    action = ctypes.create_string_buffer(512)
    if libc.sigaction(int(signal.SIGINT), None, action) == 0:
        flags = ctypes.c_uint32.from_buffer(action, position)
        flags.value |= reset
        libc.sigaction(int(signal.SIGINT), action, None)


def _forget_in_child() -> None:
    """Signals of a forked process are not those of its parent."""
    with suppress(ValueError):  # forked by another thread than the main one
        signal.set_wakeup_fd(-1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


@final
class WorkUnderWay:
    """Keeps the message on what the command waits for, from reports of progress."""

    def __init__(self) -> None:
        self._labels: dict[str, None] = {}

    def __call__(self, step: Step) -> None:
        """Take in a report of progress."""
        if (step.done < step.total) == (step.label in self._labels):
            return
        labels = dict(self._labels)
        if step.done < step.total:
            labels[step.label] = None
        else:  # with what was begun inside it and not finished
            begun = list(labels)
            for label in begun[begun.index(step.label) :]:
                del labels[label]
        self._labels = labels

    @property
    def text(self) -> str:
        """The message."""
        labels = "; ".join(self._labels) or "the computation that has begun"
        printable = "".join(character if character.isprintable() else "?" for character in labels)
        text = f"\nInterrupted: waiting until this has ended: {printable}. "
        again = "Press Ctrl-C again to end at once; finished steps of a run are kept.\n"
        return text.encode()[: _MESSAGE_BYTES - len(again)].decode(errors="ignore") + again


work_under_way = WorkUnderWay()
"""Of the command that this process runs."""


def _watch(receiver: socket.socket) -> None:
    """Print what the command waits for when `PATIENCE` has passed since the first interrupt, until the command ends."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # signals are for the main thread
    while (number := receiver.recv(1)) not in (_STOP, b""):
        if number[0] == signal.SIGINT and not select.select([receiver], [], [], PATIENCE)[0]:
            # A second Ctrl-C gives no time to show the cursor again, which a progress bar hides.
            shown = "\x1b[?25h" if sys.stderr.isatty() else ""
            os.write(2, (shown + work_under_way.text).encode())
