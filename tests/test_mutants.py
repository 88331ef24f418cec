"""scripts/mutants.py on a small repository: operators, the sample, and which mutants a test kills."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "mutants.py"
MODULE = '''\
"""Distances: 1 + 1 in a text is not mutated."""


def raised(x, low):
    while x < low:
        x = low
    return abs(x)


def opposite(x):
    return -x


def unused(x):
    return not x
'''
TESTS = """\
from toy.numbers.small import opposite, raised


def test_raised():
    assert raised(1, 3) == 3
    assert raised(4, 3) == 4


def test_opposite():
    assert opposite(2) == -2
"""


@pytest.fixture(scope="module")
def mutants() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one module and one test."""
    root = tmp_path / "repository"
    files = {
        "src/toy/__init__.py": "",
        "src/toy/numbers/__init__.py": "",
        "src/toy/numbers/small.py": MODULE,
        "tests/numbers/test_small.py": TESTS,
    }
    files["pyproject.toml"] = '[tool.pytest.ini_options]\nmarkers = ["browser", "cluster"]\n'
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def changes(mutants: ModuleType, source: str) -> set[tuple[str, str, str]]:
    result = mutants.mutants_of(source.encode(), "m.py", "p")
    return {(mutant.operator, mutant.before, mutant.after) for mutant in result}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a + b", {("arithmetic", "a + b", "(a - b)")}),
        ("a -= b", {("arithmetic", "a -= b", "a += b")}),
        ("a * b / c", {("arithmetic", "a * b / c", "(a * b * c)"), ("arithmetic", "a * b", "(a / b)")}),
        ("a < b", {("comparison", "a < b", "(a <= b)")}),
        ("a == b", {("comparison", "a == b", "(a != b)")}),
        ("a and b", {("boolean", "a and b", "(a or b)")}),
        ("not a", {("boolean", "not a", "(a)")}),
        ("-a", {("sign", "-a", "(a)")}),
        ("np.abs(a)", {("sign", "np.abs(a)", "(a)")}),
        ("a.abs()", {("sign", "a.abs()", "(a)")}),
        ("a[0]", {("constant", "0", "1")}),
        ("f(0.5)", {("constant", "0.5", "1.0")}),
        ("max(a, b)", {("min or max", "max(a, b)", "(min(a, b))")}),
        ("np.minimum(a, b)", {("min or max", "np.minimum(a, b)", "(np.maximum(a, b))")}),
        ("np.where(a, b, c)", {("where", "np.where(a, b, c)", "(np.where(a, c, b))")}),
        ("a[b:2]", {("slice", "b", "(b + 1)"), ("slice", "2", "3")}),
        ("a.sum(axis=1)", {("axis", "1", "0")}),
        ("def f(a):\n    if a:\n        return b\n    return c", {("early return", "return b", "pass")}),
        ("f(a +\n  b)", {("arithmetic", "a +\n  b", "(\na - b)")}),
    ],
)
def test_operators(mutants: ModuleType, source: str, expected: set[tuple[str, str, str]]) -> None:
    assert changes(mutants, source) == expected


@pytest.mark.parametrize(
    "source",
    [
        'raise ValueError(f"{1 + 1}")',
        "a: Annotated[float, Field(ge=0)]",
        "def f(a: Literal[1]) -> Literal[2]: ...",
        "if TYPE_CHECKING:\n    a = 1",
        "logger.info(1)",
        "def __repr__(self):\n    return a + b",
        "@njit(cache=1)\ndef f(): ...",
        "BLOCK_ROWS = 64",
        '"a" f"{b + 1}"',
        "tolerance = 1e-9",
    ],
)
def test_what_is_not_mutated(mutants: ModuleType, source: str) -> None:
    assert changes(mutants, source) == set()


def test_every_mutant_of_the_sources_compiles_and_keeps_its_lines(mutants: ModuleType) -> None:
    source = (SCRIPT.parent.parent / "src" / "recaudit" / "seeding.py").read_bytes()
    result = mutants.mutants_of(source, "seeding.py", "recaudit")
    assert len(result) > 10
    for mutant in result:
        changed = mutant.apply(source)
        compile(changed, "seeding.py", "exec")
        assert changed != source
        assert changed.count(b"\n") == source.count(b"\n")


def test_the_same_seed_gives_the_same_sample(mutants: ModuleType) -> None:
    many = [
        mutants.Mutant(package, "m.py", 1, at, at + 1, "constant", "1", "2")
        for package, size in (("a", 60), ("b", 20))
        for at in range(size)
    ]
    chosen = mutants.sample(many, 40, seed=1)
    assert chosen == mutants.sample(many[::-1], 40, seed=1)
    assert chosen != mutants.sample(many, 40, seed=2)
    assert chosen[:8] == mutants.sample(many, 8, seed=1)
    assert sum(mutant.package == "a" for mutant in chosen) == 30


def test_compiled_functions_are_followed_to_the_lines_and_tests_that_use_them(mutants: ModuleType, root: Path) -> None:
    compiled = "@njit(cache=True)\ndef inner(x):\n    return x + 1\n\n\n@njit\ndef outer(x):\n    return inner(x)\n"
    (root / "src/toy/numbers/kernel.py").write_text(compiled, encoding="utf-8")
    user = "from toy.numbers.kernel import outer\n\n\ndef run(x):\n    return outer(x)\n"
    (root / "src/toy/numbers/user.py").write_text(user, encoding="utf-8")
    direct = "from toy.numbers import kernel\n\n\ndef test_inner() -> None:\n    assert kernel.inner(1) == 2\n"
    (root / "tests/numbers/test_direct.py").write_text(direct, encoding="utf-8")
    references = mutants.References.read(root, "src/toy")
    scope = references.scope_at("src/toy/numbers/kernel.py", 3)
    lines, tests, compiled_files = references.reached(scope)
    assert lines == {("src/toy/numbers/user.py", 5)}
    assert tests == {"tests/numbers/test_direct.py"}
    assert compiled_files == {"src/toy/numbers/kernel.py"}


def test_statuses_and_resumption(
    mutants: ModuleType, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutants, "COMPILE_SECONDS", 0.5)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # pytest starts faster
    out = tmp_path / "out.json"
    options = {"root": root, "source": "src/toy", "paths": "numbers", "tests": "numbers", "cache": tmp_path / "cache"}
    arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    assert mutants.main([*arguments, "--count", "2", "--workers", "1", "--out", str(out)]) == 0
    [saved] = (tmp_path / "cache").glob("*/results.jsonl")
    lines = saved.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 2

    # A larger sample resumes: the first two mutants are not run again.
    assert mutants.main([*arguments, "--count", "100", "--workers", "2", "--out", str(out)]) == 0
    resumed = saved.read_text(encoding="utf-8").splitlines()
    assert resumed[:2] == lines
    assert {entry["before"]: entry["status"] for entry in map(json.loads, resumed)} == {
        "x < low": "timed out",  # an endless loop
        "abs(x)": "survived",  # no number of the test is negative
        "-x": "killed",
        "not x": "not covered",
    }
    document = json.loads(out.read_text(encoding="utf-8"))
    assert document["packages"]["all"]["killed"] == 1
    assert document["packages"]["numbers"]["share killed"] == 0.5
    assert [entry["before"] for entry in document["survived"]] == ["abs(x)"]
    assert (root / "src/toy/numbers/small.py").read_text(encoding="utf-8") == MODULE
