"""Answers draw themselves in a notebook: without a script, and with nothing from data as markup."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

import recaudit as ra
from recaudit.data.synthetic import demo_world
from recaudit.registry import DISPLAYS
from recaudit.report.inline.card import MOST_ROWS, Card, CardTable

EVIL = "</style><script>alert('\"&')</script>"


class Elements(HTMLParser):
    """The elements of a piece of HTML, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") or "javascript:" in (value or "") for name, value in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(answer: object) -> Elements:
    """What a notebook gets, and that it needs nothing from anywhere."""
    html = answer._repr_html_()  # type: ignore[attr-defined]
    found = Elements(html)
    assert not {"script", "link", "img", "iframe"} & set(found.tags)
    assert "url(" not in html
    assert "http" not in html.replace("http://www.w3.org/", "")
    return found


@pytest.fixture(scope="module")
def data() -> ra.Interactions:
    return demo_world(users=60, items=50).data


@pytest.fixture(scope="module")
def model(data: ra.Interactions) -> ra.models.FittedModel:
    return ra.models.ALS(factors=3, iterations=3).fit(data)


def test_every_display_is_there() -> None:
    for name in DISPLAYS:
        assert callable(DISPLAYS[name])


def test_a_result_has_its_question_numbers_and_definitions(model: ra.models.FittedModel) -> None:
    result = ra.exposure(model)
    found = shown(result)
    assert "Which items are shown" in found.text
    for row in result.frame.iter_rows(named=True):
        metric = result.metrics[row["metric"]]
        assert (
            f"{metric.titled(10)}{metric.written(row['value'])}{metric.interval(row['lower'], row['upper'])}"
            in found.text
        )
        assert metric.definition in found.text
    assert found.tags.count("svg") == 1
    assert all(group in found.text for group in result.by("genre")["group"])


def test_how_an_answer_stands_is_said_in_words(data: ra.Interactions) -> None:
    train, test = ra.splits.leave_last(data, k=3)
    found = shown(ra.accuracy(ra.models.EASE().fit(train), test))
    assert "RMSEn/a60no answer here" in found.text.replace("\n", "")


def test_pairs_and_what_they_rest_on(model: ra.models.FittedModel) -> None:
    result = ra.reachability(model, users=3, targets=4)
    found = shown(result)
    assert "Asked about: 12 pairs, " in found.text
    assert "The numbers are about 4 targets, drawn from" in found.text
    assert "How the model takes in ratings" in found.text
    assert "how many times likelier at best" in found.text  # the axis
    assert "Within reach by effort" in shown(ra.recourse(model, users=2, items=3)).text


def test_a_sweep_has_a_row_a_point(data: ra.Interactions) -> None:
    asked = ra.Reachability(users=3, targets=3)
    told = shown(ra.sweep_beta(ra.models.ALS(factors=3, iterations=3), data, audit=asked, betas=(0.5, 2.0)))
    assert "beta 0.5" in told.text
    assert "beta 2" in told.text
    assert "svg" in told.tags


def test_nothing_from_data_is_markup() -> None:
    items = [f"{EVIL} {place}" for place in range(6)]
    frame = pl.DataFrame({"user": [EVIL, "b"] * 3, "item": items, "rating": [1.0, 2.0, 3.0] * 2})
    genres = pl.DataFrame({"item": items, "category": [EVIL, "fine"] * 3})
    log = ra.Interactions.from_frame(frame, scale=(1, 5)).with_categories("genre", genres)
    found = shown(ra.exposure(ra.models.TopPop().fit(log), k=2))
    assert EVIL[:12] in found.text  # on the axis, as text that is cut short
    table = CardTable((EVIL, EVIL), [(EVIL, EVIL)], EVIL)
    told = Card(EVIL, EVIL, EVIL, EVIL, [table], notes=[EVIL], terms=[(EVIL, EVIL)])
    assert Elements(told.html).tags.count("script") == 0


def test_simulations_with_names_of_all_kinds() -> None:
    world = ra.simulate.paper("topics-static", users=20, items=30, users_per_step=5, ratings=100, steps=3)
    both = ra.simulate.compare(world, {EVIL: ra.models.TopPop(), "constructor": ra.models.Random()}, trials=2)
    found = shown(both)
    assert EVIL in found.text
    assert f"{both['constructor']['mean_rating']:.3f}" in found.text
    assert "svg" in found.tags
    alone = shown(both["constructor"])
    assert "policy top-1, 2 trials of 3 steps" in alone.text


def test_runs_side_by_side_and_a_gate(tmp_path: Path) -> None:
    def run(name: str, **recommender: object) -> ra.runs.Run:
        audits = {"exposure": {"k": 5}}
        models, chosen = [{"label": "a", **recommender}], {"name": "demo"}
        asked = {"data": chosen, "model": models, "audits": audits, "floors": False}
        made = ra.runs.Configuration.model_validate(asked)
        return ra.runs.execute(made, tmp_path / name)

    before, after = run("before", kind="top-pop"), run("after", kind="random")
    assert repr(after) == f"<{tmp_path / 'after'}: complete; exposure of a>"
    found = shown(ra.compare(before, after))
    assert "after is better in" in found.text
    assert "✓ better" in found.text
    gate = ra.Gate(rule=(ra.Rule(metric="coverage", at_least=1.1),))
    assert "Gate: failed · A rule is shown to be violated: do not release." in shown(ra.check(after, gate)).text


def test_a_long_table_says_how_much_is_left_out() -> None:
    rows = [(str(place), "1") for place in range(MOST_ROWS + 3)]
    found = Elements(Card("x", tables=[CardTable(("", "n", "empty"), [(*row, "") for row in rows])]).html)
    assert "And 3 rows more" in found.text
    assert found.tags.count("td") == 2 * MOST_ROWS  # a column without anything in it is not shown
