"""Ctrl-C while native code runs: what the command waits for is printed, and a second one ends it at once."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest

from recaudit.cli.interruption import WorkUnderWay, ends_on_second_interrupt
from recaudit.engines import Step

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are handled otherwise")

COMMAND = """
import sys, time
import numba
import numpy as np
from threadpoolctl import threadpool_limits
from recaudit.cli import app, main
from recaudit.cli.messages import command, notes
from recaudit.cli.progress import shown
from recaudit.engines import working

def spin(rounds):
    x = 1.0
    for i in range(rounds):
        x = x * 0.999999 + i % 7
    return x

def inversion(size):
    threadpool_limits(1)
    matrix = np.eye(size)
    return lambda: np.linalg.inv(matrix)

def loop(rounds, nogil):
    compiled = numba.njit(nogil=nogil)(spin)
    compiled(3)
    return lambda: compiled(rounds)

@app.command("long")
@command()
def long(work: str, size: int) -> None:
    compute = inversion(size) if work == "LAPACK" else loop(size, nogil=work == "kernel")
    with shown(notes()), working("matrix inversion"):
        print("begun", flush=True)
        compute()
        print("ended", flush=True)
        time.sleep(600)

main()
"""
SECOND = """
import os, signal, threading
from recaudit.cli.interruption import ends_on_second_interrupt

with ends_on_second_interrupt():
    for _ in range(2):
        try:
            signal.raise_signal(signal.SIGINT)
            threading.Event().wait(1)
        except KeyboardInterrupt:
            pass
"""
ENDLESS, LONG = 10**13, 10**9
TIMEOUT = 120.0
"""Seconds after which a test gives up: no time that is tested."""
LIMIT = 10.0
"""Seconds within which the message is printed, or the command ends."""


class Command:
    """A command in a process of its own, with its output as it comes."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, "long", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        assert self.process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self._reader.start()
        self.output = ""

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._lines.put(line)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()

    def wait_for(self, text: str, limit: float = TIMEOUT) -> None:
        """Read lines until one has the text."""
        end = time.monotonic() + limit
        while True:
            line = self._lines.get(timeout=max(0.01, end - time.monotonic()))
            self.output += line
            if text in line:
                return

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)


@contextmanager
def running(*arguments: str) -> Iterator[Command]:
    command = Command(*arguments)
    try:
        command.wait_for("begun")
        time.sleep(0.3)
        yield command
    finally:
        command.end()


def assert_ended_by_interrupt(command: Command) -> None:
    """A shell sees exit code 130 of a process that SIGINT ended."""
    assert command.process.wait(LIMIT) == -signal.SIGINT


@pytest.mark.parametrize(("work", "size"), [("kernel", ENDLESS), ("LAPACK", 7000)])
def test_a_second_interrupt_ends_native_code(work: str, size: int) -> None:
    with running(work, str(size)) as command:
        command.interrupt()
        command.wait_for("matrix inversion", limit=LIMIT)
        assert command.process.poll() is None
        command.interrupt()
        assert_ended_by_interrupt(command)


def test_a_second_interrupt_ends_native_code_that_holds_pythons_lock() -> None:
    with running("kernel that holds Python's lock", str(ENDLESS)) as command:
        command.interrupt()
        time.sleep(0.5)
        assert command.process.poll() is None
        command.interrupt()
        assert_ended_by_interrupt(command)


def test_a_shell_sees_exit_code_130_after_a_second_interrupt() -> None:
    script = '"$0" -c "$1"; echo "code $?"'
    shell = subprocess.run(["sh", "-c", script, sys.executable, SECOND], capture_output=True, text=True, check=False)
    assert shell.stdout.splitlines()[-1] == "code 130"


@pytest.mark.parametrize("work", ["kernel", "kernel that holds Python's lock"])
def test_one_interrupt_ends_the_command_as_soon_as_native_code_has_ended(work: str) -> None:
    with running(work, str(LONG)) as command:
        command.interrupt()
        assert command.process.wait(TIMEOUT) == 130


def test_one_interrupt_ends_python_code_without_a_message() -> None:
    with running("kernel", "10") as command:
        command.wait_for("ended")
        command.interrupt()
        assert command.process.wait(LIMIT) == 130
        command.wait_for("Interrupted.")
        assert "Press Ctrl-C again" not in command.output


def test_the_message_names_what_is_under_way() -> None:
    work = WorkUnderWay()
    empty = work.text
    for step in (Step("Run", 0, 3), Step("EASE: fit", 0, 1), Step("matrix inversion", 0, 1), Step("Run", 1, 3)):
        work(step)
    assert "Run; EASE: fit; matrix inversion" in work.text
    work(Step("EASE: fit", 1, 1))  # the inversion was given up
    assert "Run. " in work.text
    assert "EASE" not in work.text
    work(Step("Run", 3, 3))
    assert work.text == empty


def test_labels_from_elsewhere_do_no_harm_in_a_terminal() -> None:
    work = WorkUnderWay()
    work(Step("\x1b[2J\u202e" + "é" * 5000, 0, 1))
    assert "\x1b" not in work.text
    assert "\u202e" not in work.text
    assert work.text.endswith("\n")
    assert len(work.text.encode()) <= 2000


def test_signals_are_handled_as_before_afterwards() -> None:
    before = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(before)
    with ends_on_second_interrupt():
        inside = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(inside)
        assert inside != before
    assert signal.set_wakeup_fd(before) == before


FORK = """
import os, signal, sys
from recaudit.cli.interruption import ends_on_second_interrupt

with ends_on_second_interrupt():
    child = os.fork()
    if not child:
        os._exit(signal.set_wakeup_fd(-1) != -1)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_signals_of_a_forked_process_are_its_own() -> None:
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], check=False).returncode == 0


def test_an_ignored_interrupt_stays_ignored() -> None:
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with ends_on_second_interrupt():
            assert signal.set_wakeup_fd(-1) == -1
    finally:
        signal.signal(signal.SIGINT, former)
