"""The headline numbers come from the tables; what was not measured has none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from recaudit.audits.audit import definitions
from recaudit.report import headlines, render
from recaudit.report.evidence import Evidence
from recaudit.report.findings import findings_of
from report.crafted_runs import Film, Model, Pair, accuracy, exposure, groups, reachability, with_users, write_run

TIMES = "\N{MULTIPLICATION SIGN}"
RANKING, ERROR = "Ranking quality", "Rating error"
HIDDEN, POPULAR = "Catalogue nobody is shown", "Popularity against own choices"
FILMS = [Film("A", 20, 4.0, 5), Film("B", 20, 3.0, 0), Film("C", 5, 3.0, 0), Film("D", 5, 3.0, 0)]


def test_five_numbers_with_known_answers(tmp_path: Path) -> None:
    low, high = ([middle + 0.01 * (place % 5 - 2) for place in range(50)] for middle in (0.1, 0.4))
    members = {"history": ["1: 1-9 ratings"] * 50 + ["2: 10-90 ratings"] * 50}
    ranker = with_users(accuracy((0.3, 0.28, 0.32), None), "ndcg", [*low, *high], members)
    models = [
        Model("Predictor", [accuracy(0.1, (0.85, 0.83, 0.87))]),
        Model("Ranker", [ranker, exposure(FILMS, lift=(0.5, 0.4, 0.6))]),
        Model("Hits", [accuracy(0.2, 1.0)], "top-pop"),
    ]
    found = headlines(write_run(tmp_path, models))
    assert [(headline.value, headline.interval) for headline in found] == [
        ("0.300", "[0.280, 0.320]"),
        ("0.850", "[0.830, 0.870]"),
        ("75.0%", "[65.0%, 85.0%]"),
        ("+50.0%", "[+40.0%, +60.0%]"),
        ("0.100", "[0.096, 0.104]"),
    ]
    assert [headline.code for headline in found] == [
        f"headline.{name}" for name in ("ranking-quality", "rating-error", "never-shown", "popularity", "group-differs")
    ]
    (group,) = found[-1].numbers
    assert (group.group, group.users) == ("1: 1-9 ratings", 50)
    assert group.value == pytest.approx(0.1)
    assert group.reference == pytest.approx(0.4)
    ranking, error, hidden, popular, gap = [headline.meaning for headline in found]
    assert ranking == ("nDCG@10 of Ranker, the best of 2 models that personalise; Hits, which does not, reaches 0.200.")
    assert error == "RMSE of Predictor, on a scale from 1 to 5."
    assert hidden == "Ranker leaves 8 of 10 items out of every user's list of 10."
    assert popular == "On average Ranker shows users what is 50% more popular than what they chose before."
    assert gap == "nDCG@10 of Ranker for users with 1-9 ratings; for all other users 0.400."


@pytest.mark.parametrize(
    ("models", "labels"),
    [
        ([Model("A", [accuracy()])], [RANKING, ERROR]),
        ([Model("A", [exposure(FILMS)])], [HIDDEN, POPULAR]),
        ([Model("A", [accuracy(), exposure(FILMS)], "random")], [RANKING, ERROR, HIDDEN, POPULAR]),
        ([Model("A", [])], []),
    ],
    ids=["accuracy only", "exposure only", "references only", "nothing yet"],
)
def test_only_what_was_measured_and_each_with_a_definition(
    tmp_path: Path, models: list[Model], labels: list[str]
) -> None:
    found = headlines(write_run(tmp_path, models))
    assert [headline.label for headline in found] == labels
    assert all(headline.metric in definitions() and headline.meaning.endswith(".") for headline in found)
    assert all(any(digit.isdigit() for digit in headline.value) for headline in found)


class TestWhatUsersCanChange:
    PAIRS = (Pair("u", "a", 0.1, 0.2),)

    def test_it_takes_the_place_of_the_rating_error(self, tmp_path: Path) -> None:
        models = [
            Model("Best", [accuracy(0.3, 0.9)], skipped={"reachability": "no response"}),
            Model("Next", [accuracy(0.2, 0.8), reachability(self.PAIRS, lift=(2.5, 2.25, 2.75))]),
        ]
        found = headlines(write_run(tmp_path, models))
        assert [headline.label for headline in found] == [RANKING, "What users can change"]
        assert (found[1].value, found[1].interval) == (f"{TIMES}2.50", f"[{TIMES}2.25, {TIMES}2.75]")
        assert found[1].meaning.startswith(
            "How many times as likely users of Next can make an item at best, on average."
        )

    @pytest.mark.parametrize(
        ("facts", "about"),
        [
            ({}, "an item at best, on average."),
            ({"targets": 4}, "an item at best, on average, among 4 drawn items."),
            ({"targets": 10, "users": 2000}, "an item at best, on average."),  # all there are
            ({"targets": ["a", "b"]}, "an item at best, on average, among 2 named items."),
            (
                {"drawn": {"users": 30, "of": 1234, "by": "history", "targets": 4, "items": 10}},
                "an item at best, on average, among 4 drawn items and 30 drawn users.",
            ),
        ],
        ids=["all", "a count", "more than there are", "named", "drawn though nothing was said"],
    )
    def test_it_says_whom_and_what_was_drawn(self, tmp_path: Path, facts: dict[str, Any], about: str) -> None:
        models = [Model("A", [accuracy(), reachability(self.PAIRS, facts=facts)])]
        card = headlines(write_run(tmp_path, models))[1]
        assert card.meaning.startswith(f"How many times as likely users of A can make {about}")

    def test_discovery_stands_in_for_a_lift_that_there_is_not(self, tmp_path: Path) -> None:
        models = [Model("A", [accuracy(), reachability(self.PAIRS, lift=None)])]
        found = headlines(write_run(tmp_path, models))
        assert (found[1].value, found[1].metric) == ("50.0%", "discovery")
        assert "likelier than by chance" in found[1].meaning

    def test_without_an_answer_the_rating_error_stays(self, tmp_path: Path) -> None:
        models = [Model("A", [accuracy(), reachability(self.PAIRS, lift=None, discovery=None)])]
        assert headlines(write_run(tmp_path, models))[1].label == "Rating error"


@pytest.mark.parametrize("predicts", [False, True], ids=["scores that are no ratings", "a larger error"])
def test_no_headline_is_about_a_model_that_everything_is_compared_with(tmp_path: Path, predicts: bool) -> None:
    models = [
        Model("Own", [accuracy(0.3, 1.2 if predicts else None)]),
        Model("Chance", [accuracy(0.1, 1.7)], "random"),
        Model("Hits", [accuracy(0.2, 1.0)], "top-pop"),
    ]
    card = headlines(write_run(tmp_path, models))[1]
    assert (card.label, "of Own" in card.meaning) == (ERROR if predicts else "Held-out items found", True)
    assert not any(name in card.meaning for name in ("Chance", "Hits"))


def test_scores_that_are_no_ratings_have_no_rating_error(tmp_path: Path) -> None:
    models = [Model("A", [accuracy((0.3, 0.28, 0.32), None)]), Model("B", [accuracy(0.1, None)])]
    run = write_run(tmp_path, models)
    card = headlines(run)[1]
    assert (card.label, card.value, card.interval) == ("Held-out items found", "0.300", "[0.280, 0.320]")
    assert card.meaning == "Recall@10 of A: the share of a user's relevant held-out items in the list."
    assert "RMSE" not in " ".join(f"{finding.claim} {finding.detail}" for finding in findings_of(Evidence(run)))
    drawn = re.findall(r'<h4>\s*<button[^>]*popovertarget="about-(\w+)"', render(run))
    assert drawn == ["ndcg", "recall", "precision", "map", "mrr"]


def test_a_less_popular_list_is_called_less_popular(tmp_path: Path) -> None:
    found = headlines(write_run(tmp_path, [Model("A", [exposure(FILMS, lift=(-0.25, -0.3, -0.2))])]))
    assert found[1].value == "\N{MINUS SIGN}25.0%"
    assert "25% less popular" in found[1].meaning


def test_groups_that_overlap_are_no_gap(tmp_path: Path) -> None:
    history = groups("history", "ndcg", {"1: 1-9 ratings": (0.1, 0.0, 0.3), "2: 10-90 ratings": (0.4, 0.2, 0.5)})
    found = headlines(write_run(tmp_path, [Model("A", [accuracy(by=[history])])]))
    assert [headline.label for headline in found] == [RANKING, ERROR]
