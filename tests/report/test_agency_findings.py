"""Findings about agency over time: with numbers, and silent where the tables do not carry them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from recaudit.report.evidence import Evidence
from recaudit.report.findings import findings_of
from recaudit.report.kit.claims import Finding
from report.crafted_runs import AGENCY, Model, Moved, Number, accuracy, agency, groups, write_run

TIMES = "\N{MULTIPLICATION SIGN}"
MINUS = "\N{MINUS SIGN}"
ITEMS, EDITORS = "popular against intermediate items", "active against intermediate editors"


def found(path: Path, *models: Model) -> list[Finding]:
    return [finding for finding in findings_of(Evidence(write_run(path, models))) if finding.section == "agency"]


def with_contrast(path: Path, by: str, metric: str, rows: Mapping[str, Number]) -> list[Finding]:
    contrast = ("further than", "less far than")
    findings = found(path, Model("A", [agency(by=[groups(by, metric, rows)])]))
    return [finding for finding in findings if any(way in finding.claim for way in contrast)]


def test_what_users_can_do_for_themselves(tmp_path: Path) -> None:
    own, _ = found(tmp_path, Model("A", [agency()]))
    claim = "With 5 ratings, users of A can make an item 2.50 times as likely at best, on average"
    assert own.claim == f"{claim}, among 40 drawn users"  # of 1,234; all 10 items are targets
    past = f"{TIMES}1.50 [{TIMES}1.40, {TIMES}1.60] by having rated the last 5 items otherwise"
    future = f"{TIMES}2.50 [{TIMES}2.00, {TIMES}3.00] by rating the next 5"
    assert own.detail.startswith(f"Lift: {past}, {future}.")
    assert (
        "At least twice as likely: 20.0% [10.0%, 30.0%] of items in hindsight, 40.0% [30.0%, 50.0%] of items"
        in own.detail
    )


def test_hindsight_is_told_as_hindsight(tmp_path: Path) -> None:
    own, _ = found(tmp_path, Model("A", [agency({**AGENCY, "past_lift": (4.0, 3.0, 5.0)})]))
    claim = "With 5 ratings, users of A could have made an item 4.00 times as likely at best, on average"
    assert own.claim == f"{claim}, among 40 drawn users"


def test_no_claim_where_nothing_can_be_lifted(tmp_path: Path) -> None:
    none: Number = (1.1, 0.9, 1.3)
    (others,) = found(tmp_path, Model("A", [agency({**AGENCY, "past_lift": none, "future_lift": none})]))
    assert "overturn" in others.claim


def test_nobody_can_overturn_anything(tmp_path: Path) -> None:
    pairs = [Moved("u", "v", 0.25, {"a": (1.0, 5.0)}), Moved("u", "v", 0.45, {"a": (None, 5.0)}, "future")]
    _, others = found(tmp_path, Model("A", [agency(worked=pairs)]))
    claim = "No user of A who was asked about can overturn what another is shown with 5 ratings"
    assert others.claim == f"{claim}, among 40 drawn users and 20 drawn editors"
    means = "0.0200 [0.0100, 0.0300] in hindsight, 0.0300 [0.0200, 0.0400] from now on"
    assert others.detail.startswith(f"Hellinger distance on average: {means}")
    assert "The largest: 0.250 in hindsight, 0.450 from now on." in others.detail


def test_some_pairs_are_unstable(tmp_path: Path) -> None:
    others, _ = found(tmp_path, Model("A", [agency({**AGENCY, "future_unstable_share": (0.25, 0.24, 0.26)})]))
    assert others.claim.startswith("With A, 25.0% of users' pairs are unstable")


def test_the_model_that_knows_of_others_is_the_one_spoken_of(tmp_path: Path) -> None:
    own_only = {name: number for name, number in AGENCY.items() if "stab" not in name}
    left_out = {"nothing says so": [name for name in AGENCY if "stab" in name]}
    models = [
        Model("Best", [accuracy(0.5), agency(own_only, left_out=left_out)]),
        Model("Next", [accuracy(0.1), agency()]),
    ]
    own, others = found(tmp_path, *models)
    assert "users of Best" in own.claim
    assert "No user of Next" in others.claim


@pytest.mark.parametrize(
    ("ratio", "claim"),
    [
        ((2.0, 1.8, 2.2), "Users of A can lift popular items further than intermediate ones"),
        ((0.5, 0.4, 0.6), "Users of A can lift popular items less far than intermediate ones"),
        ((1.1, 0.9, 1.3), None),
    ],
)
def test_popular_items(tmp_path: Path, ratio: Number, claim: str | None) -> None:
    rows = {"popular": 2.0, "intermediate": 1.0, "popular / intermediate": ratio}
    findings = with_contrast(tmp_path, ITEMS, "future_lift", rows)
    assert [finding.claim for finding in findings] == ([f"{claim}, among 40 drawn users"] if claim else [])


@pytest.mark.parametrize(
    ("difference", "claim", "told"),
    [
        (
            (0.2, 0.1, 0.3),
            "The most active users of A could have moved others further than users in between",
            "+0.2000",
        ),
        (
            (-0.2, -0.3, -0.1),
            "The most active users of A could have moved others less far than users in between",
            f"{MINUS}0.2",
        ),
        ((0.1, -0.1, 0.3), None, ""),
    ],
)
def test_active_users(tmp_path: Path, difference: Number, claim: str | None, told: str) -> None:
    rows = {"active": 0.3, "intermediate": 0.1, "active - intermediate": difference}
    findings = with_contrast(tmp_path, EDITORS, "past_instability", rows)
    assert [finding.claim for finding in findings] == ([f"{claim}, among 40 drawn users"] if claim else [])
    assert all(told in finding.detail for finding in findings)
