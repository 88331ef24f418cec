"""Findings are true: every one is checked against tables whose answer is known, and silence where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import pytest

from recaudit.report.evidence import Evidence
from recaudit.report.findings import cautions_of, findings_of
from recaudit.report.kit.claims import Caution, Finding
from report.crafted_runs import Data, Film, Model, accuracy, exposure, groups, with_users, write_run

MINUS, TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"
BASE = (0.3, 0.4, 0.5, 0.6) * 8
ABOVE = tuple(value + gain for value, gain in zip(BASE, (0.1, 0.2) * 16, strict=True))
LEVEL = tuple(value + gain for value, gain in zip(BASE, (0.1, -0.1) * 16, strict=True))
BELOW = tuple(value - gain for value, gain in zip(BASE, (0.1, 0.2) * 16, strict=True))
# 32 gains of 0.1 and 0.2: mean 0.15, sd 0.0508, so 0.15 -+ 1.96 * 0.0508 / sqrt(32) = [0.132, 0.168].


def found(path: Path, models: Sequence[Model], data: Data | None = None) -> list[Finding]:
    return findings_of(Evidence(write_run(path, models, data)))


def about(findings: list[Finding], code: str) -> Finding:
    matching = [finding for finding in findings if finding.code == code]
    assert len(matching) == 1, [finding.code for finding in findings]
    return matching[0]


def ranker(label: str, per_user: Sequence[float], kind: str = "ease", rmse: float | None = None) -> Model:
    mean = sum(per_user) / len(per_user)
    return Model(label, [accuracy((mean, mean - 0.05, mean + 0.05), rmse, per_user=per_user)], kind)


class TestAgainstTheBaseline:
    def test_better_and_worse_models_and_those_that_are_not_shown_to_differ(self, tmp_path: Path) -> None:
        models = [
            ranker("Good", ABOVE),
            ranker("Same", LEVEL),
            ranker("Bad", BELOW),
            ranker("Hits", BASE, "top-pop"),
        ]
        evidence = Evidence(write_run(tmp_path, models))
        findings = {finding.code: finding for finding in findings_of(evidence)}
        above, below = findings["accuracy.above-baseline"], findings["accuracy.below-baseline"]
        assert [(number.model, number.baseline) for number in above.numbers] == [("Good", "Hits")]
        assert above.numbers[0].value == pytest.approx(0.15)
        assert [(number.model, number.baseline) for number in below.numbers] == [("Bad", "Hits")]
        assert (above.premise, below.premise, above.section) == (True, False, "accuracy")
        (caution,) = cautions_of(evidence)
        assert caution.code == "accuracy.not-shown-to-differ-from-baseline"
        assert [number.model for number in caution.numbers] == ["Same"]

    def test_twenty_models_are_not_all_named(self, tmp_path: Path) -> None:
        models = [ranker(f"M{place}", ABOVE) for place in range(20)]
        finding = about(found(tmp_path, [*models, ranker("Hits", BASE, "top-pop")]), "accuracy.above-baseline")
        assert finding.claim == "M0, M1, M2 and 17 others rank better than Hits"
        assert len(finding.numbers) == 20

    def test_the_strongest_baseline_is_the_one_to_exceed(self, tmp_path: Path) -> None:
        models = [
            ranker("Good", ABOVE),
            ranker("Dice", BELOW, "random"),
            ranker("Hits", BASE, "top-pop"),
        ]
        assert about(found(tmp_path, models), "accuracy.above-baseline").numbers[0].baseline == "Hits"

    def test_without_a_baseline_nothing_is_said(self, tmp_path: Path) -> None:
        assert found(tmp_path, [ranker("Good", ABOVE)]) == []


def with_errors(label: str, per_user: Sequence[float], errors: Sequence[float]) -> Model:
    """A ranker that predicts ratings, with the squared error of each user."""
    (result,) = ranker(label, per_user, rmse=fmean(errors) ** 0.5).results
    return Model(label, [with_users(with_users(result, "ndcg", per_user), "rmse", errors, scale="root")])


class TestModelsAmongThemselves:
    def test_a_lead_that_is_not_shown_is_no_finding(self, tmp_path: Path) -> None:
        lucky = tuple(value + gain for value, gain in zip(BASE, (0.11, -0.1) * 16, strict=True))
        assert found(tmp_path, [ranker("First", lucky * 16), ranker("Second", BASE * 16)]) == []

    def test_a_clear_lead(self, tmp_path: Path) -> None:
        (finding,) = found(tmp_path, [ranker("First", ABOVE), ranker("Second", BASE)])
        assert finding.code == "accuracy.above-other-model"
        assert (finding.numbers[0].model, finding.numbers[0].baseline) == ("First", "Second")

    def test_the_lowest_rating_error_does_not_rank_best(self, tmp_path: Path) -> None:
        models = [with_errors("Predictor", BASE, [0.64] * 32), with_errors("Ranker", ABOVE, [0.9] * 32)]
        finding = about(found(tmp_path, models), "accuracy.rating-error-and-ranking-disagree")
        quality, error = finding.numbers
        assert (quality.model, quality.baseline, quality.metric) == ("Ranker", "Predictor", "ndcg")
        assert (error.model, error.baseline, error.metric) == ("Predictor", "Ranker", "rmse")
        assert error.value == pytest.approx(0.64**0.5 - 0.9**0.5)

    def test_a_ranker_without_ratings_is_said_to_predict_none(self, tmp_path: Path) -> None:
        models = [ranker("Predictor", BASE, rmse=0.8), ranker("Ranker", ABOVE), ranker("Other", BELOW, rmse=0.9)]
        finding = about(found(tmp_path, models), "accuracy.rating-error-and-ranking-disagree")
        assert "which predicts no ratings" in finding.detail

    def test_the_only_model_that_predicts_is_not_called_the_best(self, tmp_path: Path) -> None:
        findings = found(tmp_path, [ranker("Predictor", BASE, rmse=0.8), ranker("Ranker", ABOVE)])
        assert [finding.code for finding in findings] == ["accuracy.above-other-model"]

    @pytest.mark.parametrize("other", [LEVEL, BELOW])
    def test_no_claim_when_the_best_predictor_ranks_as_well_as_any(
        self, tmp_path: Path, other: tuple[float, ...]
    ) -> None:
        models = [with_errors("Predictor", BASE, [0.64] * 32), with_errors("Ranker", other, [0.9] * 32)]
        codes = [finding.code for finding in found(tmp_path, models)]
        assert "accuracy.rating-error-and-ranking-disagree" not in codes


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
        finding = about(
            found(tmp_path, [Model("Only", [exposure(FILMS)])], Data(items=8)), "exposure.items-never-shown"
        )
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
        assert (
            "No model shows 4 items of the catalogue to anybody."
            in about(found(tmp_path, models), "exposure.items-never-shown").detail
        )

    def test_nothing_to_say_when_everything_is_shown(self, tmp_path: Path) -> None:
        assert found(tmp_path, [Model("Only", [exposure([Film("A", 20, 4.0, 1)], lift=0.0)])]) == []


QUARTERS = {"1: 0-9 ratings": 0.1, "2: 10-99 ratings": 0.9}


class TestShares:
    def test_popular_items_take_more_than_their_share(self, tmp_path: Path) -> None:
        shares = groups("popularity", "share", {"1: 0-9 ratings": 0.0, "2: 10-99 ratings": (1.0, 0.99, 1.0)}, QUARTERS)
        finding = about(
            found(tmp_path, [Model("Only", [exposure(FILMS, by=[shares])])]), "exposure.popular-items-amplified"
        )
        assert finding.claim == "Only gives 100.0% of all places to the most popular items"
        assert "Items with 10-99 ratings get 100.0% [99.0%, 100.0%] of places and have 90.0% of rat" in finding.detail
        assert "Popularity lift over what users chose themselves: +50.0% [+40.0%, +60.0%]." in finding.detail

    def test_no_claim_while_the_interval_holds_their_share(self, tmp_path: Path) -> None:
        shares = groups("popularity", "share", {"1: 0-9 ratings": 0.05, "2: 10-99 ratings": (0.95, 0.89, 1)}, QUARTERS)
        findings = found(tmp_path, [Model("Only", [exposure(FILMS, by=[shares])])])
        assert "exposure.popular-items-amplified" not in [finding.code for finding in findings]

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
        finding = about(found(tmp_path, models, Data(categories=("genre",))), "exposure.categories-differ-from-ratings")
        assert [number.group for number in finding.numbers] == ["Horror", "Drama", "Family"]
        horror = "Items of genre Horror get 20.0% [15.0%, 25.0%] of places and have 10.0% of ratings"
        assert f"{horror}: {TIMES}2." in finding.detail
        assert f"have 19.5% of ratings: {TIMES}0.26." in finding.detail


class TestTrust:
    def cautions(self, path: Path, models: Sequence[Model]) -> list[Caution]:
        evidence = Evidence(write_run(path, models))
        return cautions_of(evidence)

    def test_what_failed_is_a_caution(self, tmp_path: Path) -> None:
        models = [
            Model("Broken", [accuracy(None, None, status="failed")]),
            ranker("Bad", BELOW),
            ranker("Hits", BASE, "top-pop"),
        ]
        (caution,) = self.cautions(tmp_path, models)
        assert (caution.code, len(caution.numbers)) == ("results.failed", 7)
        assert "RMSE of Broken, MAE of Broken" in caution.detail
        assert "and 4 others failed" in caution.detail

    def test_a_model_that_cannot_be_asked_is_no_failure(self, tmp_path: Path) -> None:
        assert self.cautions(tmp_path, [Model("Only", [accuracy(0.3, None)])]) == []

    def test_users_left_out_of_the_ranking_quality(self, tmp_path: Path) -> None:
        (caution,) = self.cautions(tmp_path, [Model("Only", [accuracy(users=750, excluded=250)])])
        assert caution.code == "accuracy.users-left-out"
        assert (caution.numbers[0].value, caution.numbers[0].users) == (0.25, 1000)
        assert "250 of 1,000 users have no relevant held-out item" in caution.detail

    def test_a_handful_of_users_left_out_needs_no_caution(self, tmp_path: Path) -> None:
        assert self.cautions(tmp_path, [Model("Only", [accuracy(users=980, excluded=20)])]) == []
