"""Worker processes that compute one function for pieces of work."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
import queue
import signal
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, final

from recaudit.errors import MachineError
from recaudit.parent_watch import run_while_parent_lives

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

SECONDS_TO_END = 10.0
"""How long a worker without work may take to end before it is killed."""


class _Outcome(NamedTuple):
    """Outcome of a piece, as a worker sends it."""

    answer: Any
    error: BaseException | None
    where: str
    """Traceback of the error in the worker."""


@final
class WorkerPool:
    """Fresh processes that compute one function, each called by one thread of this process at a time.

    The workers are spawned, receive the function once, and end when this process ends, however it ends. A worker that
    ends early ends the others too, and all calls under way raise a `MachineError`. Nothing large is sent while a
    process is started, and no end of a worker's pipe stays open in another process: so no call waits for a worker that
    has ended.
    """

    def __init__(self, function: Callable[[Any], Any], count: int, cores: int) -> None:
        """Start the workers.

        Args:
            function: Picklable function of a piece.
            count: Number of workers.
            cores: Number of cores that each worker uses.
        """
        self._function: bytes | None = pickle.dumps(function, pickle.HIGHEST_PROTOCOL)
        self._without_function = count
        self._lock = threading.Lock()
        self._error: MachineError | None = None
        self._workers: list[_Worker] = []
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        atexit.register(self.kill)  # if the pool is still open: the interpreter waits for its processes
        try:
            for _ in range(count):
                self._workers.append(_Worker(cores))
                self._idle.put(self._workers[-1])
        except BaseException:
            self.kill()
            atexit.unregister(self.kill)
            raise
        self.threads = ThreadPoolExecutor(count, "recaudit worker")
        """One thread for each worker, to call `compute` in."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        self.threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.end()
        atexit.unregister(self.kill)

    def compute(self, piece: object) -> Any:
        """Return the function of a piece, computed by the next worker that has nothing to do.

        Raises:
            MachineError: If a worker has ended, this one or another.
        """
        worker = self._idle.get()
        try:
            if not worker.has_function:
                self._send_function(worker)
            outcome = worker.compute(pickle.dumps(piece, pickle.HIGHEST_PROTOCOL))
        except (EOFError, OSError) as error:
            raise self._lost(worker) from error
        finally:
            self._idle.put(worker)
        if outcome.error is not None:
            outcome.error.add_note(f"In a worker process:\n{outcome.where}")
            raise outcome.error
        return outcome.answer

    def kill(self) -> None:
        """End all workers at once, whatever they do."""
        for worker in self._workers:
            worker.kill()

    def _send_function(self, worker: _Worker) -> None:
        function = self._function
        assert function is not None
        worker.send(function)
        worker.has_function = True
        with self._lock:
            self._without_function -= 1
            if not self._without_function:
                self._function = None  # a model and a log, perhaps, of which every worker has its own

    def _lost(self, worker: _Worker) -> MachineError:
        """Error of a worker that has ended: the same for all calls, which it ends."""
        with self._lock:
            if self._error is None:
                self._error = MachineError(worker.describe_end())
                self.kill()
            return MachineError(str(self._error))


@final
class _Worker:
    """One worker process, as the process sees it that has started it."""

    def __init__(self, cores: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._connection, theirs = spawn.Pipe()
        watched, self._held = spawn.Pipe(duplex=False)  # closed by the system when this process ends
        arguments = (os.getpid(), watched, f"{__name__}:serve", theirs, cores)
        self._process: SpawnProcess = spawn.Process(target=run_while_parent_lives, args=arguments, name="recaudit")
        try:
            self._process.start()
        finally:
            theirs.close()
            watched.close()
        self.has_function = False

    def send(self, content: bytes) -> None:
        """Send bytes; an OSError if the worker has ended."""
        self._connection.send_bytes(content)

    def compute(self, piece: bytes) -> _Outcome:
        """Send a piece and wait for its outcome; an EOFError or OSError if the worker has ended."""
        self.send(piece)
        outcome: _Outcome = pickle.loads(self._connection.recv_bytes())
        return outcome

    def end(self) -> None:
        """Let the worker end, which has nothing to do."""
        self._connection.close()
        self._process.join(SECONDS_TO_END)
        self.kill()
        self._process.join()
        self._held.close()
        self._process.close()

    def kill(self) -> None:
        """End the worker at once."""
        with suppress(ValueError):  # it is closed
            self._process.kill()

    def describe_end(self) -> str:
        """Sentences on how the worker has ended, and what to do."""
        self._process.join(SECONDS_TO_END)
        code = self._process.exitcode
        if code is not None and code < 0:
            with suppress(ValueError):
                name = signal.Signals(-code).name
                return (
                    f"A worker process was ended by the signal {name}. Mostly the machine has too little memory for so "
                    "many workers: use fewer, or a smaller sample. Then run the same command again: a run resumes."
                )
        hint = (
            ""
            if self.has_function
            else " A script that uses processes must start them below if __name__ == '__main__'"
            ": each worker imports the script."
        )
        return (
            f"A worker process ended with exit code {code}, and should not have. What it wrote before is the reason."
            f"{hint} Run the same command again: a run resumes."
        )


def serve(connection: Connection, cores: int) -> None:
    """Compute pieces in a worker process, until the other end of the connection is closed.

    Args:
        connection: Receives the pickled function, then pickled pieces, and sends their outcomes.
        cores: Number of cores to use.
    """
    from recaudit.engines.steady import own_process, steadily  # noqa: PLC0415  not where workers are started

    own_process(cores)
    with suppress(EOFError, ConnectionResetError, BrokenPipeError):
        pickled, function = connection.recv_bytes(), None
        while True:
            piece = connection.recv_bytes()
            try:
                if function is None:
                    function, pickled = pickle.loads(pickled), b""
                outcome = _Outcome(steadily(function, pickle.loads(piece)), None, "")
            except BaseException as error:
                outcome = _Outcome(None, _picklable(error), traceback.format_exc())
            connection.send_bytes(_pickled(outcome))


def _pickled(outcome: _Outcome) -> bytes:
    try:
        return pickle.dumps(outcome, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # an answer that cannot travel
        return pickle.dumps(_Outcome(None, _picklable(error), traceback.format_exc()), pickle.HIGHEST_PROTOCOL)


def _picklable(error: BaseException) -> BaseException:
    """The error itself if it survives pickling, or one with its text."""
    try:
        pickle.loads(pickle.dumps(error, pickle.HIGHEST_PROTOCOL))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
