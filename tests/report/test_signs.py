"""More and less, better and worse, towards and away: every such word follows from the numbers beside it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from recaudit.report import headlines
from recaudit.report.evidence import Evidence
from recaudit.report.findings import findings_of
from recaudit.report.kit.claims import Finding
from report.crafted_runs import (
    AGENCY,
    Crafted,
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
    with_item_groups,
    with_users,
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


def grouped(result: Crafted, metric: str, low: float, high: float) -> Model:
    """A model whose users with few ratings have the first value, and those with many the second."""
    noise = [0.01 * (place % 5 - 2) for place in range(40)]
    members = {"history": [LOW] * 40 + [HIGH] * 40}
    return Model("A", [with_users(result, metric, [middle + own for middle in (low, high) for own in noise], members)])


class TestGroups:
    @pytest.mark.parametrize(
        ("metric", "result"),
        [
            ("ndcg", accuracy(None, None)),
            ("popularity_lift", exposure(SHOWN, lift=0.0)),
            ("discovery", reachability((Pair("u", "a", 0.1, 0.6), Pair("u", "b", 0.1, 0.6)), lift=None)),
        ],
    )
    @pytest.mark.parametrize(("low", "high"), [(0.2, 0.6), (0.6, 0.2), (-0.6, -0.2), (0.3, 0.3)])
    def test_higher_and_lower_follow_from_the_numbers(
        self, tmp_path: Path, metric: str, result: Crafted, low: float, high: float
    ) -> None:
        findings = found(tmp_path, grouped(result, metric, low, high))
        findings = [own for own in findings if own.code.endswith("group-differs")]
        if low == high:
            assert findings == []
            return
        (finding,) = findings
        higher, lower = ("1-9", "10-90") if low > high else ("10-90", "1-9")
        text = f"higher for users with {higher} ratings and lower for users with {lower} ratings"
        assert text in finding.claim
        assert {number.group: round(number.value or 0.0, 6) for number in finding.numbers} == {LOW: low, HIGH: high}


class TestPopularity:
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
            ((0.6, 0.55, 0.65), "By genre, A amplifies Drama"),
            ((0.2, 0.15, 0.25), "By genre, A dampens Drama"),
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
    def test_two_models_with_the_same_lists(self, tmp_path: Path) -> None:
        same = accuracy(0.45, None, per_user=[0.3, 0.6] * 20)
        assert found(tmp_path, Model("A", [same]), Model("B", [same])) == []
        assert headlines(write_run(tmp_path, [Model("A", [same]), Model("B", [same])]))[0].meaning == (
            "nDCG@10 of A, with another the best of 2 models that personalise."
        )

    def test_the_lowest_error_of_equals(self, tmp_path: Path) -> None:
        run = write_run(tmp_path, [Model("A", [accuracy(0.3, 0.9)]), Model("B", [accuracy(0.2, 0.9)])])
        assert headlines(run)[1].meaning.startswith("RMSE of A, with another the lowest of 2 models")


@pytest.mark.parametrize(
    ("metric", "result", "code"),
    [
        ("recall", accuracy(None, None), "accuracy.rare-items-found-less"),
        (
            "availability",
            reachability((Pair("u", "a", 0.1, 0.6), Pair("u", "b", 0.1, 0.6)), lift=None),
            "reachability.popular-items-more-available",
        ),
    ],
)
@pytest.mark.parametrize(("rare", "common"), [(0.5, 0.2), (0.2, 0.2), (0.0, 0.2)])
def test_popular_and_rare_items(
    tmp_path: Path, metric: str, result: Crafted, code: str, rare: float, common: float
) -> None:
    noise = [0.01 * (place % 5) for place in range(40)]
    values = {RARE: [rare + own for own in noise], COMMON: [common + own for own in noise[::-1]]}
    findings = found(tmp_path, Model("A", [with_item_groups(result, metric, "popularity", values)]))
    assert [own.code for own in findings] == ([code] if rare < common else [])
    # Without a baseline nothing is said about what happens without strategy.
    assert not any("Without strategy" in own.detail for own in findings)


def test_what_nobody_measured_is_not_called_impossible(tmp_path: Path) -> None:
    numbers = {name: number for name, number in AGENCY.items() if "unstable_share" not in name}
    assert not any("overturn" in claim for claim in claims(tmp_path, Model("A", [agency(numbers)])))
