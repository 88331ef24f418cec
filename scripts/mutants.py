"""Count how many small faults in the sources the tests find.

    python scripts/mutants.py --count 300 --seed 33 --workers 2
    python scripts/mutants.py --count 60 --paths solvers metrics --out benchmarks/results/mutants.json

A mutant is the package with one small fault: `+` for `-`, `<=` for `<`, an argument that is off by one. The script
samples mutants at random, runs the tests that execute the changed line, and counts the mutants that a test kills: it
fails, or it runs ten times as long as before. A mutant that survives is a fault that the tests do not see, or a change
that makes no difference.

The script works on copies of the repository in the folder `--cache`. First it runs the tests once with coverage and
records which test executes which line (the tests of `TEST_FOLDERS` and `TEST_FILES`, as long as one run of them takes).
Then each worker changes one file of its copy at a time. Both steps save what they have: the same command resumes an
interrupted run. The sample depends on the seed and on the sources alone, and the first mutants of a larger sample are
those of a smaller one. After the sources or the tests have changed, everything is recorded again.

Coverage does not see inside functions that numba compiles. For these, and for constants of a module, the script
follows the names: it takes the tests that execute a line which refers to the function, or that import it.
"""

from __future__ import annotations

import argparse
import ast
import copy
import dataclasses
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("solvers", "metrics", "models", "policies")
TEST_FOLDERS = ("solvers", "metrics", "models", "policies", "audits", "contracts", "interventions")
TEST_FILES = ("test_arithmetic.py", "test_arguments.py", "test_seeding.py", "test_ties.py", "test_ranking.py")
PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not browser and not cluster")
NOT_COPIED = {"runs", "site", "dist"}
"""Folders of the repository that are left out of the copies, in addition to hidden ones."""
FILES_PER_PART = 6
"""Test files that are recorded in one process."""
MAX_TEST_SECONDS = 60.0
"""Sum of the recorded durations of the tests that one mutant is run against. All durations are processor time: they do
not depend on what else the machine does."""
WAITING_SECONDS = 3600.0
"""Real time after which a process of tests is ended: it waits for something that does not happen."""
TIMEOUT_FACTOR = 10.0
COMPILE_SECONDS = 60.0
"""Added to the time limit of each test: numba may have to compile the changed functions again."""
MAX_GIBIBYTES = 8
"""Memory of one test process: a mutant may allocate an array that is far too large."""
PADDING = 400
"""Newlines at the end of each source file of a copy. A mutant has as many fewer as its change is longer, and the file's
time stamp stays: the code that numba compiled before remains valid where the mutant does not change it."""

SMALLEST_CONSTANT = 1e-6
"""Smaller constants are tolerances: twice as large, nothing changes."""

KILLED, TIMED_OUT, SURVIVED, NOT_COVERED = "killed", "timed out", "survived", "not covered"
STATUSES = (KILLED, TIMED_OUT, SURVIVED, NOT_COVERED)


# Mutation operators -------------------------------------------------------------------------------------------------

_BINARY: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.Div(),
    ast.Div: ast.Mult(),
}
_COMPARISONS: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Lt: ast.LtE(),
    ast.LtE: ast.Lt(),
    ast.Gt: ast.GtE(),
    ast.GtE: ast.Gt(),
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
}
_EXTREMES = {
    name: opposite
    for pair in (("min", "max"), ("minimum", "maximum"), ("amin", "amax"), ("argmin", "argmax"), ("fmin", "fmax"))
    for name, opposite in (pair, pair[::-1])
}
_SKIPPED_CALLS = re.compile(r"^(warnings\.|logging\.|_?log(ger)?\.|cast$|TypeVar$|Field$|print$)")
_SKIPPED_FUNCTIONS = {"__repr__", "__str__"}
_SIZES = re.compile(r"BLOCK|CHUNK|BYTES|MEMORY|THREADS|LANES|CACHE|BOUNDARY|SCHEMA|VERSION")
"""Part of the names of constants that only set the size of pieces of work: any value gives the same result."""
_COMPILED = re.compile(r"jit|intrinsic")
"""Part of the decorators of functions that numba compiles."""
_EQUAL_BRANCHES = re.compile(r"\bis_cuda\b|\bdevice\b|\bis_contiguous\b|\bcpu_count\b|\bcore_count\b")
"""Part of the conditions that choose between implementations with the same result."""


@dataclass(frozen=True)
class Mutant:
    """One change of one source file.

    Args:
        package: Folder of the source package that contains the file.
        file: Path in the repository.
        line: First line of the expression that changes.
        start: First byte of the replaced text.
        end: Byte after the replaced text.
        operator: Kind of the change.
        before: The replaced text.
        after: The text in its place, with as many lines.
    """

    package: str
    file: str
    line: int
    start: int
    end: int
    operator: str
    before: str
    after: str

    @property
    def key(self) -> str:
        """Name of the mutant in the saved results."""
        return f"{self.file}:{self.start}:{self.end}:{self.operator}:{self.after}"

    def apply(self, source: bytes) -> bytes:
        """Return the source file with the change."""
        return source[: self.start] + self.after.encode() + source[self.end :]


