"""Groups set side by side: how they are made, and what their contrast says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from recaudit.audits.reachability.audit import Reachability
from recaudit.audits.reachability.contrasts import Lifts, contrast_items, item_tiers, user_tiers
from recaudit.audits.reachability.result import STATUS, ReachabilityResult
from recaudit.audits.samples import resolve_items, resolve_users, subsample
from recaudit.data import Interactions
from recaudit.data.synthetic import World
from recaudit.errors import InputError
from recaudit.metrics.tables import item_table
from recaudit.models import ALS


def rated(counts: list[int]) -> Interactions:
    """A log in which item 0 has counts[0] ratings, and so on."""
    rows = [(user, item) for item, count in enumerate(counts) for user in range(count)]
    frame = pl.DataFrame(rows, {"user": pl.Int64, "item": pl.Int64}, orient="row").with_columns(rating=pl.lit(3.0))
    return Interactions.from_frame(frame, scale=(1, 5))


def lifted(lifts: Mapping[tuple[str, str], float | None]) -> ReachabilityResult:
    """A result with these lifts by (user, item)."""
    users, items = ([pair[side] for pair in lifts] for side in (0, 1))
    frame = pl.DataFrame({"user": users, "item": items, "rating": 3.0})
    data = Interactions.from_frame(frame, scale=(1, 5))
    pairs = pl.DataFrame(
        {
            "user": users,
            "item": items,
            "lift": pl.Series(list(lifts.values()), dtype=pl.Float64),
            "status": pl.Series(["solved"] * len(users), dtype=STATUS),
        }
    )
    asked = pairs.select(pl.col("user").unique(maintain_order=True))
    return ReachabilityResult(Reachability(), {"pairs": pairs, "users": asked, "items": item_table(data)}, rng=0)


class TestTiers:
    def test_the_papers_ranks_where_there_are_enough(self) -> None:
        counts = [700 - place for place in range(650)]
        tiers = item_tiers(rated(counts), rng=1)
        assert tiers.first == tuple(range(30))
        assert len(set(tiers.second)) == 30
        assert set(tiers.second) <= set(range(199, 300))
        assert tiers.rule == "the 30 with the most ratings against 30 of rank 200 to 300"

    @pytest.mark.parametrize(("items", "size", "ranks"), [(400, 30, (133, 200)), (90, 9, (30, 45)), (10, 1, (3, 5))])
    def test_a_small_catalogue_takes_its_middle(self, items: int, size: int, ranks: tuple[int, int]) -> None:
        tiers = item_tiers(rated([items - place for place in range(items)]))
        assert tiers.first == tuple(range(size))
        assert len(tiers.second) == size
        assert tiers.ranks == ranks
        assert set(tiers.second) <= set(range(ranks[0] - 1, ranks[1]))

    @pytest.mark.parametrize("items", [2, 3, 5, 12])
    def test_the_two_never_meet(self, items: int) -> None:
        tiers = item_tiers(rated([5] * items))
        assert tiers.first
        assert tiers.second
        assert not set(tiers.first) & set(tiers.second)

    def test_users_by_the_same_rule(self, world: World) -> None:
        tiers = user_tiers(world.data)
        counts = world.data.user_counts
        first, second = (counts[world.data.users_at(ids)] for ids in (tiers.first, tiers.second))
        assert len(first) == len(second) == 12
        assert first.min() >= np.sort(counts)[-12]
        assert second.max() <= first.min()

    def test_the_draw_follows_the_seed(self) -> None:
        data = rated([700 - place for place in range(650)])
        assert item_tiers(data, rng=1) == item_tiers(data, rng=1)
        assert item_tiers(data, rng=1).second != item_tiers(data, rng=2).second


class TestContrastOfItems:
    def test_by_hand(self) -> None:
        """u lifts a by 4 and b by 1 (geometric mean 2), c by 1; v lifts a by 8, c by 2.

        Geometric: first exp((log 2 + log 8) / 2) = 4, second sqrt(1 * 2), ratio sqrt(2 * 4). Arithmetic: u 2.5 and 1,
        v 8 and 2.
        """
        found = lifted({("u", "a"): 4, ("u", "b"): 1, ("u", "c"): 1, ("v", "a"): 8, ("v", "c"): 2})
        rows = contrast_items(found, ["a", "b"], ["c"])
        geometric, arithmetic = (rows.filter(pl.col("metric") == name)["value"] for name in ("lift", "mean_lift"))
        assert geometric.to_list() == pytest.approx([4.0, 2**0.5, 8**0.5])
        assert arithmetic.to_list() == pytest.approx([5.25, 1.5, 3.75])
        assert rows["users"].unique().to_list() == [2]
        assert (rows["lower"] <= rows["value"] + 1e-12).all()
        assert (rows["upper"] >= rows["value"] - 1e-12).all()

    def test_a_user_counts_who_has_both_groups(self) -> None:
        found = lifted({("u", "a"): 4, ("u", "c"): 1, ("v", "a"): 100, ("w", "a"): 4, ("w", "c"): None})
        rows = contrast_items(found, ["a"], ["c"])
        assert rows["value"][0] == pytest.approx(4.0)
        assert (rows["users"][0], rows["excluded"][0]) == (1, 2)
        assert rows["lower"].null_count() == len(rows)  # one user has no interval

    def test_the_interval_is_of_the_paired_ratio(self) -> None:
        """Users differ a hundredfold, yet everybody lifts a twice as far as c: the ratio is certain."""
        lifts = {
            (f"u{place:02}", item): 10.0 ** (place % 4) * factor
            for place in range(40)
            for item, factor in (("a", 2), ("c", 1))
        }
        rows = contrast_items(lifted(lifts), ["a"], ["c"])
        first, _, quotient = rows.head(3).to_dicts()
        assert quotient["group"] == "first / second"
        assert quotient["value"] == pytest.approx(2.0)
        assert quotient["upper"] / quotient["lower"] < 1.4
        assert first["upper"] / first["lower"] > 4

    def test_three_users_have_no_interval(self) -> None:
        lifts = {(f"u{place}", item): factor for place in range(3) for item, factor in (("a", 2.0), ("c", 1.0))}
        rows = contrast_items(lifted(lifts), ["a"], ["c"])
        assert rows["value"].to_list() == pytest.approx([2.0, 1.0, 2.0, 2.0, 1.0, 1.0])
        assert rows["lower"].null_count() == rows["upper"].null_count() == 6
        assert set(rows["reason"]) == {"too_few_users"}

    def test_groups_that_share_no_user_are_refused(self) -> None:
        found = lifted({("u", "a"): 4, ("v", "c"): 1})
        with pytest.raises(InputError, match="without a user in common"):
            contrast_items(found, ["a"], ["c"])


class TestLifts:
    def test_what_has_no_ratio_is_left_out(self) -> None:
        lifts = Lifts(lifted({("u", "a"): 4, ("u", "b"): float("inf"), ("u", "c"): None, ("v", "c"): 0.0}))
        assert np.exp(lifts.logs(lifts.weights(None)))[0] == pytest.approx(4.0)
        assert np.isnan(lifts.logs(lifts.weights(None))[1])
        assert lifts.of_items()[0] == pytest.approx(4.0)
        assert np.isnan(lifts.of_items()[1:]).all()

    def test_twice_as_likely_includes_exactly_twice(self) -> None:
        lifts = Lifts(lifted({("u", "a"): 2, ("u", "b"): 1.9, ("u", "c"): 3, ("u", "d"): 1}))
        assert lifts.shares(lifts.weights(None), 2.0).tolist() == [0.5]

    def test_the_mean_is_that_of_the_audit(self, world: World) -> None:
        model = ALS(factors=4, iterations=2).fit(world.data)
        users = world.data.user_ids[:5].to_list()
        found = ra.reachability(model, users=users, targets=world.data.item_ids.gather_every(9).to_list())
        lifts = Lifts(found)
        own = lifts.logs(lifts.weights(None))
        assert np.exp(own.mean()) == pytest.approx(found["lift"])


class TestWhoIsAsked:
    def test_ids_are_resolved_in_the_order_of_the_log_and_none_means_all(self, world: World) -> None:
        assert resolve_users(["user-003", "user-001", "user-003"], world.data, 0).tolist() == [1, 3]
        assert resolve_items(None, world.data, 0).tolist() == list(range(world.data.n_items))

    def test_a_number_is_drawn_and_another_label_draws_others(self, world: World) -> None:
        users, editors = resolve_users(10, world.data, 0), resolve_users(10, world.data, 0, "editors")
        assert len(set(users)) == len(set(editors)) == 10
        assert users.tolist() != editors.tolist()
        assert users.tolist() == resolve_users(10, world.data, 0).tolist()

    def test_a_smaller_number_is_a_part_of_a_larger(self, world: World) -> None:
        users = resolve_users(10, world.data, 3)
        fewer = resolve_users(4, world.data, 3).tolist()
        assert set(fewer) < set(users)
        assert subsample(users, 4, world.data, 3).tolist() == fewer

    @pytest.mark.parametrize("some", [0, -1])
    def test_nobody_is_no_number(self, world: World, some: Any) -> None:
        with pytest.raises(InputError, match="1 or more"):
            resolve_users(some, world.data, 0)
