"""The experiments of a study of one's own: one audit of one model each, kept with what each user adds to a number."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from recaudit.audits import Audit, Result, Subject
from recaudit.data import Interactions
from recaudit.data.splits import Split
from recaudit.errors import InputError, NotSupportedError
from recaudit.models import FittedModel
from recaudit.plugins import SUMMARY_SCHEMA, as_data, comparable_tables
from recaudit.registry import AUDITS
from recaudit.runs import Configuration

_TABLE, _REASON = "table", "cause"
"""Columns of an experiment's table: which table of the audit a row is of, and why the model has no answer."""


def measure(
    seed: int,
    data: Mapping[str, Any],
    split: Mapping[str, Any],
    model: Mapping[str, Any],
    recommender: Mapping[str, Any],
    audit: str,
    asked: Mapping[str, Any],
    log: list[str],
    folder: str,
) -> pl.DataFrame:
    """One audit of one model: the tables that it is read and compared by, one below the other.

    `recommender` and `log` are what `model`, `data` and `split` stand for, so that another file is another experiment.
    """
    written = json.dumps([seed, data, split, model, log])
    config, subject = _fitted(written, folder)
    if as_data(config.models[0].recommender) != recommender:
        raise _changed(f"the files of {model['label']}")
    own: Audit = AUDITS[audit].model_validate(asked)
    try:
        tables = comparable_tables(own.run(subject, rng=seed))
    except NotSupportedError as error:
        tables = {"skipped": pl.DataFrame({_REASON: [str(error)]})}
    named = [table.select(pl.lit(name).alias(_TABLE), pl.all()) for name, table in tables.items()]
    return pl.concat(named, how="diagonal_relaxed")


def log_of(config: Configuration) -> tuple[Interactions, Split, list[str]]:
    """A configuration's log, its two parts, and the digests of these."""
    data, parts = config.split.load(config.data, config.seed)
    return data, parts, [one.fingerprint for one in (data, *parts)]


@lru_cache(maxsize=2)
def _fitted(written: str, folder: str) -> tuple[Configuration, Subject]:
    """The audits of one model follow each other, and share it."""
    seed, data, split, model, digests = json.loads(written)
    tables = {"seed": seed, "data": data, "split": split, "model": [model], "floors": False}
    config = Configuration.model_validate(tables, context={"folder": Path(folder)})
    log, parts, found = log_of(config)
    if found != digests:
        raise _changed("the data")
    recommender = config.models[0].recommender
    fitted: FittedModel = recommender.fit(parts.train, rng=seed)
    return config, Subject(fitted, recommender, log, parts.test)


def _changed(what: str) -> InputError:
    return InputError("data", received=f"{what}, changed since the study began", expected="files that stay as they are")


def skipped(table: pl.DataFrame) -> str:
    """Why the model could not be put to the audit; empty where it was."""
    return "" if _REASON not in table.columns else str(table[_REASON][0])


def result_of(table: pl.DataFrame, settings: Mapping[str, Any]) -> Result:
    """The result of an experiment, as far as its table has it."""
    tables = {
        str(name): _without_empty(rows.drop(_TABLE)) if name != "summary" else rows.select(*SUMMARY_SCHEMA)
        for (name,), rows in table.group_by(_TABLE, maintain_order=True)
    }
    audit: type[Audit] = AUDITS[settings["audit"]]
    return audit.result(audit.model_validate(settings["asked"]), tables, rng=settings["seed"])


def _without_empty(rows: pl.DataFrame) -> pl.DataFrame:
    """Without the columns of other tables."""
    return rows.select(column for column in rows if column.null_count() < len(column))
