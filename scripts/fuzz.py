"""Hand recaudit what people hand in by mistake: every case must end in a value or in an error that explains itself.

    python scripts/fuzz.py --cases 5000 --seed 0
    python scripts/fuzz.py --only files

A case may end in a value, in a `RecauditError`, in pydantic's `ValidationError`, or in the `TypeError` with which
Python itself refuses a call (an unknown keyword, a missing argument); Gymnasium has errors of its own. Anything else is
a finding: another exception, a panic of a library, a warning that recaudit did not mean to give, no answer within a
minute. Findings are counted by class: the exception, and the innermost function of recaudit that it came through. Exit
code 1 where there is any.

A case follows from the seed, its class and its number alone.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import gymnasium
from fuzz_calls import calls, configurations, environments, made
from fuzz_data import Case, Stage, files, frames
from pydantic import ValidationError

import recaudit
from recaudit.errors import RecauditError

PACKAGE = Path(recaudit.__file__).parent
PATIENCE = 60
"""Seconds after which a case counts as hanging. Most take well under one; the first may wait for a compiler."""
_MEMORY = 12 * 2**30
"""Bytes that a case may ask for, so that an absurd size is told and takes no machine down."""


CLASSES: dict[str, Callable[[random.Random, Stage], Case | None]] = {
    "frames": frames,
    "files": files,
    "configurations": configurations,
    "calls": calls,
    "made": made,
    "environments": environments,
}


class Hanging(BaseException):
    """No answer in time."""


@contextmanager
def _patience() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise Hanging(f"no answer in {PATIENCE} s")

    former = signal.signal(signal.SIGALRM, ring)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)


def judged(case: Case) -> tuple[str, str] | None:
    """(class, message) of a finding; None for a case that ended as it should."""
    try:
        with _patience(), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", module=r"gymnasium\.")
            case()
    except (RecauditError, ValidationError):
        return None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if Path(frame.filename).is_relative_to(PACKAGE)]
        if isinstance(error, TypeError) and frames[-1].filename.endswith(("fuzz.py", "fuzz_calls.py", "arguments.py")):
            return None  # Python itself refuses the call
        if isinstance(error, gymnasium.error.Error) and "/gymnasium/" in frames[-1].filename:
            return None  # Gymnasium's own rules, in its own words
        if isinstance(error, Warning) and own and "warn(" in str(frames[-1].line):  # given on purpose
            return None
        where = f"{Path(own[-1].filename).relative_to(PACKAGE)}:{own[-1].name}" if own else "outside recaudit"
        return f"{type(error).__name__} in {where}", str(error).split("\n", 1)[0][:150]
    return None


def fuzz(cases: int, seed: int, only: str | None = None) -> dict[tuple[str, str], list[str]]:
    """(class of case, class of finding) to the case numbers and messages."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    names = [only] if only else list(CLASSES)
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder))
        for number in range(cases):
            name = names[number % len(names)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                case = CLASSES[name](random.Random(f"{seed} {name} {number // len(names)}"), stage)
            finding = None if case is None else judged(case)
            if case is not None and finding is not None:
                found[name, finding[0]].append(f"case {number // len(names)}: {_told(case)}: {finding[1]}")
    return dict(found)


def _told(case: Case) -> str:
    if not isinstance(case, partial):
        return ""
    given = [f"{key}={value!r}"[:60].replace("\n", " ") for key, value in case.keywords.items()]
    return f"{getattr(case.func, '__name__', case.func)}({', '.join(given)})"[:300]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(CLASSES))
    parser.add_argument("--examples", type=int, default=1, help="how many cases of each finding to show")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    found = fuzz(options.cases, options.seed, options.only)
    for (name, finding), examples in sorted(found.items(), key=lambda entry: (entry[0][0], -len(entry[1]))):
        print(f"{len(examples):5}  {name}: {finding}")
        for example in examples[: options.examples]:
            print(f"         {example}")
    print(f"{options.cases:,} cases, {sum(map(len, found.values())):,} findings in {len(found)} classes")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
