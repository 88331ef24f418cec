"""Tuning that knows both: settings of WALS for a low RMSE and little folding at once, searched with Optuna."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import polars as pl

from recaudit.arguments import check_count, checked
from recaudit.audits.folding.audit import Folding
from recaudit.audits.folding.bench import VALUES, Bench, Row
from recaudit.audits.folding.fronts import Folded, MeasuredModels
from recaudit.audits.folding.relatedness import Relatedness
from recaudit.audits.optuna_study import quiet_study
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine, Serial, track
from recaudit.errors import InputError
from recaudit.models.factor.wals import WALS

_SEARCHED = {"factors": pl.Int64, "unobserved_weight": pl.Float64, "regularization": pl.Float64}


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
    similarity: Literal["cosine", "dot"] = "cosine",
    k: int = 10,
    cache: str | Path | None = None,
    rng: int = 0,
    engine: Engine | None = None,
) -> MeasuredModels:
    """A search for settings of WALS that predict well and fold little: RMSE and folding, both to be low.

    `factors`, `unobserved_weight` and `regularization` are the lowest and highest value to try, all on a logarithmic
    scale. `metric` is folding over all pairs or, "shown_folding", over what would be shown. The rest is as in
    `folding_tradeoff`. Needs Optuna: the tree-structured Parzen estimator for several objectives proposes what to try,
    its choices a function of the seed and of what was measured before. With a `cache` (a folder) each trial is a small
    file: the same call after an interruption, or with more trials, continues where it stopped with the same numbers.
    """
    check_count("trials", trials)
    bounds = dict(zip(_SEARCHED, (factors, unobserved_weight, regularization), strict=True))
    for name, (low, high) in bounds.items():
        if not 0 < low <= high:
            expected = "the lowest and the highest value to try, both above 0"
            raise InputError(name, received=(low, high), expected=expected)
    asked = Folding(similarity=similarity, k=k)
    bench = Bench.of(data, test, relatedness, asked, cache, rng, engine or Serial())
    base = WALS(prior=prior, center=center, iterations=iterations)
    rows: list[Row] = []
    with quiet_study(rng, objectives=2, instead="folding_tradeoff measures a grid without it.") as study:
        for number in track(range(trials), "folding tuning", trials):
            trial = study.ask()
            settings = {
                "factors": trial.suggest_int("factors", *factors, log=True),
                "unobserved_weight": trial.suggest_float("unobserved_weight", *unobserved_weight, log=True),
                "regularization": trial.suggest_float("regularization", *regularization, log=True),
            }
            (measured,) = bench.measure(base.model_copy(update=settings), rng)
            study.tell(trial, [measured["rmse"], measured[metric]])
            rows.append({"trial": number, **settings, **{name: measured[name] for name in VALUES}})
    frame = pl.DataFrame(rows, {"trial": pl.Int64, **_SEARCHED, **VALUES})
    return MeasuredModels(frame, base, tuple(_SEARCHED), metric)
