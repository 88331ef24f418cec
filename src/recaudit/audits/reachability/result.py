"""What reachability gives back: a row a pair, and what the pairs come to."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
import polars as pl
from scipy import stats

from recaudit.arrays import IntArray
from recaudit.audits.reachability.aggregates import PairGrid, aggregate_pairs, answered
from recaudit.audits.result import Result, Table
from recaudit.data.interactions import Interactions
from recaudit.status import Status

if TYPE_CHECKING:
    from recaudit.audits.reachability.audit import Reachability

STATUS = pl.Enum([status.value for status in Status])


@final
class ReachabilityResult(Result):
    """Every pair's answer, and discovery, availability and lift, overall and by group.

    The columns of `pairs` after `user` and `item`: `value`, rho*, with its certified bounds `lower` and `upper` and its
    `status`; `baseline`, rho without strategy; `lift`, rho* over that; `rank_gain`, how many places the item climbs;
    `candidates`, from how many items the policy chooses for this user. With `best_actions` also `action_items` and
    `action_ratings`; where a system was asked `queries`, `fresh` and `failure` (see `Reachability`). The table
    "example" is the pair that climbs most, with its best action. All but the pairs is computed when first looked at.
    """

    @classmethod
    def of(
        cls,
        audit: Reachability,
        log: Interactions,
        users: IntArray,
        pairs: pl.DataFrame,
        *,
        rng: int,
        facts: Mapping[str, Any] | None = None,
        example: Table | None = None,
    ) -> Self:
        """From the rows of these users (positions in the log)."""
        aggregates = cache(partial(aggregate_pairs, audit, log, users, pairs, rng))
        tables: dict[str, Table] = {"pairs": pairs}
        for name in ("summary", "groups", "users", "items"):
            tables[name] = partial(lambda name: aggregates()[name], name)
        if example is not None:
            tables["example"] = example
        found = cls(audit, tables, rng=rng, facts=facts)
        found.facts["statuses"] = found.counts()
        return found

    @cached_property
    def grid(self) -> PairGrid:
        """The users that were asked about, and all items of the log."""
        return PairGrid(self.pairs["user"].unique(maintain_order=True), self.items["item"])

    def counts(self) -> dict[str, int]:
        """How many pairs there are of each status."""
        found = dict(self.pairs["status"].value_counts().iter_rows())
        return {status.value: int(found.get(status.value, 0)) for status in Status}

    def correlations(self) -> pl.DataFrame:
        """Spearman correlations of Tables 4 and 5.

        Over items: of popularity (the mean rating) with prevalence (how often it was rated), baseline availability
        and best-case availability. Over users: of experience (how many ratings) with discovery, baseline and best.
        """
        items, users = self.items.drop_nulls("availability"), self.users.drop_nulls("discovery")
        asked = [
            ("popularity", "prevalence", items["mean_rating"], items["ratings"]),
            ("popularity", "baseline availability", items["mean_rating"], items["baseline_availability"]),
            ("popularity", "best availability", items["mean_rating"], items["availability"]),
            ("experience", "baseline discovery", users["ratings"], users["baseline_discovery"]),
            ("experience", "best discovery", users["ratings"], users["discovery"]),
        ]
        rows = [(a, b, _spearman(x, y), len(x)) for a, b, x, y in asked]
        schema = {"of": pl.String, "with": pl.String, "spearman": pl.Float64, "n": pl.Int64}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def summary(self) -> str:
        """How many pairs there are, how they stand, and what is reached."""
        asked = {**dict(self.audit), "rng": self.rng, **self.facts, "users": None, "targets": None, "statuses": None}
        settings = ", ".join(f"{name}={value!r}" for name, value in asked.items() if value is not None)
        counts = ", ".join(f"{count:,} {status}" for status, count in self.counts().items() if count)
        known = answered(self.pairs)
        lines = [f"reachability ({settings})", f"  {len(self.pairs):,} pairs: {counts}"]
        if len(known):
            value, baseline = (np.median(known[name].to_numpy()) for name in ("value", "baseline"))
            lifts = known.filter(pl.col("baseline") > 0)["lift"].to_numpy()
            told = f"median {np.median(lifts):.3g}" if len(lifts) else "none: nothing is shown without strategy"
            only = f" of {len(lifts):,} pairs with a baseline above 0" if 0 < len(lifts) < len(known) else ""
            apart = known.filter(pl.col("upper") > pl.col("lower"))
            with np.errstate(divide="ignore"):  # infinite where nothing was reached
                gap = np.max(np.log(apart["upper"].to_numpy() / apart["lower"].to_numpy()), initial=0.0)
            lines += [
                f"  best probability  median {value:.3g}, without strategy {baseline:.3g}",
                f"  lift              {told}{only}",
                f"  widest bounds     {gap:.1e} in log-probability",
            ]
        return "\n".join(lines)


def _spearman(x: pl.Series, y: pl.Series) -> float | None:
    """Spearman's rank correlation; None where one side does not vary."""
    if len(x) < 2 or x.n_unique() < 2 or y.n_unique() < 2:
        return None
    return float(stats.spearmanr(x.to_numpy(), y.to_numpy()).statistic)
