"""Findings are true: every one is checked against tables whose answer is known, and silence where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from recaudit.report.evidence import Evidence
from recaudit.report.findings import findings_of
from recaudit.report.kit.numbers import Finding
from report.crafted_runs import Data, Film, Model, accuracy, exposure, groups, write_run

MINUS, TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"
BASE = (0.3, 0.4, 0.5, 0.6) * 8
ABOVE = tuple(value + gain for value, gain in zip(BASE, (0.1, 0.2) * 16, strict=True))
LEVEL = tuple(value + gain for value, gain in zip(BASE, (0.1, -0.1) * 16, strict=True))
BELOW = tuple(value - gain for value, gain in zip(BASE, (0.1, 0.2) * 16, strict=True))
# 32 gains of 0.1 and 0.2: mean 0.15, sd 0.0508, so 0.15 -+ 1.96 * 0.0508 / sqrt(32) = [0.132, 0.168].


def found(path: Path, models: Sequence[Model], data: Data | None = None) -> list[Finding]:
    return findings_of(Evidence(write_run(path, models, data)))


def about(findings: list[Finding], text: str) -> Finding:
    matching = [finding for finding in findings if text in finding.claim]
    assert len(matching) == 1, [finding.claim for finding in findings]
    return matching[0]


def ranker(label: str, per_user: Sequence[float], kind: str = "ease", rmse: float | None = None) -> Model:
    mean = sum(per_user) / len(per_user)
    return Model(label, [accuracy((mean, mean - 0.05, mean + 0.05), rmse, per_user=per_user)], kind)


class TestAgainstTheReference:
    def test_better_level_and_worse_models_are_told_apart_on_the_same_users(self, tmp_path: Path) -> None:
        models = [
            ranker("Good", ABOVE),
            ranker("Same", LEVEL),
            ranker("Bad", BELOW),
            ranker("Hits", BASE, "top-pop"),
        ]
        finding = about(found(tmp_path, models), "ranks better than Hits")
        assert finding.claim == "Good ranks better than Hits; Bad ranks worse; for Same it cannot be told"
        assert "Hits reaches nDCG@10 0.450 [0.400, 0.500]" in finding.detail
        assert "Good +0.150 [0.132, 0.168]" in finding.detail
        assert f"Same 0.000 [{MINUS}0.035, 0.035]" in finding.detail
        assert f"Bad {MINUS}0.150 [{MINUS}0.168, {MINUS}0.132]" in finding.detail
        assert finding.section == "accuracy"

    def test_nothing_beats_the_reference(self, tmp_path: Path) -> None:
        findings = found(tmp_path, [ranker("Bad", BELOW), ranker("Hits", BASE, "top-pop")])
        assert findings[0].claim == "No model ranks clearly better than Hits, which does not personalise"

    def test_the_strongest_reference_is_the_one_to_beat(self, tmp_path: Path) -> None:
        models = [
            ranker("Good", ABOVE),
            ranker("Dice", BELOW, "random"),
            ranker("Hits", BASE, "top-pop"),
        ]
        about(found(tmp_path, models), "Good ranks better than Hits")

    def test_without_a_reference_nothing_is_said(self, tmp_path: Path) -> None:
        assert found(tmp_path, [ranker("Good", ABOVE)]) == []


class TestModelsAmongThemselves:
    def test_a_lead_that_may_be_chance(self, tmp_path: Path) -> None:
        lucky = tuple(value + gain for value, gain in zip(BASE, (0.11, -0.1) * 16, strict=True))
        finding = about(found(tmp_path, [ranker("First", lucky), ranker("Second", BASE)]), "told apart")
        assert finding.claim == "First and Second cannot be told apart at ranking"
        assert f"to Second +0.005 [{MINUS}0.032, 0.042]" in finding.detail

    def test_a_clear_lead_is_not_called_chance(self, tmp_path: Path) -> None:
        assert found(tmp_path, [ranker("First", ABOVE), ranker("Second", BASE)]) == []

    def test_the_lowest_rating_error_does_not_rank_best(self, tmp_path: Path) -> None:
        models = [ranker("Predictor", BASE, rmse=0.8), ranker("Ranker", ABOVE, rmse=0.95)]
        finding = about(found(tmp_path, models), "not the best at ranking")
        assert "Predictor has the lowest RMSE, 0.800 [0.800, 0.800], but comes 2nd of 2" in finding.detail
        assert "0.450 [0.400, 0.500], against 0.600 [0.550, 0.650] for Ranker (RMSE 0.950" in finding.detail

    def test_a_ranker_without_ratings_is_said_to_predict_none(self, tmp_path: Path) -> None:
        models = [ranker("Predictor", BASE, rmse=0.8), ranker("Ranker", ABOVE), ranker("Other", BELOW, rmse=0.9)]
        assert "which predicts no ratings" in about(found(tmp_path, models), "not the best at ranking").detail

    def test_the_only_model_that_predicts_is_not_called_the_best(self, tmp_path: Path) -> None:
        assert found(tmp_path, [ranker("Predictor", BASE, rmse=0.8), ranker("Ranker", ABOVE)]) == []

    @pytest.mark.parametrize("other", [LEVEL, BELOW])
    def test_no_claim_when_the_best_predictor_ranks_as_well_as_any(
        self, tmp_path: Path, other: tuple[float, ...]
    ) -> None:
        findings = found(tmp_path, [ranker("Predictor", BASE, rmse=0.8), ranker("Ranker", other, rmse=0.9)])
        assert not [finding for finding in findings if "not the best at ranking" in finding.claim]


FILMS = [
    Film("Shown", 50, 3.0, 20),
    Film("Also shown", 40, 4.0, 10),
    Film("Loved", 90, 4.8, 0),
    Film("Lucky", 10, 5.0, 0),
    Film("Liked a little", 30, 2.0, 0),
    Film("Hardly seen", 9, 5.0, 0),
    Film("Unrated", 0, None, 0),
    Film("Third", 10, 3.0, 1),
]


class TestTheCatalogue:
    def test_how_much_nobody_is_shown_and_the_best_of_it(self, tmp_path: Path) -> None:
        finding = about(found(tmp_path, [Model("Only", [exposure(FILMS)])], Data(items=8)), "to nobody")
        assert finding.claim == "Only shows 62.5% of the catalogue to nobody"
        assert "5 of 8 items; coverage is 37.5% [27.5%, 47.5%]." in finding.detail
        # What is shown: (20 * 3 + 10 * 4 + 1 * 3) / 31 = 3.32. Means are pulled to (150 + 160 + 432 + 50 + 60 +
        # 45 + 30) / 239 = 3.88 by ten ratings: Loved 4.71, Lucky 4.44, Liked a little 2.47.
        assert "2 of these are rated higher than what is shown." in finding.detail
        assert "Loved, 4.80 from 90 ratings; Lucky, 5.00 from 10 ratings; Liked a little" in finding.detail
        assert "Hardly seen" not in finding.detail

    def test_items_that_no_model_shows(self, tmp_path: Path) -> None:
        other = [Film(film.title, film.ratings, film.mean, int(film.title == "Loved")) for film in FILMS]
        models = [Model("One", [accuracy(0.3), exposure(FILMS)]), Model("Two", [exposure(other)])]
        assert "No model shows 4 items of the catalogue to anybody." in about(found(tmp_path, models), "nobody").detail

    def test_nothing_to_say_when_everything_is_shown(self, tmp_path: Path) -> None:
        assert found(tmp_path, [Model("Only", [exposure([Film("A", 20, 4.0, 1)], lift=0.0)])]) == []


QUARTERS = {"1: 0-9 ratings": 0.1, "2: 10-99 ratings": 0.9}


class TestShares:
    def test_popular_items_take_more_than_their_share(self, tmp_path: Path) -> None:
        shares = groups("popularity", "share", {"1: 0-9 ratings": 0.0, "2: 10-99 ratings": (1.0, 0.99, 1.0)}, QUARTERS)
        finding = about(found(tmp_path, [Model("Only", [exposure(FILMS, by=[shares])])]), "most popular")
        assert finding.claim == "Only gives 100.0% of all places to the most popular items"
        assert "Items with 10-99 ratings get 100.0% [99.0%, 100.0%] of places and have 90.0% of rat" in finding.detail
        assert "Popularity lift over what users chose themselves: +50% [+40%, +60%]." in finding.detail

    def test_no_claim_while_the_interval_holds_their_share(self, tmp_path: Path) -> None:
        shares = groups("popularity", "share", {"1: 0-9 ratings": 0.05, "2: 10-99 ratings": (0.95, 0.89, 1)}, QUARTERS)
        findings = found(tmp_path, [Model("Only", [exposure(FILMS, by=[shares])])])
        assert not [finding for finding in findings if "most popular" in finding.claim]

    def test_the_category_amplified_most_and_the_one_dampened_most(self, tmp_path: Path) -> None:
        baselines = {"Drama": 0.4, "Horror": 0.1, "Comedy": 0.3, "Family": 0.195, "Rare": 0.005}
        shares = groups(
            "genre",
            "share",
            {
                "Drama": (0.5, 0.45, 0.55),
                "Horror": (0.2, 0.15, 0.25),
                "Comedy": (0.2, 0.15, 0.31),  # the interval holds the baseline
                "Family": (0.05, 0.04, 0.06),
                "Rare": (0.05, 0.04, 0.06),  # ten times its share, of next to nothing
            },
            baselines,
        )
        models = [Model("Only", [exposure(FILMS, by=[shares])])]
        finding = about(found(tmp_path, models, Data(categories=("genre",))), "By genre")
        assert finding.claim == "By genre, Only most amplifies Horror and dampens Family"
        horror = "Items of genre Horror get 20.0% [15.0%, 25.0%] of places and have 10.0% of ratings"
        assert f"{horror}: {TIMES}2." in finding.detail
        assert f"have 19.5% of ratings: {TIMES}0.26." in finding.detail


class TestPeople:
    def test_the_worst_and_best_served_when_their_intervals_are_apart(self, tmp_path: Path) -> None:
        history = groups("history", "ndcg", {"1: 1-9 ratings": (0.1, 0.05, 0.15), "2: 10-90 ratings": (0.4, 0.3, 0.5)})
        region = groups("region", "ndcg", {"North": (0.3, 0.2, 0.4), "South": (0.2, 0.1, 0.25)})
        models = [Model("Only", [accuracy(by=[region, history])])]
        finding = about(found(tmp_path, models, Data(attributes=("region",))), "ranks better")
        assert finding.claim == "Only ranks better for users with 10-90 ratings than for users with 1-9 ratings"
        assert "0.100 [0.050, 0.150] for users with 1-9 ratings" in finding.detail
        assert "South" not in finding.detail  # overlaps with North

    def test_users_for_whom_personalising_adds_nothing(self, tmp_path: Path) -> None:
        ours = groups("region", "ndcg", {"North": (0.5, 0.45, 0.55), "South": (0.2, 0.1, 0.3)})
        theirs = groups("region", "ndcg", {"North": (0.2, 0.15, 0.25), "South": (0.2, 0.1, 0.3)})
        models = [Model("Ours", [accuracy(by=[ours])]), Model("Hits", [accuracy(by=[theirs])], "top-pop")]
        finding = about(found(tmp_path, models, Data(attributes=("region",))), "no clear gain")
        assert finding.claim == "Ours is no clear gain over Hits for users of region South"
        assert "South 0.200 [0.100, 0.300] against 0.200 [0.100, 0.300]" in finding.detail

    def test_rare_items_are_found_less(self, tmp_path: Path) -> None:
        recall = groups(
            "popularity", "recall", {"1: 0-9 ratings": (0.0, 0.0, 0.01), "2: 10-99 ratings": (0.4, 0.3, 0.5)}
        )
        finding = about(found(tmp_path, [Model("Only", [accuracy(by=[recall])])]), "less often")
        assert finding.claim == "Only finds items with 0-9 ratings less often than items with 10-99 ratings"

    def test_whom_it_pulls_towards_the_popular(self, tmp_path: Path) -> None:
        lift = groups(
            "history", "popularity_lift", {"1: 1-9 ratings": (0.9, 0.8, 1.0), "2: 10-90 ratings": (0.2, 0.1, 0.3)}
        )
        finding = about(found(tmp_path, [Model("Only", [exposure(FILMS, by=[lift])])]), "pulls")
        assert "pulls users with 1-9 ratings towards the popular more than users with 10-90 ratings" in finding.claim
        assert "+20% [+10%, +30%] for users with 10-90 ratings" in finding.detail


class TestTrust:
    def test_failures_come_first(self, tmp_path: Path) -> None:
        models = [
            Model("Broken", [accuracy(None, None, status="failed")]),
            ranker("Bad", BELOW),
            ranker("Hits", BASE, "top-pop"),
        ]
        findings = found(tmp_path, models)
        assert findings[0].claim == "7 numbers could not be computed"
        assert "RMSE of Broken, MAE of Broken" in findings[0].detail
        assert "and 2 others failed" in findings[0].detail

    def test_a_model_that_cannot_be_asked_is_no_failure(self, tmp_path: Path) -> None:
        assert found(tmp_path, [Model("Only", [accuracy(0.3, None)])]) == []

    def test_users_left_out_of_the_ranking_quality(self, tmp_path: Path) -> None:
        models = [Model("Only", [accuracy(users=750, excluded=250)])]
        finding = about(found(tmp_path, models), "says nothing about")
        assert finding.claim == "Ranking quality says nothing about 25.0% of the users"
        assert "250 of 1,000 users have no relevant held-out item" in finding.detail

    def test_a_handful_of_users_left_out_is_not_a_finding(self, tmp_path: Path) -> None:
        assert found(tmp_path, [Model("Only", [accuracy(users=980, excluded=20)])]) == []