def variants(node: ast.AST) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    """Yield the changes at one node: the operator, the node that is replaced, and its replacement."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            new_value = value + 1 if isinstance(value, int) else (2 * value or 1.0)
            if new_value != value and not 0 < abs(value) < SMALLEST_CONSTANT:
                yield "constant", node, ast.Constant(new_value)
        case ast.Call():
            yield from _call_variants(node)
        case ast.Slice(lower=lower, upper=upper):
            for bound in (lower, upper):
                if bound is not None:
                    yield "slice", bound, _plus_one(bound)
        case ast.If(body=[*_, ast.Return() as last]):
            yield "early return", last, ast.Pass()
        case _:
            yield from _operator_variants(node)


def _operator_variants(node: ast.AST) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            if not _is_sequence(left) and not _is_sequence(right):
                yield "arithmetic", node, ast.BinOp(left, _BINARY[type(op)], right)
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in _BINARY:
            if not _is_sequence(value):
                yield "arithmetic", node, ast.AugAssign(target, _BINARY[type(op)], value)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            for at, compared in enumerate(ops):
                if type(compared) in _COMPARISONS:
                    new_ops = [*ops[:at], _COMPARISONS[type(compared)], *ops[at + 1 :]]
                    yield "comparison", node, ast.Compare(left, new_ops, comparators)
        case ast.BoolOp(op=op, values=values):
            yield "boolean", node, ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "boolean", node, operand
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield "sign", node, operand


def _call_variants(node: ast.Call) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    name = _last_name(node.func)
    if name in _EXTREMES:
        mutated = copy.deepcopy(node)
        if isinstance(mutated.func, ast.Name):
            mutated.func.id = _EXTREMES[name]
        elif isinstance(mutated.func, ast.Attribute):
            mutated.func.attr = _EXTREMES[name]
        yield "min or max", node, mutated
    if name == "where" and len(node.args) == 3:
        yield "where", node, ast.Call(node.func, [node.args[0], node.args[2], node.args[1]], node.keywords)
    if name == "where" and len(node.args) == 2 and isinstance(node.func, ast.Attribute):
        yield "where", node, _where(node, node.func)
    if name == "abs" and not node.keywords:
        if len(node.args) == 1:
            yield "sign", node, node.args[0]
        elif not node.args and isinstance(node.func, ast.Attribute):
            yield "sign", node, node.func.value
    for keyword in node.keywords:
        if keyword.arg in {"axis", "dim"} and isinstance(keyword.value, ast.Constant) and keyword.value.value in {0, 1}:
            yield "axis", keyword.value, ast.Constant(1 - keyword.value.value)


def _where(node: ast.Call, function: ast.Attribute) -> ast.AST:
    """`a.where(condition, b)` as `b.where(condition, a)`."""
    return ast.Call(ast.Attribute(node.args[1], function.attr, ast.Load()), [node.args[0], function.value], [])


def _is_sequence(node: ast.expr) -> bool:
    """Return whether `-` and `/` are not defined for an operand."""
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_text or isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp)


def _plus_one(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return ast.Constant(node.value + 1)
    return ast.BinOp(node, ast.Add(), ast.Constant(1))


def _last_name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_skipped(node: ast.AST) -> bool:
    """Return whether nothing in a node is mutated: texts, annotations, logging, ways to the same result."""
    is_skipped = isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.match_case)
    match node:
        case ast.FunctionDef(name=name):
            is_skipped = name in _SKIPPED_FUNCTIONS
        case ast.Call(func=func):
            is_skipped = _SKIPPED_CALLS.match(ast.unparse(func)) is not None
        case ast.Subscript(value=value):
            is_skipped = _last_name(value) in {"Annotated", "Literal"}
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            is_skipped = name == "__all__" or (name.lstrip("_").isupper() and _SIZES.search(name) is not None)
        case ast.If(test=test):
            is_skipped = "TYPE_CHECKING" in ast.unparse(test) or "__main__" in ast.unparse(test)
    return is_skipped


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node that may be mutated."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "bases", "type_params"}:
            continue
        if name == "test" and isinstance(node, ast.If | ast.IfExp) and _EQUAL_BRANCHES.search(ast.unparse(value)):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST):
                yield part


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    """Yield all changes in a tree, each replaced node and operator once."""
    if _is_skipped(node):
        return
    yield from variants(node)
    replaced = {id(old) for operator, old, _ in variants(node) if operator in {"axis", "slice"}}
    for part in _children(node):
        for operator, old, new in _changes(part):
            if not (operator == "constant" and id(old) in replaced):
                yield operator, old, new


def mutants_of(source: bytes, file: str, package: str) -> list[Mutant]:
    """List all mutants of a source file, in the order of their position."""
    starts = [0]
    for row in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(row))
    result = []
    for operator, old, new in _changes(ast.parse(source)):
        assert isinstance(old, ast.expr | ast.stmt)
        assert old.end_lineno is not None
        assert old.end_col_offset is not None
        start = starts[old.lineno - 1] + old.col_offset
        end = starts[old.end_lineno - 1] + old.end_col_offset
        lines = old.end_lineno - old.lineno
        text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(new)))
        if isinstance(old, ast.stmt):
            after = text + "\n" * lines
        elif isinstance(new, ast.Constant):
            after = text
        else:
            after = "(" + "\n" * lines + text + ")"
        before = source[start:end].decode()
        result.append(Mutant(package, file, old.lineno, start, end, operator, before, after))
    return sorted(result, key=lambda mutant: (mutant.start, mutant.end, mutant.operator, mutant.after))


def sample(mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """Sample mutants, from each package in proportion to the number of its mutants.

    Args:
        mutants: All mutants.
        count: Number of mutants to sample.
        seed: The same seed gives the same sample, and a smaller sample is nearly the beginning of a larger one.

    Returns:
        The sampled mutants in an order that mixes the packages.
    """
    by_package = defaultdict(list)
    for mutant in sorted(mutants, key=lambda mutant: (mutant.package, mutant.file, mutant.start, mutant.key)):
        by_package[mutant.package].append(mutant)
    ranked = []
    for package, members in by_package.items():
        random.Random(f"{seed} {package}").shuffle(members)
        ranked += [((at + 0.5) / len(members), package, mutant) for at, mutant in enumerate(members)]
    return [mutant for _, _, mutant in sorted(ranked, key=lambda entry: entry[:2])[:count]]


# What refers to what ------------------------------------------------------------------------------------------------

Name = tuple[str, str]
"""A module (its file) and a name at its top level."""


@dataclass(frozen=True, eq=False)
class Scope:
    """A statement at the top level of a module: a function, a class or an assignment.

    Args:
        file: The module.
        names: Names that the statement binds.
        first: First line, with decorators.
        last: Last line.
        compiled: Whether numba compiles the function.
        body: Lines of code that run when a function is called.
        references: Lines in which the statement refers to a name of this or of another module.
    """

    file: str
    names: tuple[str, ...]
    first: int
    last: int
    compiled: bool
    body: frozenset[int]
    references: Mapping[Name, set[int]]


@dataclass(frozen=True)
class References:
    """Lines of the sources and test files that refer to a name.

    Args:
        scopes: The statements of each source file.
        tests: For each name, the test files that import it.
    """

    scopes: Mapping[str, Sequence[Scope]]
    tests: Mapping[Name, frozenset[str]]

    @classmethod
    def read(cls, root: Path, source: str) -> References:
        """Read all source files and test files of a repository."""
        modules = {}
        for path in sorted((root / source).rglob("*.py")):
            parts = path.relative_to((root / source).parent).with_suffix("").parts
            modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.relative_to(root).as_posix()
        trees = {file: ast.parse((root / file).read_bytes()) for file in modules.values()}
        origins = {
            (file, bound): name for file, tree in trees.items() for bound, name in _imports(tree, modules)[0].items()
        }
        scopes = {file: _scopes(tree, file, modules, origins) for file, tree in trees.items()}
        tests = defaultdict(set)
        for path in sorted((root / "tests").rglob("test_*.py")):
            file = path.relative_to(root).as_posix()
            for scope in _scopes(ast.parse(path.read_bytes()), file, modules, origins):
                for name in scope.references:
                    tests[name].add(file)
        return cls(scopes, {name: frozenset(files) for name, files in tests.items()})

    @cached_property
    def by_name(self) -> Mapping[Name, Sequence[tuple[Scope, set[int]]]]:
        """For each name, the statements that refer to it, with the lines."""
        result = defaultdict(list)
        for scopes in self.scopes.values():
            for scope in scopes:
                for name, lines in scope.references.items():
                    result[name].append((scope, lines))
        return result

    def scope_at(self, file: str, line: int) -> Scope | None:
        """Return the statement at the top level that contains a line."""
        return next((scope for scope in self.scopes[file] if scope.first <= line <= scope.last), None)

    def reached(self, scope: Scope) -> tuple[set[tuple[str, int]], set[str], set[str]]:
        """Follow the names that a statement binds to where Python code uses them.

        Returns:
            Lines of Python functions that refer to them, directly or through compiled functions and constants; the test
            files that import one of them; and the modules whose compiled functions contain one of them.
        """
        lines: set[tuple[str, int]] = set()
        tests: set[str] = set()
        compiled = {scope.file}
        seen, waiting = {scope}, [scope]
        while waiting:
            current = waiting.pop()
            for name in current.names:
                tests |= self.tests.get((current.file, name), frozenset())
                for user, places in self.by_name.get((current.file, name), ()):
                    if user.body and not user.compiled:
                        uses = places if places & user.body else places | user.body
                        lines |= {(user.file, line) for line in uses}
                        continue
                    if user.compiled:
                        compiled.add(user.file)
                    if user not in seen:
                        seen.add(user)
                        waiting.append(user)
        return lines, tests, compiled


def _scopes(tree: ast.Module, file: str, modules: Mapping[str, str], origins: Mapping[Name, Name]) -> list[Scope]:
    """List the statements at the top level of a module; `origins` are the names that modules only pass on."""
    names, whole = _imports(tree, modules)
    statements: list[ast.stmt] = []
    for statement in tree.body:
        statements += statement.body if isinstance(statement, ast.If | ast.Try) else [statement]
    names.update({name: (file, name) for statement in statements for name in _bound(statement)})
    result = []
    for statement in statements:
        places: list[tuple[Name, int]] = []
        body: set[int] = set()
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id in names:
                places.append((names[node.id], node.lineno))
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in whole:
                places.append(((whole[node.value.id], node.attr), node.lineno))
            elif isinstance(node, ast.FunctionDef):
                body |= {inner.lineno for part in node.body for inner in ast.walk(part) if isinstance(inner, ast.stmt)}
        references: dict[Name, set[int]] = defaultdict(set)
        for name, line in places:
            references[_origin(name, origins)].add(line)
        decorators = getattr(statement, "decorator_list", [])
        result.append(
            Scope(
                file,
                tuple(_bound(statement)),
                first=min(part.lineno for part in (statement, *decorators)),
                last=statement.end_lineno or statement.lineno,
                compiled=any(_COMPILED.search(ast.unparse(decorator)) for decorator in decorators),
                body=frozenset(body),
                references=references,
            )
        )
    return result


def _origin(name: Name, origins: Mapping[Name, Name]) -> Name:
    seen = {name}
    while name in origins and origins[name] not in seen:
        name = origins[name]
        seen.add(name)
    return name


def _imports(tree: ast.Module, modules: Mapping[str, str]) -> tuple[dict[str, Name], dict[str, str]]:
    """Return what the imported names of a module are, and the modules that are imported as a whole."""
    names: dict[str, Name] = {}
    whole: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                bound = alias.asname or alias.name
                if f"{node.module}.{alias.name}" in modules:
                    whole[bound] = modules[f"{node.module}.{alias.name}"]
                elif node.module is not None and node.module in modules:
                    names[bound] = (modules[node.module], alias.name)
        elif isinstance(node, ast.Import):
            whole.update(
                {alias.asname: modules[alias.name] for alias in node.names if alias.asname and alias.name in modules}
            )
    return names, whole


def _bound(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    return []


def _statement_lines(tree: ast.Module, line: int) -> set[int]:
    """Return the lines from the beginning of the innermost statement that contains a line to this line."""
    starts = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or line)
    ]
    return set(range(max(starts, default=line), line + 1))


# Tests --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TestMap:
    """Tests that execute each line, from one run with coverage.

    Args:
        seconds: Duration of each test that passed.
        lines: For each file and line, the tests that execute it.
        fixtures: For each file and line, the test files whose fixtures execute it.
    """

    seconds: Mapping[str, float]
    lines: Mapping[tuple[str, int], frozenset[str]]
    fixtures: Mapping[tuple[str, int], frozenset[str]]

    @classmethod
    def load(cls, parts: Iterable[Path]) -> TestMap:
        """Join the maps of the recorded parts."""
        seconds: dict[str, float] = {}
        lines, fixtures = defaultdict(set), defaultdict(set)
        for path in parts:
            part = json.loads(path.read_text(encoding="utf-8"))
            seconds.update(part["seconds"])
            contexts = part["contexts"]
            for file, by_line in part["lines"].items():
                for line, numbers in by_line.items():
                    for number in numbers:
                        test, _, phase = contexts[number].rpartition("|")
                        if phase == "run":
                            lines[file, int(line)].add(test)
                        elif test:
                            fixtures[file, int(line)].add(test.split("::")[0])
        return cls(
            seconds,
            {place: frozenset(tests) for place, tests in lines.items()},
            {place: frozenset(files) for place, files in fixtures.items()},
        )

    @cached_property
    def by_file(self) -> Mapping[str, Sequence[str]]:
        """The tests of each test file."""
        result = defaultdict(list)
        for test in self.seconds:
            result[test.split("::")[0]].append(test)
        return result

    def of(self, places: Iterable[tuple[str, int]], files: Iterable[str] = ()) -> tuple[set[str], set[str]]:
        """Return the tests that execute one of the lines, and those that use fixtures or files which do."""
        direct: set[str] = set()
        indirect: set[str] = set()
        used = set(files)
        for place in places:
            direct |= self.lines.get(place, frozenset())
            used |= self.fixtures.get(place, frozenset())
        for file in used:
            indirect |= set(self.by_file.get(file, ()))
        all_tests = self.seconds.keys()
        return direct & all_tests, (indirect - direct) & all_tests


@dataclass(frozen=True)
class Selection:
    """The tests that a mutant is run against.

    Args:
        tests: Tests in the order in which they run.
        cut: Number of tests that were left out, because the time would exceed the limit.
        stale: Modules whose compiled functions contain the change; empty for a change of Python code.
    """

    tests: tuple[str, ...]
    cut: int
    stale: frozenset[str]


def select(mutant: Mutant, source: bytes, references: References, tests: TestMap, seconds: float) -> Selection:
    """Select the tests that can see a mutant, those of the matching test file first, then the fastest.

    Args:
        mutant: The mutant.
        source: Its source file without the change.
        references: Which statements refer to which names.
        tests: Which tests execute which lines.
        seconds: Maximum sum of the recorded durations.
    """
    scope = references.scope_at(mutant.file, mutant.line)
    direct: set[str] = set()
    indirect: set[str] = set()
    mutated_lines = range(mutant.line, mutant.line + mutant.before.count("\n") + 1)
    stale: set[str] = set()
    tree = ast.parse(source)
    if scope is None:
        pass  # no statement: the tests of the module
    elif scope.compiled or not any(_statement_lines(tree, mutant.line) & scope.body):
        places, files, stale = references.reached(scope)
        if not scope.compiled:
            places |= {(mutant.file, line) for line in scope.body}
        direct, indirect = tests.of(places, files)
    else:
        direct, indirect = tests.of((mutant.file, line) for line in mutated_lines)
        if not direct:
            statement = _statement_lines(tree, mutant.line)
            direct, more = tests.of((mutant.file, line) for line in statement)
            indirect |= more
    if not direct and not indirect and (scope is None or not scope.body or scope.compiled):
        module_lines = {place for place in tests.lines if place[0] == mutant.file}
        direct, indirect = tests.of(module_lines, [file for file in tests.by_file if _matches(file, mutant.file)])
    ranked = sorted(
        direct | indirect,
        key=lambda test: (
            not _matches(test.split("::")[0], mutant.file),
            test not in direct,
            tests.seconds[test],
            test,
        ),
    )
    selected: list[str] = []
    total = 0.0
    for test in ranked:
        if selected and total + tests.seconds[test] > seconds:
            continue
        selected.append(test)
        total += tests.seconds[test]
    return Selection(tuple(selected), len(ranked) - len(selected), frozenset(stale))


def _matches(test_file: str, file: str) -> bool:
    """Return whether a test file is the one of a module: test_power.py of power.py, or a longer name."""
    module = Path(file).stem.strip("_")
    name = Path(test_file).stem
    return name == f"test_{module}" or name.startswith(f"test_{module}_")


# Hooks of pytest: the processes that run tests load this file as a plug-in ------------------------------------------

_limits: dict[str, float] = {}
_started: dict[str, float] = {}
_seconds: dict[str, float] = {}
_failed: set[str] = set()


def pytest_configure() -> None:
    """Read the time limits of the tests and limit the memory."""
    if path := os.environ.get("MUTANTS_LIMITS"):
        _limits.update(json.loads(Path(path).read_text(encoding="utf-8")))
        if sys.platform == "linux":
            resource.setrlimit(resource.RLIMIT_DATA, (MAX_GIBIBYTES << 30,) * 2)


def pytest_runtest_logstart(nodeid: str) -> None:
    """Start the clock of a test: the signal ends the process when its time is over, even within compiled code."""
    _started[nodeid] = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, _limits.get(nodeid, 0.0))


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Stop the clock of a test."""
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    _seconds[nodeid] = time.process_time() - _started[nodeid]


