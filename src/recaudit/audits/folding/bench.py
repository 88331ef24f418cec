"""Recommenders measured for both, each once: how well they predict what was held out, and how much they fold."""

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
from recaudit.audits.folding.audit import Folding, accuracy_and_folding
from recaudit.audits.folding.definitions import FOLDING
from recaudit.audits.folding.relatedness import Relatedness
from recaudit.data import splits
from recaudit.data.blocks import BlockWorld
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine
from recaudit.errors import DamageWarning, InputError
from recaudit.folders.manifest import Manifest, decoded
from recaudit.models.base import Recommender
from recaudit.version import __version__

VALUES = dict.fromkeys(("rmse", "ndcg", *(metric.name for metric in FOLDING)), pl.Float64)
"""What is measured of one recommender; `rmse` is null for scores that are no ratings."""

Row = dict[str, Any]


@final
@dataclass(frozen=True, eq=False)
class Bench:
    """What recommenders are fitted to and measured by; with a `cache`, each is measured once."""

    train: Interactions
    test: Interactions
    relatedness: Mapping[str, Relatedness]
    folding: Folding
    """How folding is measured, against each relatedness."""
    cache: Path | None
    engine: Engine

    @classmethod
    def of(
        cls,
        data: Interactions | BlockWorld,
        test: Interactions | None,
        relatedness: Relatedness | Mapping[str, Relatedness] | None,
        folding: Folding,
        cache: str | Path | None,
        rng: int,
        engine: Engine,
    ) -> Bench:
        """Where none are given: a world's own held-out ratings and relatedness, or a random tenth, and the log's."""
        if isinstance(data, BlockWorld):
            truth = Relatedness.from_blocks(data.user_group, data.item_group, data.related)
            relatedness = {"truth": truth} if relatedness is None else relatedness
            test = data.held_out if test is None else test
            data = data.data
        train, test = splits.random(data, 0.1, rng=rng) if test is None else (data, test)
        if relatedness is None:
            relatedness = {"log": Relatedness.from_log(train)}
        elif isinstance(relatedness, Relatedness):
            relatedness = {relatedness.label: relatedness}
        elif not relatedness:
            raise InputError("relatedness", received="none at all", expected="at least one, by name")
        return cls(train, test, dict(relatedness), folding, None if cache is None else Path(cache), engine)

    def measure(self, recommender: Recommender, rng: int) -> list[Row]:
        """Fit and measure: a row for each relatedness, with its name and VALUES.

        What was measured before, with the same data, settings and version, is read from the cache: the same numbers. A
        damaged file is measured again, and a warning names it.
        """
        plan = {"kind": type(recommender).__name__, "settings": recommender.model_dump(mode="json"), "rng": rng}
        key = hashlib.sha256(json.dumps([self._fingerprint, plan], sort_keys=True).encode()).hexdigest()
        file = None if self.cache is None else self.cache / f"{key}.json"
        if file is not None and file.is_file():
            if known := decoded(file.read_bytes()):
                rows: list[Row] = known.record["measured"]
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
