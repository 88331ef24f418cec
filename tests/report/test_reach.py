"""What users can reach is boiled down from the pairs without a number going astray."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from recaudit.report import render
from recaudit.report.evidence import Evidence
from recaudit.report.sections import reach as pairs_module
from recaudit.report.sections.reach import AUDIT, Reach
from recaudit.report.sections.reachability import describe_actions
from report.crafted_runs import Model, Pair, accuracy, reachability, write_run


def read(path: Path, pairs: Sequence[Pair], titles: dict[str, str] | None = None) -> Reach:
    return Reach.of(Evidence(write_run(path, [Model("A", [reachability(pairs, titles)])])), "A")


def test_pairs_are_counted_by_status(tmp_path: Path) -> None:
    pairs = [
        Pair("u", "a", 0.1, 0.2),
        Pair("u", "b", 0.1, 0.2, "bounded", 0.4),
        Pair("u", "c", 0.1, None, "failed"),
        Pair("v", "a", 0.1, None, "not_applicable"),
    ]
    reach = read(tmp_path, pairs)
    assert reach.pairs == 4
    assert reach.statuses == {"solved": 1, "bounded": 1, "failed": 1, "impossible": 0, "not_applicable": 1}


def test_lifts_fall_into_steps_of_a_tenth_of_a_power_of_ten(tmp_path: Path) -> None:
    # Lifts 1, 1.2, 2 and 0.99: 10^0 to 10^0.1 = 1.26 twice, 10^0.3 = 1.995 to 10^0.4 once, just below 1 once.
    values = [0.1, 0.12, 0.2, 0.099]
    reach = read(tmp_path, [Pair("u", f"i{place}", 0.1, value) for place, value in enumerate(values)])
    assert dict(reach.lifts.iter_rows()) == {-1: 1, 0: 2, 1: 0, 2: 0, 3: 1}


def test_a_lift_from_nothing_is_in_no_step(tmp_path: Path) -> None:
    reach = read(tmp_path, [Pair("u", "a", 0.0, 1.0), Pair("u", "b", 0.0, 0.0)])
    assert reach.lifts.is_empty()
    assert reach.points.is_empty()


def test_items_that_the_fewest_users_can_make_likelier_than_by_chance_come_first(tmp_path: Path) -> None:
    # Each user has two targets, so that chance is 1/2.
    pairs = [
        Pair("u", "easy", 0.1, 0.9),
        Pair("u", "hard", 0.1, 0.4),
        Pair("v", "easy", 0.1, 0.6),
        Pair("v", "some", 0.1, 0.7),
        Pair("w", "some", 0.1, 0.3),
        Pair("w", "hard", 0.1, 0.5),
    ]
    reach = read(tmp_path, pairs, {"hard": "Hard"})
    assert reach.items["title"].to_list() == ["Hard", "some", "easy"]
    assert reach.items["reached_by"].to_list() == [0, 1, 2]
    assert reach.unreached["title"].to_list() == ["Hard"]


@pytest.mark.parametrize("uncertain", [Pair("u", "a", 0.1, 0.4, "bounded", 0.6), Pair("u", "a", 0.1, None, "failed")])
def test_an_item_is_out_of_reach_only_if_that_is_certain(tmp_path: Path, uncertain: Pair) -> None:
    pairs = [uncertain, Pair("u", "b", 0.1, 0.4), Pair("u", "c", 0.1, 0.9), Pair("v", "a", 0.1, 0.1)]
    pairs += [Pair("v", "c", 0.1, 0.9), Pair("v", "b", 0.1, 0.1)]
    assert "a" not in read(tmp_path, pairs).unreached["item"]


def test_a_pair_that_does_not_apply_says_nothing_about_its_item(tmp_path: Path) -> None:
    pairs = [Pair("u", "a", 0.1, 0.1), Pair("u", "b", 0.1, 0.9), Pair("v", "a", 0.1, None, "not_applicable")]
    reach = read(tmp_path, pairs)
    assert reach.unreached["item"].to_list() == ["a"]
    assert dict(reach.items.select("item", "users").iter_rows()) == {"a": 1, "b": 1}


def test_points_are_a_seeded_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs_module, "MOST_POINTS", 5)
    pairs = [Pair("u", f"i{place}", 0.1, 0.2) for place in range(20)]
    first = read(tmp_path, pairs, {"i3": "Three"}).points
    assert len(first) == first["item"].n_unique() == 5
    assert first.equals(read(tmp_path, pairs, {"i3": "Three"}).points)


def test_the_worked_pair_by_title(tmp_path: Path) -> None:
    pairs = [
        Pair("u", "a", 0.1, 0.2),
        Pair("u", "b", 0.1, 0.4, climbs=3, ratings={"x": 5.0, "a": 1.5}),
        Pair("v", "b", 0.1, 0.2),
    ]
    example = read(tmp_path, pairs, {"b": "Brazil", "x": "Xanadu"}).example
    assert example is not None
    assert [example[name] for name in ("user", "title", "places", "candidates")] == ["u", "Brazil", 3, 2]
    assert [example[name] for name in ("baseline", "value", "lift")] == [0.1, 0.4, 4.0]
    assert example["ratings"] == (("Xanadu", 5.0), ("a", 1.5))


def test_a_run_without_a_worked_pair_has_no_example(tmp_path: Path) -> None:
    assert read(tmp_path, [Pair("u", "a", 0.1, 0.2)]).example is None


def test_the_model_in_front_is_the_best_ranking_of_those_that_can_be_asked(tmp_path: Path) -> None:
    reached = reachability([Pair("u", "a", 0.1, 0.2)])
    models = [
        Model("Best", [accuracy(0.9)], skipped={"reachability": "no response"}),
        Model("Third", [accuracy(0.1), reached]),
        Model("Second", [accuracy(0.5), reached]),
    ]
    evidence = Evidence(write_run(tmp_path, models))
    assert evidence.main == "Best"
    assert evidence.front("discovery") == "Second"
    assert list(evidence.each(AUDIT, Reach.of)) == ["Second", "Third"]
    assert evidence.absence("Best", "reachability") == "no response"
    assert Evidence(write_run(tmp_path, [Model("A", [accuracy()])])).front("discovery") is None


@pytest.mark.parametrize(
    ("actions", "told"),
    [
        ({"kind": "next-k", "k": 10, "ratings": None}, "rate the 10 unseen items that they would be shown next"),
        (
            {"kind": "history-edits", "k": 5, "ratings": {"low": 1.0, "high": 5.0}},
            "change 5 of the ratings that they gave",
        ),
        ({"kind": "future-edits", "k": 3}, "rate 3 unseen items drawn at random"),
        ({"kind": "given-items", "ids": ["a"]}, "change some of their ratings"),
        ({}, "change some of their ratings"),
    ],
)
def test_what_users_may_do_in_words(actions: dict[str, object], told: str) -> None:
    assert describe_actions(actions) == told


def test_an_item_that_may_be_within_reach_is_neither_reached_nor_out_of_it(tmp_path: Path) -> None:
    pairs = [Pair("u", "a", 0.1, 0.9), Pair("u", "b", 0.1, 0.2, "bounded", 0.8)]
    run = write_run(tmp_path, [Model("A", [reachability(pairs)])])
    reach = Reach.of(Evidence(run), "A")
    assert (len(reach.unreached), reach.undecided) == (0, 1)
    text = " ".join(render(run).split())
    assert "Of 1 item it is not known whether any of them can." in text
    assert "Every item can" not in text