def pytest_runtest_logreport(report: Any) -> None:
    """Note the tests that failed or were skipped."""
    if not report.passed:
        _failed.add(report.nodeid)


def pytest_unconfigure() -> None:
    """Save the durations of the tests that passed."""
    if path := os.environ.get("MUTANTS_DURATIONS"):
        passed = {test: round(seconds, 4) for test, seconds in _seconds.items() if test not in _failed}
        Path(path).write_text(json.dumps(passed), encoding="utf-8")


# Running ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measurement:
    """A repository, the sample of mutants, and the folder for copies and results.

    Args:
        root: Folder of the repository.
        source: Folder of the package in it.
        packages: Folders of the package that are mutated.
        tests: Test folders and files, below `tests`; those that are missing are left out.
        count: Number of mutants.
        seed: Seed of the sample.
        workers: Number of mutants that are tested at the same time.
        cache: Folder for copies, the map of the tests and the results.
        seconds: Maximum sum of the durations of the tests that one mutant is run against.
    """

    root: Path
    source: str = "src/recaudit"
    packages: tuple[str, ...] = PACKAGES
    tests: tuple[str, ...] = TEST_FOLDERS + TEST_FILES
    count: int = 300
    seed: int = 33
    workers: int = 2
    cache: Path = field(default_factory=lambda: Path(tempfile.gettempdir()) / "recaudit-mutants")
    seconds: float = MAX_TEST_SECONDS

    @cached_property
    def folder(self) -> Path:
        """Folder of this state of the sources and of the tests in folders."""
        tests = self.root / "tests"
        files = [*(self.root / self.source).rglob("*.py"), *tests.glob("*/**/*.py"), *map(tests.joinpath, TEST_FILES)]
        digest = hashlib.sha256()
        for path in sorted(path for path in files if path.exists()):
            digest.update(path.relative_to(self.root).as_posix().encode() + b"\0" + path.read_bytes())
        return self.cache / digest.hexdigest()[:16]

    @cached_property
    def base(self) -> Path:
        """The copy of the repository in which the tests are recorded."""
        folder = self.folder / "base"
        if not folder.exists():
            partial = self.folder / "base.part"
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(self.root, partial, ignore=self._not_copied)
            for path in (partial / self.source).rglob("*.py"):
                path.write_bytes(path.read_bytes() + b"\n" * PADDING)
            partial.rename(folder)
        return folder

    def _not_copied(self, folder: str, names: Sequence[str]) -> list[str]:
        is_top = Path(folder) == self.root
        return [name for name in names if name.startswith(".") or (is_top and name in NOT_COPIED)]

    def sources(self) -> dict[str, bytes]:
        """Return the source files that are mutated, as they are in the copies."""
        folders = [self.base / self.source / package for package in self.packages]
        files = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
        return {path.relative_to(self.base).as_posix(): path.read_bytes() for path in files}

    def mutants(self) -> list[Mutant]:
        """Sample the mutants."""
        everything = []
        for file, source in self.sources().items():
            package = Path(file).relative_to(self.source).parts[0]
            everything += mutants_of(source, file, package)
        return sample(everything, self.count, self.seed)

    def environment(self, folder: Path, **more: str) -> dict[str, str]:
        """Return the environment of tests in a copy."""
        paths = [str((folder / self.source).parent), str(Path(__file__).resolve().parent)]
        environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
        return {**environment, "PYTHONPATH": os.pathsep.join(paths), "NUMBA_JIT_COVERAGE": "0", **more}

    def record(self) -> TestMap:
        """Run the tests with coverage, in parts, and return which tests execute which lines."""
        parts = self.folder / "parts"
        parts.mkdir(parents=True, exist_ok=True)
        groups = {parts / f"{_digest(files)}.json": files for files in self.test_files()}
        with ThreadPoolExecutor(self.workers) as pool:
            for path in pool.map(lambda part: self._record_part(*part), groups.items()):
                print(f"recorded {', '.join(groups[path])}", flush=True)
        return TestMap.load(groups)

    def test_files(self) -> list[list[str]]:
        """Return the test files that are recorded, in groups for one process each."""
        groups = []
        for name in self.tests:
            place = self.base / "tests" / name
            paths = sorted(place.rglob("test_*.py")) if place.is_dir() else [place] if place.exists() else []
            files = [path.relative_to(self.base).as_posix() for path in paths]
            groups += [files[at : at + FILES_PER_PART] for at in range(0, len(files), FILES_PER_PART)]
        return groups

    def _record_part(self, path: Path, files: Sequence[str]) -> Path:
        if path.exists():
            return path
        data, durations = path.with_suffix(".coverage"), path.with_suffix(".seconds")
        names = [argument for argument in PYTEST if argument != "-x"]
        options = [
            f"--cov={self.source}",
            "--cov-context=test",
            "--cov-report=",
            "-p",
            "pytest_cov",
            "-p",
            Path(__file__).stem,
        ]
        process = subprocess.run(
            [sys.executable, *names, *options, *files],
            cwd=self.base,
            env=self.environment(self.base, COVERAGE_FILE=str(data), MUTANTS_DURATIONS=str(durations)),
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode not in (0, 1, 5):
            raise SystemExit(
                f"The tests of {', '.join(files)} could not run:\n{process.stdout[-3000:]}{process.stderr[-3000:]}"
            )
        if process.returncode == 1:
            print(f"Tests that fail without a mutant are left out:\n{process.stdout[-2000:]}", flush=True)
        lines = _read_coverage(data, self.base) if process.returncode != 5 else {"contexts": [], "lines": {}}
        part = {"seconds": json.loads(durations.read_text(encoding="utf-8")), **lines}
        _write(path, json.dumps(part))
        data.unlink(missing_ok=True)
        durations.unlink()
        return path

    def run(self) -> list[dict[str, Any]]:
        """Run the tests against each sampled mutant, and return the results in the order of the sample."""
        tests, references, sources = self.record(), References.read(self.base, self.source), self.sources()
        saved = self.folder / "results.jsonl"
        results = {}
        if saved.exists():
            for line in saved.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                results[entry["key"]] = entry
        chosen = self.mutants()
        selections = {
            mutant.key: select(mutant, sources[mutant.file], references, tests, self.seconds) for mutant in chosen
        }
        waiting = [mutant for mutant in chosen if not _is_final(results.get(mutant.key), selections[mutant.key])]
        print(f"{len(chosen)} mutants, {len(chosen) - len(waiting)} of them with saved results", flush=True)
        lock, at = threading.Lock(), iter(waiting)

        def work(worker: int) -> None:
            copied = Copy.make(self, worker)
            while True:
                with lock:
                    mutant = next(at, None)
                if mutant is None:
                    return
                selection = selections[mutant.key]
                entry = {
                    "key": mutant.key,
                    "selection": _digest(selection.tests),
                    **copied.test(mutant, selection, tests.seconds),
                }
                with lock:
                    results[mutant.key] = entry
                    with saved.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(entry) + "\n")
                    print(_described(entry), flush=True)

        with ThreadPoolExecutor(self.workers) as pool:
            for task in [pool.submit(work, worker) for worker in range(min(self.workers, len(waiting)))]:
                task.result()
        return [results[mutant.key] for mutant in chosen]


