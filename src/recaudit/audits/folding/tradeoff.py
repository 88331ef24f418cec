"""Accuracy against folding over a grid of models (paper 002, section 4 and Figures 3 to 6)."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
import polars as pl

from recaudit.arguments import check_count, checked
from recaudit.arrays import BoolArray, FloatArray
from recaudit.atomic import write
from recaudit.audits.folding.audit import Folding, accuracy_and_folding
from recaudit.audits.folding.definitions import FOLDING
from recaudit.audits.folding.relatedness import Relatedness
from recaudit.data import splits
from recaudit.data.blocks import BlockWorld
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine, Serial, track
from recaudit.errors import DamageWarning, InputError, did_you_mean
from recaudit.folders.manifest import Manifest, decoded
from recaudit.models.factor.wals import WALS
from recaudit.seeding import derive
from recaudit.version import __version__

_MODEL = {"factors": pl.Int64, "unobserved_weight": pl.Float64}
VALUES = dict.fromkeys(("rmse", "ndcg", *(metric.name for metric in FOLDING)), pl.Float64)
"""What is measured of one recommender; `rmse` is null for scores that are no ratings."""
CELLS = {"repetition": pl.Int64, **_MODEL, "relatedness": pl.String, **VALUES}
Folded = Literal["folding", "shown_folding"]
"""Over all pairs, or over what would be shown."""
_ROUNDING = 1e-9
"""The ends lie on the chord, to within this."""


@checked
def folding_tradeoff(
    data: Interactions | BlockWorld | Sequence[BlockWorld],
    *,
    test: Interactions | None = None,
    factors: Sequence[int] = (8, 16, 32, 64),
    unobserved_weights: Sequence[float] = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
    relatedness: Relatedness | Mapping[str, Relatedness] | None = None,
    recommender: WALS | None = None,
    similarity: Literal["cosine", "dot"] = "cosine",
    k: int = 10,
    repetitions: int = 1,
    cache: str | Path | None = None,
    rng: int = 0,
    engine: Engine | None = None,
) -> Tradeoff:
    """RMSE and folding of WALS over a grid of dimensions and weights of unrated pairs.

    `data` is the log to learn from and `test` what is held out; without it a tenth of the log, at random. A
    `BlockWorld` brings both, and the true relatedness; of several worlds each is a repetition, as in the paper's
    section 4.1. `relatedness` is by default that of the training log; several, by name, are measured on the same
    models. `recommender` has the settings that all models share. Each repetition has another random start and, without
    `test`, another split. With a `cache` (a folder) every model measured is a small file there: an interrupted study
    continues where it stopped and gives the same numbers, and a larger grid measures only what is new.
    """
    check_count("repetitions", repetitions)
    if isinstance(data, Sequence) and repetitions > 1:
        raise InputError("repetitions", received=repetitions, expected="1 beside several worlds: each is a repetition")
    cases: list[Interactions | BlockWorld] = [*data] if isinstance(data, Sequence) else [data] * repetitions
    if not cases:
        raise InputError("data", received="no world at all", expected="at least one")
    seeds = [rng if number == 0 else derive(rng, "repetition", number) for number in range(len(cases))]
    asked = Folding(similarity=similarity, k=k)
    benches = [
        _Workbench(case, test, relatedness, asked, cache, seed, engine) for case, seed in zip(cases, seeds, strict=True)
    ]
    grid = [dict(zip(_MODEL, point, strict=True)) for point in product(factors, unobserved_weights)]
    if not grid:
        raise InputError("factors, unobserved_weights", received="an empty grid", expected="at least one of each")
    base = recommender or WALS()
    jobs = [(number, WALS(**(base.model_dump() | point))) for number in range(len(benches)) for point in grid]
    rows: list[dict[str, Any]] = []
    for number, model in track(jobs, "folding trade-off", len(jobs)):
        place = {"repetition": number, **{name: getattr(model, name) for name in _MODEL}}
        rows += [place | measured for measured in benches[number].measure(model, seeds[number])]
    return Tradeoff(pl.DataFrame(rows, CELLS), base)


@final
class _Workbench:
    """What recommenders are fitted to and measured by; with a `cache`, each is measured once.

    Where none are given: a world's own held-out ratings and relatedness, or a random tenth, and the log's.
    """

    def __init__(
        self,
        data: Interactions | BlockWorld,
        test: Interactions | None,
        relatedness: Relatedness | Mapping[str, Relatedness] | None,
        folding: Folding,
        cache: str | Path | None,
        rng: int,
        engine: Engine | None,
    ) -> None:
        if isinstance(data, BlockWorld):
            truth = Relatedness.from_blocks(data.user_group, data.item_group, data.related)
            relatedness = {"truth": truth} if relatedness is None else relatedness
            test = data.held_out if test is None else test
            data = data.data
        self.train, self.test = splits.random(data, 0.1, rng=rng) if test is None else (data, test)
        if relatedness is None:
            relatedness = {"log": Relatedness.from_log(self.train)}
        elif isinstance(relatedness, Relatedness):
            relatedness = {relatedness.label: relatedness}
        elif not relatedness:
            raise InputError("relatedness", received="none at all", expected="at least one, by name")
        self.relatedness, self.folding, self.engine = dict(relatedness), folding, engine or Serial()
        self.cache = None if cache is None else Path(cache)

    def measure(self, recommender: WALS, rng: int) -> list[dict[str, Any]]:
        """A row for each relatedness, with its name and VALUES; from the cache, unless the file there is damaged."""
        plan = {"kind": type(recommender).__name__, "settings": recommender.model_dump(mode="json"), "rng": rng}
        key = hashlib.sha256(json.dumps([self._fingerprint, plan], sort_keys=True).encode()).hexdigest()
        file = None if self.cache is None else self.cache / f"{key}.json"
        if file is not None and file.is_file():
            if known := decoded(file.read_bytes()):
                rows: list[dict[str, Any]] = known.record["measured"]
                return rows
            warnings.warn(f"{file} is not as it was written, and is measured again.", DamageWarning, stacklevel=2)
        fitted = recommender.fit(self.train, rng=rng)
        rows = accuracy_and_folding(fitted, self.test, self.relatedness, self.folding, rng, self.engine)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            record = {"measured": rows}
            cell = Manifest(kind="result", recaudit=__version__, status="complete", plan=plan, record=record)
            write(file, cell.encoded())
        return rows

    @cached_property
    def _fingerprint(self) -> str:
        """Everything but the recommender that the numbers depend on."""
        digest = hashlib.sha256(json.dumps([__version__, self.folding.model_dump(mode="json")]).encode())
        for log in (self.train, self.test):
            digest.update(log.fingerprint.encode())
        for name, relatedness in self.relatedness.items():
            digest.update(repr((name, relatedness.matrix is None, relatedness.shape)).encode())
            for vectors in (relatedness.user_vectors, relatedness.item_vectors):
                digest.update(np.ascontiguousarray(vectors).tobytes())
        return digest.hexdigest()


@final
@dataclass(frozen=True, eq=False, repr=False)
class Tradeoff:
    """Accuracy and folding of every model of a grid."""

    cells: pl.DataFrame
    """One row a repetition, model and relatedness: repetition, factors, unobserved_weight, relatedness, rmse, ndcg,
    and every metric of folding."""
    base: WALS
    """The settings that all models share."""

    @property
    def relatedness(self) -> list[str]:
        """The names of what folding was measured against."""
        return self.cells["relatedness"].unique(maintain_order=True).to_list()

    @property
    def frame(self) -> pl.DataFrame:
        """One row a model and relatedness: the mean over repetitions, and `_sd`, the standard deviation between them
        (null of a single one)."""
        means = [pl.col(name).mean() for name in VALUES]
        spreads = [pl.col(name).std().alias(f"{name}_sd") for name in VALUES]
        grouped = self.cells.group_by("relatedness", *_MODEL, maintain_order=True)
        return grouped.agg(*means, *spreads, repetitions=pl.len().cast(pl.Int64))

    def front(self, relatedness: str | None = None, *, metric: Folded = "folding") -> pl.DataFrame:
        """The rows of `frame` that no other beats in both, for one relatedness (else the first), lowest RMSE first."""
        return self._models(relatedness, metric).front

    def best(self, relatedness: str | None = None) -> ModelChoice:
        """The lowest RMSE, whatever it folds."""
        return self._models(relatedness).best()

    def knee(self, relatedness: str | None = None, *, metric: Folded = "folding") -> ModelChoice | None:
        """The model of the front after which a lower RMSE costs the most folding: see `MeasuredModels.knee`."""
        return self._models(relatedness, metric).knee()

    def correlations(self) -> pl.DataFrame:
        """Spearman's correlation of RMSE with folding, and with folding of lists, over the weights at fixed factors.

        Null where there are fewer than three weights, or all are alike. Below 0: what predicts better folds more.
        """
        rows = [
            (*names, len(group), *(spearman(group["rmse"], group[metric]) for metric in ("folding", "shown_folding")))
            for names, group in self.frame.group_by("relatedness", "factors", maintain_order=True)
        ]
        kinds = {"relatedness": pl.String, "factors": pl.Int64, "weights": pl.Int64}
        return pl.DataFrame(rows, {**kinds, "folding": pl.Float64, "shown_folding": pl.Float64}, orient="row")

    def agreement(self) -> pl.DataFrame:
        """Whether two choices of relatedness put the models in the same order (paper 002, section 4.3).

        Spearman's correlation of folding over all models, and the lowest of those over models with the same factors.
        """
        rows = []
        for first, second in combinations(self.relatedness, 2):
            models, others = self._models(first).frame, self._models(second).frame
            both = models.join(others, on=[*_MODEL], suffix="_second", maintain_order="left")
            whole, *within = (
                spearman(group["folding"], group["folding_second"])
                for group in (both, *both.partition_by("factors", maintain_order=True))
            )
            lowest = min((each for each in within if each is not None), default=None)
            rows.append((first, second, len(both), whole, lowest))
        kinds = {"first": pl.String, "second": pl.String, "models": pl.Int64, "spearman": pl.Float64}
        return pl.DataFrame(rows, {**kinds, "lowest_at_fixed_factors": pl.Float64}, orient="row")

    def summary(self) -> str:
        """The two choices that matter: the lowest RMSE, and the knee."""
        models = len(self._models(None).frame)
        lines = [f"folding trade-off ({models} models, relatedness: {', '.join(self.relatedness)})"]
        for name in self.relatedness:
            lines.append(f"  {name}, lowest RMSE: {self.best(name)}")
            lines.append(f"  {name}, knee: {self.knee(name) or 'none: every gain is paid for in full'}")
        return "\n".join(lines)

    __repr__ = summary

    def _models(self, relatedness: str | None, metric: Folded = "folding") -> MeasuredModels:
        name = self.relatedness[0] if relatedness is None else relatedness
        if name not in self.relatedness:
            remedy = did_you_mean(name, self.relatedness)
            raise InputError("relatedness", received=name, expected="one that was measured", remedy=remedy)
        return MeasuredModels(self.frame.filter(pl.col("relatedness") == name), self.base, metric)


def spearman(first: pl.Series, second: pl.Series) -> float | None:
    """The correlation of the ranks; None where there are fewer than three points, or one side is all alike."""
    if len(first) < 3 or min(first.n_unique(), second.n_unique()) == 1:
        return None
    from scipy.stats import rankdata  # noqa: PLC0415  slow to import

    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


# ---- two things to keep low at once ----------------------------------------------------------------------


def on_front(first: FloatArray, second: FloatArray) -> BoolArray:
    """(points,): True where no other point is as low in both and lower in one; `first` and `second` are (points,)."""
    no_higher = (first[:, None] <= first) & (second[:, None] <= second)
    lower = (first[:, None] < first) | (second[:, None] < second)
    return np.asarray(~(no_higher & lower).any(axis=0))


def knee(first: FloatArray, second: FloatArray) -> int | None:
    """The position of the front's knee among the points (points,) each.

    Both are scaled so that they go from 0 to 1 along the front; the knee is the point farthest below the chord between
    its ends, on the side where both are low. None where no point lies below it: every gain is paid for in full.
    """
    front = np.flatnonzero(on_front(first, second))
    x, y = scaled(first[front]), scaled(second[front])
    below = 1 - x - y  # sqrt(2) times the distance to the chord from (0, 1) to (1, 0)
    best = int(np.argmax(below))
    return int(front[best]) if below[best] > _ROUNDING else None


def scaled(values: FloatArray) -> FloatArray:
    """From 0 at the lowest to 1 at the highest; of a front of one point, which is both, 1."""
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.ones_like(values)


@final
@dataclass(frozen=True)
class ModelChoice:
    """One recommender, its error, and its folding over all pairs and over what would be shown."""

    recommender: WALS
    rmse: float
    folding: float
    shown_folding: float

    def __str__(self) -> str:
        return (
            f"{self.recommender.factors} factors, unobserved weight {self.recommender.unobserved_weight:g}: RMSE "
            f"{self.rmse:.4f}, folding {self.folding:.4f}, of lists {self.shown_folding:.4f}"
        )


@final
@dataclass(frozen=True, eq=False, repr=False)
class MeasuredModels:
    """Models that were tried, and which of them are worth a look."""

    frame: pl.DataFrame
    """One row a model: the settings that vary, rmse, ndcg, and every metric of folding."""
    base: WALS
    """The settings that all models share."""
    metric: Folded
    """The folding that is to be low."""

    @property
    def front(self) -> pl.DataFrame:
        """The rows that no other beats in both RMSE and folding, the lowest RMSE first."""
        return self.frame.filter(on_front(*self._objectives)).sort("rmse", self.metric)

    def best(self) -> ModelChoice:
        """The lowest RMSE, whatever it folds."""
        return self._choice(self.front.row(0, named=True))

    def knee(self) -> ModelChoice | None:
        """The model of the front after which a lower RMSE costs the most folding, or the other way round, if any."""
        place = knee(*self._objectives)
        return None if place is None else self._choice(self.frame.row(place, named=True))

    def __repr__(self) -> str:
        return f"MeasuredModels({len(self.frame)} models, {len(self.front)} on the front; best: {self.best()})"

    @property
    def _objectives(self) -> tuple[FloatArray, FloatArray]:
        return self.frame["rmse"].to_numpy(), self.frame[self.metric].to_numpy()

    def _choice(self, row: Mapping[str, Any]) -> ModelChoice:
        recommender = self.base.model_copy(update={name: row[name] for name in _MODEL})
        return ModelChoice(recommender, row["rmse"], row["folding"], row["shown_folding"])
