"""Kills runs at random moments, and checks that nothing is lost, nothing hangs and no process is left.

A small audit is started, killed, and resumed by the same command until it is complete; then its tables must be those of
a run that was never interrupted, byte for byte. The main process is killed with each executor, and one worker with the
executor "processes": there the command must end by itself with exit code 5 (or complete, when the worker had nothing
more to do). After each kill no process of the run may be left.

Runs are forked from this process, which has imported recaudit and computed nothing: most of a short run would be
imports otherwise. Workers are started as always. Needs Linux (/proc).

    python scripts/kill_runs.py --kills 100 --seed 0
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

CONFIG = """
floors = false
[data]
file = "ratings.csv"
[split]
kind = "random"
fraction = 0.2
[[model]]
kind = "als"
factors = 2
[audits.accuracy]
k = 5
by = []
[audits.exposure]
k = 5
by = []
[engine]
"""
EXECUTORS = {
    "serial": 'kind = "serial"\n',
    "threads": 'kind = "threads"\nworkers = 2\n',
    "processes": 'kind = "processes"\nworkers = 2\n',
}
MODES = ("serial main", "threads main", "processes main", "processes worker")
OK, MACHINE, KILLED = 0, 5, -signal.SIGKILL
SECONDS_UNTIL_GONE = 5.0
"""After the main process has ended, until no process of its session may be left."""
SECONDS_UNTIL_ENDED = 10.0
"""After a worker was killed, until the main process must have ended."""
SECONDS_OF_A_RUN = 300.0
"""After which a run is taken to hang."""
MODULES = (
    "recaudit.cli.audits",
    "recaudit.runs",
    "recaudit.report",
    "recaudit.models",
    "recaudit.audits",
    "scipy.linalg",
)
"""Imported before runs are forked."""


@dataclass
class Tally:
    """Results of the kills of one mode."""

    kills: int = 0
    complete: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    longest_end: float = 0.0
    longest_left: float = 0.0
    violations: list[str] = field(default_factory=list)


class Run:
    """A run of `recaudit audit` in a session of its own."""

    def __init__(self, config: Path, out: Path, log: Path) -> None:
        self.log = log
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            self._become_command(config, out)
        self._code: int | None = None

    def _become_command(self, config: Path, out: Path) -> None:
        code = 1
        try:
            os.setsid()
            with self.log.open("ab", buffering=0) as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            sys.argv = ["recaudit", "audit", str(config), "--out", str(out)]
            from recaudit.cli import main  # noqa: PLC0415  imported already

            main()
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 0
        finally:
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):
                    stream.flush()
            os._exit(code)

    def code(self) -> int | None:
        """Exit code, negative for a signal; None while it is running."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def wait(self, seconds: float) -> bool:
        """Whether the run ends within so many seconds."""
        end = time.monotonic() + seconds
        while self.code() is None and time.monotonic() < end:
            time.sleep(0.005)
        return self.code() is not None

    def processes(self) -> list[int]:
        """Process ids of its session that are running, its own among them."""
        return [pid for pid, session in sessions() if session == self.pid]

    def workers(self) -> list[int]:
        """Process ids of its workers."""
        return [pid for pid in self.processes() if pid != self.pid and b"spawn_main" in command_line(pid)]


def sessions() -> Iterator[tuple[int, int]]:
    """Every running process and its session."""
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError):
                state, _, _, session, *_ = (path / "stat").read_text().rsplit(")", 1)[1].split()
                if state not in "ZX":
                    yield int(path.name), int(session)


def command_line(pid: int) -> bytes:
    """Command line of a process; empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def tables(folder: Path) -> dict[str, bytes]:
    """Every table of a run folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.parquet"))}


