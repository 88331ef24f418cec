"""The models of a run once more: a run folder keeps no models, and the same seed makes the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from recaudit.data.interactions import Interactions
from recaudit.engines import working
from recaudit.errors import InputError, did_you_mean
from recaudit.models.base import FittedModel
from recaudit.runs import Configuration, Run
from recaudit.runs.recommenders import IMPERSONAL, Model
from recaudit.runs.toml_files import config_error


class RunAgain(NamedTuple):
    """What the models of a run are fitted to, and which."""

    seed: int
    log: Interactions  # what models learn from
    models: tuple[Model, ...]

    def fitted(self) -> Iterator[tuple[str, FittedModel]]:
        """Each model with its label, fitted when it is asked for."""
        for model in self.models:
            with working(f"{model.label}: fit"):
                yield model.label, model.recommender.fit(self.log, rng=self.seed)


def run_again(run: Run, models: tuple[str, ...], folder: Path) -> RunAgain:
    """The log and the models of a run, those `models` of it or all that personalise.

    Relative paths of its configuration start at `folder`. Refused where anything is not as it was: another
    configuration, other data.
    """
    manifest = run.manifest
    try:
        config = Configuration.model_validate(manifest.config, context={"folder": folder, "source": str(run.path)})
    except ValidationError as error:
        raise config_error(f"the configuration of {run.path}", error) from None
    config = config.model_copy(update={"device": manifest.device})
    if config.hash != manifest.config_hash:
        raise InputError(
            "run",
            received=f"{run.path}, made by recaudit {manifest.recaudit} with settings that have another meaning here",
            expected="a run whose models can be fitted again as they were",
            remedy="Run the audit again with this version.",
        )
    with working(f"reading {config.data.label}"):
        data, (train, _) = config.split.load(config.data, config.seed)
    if data.fingerprint != manifest.data.fingerprint:
        raise InputError(
            "run",
            received=f"{run.path}, made from {manifest.data.name} as it was",
            expected="the same data as then: it has changed since",
            remedy="Put the data back, or run the audit again.",
        )
    known = {model.label: model for model in config.models}
    for label in models:
        if label not in known:
            raise InputError(
                "models", received=label, expected="a model of this run", remedy=did_you_mean(label, known)
            )
    personal = [label for label, model in known.items() if model.kind not in IMPERSONAL]
    return RunAgain(config.seed, train, tuple(known[label] for label in models or personal or known))
