"""One recommender measured for both: how well it predicts what was held out, and how much it folds."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
import polars as pl

from recaudit.atomic import write
from recaudit.audits.folding.folding import Similarity, folding
from recaudit.audits.folding.relatedness import Relatedness
from recaudit.audits.lists.accuracy import accuracy
from recaudit.data import splits
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine
from recaudit.errors import DamageWarning, InputError
from recaudit.models.base import FittedModel, Recommender
from recaudit.version import __version__

FOLDING = ("folding", "overshoot_share", "shown_folding", "spurious_share")
MEASURED = {"relatedness": pl.String, "rmse": pl.Float64, "ndcg": pl.Float64, **dict.fromkeys(FOLDING, pl.Float64)}
"""What is measured of one recommender, a row for each relatedness; `rmse` is null for scores that are no ratings."""

Row = dict[str, Any]


@final
@dataclass(frozen=True, eq=False)
class Bench:
    """What recommenders are fitted to and measured by; with a `cache`, each is measured once."""

    train: Interactions
    test: Interactions
    relatedness: Mapping[str, Relatedness]
    similarity: Similarity
    k: int
    cache: Path | None
    engine: Engine

    @classmethod
    def of(
        cls,
        data: Interactions,
        test: Interactions | None,
        relatedness: Relatedness | Mapping[str, Relatedness] | None,
        *,
        similarity: Similarity,
        k: int,
        cache: str | Path | None,
        rng: int,
        engine: Engine,
    ) -> Bench:
        """Where no `test` is given, a tenth of the ratings is held out at random.

        Where no `relatedness` is given, it is that of the training log.
        """
        train, test = splits.random(data, 0.1, rng=rng) if test is None else (data, test)
        if relatedness is None:
            relatedness = {"log": Relatedness.from_log(train)}
        elif isinstance(relatedness, Relatedness):
            relatedness = {relatedness.label: relatedness}
        elif not relatedness:
            raise InputError("relatedness", received="none at all", expected="at least one, by name")
        return cls(train, test, dict(relatedness), similarity, k, None if cache is None else Path(cache), engine)

    def measure(self, recommender: Recommender, rng: int) -> list[Row]:
        """Fit and measure: a row for each relatedness, columns as in MEASURED.

        What was measured before, with the same data, settings and version, is read from the cache: the same numbers. A
        damaged file is measured again, and a warning names it.
        """
        file = None if self.cache is None else self.cache / f"{self._key(recommender, rng)}.json"
        known = None if file is None else _read(file)
        if known is not None:
            return known
        rows = self._measure(recommender.fit(self.train, rng=rng), rng)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            settings = recommender.model_dump(mode="json")
            content = {"recommender": type(recommender).__name__, "settings": settings, "rng": rng, "measured": rows}
            write(file, _written(content))
        return rows

    def _measure(self, model: FittedModel, rng: int) -> list[Row]:
        # Intervals over users are not asked for: two draws are the fewest that there are.
        found = accuracy(model, self.test, k=self.k, by=(), samples=2, rng=rng, engine=self.engine)
        whole: Row = {"rmse": found["rmse"] if model.predicts_ratings else None, "ndcg": found["ndcg"]}
        rows = []
        for name, relatedness in self.relatedness.items():
            folded = folding(
                model,
                relatedness,
                similarity=self.similarity,
                k=self.k,
                by=(),
                samples=2,
                rng=rng,
                engine=self.engine,
            )
            rows.append({"relatedness": name, **whole, **{metric: folded[metric] for metric in FOLDING}})
        return rows

    def _key(self, recommender: Recommender, rng: int) -> str:
        settings = (type(recommender).__name__, recommender.model_dump(mode="json"), rng)
        return hashlib.sha256(json.dumps([self._fingerprint, settings], sort_keys=True).encode()).hexdigest()

    @cached_property
    def _fingerprint(self) -> str:
        """Everything but the recommender that the numbers depend on."""
        digest = hashlib.sha256(repr((__version__, self.similarity, self.k)).encode())
        for log in (self.train, self.test):
            digest.update(log.fingerprint.encode())
        for name, relatedness in self.relatedness.items():
            digest.update(repr((name, type(relatedness).__name__, relatedness.shape)).encode())
            for vectors in (relatedness.user_vectors, relatedness.item_vectors):
                digest.update(np.ascontiguousarray(vectors).tobytes())
        return digest.hexdigest()


def _read(file: Path) -> list[Row] | None:
    """What was measured before; None where nothing was, or where the file is not, byte by byte, as it was written."""
    if not file.is_file():
        return None
    content = file.read_bytes()
    try:
        found = json.loads(content)
        del found["sha256"]
        if content == _written(found):
            rows: list[Row] = found["measured"]
            return rows
    except (ValueError, LookupError, TypeError, RecursionError):
        pass
    warnings.warn(f"{file} is not as it was written, and is measured again.", DamageWarning, stacklevel=3)
    return None


def _written(content: Row) -> bytes:
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return json.dumps({**content, "sha256": digest}, indent=1, allow_nan=False).encode()
