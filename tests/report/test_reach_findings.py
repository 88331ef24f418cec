"""Findings about what users can reach: true where the tables carry them, silent elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from recaudit.report.evidence import Evidence
from recaudit.report.findings import cautions_of, findings_of
from recaudit.report.kit.claims import Caution, Finding
from report.crafted_runs import (
    Crafted,
    Data,
    Model,
    Number,
    Pair,
    accuracy,
    reachability,
    with_item_groups,
    with_users,
    write_run,
)

TIMES = "\N{MULTIPLICATION SIGN}"
REACHED = (Pair("u", "a", 0.1, 0.6), Pair("u", "b", 0.1, 0.6))
"""Nothing is out of reach: chance is 1/2."""


def found(path: Path, models: Sequence[Model]) -> list[Finding]:
    return findings_of(Evidence(write_run(path, models, Data(attributes=("region",)))))


def only(path: Path, pairs: Sequence[Pair] = REACHED, lift: Number = None, by: Sequence[pl.DataFrame] = ()) -> Finding:
    """The one finding of a run of one model."""
    (finding,) = found(path, [Model("Only", [reachability(pairs, lift=lift, by=by)])])
    assert finding.section == "reach"
    return finding


def cautions(path: Path, pairs: Sequence[Pair]) -> list[Caution]:
    """Those of a run of one model, which finds nothing."""
    evidence = Evidence(write_run(path, [Model("Only", [reachability(pairs, lift=None)])]))
    assert findings_of(evidence) == []
    return cautions_of(evidence)


def test_how_much_say_users_have(tmp_path: Path) -> None:
    finding = only(tmp_path, lift=(2.5, 2.0, 3.0))
    assert finding.code == "reachability.influence"
    (number,) = finding.numbers
    assert (number.value, number.lower, number.upper, number.reference) == (2.5, 2.0, 3.0, 1.0)
    told = (
        "With Only, 50.0% [40.0%, 60.0%] of items can be made likelier than by chance; 25.0% are so without strategy."
    )
    assert told in finding.detail
    assert "Between models" not in finding.detail


def test_a_say_that_may_be_large_or_nothing_is_no_finding(tmp_path: Path) -> None:
    assert found(tmp_path, [Model("Only", [reachability(REACHED, lift=(1.1, 0.9, 1.3))])]) == []


def test_models_are_not_set_side_by_side_without_a_caution(tmp_path: Path) -> None:
    models = [
        Model("Best", [accuracy(0.5), reachability(REACHED, lift=(1.5, 1.25, 1.75))]),
        Model("Next", [accuracy(0.1), reachability(REACHED, lift=(4.0, 3.5, 4.5))]),
    ]
    (finding,) = [finding for finding in found(tmp_path, models) if finding.section == "reach"]
    assert (finding.code, finding.numbers[0].model) == ("reachability.influence", "Best")
    lifts = f"Lift: Best {TIMES}1.50 [{TIMES}1.25, {TIMES}1.75] and Next {TIMES}4.00 [{TIMES}3.50, {TIMES}4.50]."
    assert finding.detail.startswith(lifts)
    assert "Between models, lift also depends on how far apart their scores lie." in finding.detail


def grouped(pairs: Sequence[Pair], **options: Any) -> Crafted:
    """A result in which users with few ratings discover more, and popular items are easier to get."""
    members = {"history": ["1: 1-9 ratings"] * 50 + ["2: 10-90 ratings"] * 50}
    noise = [0.01 * (place % 5) for place in range(50)]
    discovery = [middle + own for middle in (0.6, 0.3) for own in noise]
    result = with_users(reachability(pairs, lift=None, **options), "discovery", discovery, members)
    chances = {
        name: [middle + own / 10 for own in noise] for name, middle in zip(POPULARITY, (0.01, 0.05), strict=True)
    }
    return with_item_groups(result, "availability", "popularity", chances)


def test_who_can_discover_least(tmp_path: Path) -> None:
    findings = {own.code: own for own in found(tmp_path, [Model("Only", [grouped(REACHED)])])}
    few, many = findings["reachability.group-differs"].numbers
    assert (few.group, few.users, many.group) == ("1: 1-9 ratings", 50, "2: 10-90 ratings")
    assert few.value == pytest.approx(0.62)
    assert few.reference == pytest.approx(0.32)


POPULARITY = ("1: 0-9 ratings", "2: 10-99 ratings")


def test_what_can_be_got_at_best_still_follows_popularity(tmp_path: Path) -> None:
    findings = {own.code: own for own in found(tmp_path, [Model("Only", [grouped(REACHED)])])}
    finding = findings["reachability.popular-items-more-available"]
    assert finding.numbers[0].value == pytest.approx(0.04)
    assert "for items with 0-9 ratings" in finding.detail


def test_no_claim_about_popularity_without_a_difference(tmp_path: Path) -> None:
    same = [0.01 * (place % 5) for place in range(50)]
    result = with_item_groups(
        reachability(REACHED, lift=None), "availability", "popularity", dict.fromkeys(POPULARITY, same)
    )
    assert found(tmp_path, [Model("Only", [result])]) == []


def test_items_that_nobody_asked_can_reach(tmp_path: Path) -> None:
    users = [f"u{place}" for place in range(30)]
    pairs = [Pair(user, f"i{place}", 0.1, 0.01 * place) for user in users for place in range(1, 6)]
    pairs += [Pair(user, "top", 0.1, 0.9) for user in users]
    finding = only(tmp_path, pairs)
    assert finding.claim == "With Only, no user asked can make 83.3% of the items likelier than by chance"
    assert "5 of 6 items, whatever the 30 users asked would rate." in finding.detail
    assert "Hardest: i1, 1.00% at best; i2, 2.00% at best; i3, 3.00% at best; and 2 others." in finding.detail


def test_every_claim_says_whom_and_what_was_drawn(tmp_path: Path) -> None:
    users = [f"u{place}" for place in range(30)]
    pairs = [Pair(user, item, 0.1, value) for user in users for item, value in (("never", 0.01), ("a", 0.9))]
    result = grouped(pairs, facts={"targets": 2, "users": 30})
    claims = [finding.claim for finding in found(tmp_path, [Model("Only", [result])])]
    assert len(claims) == 3
    assert all(claim.endswith(", among 2 drawn items and 30 drawn users") for claim in claims)


def test_pairs_that_are_not_settled(tmp_path: Path) -> None:
    pairs = [*REACHED, Pair("v", "a", 0.1, 0.9, "bounded", 0.95), Pair("v", "b", 0.1, None, "failed")]
    (caution,) = cautions(tmp_path, pairs)
    assert caution.code == "reachability.not-solved"
    assert "Only: 1 bounded and 1 failed of 4 pairs." in caution.detail


@pytest.mark.parametrize(("solved", "told"), [(18, True), (20, False)])
def test_a_notable_share_of_pairs_that_do_not_apply(tmp_path: Path, solved: int, told: bool) -> None:
    pairs = [Pair(f"u{place}", item, 0.1, 0.6) for place in range(solved // 2) for item in ("a", "b")]
    pairs.append(Pair("v", "a", 0.1, None, "not_applicable"))
    found_here = {caution.code: caution.numbers[0].value for caution in cautions(tmp_path, pairs)}
    assert list(found_here) == (["reachability.pairs-left-out"] if told else [])
    assert list(found_here.values()) == pytest.approx([1 / 19] if told else [])


def test_the_model_that_can_be_asked_is_the_one_spoken_of(tmp_path: Path) -> None:
    models = [
        Model("Best", [accuracy(0.5)], skipped={"reachability": "no response"}),
        Model("Next", [accuracy(0.1), reachability(REACHED)]),
    ]
    assert found(tmp_path, models)[-1].numbers[0].model == "Next"
