"""Ctrl-C: the first ends a command as soon as Python runs, or what it waits for is printed; a second ends it at once.

Python raises `KeyboardInterrupt` between two of its own instructions, which may be an hour away while LAPACK runs, or
compiled code of another package. So a thread reads from a socket to which Python's signal handler, written in C, sends
the number of every signal. It waits in machine code of its own, which runs also while another thread holds Python's
lock.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, final

from recaudit.cli.messages import INTERRUPTED

if TYPE_CHECKING:
    from recaudit.engines import Step

PATIENCE = 2.0
"""Seconds from the first Ctrl-C until it is printed what the command waits for."""
_BETWEEN_LOOKS = 0.5
"""Seconds between two looks whether the compiler is loaded; before it is, no native code takes long."""
_STOP = b"\0"
"""Sent to the thread at the end; no signal has this number."""
_MESSAGE_BYTES = 2000


@contextmanager
def ends_on_second_interrupt() -> Iterator[None]:
    """Let a second Ctrl-C inside the block end this process at once, with exit code 130, whatever runs.

    Does nothing outside of the main thread, where Ctrl-C is ignored or handled otherwise, and on Windows.
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
    try:
        yield
    finally:
        signal.set_wakeup_fd(former)
        sender.send(_STOP)
        watcher.join()
        sender.close()
        receiver.close()


def _forget_in_child() -> None:
    """Signals of a forked process are not those of its parent."""
    with suppress(ValueError):  # forked by another thread than the main one
        signal.set_wakeup_fd(-1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


@final
class WorkUnderWay:
    """Keeps the message on what the command waits for, from reports of progress, where machine code can read it."""

    def __init__(self) -> None:
        self._labels: dict[str, None] = {}
        self.message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        self.length = ctypes.c_int64()
        self._write()

    def __call__(self, step: Step) -> None:
        """Take in a report of progress."""
        if (step.done < step.total) == (step.label in self._labels):
            return
        if step.done < step.total:
            self._labels[step.label] = None
        else:  # with what was begun inside it and not finished
            begun = list(self._labels)
            for label in begun[begun.index(step.label) :]:
                del self._labels[label]
        self._write()

    @property
    def text(self) -> str:
        """The message."""
        return self.message.raw[: self.length.value].decode("utf-8", errors="ignore")

    def _write(self) -> None:
        labels = "; ".join(self._labels) or "the computation that has begun"
        printable = "".join(character if character.isprintable() else "?" for character in labels)
        text = f"\nInterrupted: waiting until this has ended: {printable}. "
        again = "Press Ctrl-C again to end at once; finished steps of a run are kept.\n"
        content = text.encode("utf-8")[: _MESSAGE_BYTES - len(again)] + again.encode("utf-8")
        self.length.value = 0
        ctypes.memmove(self.message, content, len(content))
        self.length.value = len(content)


work_under_way = WorkUnderWay()
"""Of the command that this process runs."""


def _watch(receiver: socket.socket) -> None:
    """Count interrupts until the end of the command, or end the process at the second."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # else a signal ends the wait for its own number
    count = 0
    while "llvmlite.binding" not in sys.modules:
        if not select.select([receiver], [], [], _BETWEEN_LOOKS)[0]:
            continue
        number = receiver.recv(1)
        if number in (_STOP, b""):
            return
        count += number[0] == signal.SIGINT
        if count == 2:
            os._exit(INTERRUPTED)
    ready = ctypes.create_string_buffer(struct.pack("ihh", receiver.fileno(), select.POLLIN, 0))
    number_read = ctypes.create_string_buffer(1)
    ending = b"\x1b[?25h\n" if sys.stderr.isatty() else b"\n"  # a progress bar hides the cursor
    _compiled_watch()(
        receiver.fileno(),
        count,
        round(1000 * PATIENCE),
        ctypes.addressof(ready),
        ctypes.addressof(number_read),
        ctypes.addressof(work_under_way.message),
        ctypes.addressof(work_under_way.length),
        ending,
        len(ending),
    )


@cache
def _compiled_watch() -> Callable[..., None]:
    """Machine code of `_watch_code`."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(_watch_code()), target)
    engine.finalize_object()
    kinds = (ctypes.c_int, ctypes.c_int, ctypes.c_int, *[ctypes.c_void_p] * 4, ctypes.c_char_p, ctypes.c_int64)
    function: Any = ctypes.CFUNCTYPE(None, *kinds)(engine.get_function_address("watch"))
    function.engine = engine  # which owns the machine code
    return function  # type: ignore[no-any-return]  # ctypes has no types for it


def _watch_code() -> str:
    """LLVM's code of the following, in C; it needs no lock of Python's.

    void watch(int fd, int count, int patience, struct pollfd *ready, char *number,
               char *message, int64_t *length, char *ending, int64_t ending_length) {
        for (;;) {
            if (count == 1 && poll(ready, 1, patience) == 0) write(2, message, *length);
            if (read(fd, number, 1) != 1 || *number == STOP) return;
            if (*number == SIGINT && ++count == 2) { write(2, ending, ending_length); _exit(INTERRUPTED); }
        }
    }
    """
    from llvmlite import ir

    int32, int64, pointer = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()
    module = ir.Module("interruption")

    def declared(name: str, result: Any, *arguments: Any) -> ir.Function:
        return ir.Function(module, ir.FunctionType(result, arguments), name)

    poll = declared("poll", int32, pointer, int64, int32)
    read = declared("read", int64, int32, pointer, int64)
    write = declared("write", int64, int32, pointer, int64)
    leave = declared("_exit", ir.VoidType(), int32)
    arguments = (int32, int32, int32, pointer, pointer, pointer, int64.as_pointer(), pointer, int64)
    watch = declared("watch", ir.VoidType(), *arguments)
    fd, first_count, patience, ready, number, message, length, ending, ending_length = watch.args
    names = ("entry", "loop", "look", "tell", "wait", "received", "interrupt", "exit", "done")
    entry, loop, look, tell, wait, received, interrupt, end, done = map(watch.append_basic_block, names)

    build = ir.IRBuilder(entry)
    build.branch(loop)

    build.position_at_end(loop)
    count = build.phi(int32, "count")
    count.add_incoming(first_count, entry)
    build.cbranch(build.icmp_signed("==", count, int32(1)), look, wait)

    build.position_at_end(look)
    events = build.call(poll, (ready, int64(1), patience))
    build.cbranch(build.icmp_signed("==", events, int32(0)), tell, wait)

    build.position_at_end(tell)
    build.call(write, (int32(2), message, build.load(length)))
    build.branch(wait)

    build.position_at_end(wait)
    got = build.call(read, (fd, number, int64(1)))
    build.cbranch(build.icmp_signed("==", got, int64(1)), received, done)

    build.position_at_end(received)
    which = build.load(number)
    switch = build.switch(which, loop)
    switch.add_case(ir.IntType(8)(_STOP[0]), done)
    switch.add_case(ir.IntType(8)(int(signal.SIGINT)), interrupt)
    count.add_incoming(count, received)

    build.position_at_end(interrupt)
    more = build.add(count, int32(1))
    build.cbranch(build.icmp_signed("==", more, int32(2)), end, loop)
    count.add_incoming(more, interrupt)

    build.position_at_end(end)
    build.call(write, (int32(2), ending, ending_length))
    build.call(leave, (int32(INTERRUPTED),))
    build.branch(done)

    build.position_at_end(done)
    build.ret_void()
    return str(module)
