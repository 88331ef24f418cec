"""The catalogue says what is so, and the docs' worked example is what really comes out."""

from __future__ import annotations

import ast
import inspect
import re
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import recaudit as ra
from recaudit.audits.recipe import PAPERS, Audit, Entry, Max, Probability, Rung, Value, catalog
from recaudit.data.splits import Split
from recaudit.errors import InputError
from recaudit.interventions import FutureEdits, HistoryEdits, NextK, Past
from recaudit.interventions.who import Own
from recaudit.models import ALS

ENTRIES = {entry.name: entry for entry in catalog()}
NAMES = {"ra": ra, "NextK": NextK, "HistoryEdits": HistoryEdits, "FutureEdits": FutureEdits, "Past": Past}


def test_every_entry_has_a_name_and_a_question_of_its_own() -> None:
    assert len(ENTRIES) == len(catalog()) == len({entry.audit for entry in catalog()})
    assert len({str(entry.audit) for entry in catalog()}) == len(catalog())


def test_every_paper_and_every_rung_is_there() -> None:
    assert {source.paper for entry in catalog() for source in entry.sources} == set(PAPERS)
    assert {entry.audit.rung for entry in catalog()} == set(Rung)


@pytest.mark.parametrize(
    ("name", "where", "rung"),
    [
        ("reachability", "000 Eq. 1", "interventional"),
        ("reachability (seen)", "000 Eq. 1", "counterfactual"),
        ("lift", "000 Eq. 2", "interventional"),
        ("past-5 reachability", "001 Def. 4.2", "counterfactual"),
        ("future-5 reachability", "001 Def. 4.1", "interventional"),
        ("past-5 instability", "001 Def. 4.4", "counterfactual"),
        ("future-5 instability", "001 Def. 4.3", "interventional"),
        ("folding", "002 Def. 3.1", "associational"),
        ("calibration", "004 Eq. 4, 5", "associational"),
        ("online performance", "003 Sec. 5", "interventional"),
    ],
)
def test_where_it_comes_from_and_where_it_stands(name: str, where: str, rung: str) -> None:
    assert str(ENTRIES[name].sources[0]) == where
    assert ENTRIES[name].audit.rung == rung


def test_an_audit_made_by_hand_is_the_one_in_the_catalogue() -> None:
    assert Audit(Own(Past(5)), Probability(), Value(), Max()) == ENTRIES["past-5 reachability"].audit


def test_one_paper_alone() -> None:
    assert [entry.name for entry in catalog("002")] == ["folding", "rating error"]
    with pytest.raises(InputError, match="paper: received 005"):
        catalog("005")


def test_discovery_and_availability_are_aggregations() -> None:
    made = {one.name for one in ENTRIES["reachability"].aggregations}
    assert {"discovery", "availability", "gaps between groups"} <= made
    assert not made & set(ENTRIES)


@pytest.mark.parametrize("entry", catalog(), ids=lambda entry: entry.name)
def test_its_call_is_one_that_recaudit_has(entry: Entry) -> None:
    """The verb is public, and takes these arguments."""
    for text in (entry.call, *(one.call for one in entry.aggregations)):
        verb = next(
            node
            for node in ast.walk(ast.parse(text, mode="eval"))
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("ra.")
        )
        while isinstance(inner := verb.func, ast.Attribute) and isinstance(inner.value, ast.Call):
            verb = inner.value  # a method of what the verb returns
        found = attrgetter(ast.unparse(verb.func).removeprefix("ra."))(ra)
        keywords = {str(one.arg): one.value for one in verb.keywords}
        inspect.signature(found).bind(*verb.args, **keywords)


@pytest.mark.parametrize(
    "name", ["lift", "rank gain", "past-5 reachability", "rating error", "recall", "concentration"]
)
def test_its_call_gives_numbers(name: str, split: Split) -> None:
    thinned = Past(5).before(split.train)
    model = ALS(factors=2, iterations=2).fit(thinned)
    given = {**NAMES, "model": model, "data": thinned, "test": split.test}
    # The text of the call is under test.
    found = eval(str(ENTRIES[name].call), given)
    assert isinstance(found, float) or len(getattr(found, "frame", found)) > 0


def test_the_worked_example_prints_what_the_docs_say(capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "recipe.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)
    scope: dict[str, Any] = {}
    # The example itself is under test.
    exec(compile(code, "recipe.md", "exec"), scope)
    assert capsys.readouterr().out == printed
