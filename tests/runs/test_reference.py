"""The pages of docs/reference that are made say what the classes say."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, PositiveInt

from recaudit import runs
from recaudit.cli import app
from recaudit.policies import AnyPolicy, Softmax
from recaudit.registry import ACTIONS, AUDITS, CHOICES, ENGINES, ENVIRONMENTS, MODELS, POLICIES, SPLITS
from recaudit.specification import Count, InputFile, Some

SCRIPTS = Path(__file__).parent.parent.parent / "scripts"


FAMILIES = (MODELS, AUDITS, POLICIES, ACTIONS, ENGINES, SPLITS, ENVIRONMENTS, CHOICES)


@pytest.fixture(scope="module")
def reference() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPTS)
        yield importlib.import_module("reference")


@pytest.fixture(scope="module")
def words(reference: Any) -> Any:
    return importlib.import_module("setting_words")


@pytest.fixture(scope="module")
def pages(reference: Any) -> dict[str, str]:
    return dict(reference.pages())


@pytest.fixture(scope="module")
def page(pages: dict[str, str]) -> str:
    return pages["configuration"]


@pytest.mark.parametrize("name", ["commands", "configuration", "metrics"])
def test_they_are_the_pages_of_these_classes(reference: Any, pages: dict[str, str], name: str) -> None:
    assert (reference.FOLDER / f"{name}.md").read_text(encoding="utf-8") == pages[name], "run `make reference`"


def test_every_metric_is_defined_once_and_every_command_is_there(pages: dict[str, str]) -> None:
    ours = [audit for audit in AUDITS.values() if audit.__module__.startswith("recaudit.")]
    defined = re.findall(r"^### `(.+)`$", pages["metrics"], re.MULTILINE)
    assert sorted(defined) == sorted({metric.name for audit in ours for metric in audit.metrics})
    commands = re.findall(r"^## `recaudit (.+)`$", pages["commands"], re.MULTILINE)
    own_commands = [own for own in app.registered_commands if str(own.callback.__module__).startswith("recaudit.")]
    assert sorted(commands) == sorted([*(str(own.name) for own in own_commands), "data"])


def test_its_example_is_a_configuration(reference: Any) -> None:
    config = runs.parse(reference.EXAMPLE, source="example", folder=Path())
    assert [model.label for model in config.models] == ["ALS", "EASE, light"]


def test_every_kind_is_there_and_every_key_has_a_meaning(page: str) -> None:
    kinds = {name for parts in FAMILIES for name in parts if parts[name].__module__.startswith("recaudit.")}
    assert kinds <= set(re.findall(r"^### `(.+)`$", page, re.MULTILINE))
    rows = [re.split(r"(?<!\\)\|", line) for line in page.splitlines() if line.startswith("| `")]
    assert not [cells[1] for cells in rows if not (cells[2].strip() and cells[4].strip())]


def test_every_link_leads_somewhere(page: str) -> None:
    headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#(.+?)\)", page)) <= anchors


@pytest.mark.parametrize(
    ("annotation", "told"),
    [
        (Count, "a whole number, 1 or more"),
        (PositiveInt, "a whole number, 1 or more"),
        (Annotated[int, Field(ge=2, le=10_000_000)], "a whole number from 2 to 10,000,000"),
        (Annotated[float, Field(gt=0, lt=1)], "a number between 0 and 1"),
        (Annotated[float, Field(ge=0, lt=0.5)] | None, "a number, 0 or more and below 0.5"),
        (bool, "true or false"),
        (str | Literal[False], "a text or `false`"),
        (Literal["a", "b", "c"], '`"a"`, `"b"` or `"c"`'),
        (tuple[float, float] | None, "a list of 2, each a number"),
        (tuple[Count, ...], "a list, each a whole number, 1 or more"),
        (dict[str, str], "a table, each value a text"),
        (Some | None, 'how many, a list of ids, or `"all"`'),
        (InputFile | None, "a file that exists"),
        (AnyPolicy, "one of those"),
    ],
)
def test_types_are_in_words(words: Any, annotation: Any, told: str) -> None:
    assert words.type_words(annotation, {POLICIES.what: "one of those"}) == told


def test_a_type_without_words_is_refused(words: Any) -> None:
    with pytest.raises(TypeError, match="complex"):
        words.type_words(complex, {})


def test_defaults_are_as_one_would_write_them(words: Any) -> None:
    told = [
        words.default_words(words.Setting("key", type_, default, ""))
        for type_, default in (
            (AnyPolicy, Softmax(beta=2)),
            (bool, True),
            (float, 1 / 3),
            (str, "a"),
            (int | None, None),
        )
    ]
    assert told == ['`{kind = "softmax", beta = 2.0}`', "`true`", "`0.333333`", '`"a"`', ""]
