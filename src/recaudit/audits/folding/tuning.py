"""Tuning that knows both: settings of WALS for a low RMSE and little folding at once, searched with Optuna."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

import polars as pl

from recaudit.arguments import checked
from recaudit.audits.folding.bench import MEASURED, Bench, Row
from recaudit.audits.folding.folding import Similarity
from recaudit.audits.folding.fronts import knee, on_front
from recaudit.audits.folding.relatedness import Relatedness
from recaudit.audits.folding.tradeoff import Choice, Folded
from recaudit.audits.optuna_study import quiet_study
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine, Serial, track
from recaudit.errors import InputError
from recaudit.models.factor.wals import WALS

_SEARCHED = {"factors": pl.Int64, "unobserved_weight": pl.Float64, "regularization": pl.Float64}
TRIALS = {"trial": pl.Int64, **_SEARCHED, **{name: kind for name, kind in MEASURED.items() if name != "relatedness"}}


@checked
def folding_tuning(
    data: Interactions,
    *,
    test: Interactions | None = None,
    relatedness: Relatedness | None = None,
    trials: int = 50,
    factors: tuple[int, int] = (4, 128),
    unobserved_weight: tuple[float, float] = (1e-4, 1.0),
    regularization: tuple[float, float] = (0.1, 100.0),
    metric: Folded = "folding",
    prior: Literal["item"] | float | None = None,
    center: Literal["none", "mean"] = "mean",
    iterations: int = 15,
    similarity: Similarity = "cosine",
    k: int = 10,
    cache: str | Path | None = None,
    rng: int = 0,
    engine: Engine | None = None,
) -> Tuning:
    """A search for settings of WALS that predict well and fold little: RMSE and folding, both to be low.

    `factors`, `unobserved_weight` and `regularization` are the lowest and highest value to try, all on a logarithmic
    scale. `metric` is folding over all pairs or, "shown_folding", over what would be shown. The rest is as in
    `folding_tradeoff`. Needs Optuna: the tree-structured Parzen estimator for several objectives proposes what to try,
    its choices a function of the seed and of what was measured before. With a `cache` (a folder) each trial is a small
    file: the same call after an interruption, or with more trials, goes on where it stopped with the same numbers.
    """
    if trials < 1:
        raise InputError("trials", received=trials, expected="a whole number of 1 or more")
    for name, (low, high) in {
        "factors": factors,
        "unobserved_weight": unobserved_weight,
        "regularization": regularization,
    }.items():
        if not 0 < low <= high:
            raise InputError(
                name, received=(low, high), expected="the lowest and the highest value to try, both above 0"
            )
    bench = Bench.of(
        data, test, relatedness, similarity=similarity, k=k, cache=cache, rng=rng, engine=engine or Serial()
    )
    base = WALS(prior=prior, center=center, iterations=iterations)
    rows: list[Row] = []
    instead = "folding_tradeoff measures a grid without it."
    with quiet_study(rng, objectives=2, instead=instead) as study:
        for number in track(range(trials), "folding tuning", trials):
            trial = study.ask()
            settings = {
                "factors": trial.suggest_int("factors", *factors, log=True),
                "unobserved_weight": trial.suggest_float("unobserved_weight", *unobserved_weight, log=True),
                "regularization": trial.suggest_float("regularization", *regularization, log=True),
            }
            (measured,) = bench.measure(base.model_copy(update=settings), rng)
            study.tell(trial, [measured["rmse"], measured[metric]])
            rows.append({"trial": number, **settings, **measured})
    return Tuning(pl.DataFrame([{name: row[name] for name in TRIALS} for row in rows], TRIALS), base, metric)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Tuning:
    """What a search tried, and which of it is worth a look."""

    frame: pl.DataFrame
    """One row a trial, in order: trial, factors, unobserved_weight, regularization, rmse, ndcg, folding,
    overshoot_share, shown_folding, spurious_share."""
    base: WALS
    """The settings that were not searched."""
    metric: Folded
    """The folding that was kept low."""

    @property
    def front(self) -> pl.DataFrame:
        """The trials that no other beats in both, the lowest RMSE first."""
        rmse, folded = self._objectives
        return self.frame.filter(on_front(rmse.to_numpy(), folded.to_numpy())).sort("rmse", self.metric)

    def best(self) -> Choice:
        """The lowest RMSE, whatever it folds."""
        return self._choice(self.front.row(0, named=True))

    def knee(self) -> Choice | None:
        """The trial of the front after which a lower RMSE costs the most folding; as `Tradeoff.knee`."""
        rmse, folded = self._objectives
        place = knee(rmse.to_numpy(), folded.to_numpy())
        return None if place is None else self._choice(self.frame.row(place, named=True))

    def __repr__(self) -> str:
        return f"Tuning({len(self.frame)} trials, {len(self.front)} on the front; best: {self.best()})"

    @property
    def _objectives(self) -> tuple[pl.Series, pl.Series]:
        return self.frame["rmse"], self.frame[self.metric]

    def _choice(self, row: Mapping[str, float]) -> Choice:
        recommender = self.base.model_copy(update={name: row[name] for name in _SEARCHED})
        return Choice(recommender, row["rmse"], row["folding"], row["shown_folding"])
