"""What fidelity gives back: a row a pair, and how far promises and refits are apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
import polars as pl
from scipy import stats

from recaudit.audits.reachability.result import STATUS
from recaudit.status import Status

if TYPE_CHECKING:
    import pandas as pd

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "baseline": pl.Float64,
    "promised": pl.Float64,
    "realised": pl.Float64,
    "realised_other_rng": pl.Float64,
    "error": pl.Float64,
    "rank_baseline": pl.Int64,
    "rank_promised": pl.Int64,
    "rank_realised": pl.Int64,
    "status": STATUS,
}
"""The columns after `user` and `item`; see `Fidelity`."""
DISTANCE_SCHEMA = {name: kind for name, kind in SCHEMA.items() if not name.startswith("rank_")}
"""The columns after `viewer` and `editor`."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Fidelity:
    """What was promised to each pair, and what came of it."""

    settings: Mapping[str, object]
    frame: pl.DataFrame
    """One row a pair: user and item of reachability, viewer and editor of instability, and

    - baseline: the item's probability before anything was rated; the distance before, which is 0;
    - promised: rho*, its probability after the best ratings, by the model's response; the largest distance;
    - realised: the probability after a refit on the log with those ratings, or how far that is from a refit on the log
      as it is; realised_other_rng: the same with another seed, where that was asked for;
    - error: log(realised / promised), 0 where the promise is kept, below 0 where less came;
    - rank_baseline, rank_promised, rank_realised, of reachability: the item's place among the candidates;
    - status: as the audit has it, or failed where the refit did not succeed."""
    control: float
    """The largest difference between a score of the model and of a refit on the log as it is. 0 for a recommender
    that gives the same model for the same log and seed; else the errors hold this noise too, or the recommender or
    `rng` is not what the model was fitted with."""
    causes: tuple[str, ...]
    """Why refits failed, each reason once."""

    @property
    def median_error(self) -> float | None:
        """The median of |log(realised / promised)| over pairs with an answer; None without any. 0: all promises are
        kept; log 2 = 0.69: half of them are off by a factor of two or more."""
        errors = np.abs(self._known()["error"].to_numpy())
        return float(np.median(errors)) if len(errors) else None

    @property
    def spearman(self) -> float | None:
        """The rank correlation of promised and realised; None where one of them does not vary."""
        known = self._known()
        if known["promised"].n_unique() < 2 or known["realised"].n_unique() < 2:
            return None
        return float(stats.spearmanr(known["promised"].to_numpy(), known["realised"].to_numpy()).statistic)

    @property
    def realised_share(self) -> float | None:
        """`sum (realised - baseline) / sum (promised - baseline)`: 1 where users get all that was promised beyond
        the baseline, 0 where they get nothing of it; None where nothing was promised."""
        known = self._known()
        baseline, promised, realised = (known[name].to_numpy() for name in ("baseline", "promised", "realised"))
        gain = float((promised - baseline).sum())
        return float((realised - baseline).sum()) / gain if gain > 0 else None

    def to_pandas(self) -> pd.DataFrame:
        """The `frame` as a pandas frame (needs the `pandas` extra)."""
        return self.frame.to_pandas()

    def summary(self) -> str:
        """How far promises and refits are apart, and on how many pairs that stands."""
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        found = dict(self.frame["status"].value_counts().iter_rows())
        counts = ", ".join(f"{found[status.value]:,} {status}" for status in Status if status.value in found)
        lines = [f"fidelity ({settings})", f"  {len(self.frame):,} pairs: {counts}"]
        numbers = {
            "median |log error|": self.median_error,
            "Spearman correlation": self.spearman,
            "realised share of the gain": self.realised_share,
            "refit of the log as it is": self.control,
        }
        width = max(map(len, numbers))
        lines += [f"  {name.ljust(width)}  {'-' if n is None else format(n, '.3g')}" for name, n in numbers.items()]
        return "\n".join([*lines, *(f"  failed: {cause}" for cause in self.causes)])

    __repr__ = summary

    def _known(self) -> pl.DataFrame:
        return self.frame.filter(pl.col("realised").is_not_null())
