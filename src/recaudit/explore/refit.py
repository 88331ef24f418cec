"""The models of a run once more: a run folder keeps no models, and the same seed makes the same bits.

The folder may come from a stranger, who wrote its configuration. So nothing is built but what is fitted, from parts of
recaudit and of modules that the user allows; a file is read only if it is the one that the run was made from; no
service is queried, and nothing is downloaded.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from recaudit.data import datasets
from recaudit.data.interactions import Interactions
from recaudit.data.sources import NamedData
from recaudit.engines import working
from recaudit.errors import DamagedError, InputError, NotSupportedError, did_you_mean
from recaudit.folders import FileRecord, open_input
from recaudit.models.base import FittedModel
from recaudit.models.given.http import Http
from recaudit.models.given.python import PythonObject
from recaudit.registry import MODELS, is_allowed
from recaudit.runs import Configuration, Run
from recaudit.runs.manifest import AuditRecord, ModelRecord
from recaudit.runs.recommenders import IMPERSONAL, Model, on_device
from recaudit.runs.toml_files import config_error
from recaudit.specification import CheckInput, as_data, mistake

_NEEDED = ("seed", "data", "split")
"""What is built of a configuration, in addition to models: neither audits nor the engine."""


class RunAgain(NamedTuple):
    """What the models of a run are fitted to, and which."""

    seed: int
    log: Interactions  # what models learn from
    models: tuple[Model, ...]
    left_out: Mapping[str, str]
    """The models that are not fitted, each with the reason."""

    def fitted(self) -> Iterator[tuple[str, FittedModel]]:
        """Each model with its label, fitted when it is asked for."""
        for model in self.models:
            with working(f"{model.label}: fit"):
                yield model.label, model.recommender.fit(self.log, rng=self.seed)


def run_again(run: Run, models: tuple[str, ...], folder: Path) -> RunAgain:
    """The log and the models of a run, those `models` of it or all that personalise.

    Relative paths of its configuration start at `folder`. Refused where anything is not as it was: another
    configuration, other data. Call it, and fit the models, inside `recaudit.registry.own_code_only`.
    """
    manifest = run.manifest
    tables = _tables(run)
    for label in models:
        if label not in tables:
            raise InputError(
                "models", received=label, expected="a model of this run", remedy=did_you_mean(label, tables)
            )
    personal = [label for label, table in tables.items() if table.get("kind") not in IMPERSONAL]
    chosen = models or personal or tuple(tables)
    left_out = {label: why for label in chosen if (why := _why_not(tables[label]))}
    if len(left_out) == len(set(chosen)):
        raise NotSupportedError("; ".join(f"{label}: {why}" for label, why in left_out.items()))
    config = _configuration(run, [tables[label] for label in chosen if label not in left_out], folder)
    _check_settings(run, config)
    if isinstance(config.data, NamedData):
        _check_here(run, config.data.name)
    with working(f"reading {config.data.label}"):
        data, (train, test) = config.split.load(config.data, config.seed)
    if (data.fingerprint, len(train), len(test)) != (
        manifest.data.fingerprint,
        manifest.data.train,
        manifest.data.test,
    ):
        raise _other_data(run)
    return RunAgain(config.seed, train, config.models, left_out)


def _tables(run: Run) -> dict[str, dict[str, Any]]:
    """Return the table of each model of the configuration, by its label."""
    written = run.manifest.config.get("model")
    labels = [model.label for model in run.manifest.models if not model.floor]
    if (
        not isinstance(written, list)
        or len(written) != len(labels)
        or not all(isinstance(one, dict) for one in written)
    ):
        raise DamagedError(
            "path",
            received=f"{run.path}, whose configuration has other models than the run",
            expected="the manifest that the run wrote",
            remedy="Put it back from a copy, or run the audit again.",
        )
    return {label: {**table, "label": label} for label, table in zip(labels, written, strict=True)}


def _why_not(table: Mapping[str, Any]) -> str:
    """Return why a model of the configuration is not fitted; empty if it is, or if its table is wrong."""
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in MODELS:
        return ""
    if not MODELS.is_usable(kind):
        return _not_allowed(MODELS.module_of(kind))
    if MODELS[kind] is Http:
        return "It is a service, and a page queries none."
    module = str(table.get("object")).partition(":")[0]
    return _not_allowed(module) if MODELS[kind] is PythonObject and not is_allowed(module) else ""


def _not_allowed(module: str) -> str:
    return (
        f"It is made by code of the module {module}, which is not part of recaudit. If you trust this module, allow "
        f"it: --allow-code {module}, or in Python allow_code=({module!r},)."
    )


def _configuration(run: Run, models: list[dict[str, Any]], folder: Path) -> Configuration:
    """Build the part of the configuration that is needed to fit these models."""
    manifest = run.manifest
    table: dict[str, Any] = {name: manifest.config[name] for name in _NEEDED if name in manifest.config}
    data = table.get("data")
    if isinstance(data, Mapping) and "name" in data:  # its files are looked for where the user keeps them
        table["data"] = {name: value for name, value in data.items() if name != "path"}
    context = {"folder": folder, "source": str(run.path), "check_input": _check_input(_known_files(manifest))}
    try:
        config = Configuration.model_validate({**table, "model": models, "device": manifest.device}, context=context)
    except ValidationError as error:
        raise config_error(f"the configuration of {run.path}", error) from None
    if config.seed != manifest.seed:
        raise _other_settings(run)
    return config


def _known_files(manifest: AuditRecord) -> set[tuple[int, str]]:
    """Return the size and SHA-256 of each file outside of the folder that the run was made from."""
    known = {(file.bytes, file.sha256) for file in manifest.data.files.values()}
    given = (model.settings for model in manifest.models)
    return known | {(own["bytes"], own["sha256"]) for own in given if {"bytes", "sha256"} <= own.keys()}


def _check_input(known: Collection[tuple[int, str]]) -> CheckInput:
    """Make a check that a file is one of these; it opens regular files of a known size only."""
    sizes = {size for size, _ in known}

    def check(path: Path) -> None:
        record = None
        with suppress(OSError, DamagedError):
            if path.stat().st_size in sizes:
                with open_input(path) as file:
                    # The path may lead to another file by now.
                    if os.fstat(file.fileno()).st_size in sizes:
                        record = FileRecord.of_opened(file)
        if record is None or (record.bytes, record.sha256) not in known:
            remedy = "Put the file back as it was: it has changed since. Or run the audit again."
            raise mistake((), str(path), "a regular file of the size and content that the run has noted", remedy)

    return check


def _check_settings(run: Run, config: Configuration) -> None:
    """Check that the models have the settings that they had in the run."""
    records = {model.label: model for model in run.manifest.models}
    for model in config.models:
        record: ModelRecord = records[model.label]
        settings = as_data(on_device(model, config.device).recommender)
        if (model.kind, settings) != (record.kind, record.settings):
            raise _other_settings(run)


def _check_here(run: Run, name: str) -> None:
    """Check that the files of a built-in dataset are on this machine."""
    if not datasets.info(name).ready:
        raise InputError(
            "run",
            received=f"{run.path}, made from {name}, whose files are not on this machine",
            expected=f"the files of {name} in the cache, or below the folder that {datasets.VARIABLE} names",
            remedy=f"'recaudit data fetch {name}' downloads them. A run folder alone never starts a download.",
        )


def _other_settings(run: Run) -> InputError:
    return InputError(
        "run",
        received=f"{run.path}, made by recaudit {run.manifest.recaudit} with settings that have another meaning here",
        expected="a run whose models can be fitted again as they were",
        remedy="Run the audit again with this version.",
    )


def _other_data(run: Run) -> InputError:
    return InputError(
        "run",
        received=f"{run.path}, made from {run.manifest.data.name} as it was",
        expected="the same data as then: it has changed since",
        remedy="Put the data back, or run the audit again.",
    )