@dataclass(frozen=True)
class Copy:
    """A worker's copy of the repository.

    Args:
        measurement: The measurement.
        folder: Folder of the copy.
    """

    measurement: Measurement
    folder: Path

    @classmethod
    def make(cls, measurement: Measurement, worker: int) -> Copy:
        """Copy the repository, with what numba compiled while the tests were recorded."""
        folder = measurement.folder / f"worker-{worker}"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(measurement.base, folder)
        return cls(measurement, folder)

    def test(self, mutant: Mutant, selection: Selection, seconds: Mapping[str, float]) -> dict[str, Any]:
        """Run the selected tests against a mutant, and restore the copy.

        Args:
            mutant: The mutant.
            selection: Its tests.
            seconds: Recorded durations of all tests.

        Returns:
            A row of the results.
        """
        entry = {**dataclasses.asdict(mutant), "tests": len(selection.tests), "left_out": selection.cut}
        if not selection.tests:
            return {**entry, "status": NOT_COVERED, "seconds": 0.0, "killed_by": None}
        path = self.folder / mutant.file
        source, stamp = path.read_bytes(), path.stat()
        mutated = mutant.apply(source)
        size = len(source) - len(mutated)
        mutated = mutated + b"\n" * size if size >= 0 else mutated[:size]
        start = time.perf_counter()
        try:
            self._forget(mutant.file, selection.stale)
            path.write_bytes(mutated)
            os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
            status, killer = self._run(selection, seconds)
        finally:
            path.write_bytes(source)
            os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
            self._forget(mutant.file, selection.stale)
            self._restore(mutant.file, selection.stale)
        return {**entry, "status": status, "seconds": round(time.perf_counter() - start, 1), "killed_by": killer}

    def _run(self, selection: Selection, seconds: Mapping[str, float]) -> tuple[str, str | None]:
        allowance = COMPILE_SECONDS * (3 if selection.stale else 1)
        limits = {test: TIMEOUT_FACTOR * seconds[test] + allowance for test in selection.tests}
        limits_file, arguments = self.folder / "mutants-limits.json", self.folder / "mutants-tests.txt"
        limits_file.write_text(json.dumps(limits), encoding="utf-8")
        arguments.write_text("\n".join(selection.tests), encoding="utf-8")
        more = {"MUTANTS_LIMITS": str(limits_file), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            process = subprocess.run(
                [sys.executable, *PYTEST, "-p", Path(__file__).stem, f"@{arguments}"],
                cwd=self.folder,
                env=self.measurement.environment(self.folder, **more),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=WAITING_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return TIMED_OUT, None
        if process.returncode == 0:
            return SURVIVED, None
        if process.returncode == -signal.SIGPROF:
            return TIMED_OUT, None
        return KILLED, _killer(process.stdout) or f"pytest ended with {process.returncode}"

    def _compiled(self, folder: Path, file: str, stale: Iterable[str]) -> Iterator[Path]:
        path = folder / file
        yield from (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc")
        for name in stale:
            path = folder / name
            for suffix in ("nbi", "nbc"):
                yield from (path.parent / "__pycache__").glob(f"{path.stem}.*.{suffix}")

    def _forget(self, file: str, stale: Iterable[str]) -> None:
        for path in list(self._compiled(self.folder, file, stale)):
            path.unlink()

    def _restore(self, file: str, stale: Iterable[str]) -> None:
        base = self.measurement.base
        for path in self._compiled(base, file, stale):
            shutil.copy2(path, self.folder / path.relative_to(base))


def _digest(names: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def _is_final(entry: Mapping[str, Any] | None, selection: Selection) -> bool:
    """Return whether a saved result remains: a mutant that survived runs again when other tests are selected."""
    if entry is None:
        return False
    return entry["status"] in (KILLED, TIMED_OUT) or entry["selection"] == _digest(selection.tests)


def _killer(output: str) -> str | None:
    matched = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
    return matched.group(1) if matched else None


def _read_coverage(data_file: Path, root: Path) -> dict[str, Any]:
    """Return the contexts, and for each file and line the numbers of its contexts."""
    from coverage import CoverageData  # noqa: PLC0415  # only the recording needs it

    data = CoverageData(str(data_file))
    data.read()
    contexts: dict[str, int] = {}
    lines = {}
    for name in data.measured_files():
        by_line = {
            line: [contexts.setdefault(context, len(contexts)) for context in line_contexts if context]
            for line, line_contexts in data.contexts_by_lineno(name).items()
        }
        lines[Path(name).resolve().relative_to(root.resolve()).as_posix()] = by_line
    return {"contexts": list(contexts), "lines": lines}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    partial.write_text(text, encoding="utf-8")
    partial.rename(path)


# The report ---------------------------------------------------------------------------------------------------------


def _described(entry: Mapping[str, Any]) -> str:
    before, after = (" ".join(entry[name].split()) for name in ("before", "after"))
    cut = f", {entry['left_out']} tests left out" if entry["left_out"] else ""
    change = f"{entry['file']}:{entry['line']}: {entry['operator']}: {before} -> {after}"
    return f"{entry['status']:<11} {change} ({entry['tests']} tests, {entry['seconds']} s{cut})"


def counts(results: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Count the mutants of each package by status.

    Returns:
        For each package and for `all`: the number of mutants, of each status, of survivors whose tests were cut, and
        the share that was killed or timed out.
    """
    table: dict[str, dict[str, float]] = {}
    packages = sorted({entry["package"] for entry in results})
    for name in (*packages, "all"):
        rows = [entry for entry in results if name in (entry["package"], "all")]
        by_status = Counter(entry["status"] for entry in rows)
        killed = by_status[KILLED] + by_status[TIMED_OUT]
        table[name] = {
            "mutants": len(rows),
            **{status: by_status[status] for status in STATUSES},
            "survived, tests cut": sum(entry["status"] == SURVIVED and entry["left_out"] > 0 for entry in rows),
            "share killed": round(killed / len(rows), 3) if rows else 0.0,
        }
    return table


def report(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the table by package and the list of the mutants that were not killed, as text."""
    table = counts(results)
    columns = list(table["all"])
    lines = ["  ".join(["package ", *columns])]
    for name, row in table.items():
        lines.append("  ".join([f"{name:<8}", *(f"{row[column]:>{len(column)}}" for column in columns)]))
    left = [entry for entry in results if entry["status"] in (SURVIVED, NOT_COVERED)]
    return "\n".join([*lines, "", *map(_described, sorted(left, key=lambda entry: (entry["status"], entry["key"])))])


def _document(measurement: Measurement, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    columns = ("file", "line", "operator", "before", "after", "tests", "left_out")
    return {
        "count": measurement.count,
        "seed": measurement.seed,
        "tests": list(measurement.tests),
        "seconds_per_mutant": measurement.seconds,
        "packages": counts(results),
        "operators": dict(
            sorted(Counter(f"{entry['operator']}, {entry['status']}" for entry in results).items()),
        ),
        **{
            status.replace(" ", "_"): [
                {name: entry[name] for name in columns}
                for entry in sorted(results, key=lambda entry: entry["key"])
                if entry["status"] == status
            ]
            for status in (SURVIVED, NOT_COVERED, TIMED_OUT)
        },
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table and write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=300, help="number of mutants")
    parser.add_argument("--seed", type=int, default=33, help="seed of the sample")
    parser.add_argument("--workers", type=int, default=2, help="mutants that are tested at the same time")
    parser.add_argument("--paths", nargs="+", default=list(PACKAGES), help="folders of the package to mutate")
    parser.add_argument("--tests", nargs="+", default=[*TEST_FOLDERS, *TEST_FILES], help="folders and files of tests")
    parser.add_argument("--seconds", type=float, default=MAX_TEST_SECONDS, help="maximum test time for one mutant")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of the repository")
    parser.add_argument("--source", default="src/recaudit", help="folder of the package in the repository")
    parser.add_argument("--cache", type=Path, help="folder for copies, the map of the tests and saved results")
    parser.add_argument("--out", type=Path, help="JSON file to write the table and the survivors to")
    options = parser.parse_args(arguments)
    root = options.root.resolve()
    missing = [name for name in options.paths if not (root / options.source / name).exists()]
    if missing:
        parser.error(f"--paths: {missing[0]} is not a folder of {options.source}; name folders that it contains.")
    more = {} if options.cache is None else {"cache": options.cache.resolve()}
    measurement = Measurement(
        root=root,
        source=options.source,
        packages=tuple(options.paths),
        tests=tuple(options.tests),
        count=options.count,
        seed=options.seed,
        workers=options.workers,
        seconds=options.seconds,
        **more,
    )
    results = measurement.run()
    print(report(results))
    if options.out:
        _write(options.out, json.dumps(_document(measurement, results), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
