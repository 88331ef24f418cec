"""More and less, better and worse, towards and away: every such word follows from the numbers beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from recaudit.report import headlines
from recaudit.report.evidence import Evidence
from recaudit.report.findings import findings_of
from recaudit.report.kit.claims import Finding
from report.crafted_runs import (
    AGENCY,
    Data,
    Film,
    Model,
    Number,
    Pair,
    accuracy,
    agency,
    exposure,
    groups,
    reachability,
    write_run,
)

MINUS = "\N{MINUS SIGN}"
SHOWN = [Film("A", 20, 4.0, 5)]
LOW, HIGH = "1: 1-9 ratings", "2: 10-90 ratings"
RARE, COMMON = "1: 0-9 ratings", "2: 10-99 ratings"


def found(path: Path, *models: Model) -> list[Finding]:
    return findings_of(Evidence(write_run(path, models, Data(categories=("genre",)))))


def claims(path: Path, *models: Model) -> list[str]:
    return [finding.claim for finding in found(path, *models)]


def exposed(*by: pl.DataFrame) -> Model:
    return Model("A", [exposure(SHOWN, lift=0.0, by=by)])


class TestPopularity:
    @pytest.mark.parametrize(
        ("low", "high", "claim"),
        [
            ((0.2, 0.1, 0.3), (0.9, 0.8, 1.0), "pulls {high} towards the popular more than {low}"),
            ((-0.69, -0.7, -0.68), (-0.61, -0.62, -0.6), "leads {low} away from the popular more than {high}"),
            ((-0.3, -0.4, -0.2), (0.3, 0.2, 0.4), "pulls {high} towards the popular, and {low} away from it"),
            ((-0.1, -0.2, 0.0), (0.3, 0.2, 0.4), "pulls {high} towards the popular more than {low}"),
            ((-0.3, -0.4, -0.2), (0.0, -0.1, 0.1), "leads {low} away from the popular more than {high}"),
            ((-0.3, -0.4, -0.2), (0.0, 0.0, 0.0), "leads {low} away from the popular more than {high}"),
            ((0.3, 0.2, 0.4), (0.3, 0.2, 0.4), None),
            ((-0.3, -0.4, -0.2), (-0.2, -0.3, -0.1), None),
            (None, (0.3, 0.2, 0.4), None),
        ],
        ids=["up", "down", "both ways", "up or not", "down or not", "down or zero", "equal", "overlap", "missing"],
    )
    @pytest.mark.parametrize("swapped", [False, True])
    def test_between_groups(self, tmp_path: Path, low: Number, high: Number, claim: str | None, swapped: bool) -> None:
        people = ("users with 10-90 ratings", "users with 1-9 ratings") if swapped else None
        of_low, of_high = people or ("users with 1-9 ratings", "users with 10-90 ratings")
        numbers = {LOW: high, HIGH: low} if swapped else {LOW: low, HIGH: high}
        told = claims(tmp_path, exposed(groups("history", "popularity_lift", numbers)))
        assert told == ([f"A {claim.format(low=of_low, high=of_high)}"] if claim else [])

    @pytest.mark.parametrize(
        ("lift", "value", "way"),
        [
            ((0.5, 0.4, 0.6), "+50.0%", "50% more popular than"),
            ((-0.68, -0.7, -0.66), f"{MINUS}68.0%", "68% less popular than"),
            ((0.0, -0.1, 0.1), "0%", "as popular as"),
            ((-0.001, -0.1, 0.1), f"{MINUS}0.10%", "as popular as"),
        ],
    )
    def test_on_the_card(self, tmp_path: Path, lift: Number, value: str, way: str) -> None:
        card = headlines(write_run(tmp_path, [Model("A", [exposure(SHOWN, lift=lift)])]))[1]
        assert (card.label, card.value) == ("Popularity against own choices", value)
        assert card.meaning == f"On average A shows users what is {way} what they chose before."

    @pytest.mark.parametrize("most", [(0.8, 0.7, 0.9), (0.5, 0.4, 0.6), None])
    def test_popular_items_with_no_more_than_their_share_are_not_named(self, tmp_path: Path, most: Number) -> None:
        shares = groups("popularity", "share", {RARE: 0.2, COMMON: most}, {RARE: 0.2, COMMON: 0.8})
        assert claims(tmp_path, exposed(shares)) == []

    @pytest.mark.parametrize(
        ("drama", "claim"),
        [
            ((0.6, 0.55, 0.65), "By genre, A most amplifies Drama"),
            ((0.2, 0.15, 0.25), "By genre, A most dampens Drama"),
            ((0.4, 0.35, 0.45), None),
            (None, None),
        ],
    )
    def test_categories(self, tmp_path: Path, drama: Number, claim: str | None) -> None:
        shares = groups("genre", "share", {"Drama": drama}, {"Drama": 0.4})
        assert claims(tmp_path, exposed(shares)) == ([claim] if claim else [])

    def test_a_category_without_a_share_of_ratings_is_neither(self, tmp_path: Path) -> None:
        assert claims(tmp_path, exposed(groups("genre", "share", {"Drama": (0.6, 0.5, 0.7)}))) == []


class TestQuality:
    @pytest.mark.parametrize(
        ("first", "claim"),
        [
            ((0.5, 0.4, 0.6), "A ranks better for users with 1-9 ratings than for users with 10-90 ratings"),
            ((0.1, 0.05, 0.15), "A ranks better for users with 10-90 ratings than for users with 1-9 ratings"),
            ((0.2, 0.16, 0.3), None),
            (0.2, None),
            (None, None),
        ],
        ids=["better", "worse", "overlap", "equal", "missing"],
    )
    def test_between_groups(self, tmp_path: Path, first: Number, claim: str | None) -> None:
        by = groups("history", "ndcg", {LOW: first, HIGH: (0.2, 0.18, 0.22)})
        assert claims(tmp_path, Model("A", [accuracy(by=[by])])) == ([claim] if claim else [])

    @pytest.mark.parametrize("rare", [(0.5, 0.4, 0.6), (0.2, 0.1, 0.3), None])
    def test_rare_items_that_are_found_as_often_are_not_named(self, tmp_path: Path, rare: Number) -> None:
        by = groups("popularity", "recall", {RARE: rare, COMMON: (0.2, 0.1, 0.3)})
        assert claims(tmp_path, Model("A", [accuracy(by=[by])])) == []

    def test_two_models_with_the_same_lists(self, tmp_path: Path) -> None:
        same = accuracy(0.45, None, per_user=[0.3, 0.6] * 20)
        (finding,) = found(tmp_path, Model("A", [same]), Model("B", [same]))
        assert finding.claim == "A and B rank equally well"
        assert "to B 0.000 [0.000, 0.000]" in finding.detail
        assert headlines(write_run(tmp_path, [Model("A", [same]), Model("B", [same])]))[0].meaning == (
            "nDCG@10 of A, with another the best of 2 models that personalise."
        )

    def test_a_rating_error_that_may_be_the_same_is_not_called_the_best(self, tmp_path: Path) -> None:
        error, better = [0.2, 0.4] * 20, [0.5, 0.6] * 20
        worse_by_chance = accuracy(0.3, 0.90, per_user=error)
        second = accuracy(0.55, 0.91, per_user=better)
        ranks = second.tables["users"].with_columns(rmse=pl.Series(error[::-1]))
        second = replace(second, tables={**second.tables, "users": ranks})
        assert claims(tmp_path, Model("Predictor", [worse_by_chance]), Model("Ranker", [second])) == []

    def test_the_lowest_error_of_equals(self, tmp_path: Path) -> None:
        run = write_run(tmp_path, [Model("A", [accuracy(0.3, 0.9)]), Model("B", [accuracy(0.2, 0.9)])])
        assert headlines(run)[1].meaning.startswith("RMSE of A, with another the lowest of 2 models")


class TestReach:
    PAIRS = (Pair("u", "a", 0.1, 0.6), Pair("u", "b", 0.1, 0.6))

    @pytest.mark.parametrize(
        ("first", "claim"),
        [
            ((0.5, 0.4, 0.6), "With A, users with 1-9 ratings can discover more than users with 10-90 ratings"),
            ((0.1, 0.0, 0.15), "With A, users with 10-90 ratings can discover more than users with 1-9 ratings"),
            (0.2, None),
            (None, None),
        ],
    )
    def test_discovery(self, tmp_path: Path, first: Number, claim: str | None) -> None:
        by = groups("history", "discovery", {LOW: first, HIGH: (0.2, 0.18, 0.22)})
        told = claims(tmp_path, Model("A", [reachability(self.PAIRS, lift=None, by=[by])]))
        assert told == ([claim] if claim else [])

    @pytest.mark.parametrize(
        ("rare", "told"), [((0.5, 0.4, 0.6), False), ((0.2, 0.1, 0.3), False), (0.0, True), (None, False)]
    )
    def test_popular_items(self, tmp_path: Path, rare: Number, told: bool) -> None:
        by = groups("popularity", "availability", {RARE: rare, COMMON: (0.2, 0.1, 0.3)})
        found_here = found(tmp_path, Model("A", [reachability(self.PAIRS, lift=None, by=[by])]))
        assert [finding.claim for finding in found_here] == (
            ["Even at best, popular items are easier to get from A"] if told else []
        )
        # Without a baseline nothing is said about what happens without strategy.
        assert not any("Without strategy" in finding.detail for finding in found_here)


def test_what_nobody_measured_is_not_called_impossible(tmp_path: Path) -> None:
    numbers = {name: number for name, number in AGENCY.items() if "unstable_share" not in name}
    assert not any("overturn" in claim for claim in claims(tmp_path, Model("A", [agency(numbers)])))