def kill_one(mode: str, run: Run, after: float, draw: np.random.Generator, tally: Tally) -> None:
    """Kill the main process or a worker of a run, and check how it ends; nothing if it is complete before."""
    if run.wait(after):
        pass
    elif mode.endswith("main"):
        os.kill(run.pid, signal.SIGKILL)
        tally.kills += 1
    else:
        while not (workers := run.workers()) and not run.wait(0.02):
            pass
        if workers:
            with suppress(ProcessLookupError):
                os.kill(workers[int(draw.integers(len(workers)))], signal.SIGKILL)
            tally.kills += 1
    killed = time.monotonic()
    limit = SECONDS_OF_A_RUN
    if not run.wait(limit):
        tally.violations.append(f"hangs: {run.log.read_text(errors='replace')[-500:]}")
        os.kill(run.pid, signal.SIGKILL)
        run.wait(limit)
    ended = time.monotonic()
    code = run.code()
    assert code is not None
    tally.codes[code] += 1
    expected = (OK, KILLED) if mode.endswith("main") else (OK, MACHINE)
    if code not in expected:
        tally.violations.append(f"exit code {code}: {run.log.read_text(errors='replace')[-500:]}")
    if code == MACHINE:
        tally.longest_end = max(tally.longest_end, ended - killed)
        if ended - killed > SECONDS_UNTIL_ENDED:
            tally.violations.append(f"ended {ended - killed:.1f} s after its worker")
    while (left := run.processes()) and time.monotonic() - ended < SECONDS_UNTIL_GONE:
        time.sleep(0.01)
    tally.longest_left = max(tally.longest_left, time.monotonic() - ended)
    if left:
        tally.violations.append(f"left: {[command_line(pid) for pid in left]}")
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def kill_many(
    mode: str, kills: int, config: Path, root: Path, expected: dict[str, bytes], seconds: float, seed: int
) -> Tally:
    """Kill and resume runs until there were so many kills, and the last run is complete."""
    draw, tally, number = np.random.default_rng(seed), Tally(), 0
    while tally.kills < kills:
        out, log = root / f"{mode} {number}", root / f"{mode} {number}.log"
        number += 1
        while True:
            run = Run(config, out, log)
            if tally.kills < kills:
                kill_one(mode, run, draw.uniform(0.0, seconds), draw, tally)
            elif not run.wait(SECONDS_OF_A_RUN):
                tally.violations.append("does not end after the last kill")
                os.kill(run.pid, signal.SIGKILL)
                break
            if run.code() not in (KILLED, MACHINE):
                break
        if run.code() == OK and tables(out) == expected:
            tally.complete += 1
            shutil.rmtree(out)
            log.unlink()
        else:
            tally.violations.append(f"{out.name}: exit code {run.code()}, other tables than without a kill")
            break
    return tally


def make_inputs(root: Path) -> dict[str, Path]:
    """Write the ratings and a configuration for each executor."""
    draw = np.random.default_rng(0)
    pairs = draw.choice(600 * 40, 6000, replace=False)
    rows = (f"{pair // 40},{pair % 40},{rating}" for pair, rating in zip(pairs, draw.integers(1, 6, 6000), strict=True))
    (root / "ratings.csv").write_text("\n".join(["user,item,rating", *rows]) + "\n")
    configs = {}
    for name, lines in EXECUTORS.items():
        configs[name] = root / f"{name}.toml"
        configs[name].write_text(CONFIG + lines)
    return configs


def uninterrupted(config: Path, root: Path, name: str) -> tuple[dict[str, bytes], float]:
    """Tables of a run without a kill, and the seconds that it takes."""
    out, log, begun = root / name, root / f"{name}.log", time.monotonic()
    run = Run(config, out, log)
    if not run.wait(SECONDS_OF_A_RUN) or run.code() != OK:
        raise SystemExit(f"{name}: {log.read_text(errors='replace')}")
    return tables(out), time.monotonic() - begun


def main(kills: int, seed: int, modes: list[str]) -> int:
    """Kill runs of every mode; 1 if anything was violated."""
    for module in MODULES:
        importlib.import_module(module)
    begun, violations = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="kill_runs") as temporary:
        root = Path(temporary)
        configs = make_inputs(root)
        expected, _ = uninterrupted(configs["serial"], root, "compiling")
        seconds = {}
        for name in dict.fromkeys(mode.split()[0] for mode in modes):
            found, seconds[name] = uninterrupted(configs[name], root, name)
            if found != expected:
                raise SystemExit(f"{name} has other tables than serial")
        print(
            f"{len(expected)} tables; seconds of a run: { ({k: round(v, 1) for k, v in seconds.items()}) }", flush=True
        )
        for number, mode in enumerate(modes):
            name, start = mode.split()[0], time.monotonic()
            tally = kill_many(mode, kills, configs[name], root, expected, seconds[name], seed + number)
            violations += len(tally.violations)
            print(
                f"{mode:16} {tally.kills} kills, {tally.complete} runs complete with the same tables, exit codes "
                f"{dict(tally.codes)}, at most {tally.longest_left:.1f} s until no process was left"
                + (f" and {tally.longest_end:.1f} s from a worker's end to the run's" if tally.codes[MACHINE] else "")
                + f", {len(tally.violations)} violations, {time.monotonic() - start:.0f} s",
                flush=True,
            )
            for violation in tally.violations:
                print(f"  {violation}", file=sys.stderr)
    print(f"{time.monotonic() - begun:.0f} s in all")
    return 1 if violations else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=100, help="kills of each mode")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mode", action="append", choices=MODES, help="may be repeated; all by default")
    given = parser.parse_args()
    sys.exit(main(given.kills, given.seed, given.mode or list(MODES)))
