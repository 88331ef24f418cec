"""Findings are true: every one is checked against tables whose answer is known, and silence where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from recaudit.report.evidence import Evidence
from recaudit.report.findings import cautions_of, findings_of
from recaudit.report.kit.claims import Caution, Finding
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
        assert finding.claim == "Good ranks better than Hits; Bad ranks worse"
        assert "Hits reaches nDCG@10 0.450 [0.400, 0.500]" in finding.detail
        assert "Good +0.150 [0.132, 0.168]" in finding.detail
        assert f"Same 0.000 [{MINUS}0.035, 0.035]" in finding.detail
        assert "Of Same it cannot be told whether it ranks better." in finding.detail
        assert f"Bad {MINUS}0.150 [{MINUS}0.168, {MINUS}0.132]" in finding.detail
        assert finding.section == "accuracy"

    def test_nothing_beats_the_reference(self, tmp_path: Path) -> None:
        findings = found(tmp_path, [ranker("Bad", BELOW), ranker("Hits", BASE, "top-pop")])
        assert findings[0].claim == "No model ranks better than Hits, which does not personalise"
        assert findings[0].advice.startswith("Use Hits, or find more data")

    def test_of_enough_users_level_is_no_better(self, tmp_path: Path) -> None:
        many = 16  # 512 users: 0 -+ 1.96 / sqrt(512) = 0.087 deviations, which is small
        models = [ranker("Good", ABOVE * many), ranker("Same", LEVEL * many), ranker("Hits", BASE * many, "top-pop")]
        finding = about(found(tmp_path, models), "Hits")
        assert finding.claim == "Good ranks better than Hits; Same ranks no better"
        (alone,) = found(tmp_path / "alone", models[1:])
        assert alone.claim == "No model ranks better than Hits, which does not personalise"

    def test_what_cannot_be_told_of_the_main_model_is_a_caution(self, tmp_path: Path) -> None:
        evidence = Evidence(write_run(tmp_path, [ranker("Same", LEVEL), ranker("Hits", BASE, "top-pop")]))
        assert findings_of(evidence) == []
        (caution,) = cautions_of(evidence)
        assert caution.claim == "Whether Same ranks better than Hits cannot be told from chance"
        assert caution.premise

    def test_twenty_models_are_not_all_named(self, tmp_path: Path) -> None:
        models = [ranker(f"M{place}", ABOVE) for place in range(20)]
        finding = about(found(tmp_path, [*models, ranker("Hits", BASE, "top-pop")]), "better than Hits")
        assert finding.claim == "M0, M1, M2 and 17 others rank better than Hits"
        assert finding.detail.endswith("M2 +0.150 [0.132, 0.168] and 17 others.")

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
    def test_a_lead_that_is_too_small_to_matter(self, tmp_path: Path) -> None:
        lucky = tuple(value + gain for value, gain in zip(BASE, (0.11, -0.1) * 16, strict=True))
        finding = about(found(tmp_path, [ranker("First", lucky * 16), ranker("Second", BASE * 16)]), "equally well")
        assert finding.claim == "First and Second rank equally well"
        # sd 0.105: 0.005 -+ 1.96 * 0.105 / sqrt(512), all of it within 0.2 deviations
        assert f"to Second +0.005 [{MINUS}0.004, 0.014]" in finding.detail
        assert finding.advice.startswith("Take the simplest of them")

    def test_a_small_lead_that_is_certain_is_a_lead(self, tmp_path: Path) -> None:
        # 0.015 of a deviation of 0.1, on 8,192 users, of whom 1.96 / sqrt(8192) = 0.022 deviations are not sure
        slight = tuple(value + gain for value, gain in zip(BASE, (0.115, -0.085) * 16, strict=True))
        assert found(tmp_path, [ranker("First", slight * 256), ranker("Second", BASE * 256)]) == []

    def test_too_few_users_to_tell_are_no_evidence_that_models_are_equal(self, tmp_path: Path) -> None:
        lucky = tuple(value + gain for value, gain in zip(BASE, (0.11, -0.1) * 16, strict=True))
        assert found(tmp_path, [ranker("First", lucky), ranker("Second", BASE)]) == []

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
        assert "Popularity lift over what users chose themselves: +50.0% [+40.0%, +60.0%]." in finding.detail

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


SOUTH = (0.2, 0.1, 0.3)


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
        def run(users: int) -> list[Finding]:
            north = {"Ours": (0.5, 0.45, 0.55), "Hits": (0.2, 0.15, 0.25)}
            by = {
                name: groups("region", "ndcg", {"North": own, "South": SOUTH}, users=users)
                for name, own in north.items()
            }
            models = [
                Model("Ours", [accuracy(users=2 * users, by=[by["Ours"]])]),
                Model("Hits", [accuracy(users=2 * users, by=[by["Hits"]])], "top-pop"),
            ]
            return found(tmp_path / str(users), models, Data(attributes=("region",)))

        finding = about(run(1000), "no gain")
        assert finding.claim == "Ours is no gain over Hits for users of region South"
        assert "South 0.200 [0.100, 0.300] against 0.200 [0.100, 0.300]" in finding.detail
        assert "It is one for users of region North." in finding.detail
        assert finding.touched == (1000, 2000)
        # Of 100 users in each region, the same numbers leave a difference of 0.28 deviations open.
        assert not [finding for finding in run(100) if "no gain" in finding.claim]

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
        assert "+20.0% [+10.0%, +30.0%] for users with 10-90 ratings" in finding.detail


class TestTrust:
    def cautions(self, path: Path, models: Sequence[Model]) -> list[Caution]:
        evidence = Evidence(write_run(path, models))
        claims = [finding.claim for finding in findings_of(evidence)]
        assert not [caution for caution in cautions_of(evidence) if caution.claim in claims]
        return cautions_of(evidence)

    def test_what_failed_is_a_caution(self, tmp_path: Path) -> None:
        models = [
            Model("Broken", [accuracy(None, None, status="failed")]),
            ranker("Bad", BELOW),
            ranker("Hits", BASE, "top-pop"),
        ]
        (caution,) = self.cautions(tmp_path, models)
        assert caution.claim == "7 numbers could not be computed"
        assert "RMSE of Broken, MAE of Broken" in caution.detail
        assert "and 4 others failed" in caution.detail

    def test_a_model_that_cannot_be_asked_is_no_failure(self, tmp_path: Path) -> None:
        assert self.cautions(tmp_path, [Model("Only", [accuracy(0.3, None)])]) == []

    def test_users_left_out_of_the_ranking_quality(self, tmp_path: Path) -> None:
        (caution,) = self.cautions(tmp_path, [Model("Only", [accuracy(users=750, excluded=250)])])
        assert caution.claim == "Ranking quality says nothing about 25.0% of the users"
        assert "250 of 1,000 users have no relevant held-out item" in caution.detail

    def test_a_handful_of_users_left_out_needs_no_caution(self, tmp_path: Path) -> None:
        assert self.cautions(tmp_path, [Model("Only", [accuracy(users=980, excluded=20)])]) == []
