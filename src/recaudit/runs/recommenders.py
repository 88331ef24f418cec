"""The recommenders that a configuration can name, each under a label of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import final

from pydantic import ValidationError, ValidationInfo

from recaudit.models import (
    ALS,
    EASE,
    SLIM,
    WALS,
    BiasedMF,
    ItemKNN,
    Random,
    Recommender,
    RecurrentRecommender,
    TopPop,
    UserKNN,
)
from recaudit.runs.factors_file import Factors
from recaudit.runs.problems import problem, together
from recaudit.runs.sections import build, take_kind

KINDS: Mapping[str, type[Recommender]] = MappingProxyType(
    {
        "als": ALS,
        "wals": WALS,
        "biased-mf": BiasedMF,
        "item-knn": ItemKNN,
        "user-knn": UserKNN,
        "ease": EASE,
        "slim": SLIM,
        "recurrent": RecurrentRecommender,
        "top-pop": TopPop,
        "random": Random,
        "factors": Factors,
    }
)


@final
@dataclass(frozen=True)
class Model:
    """One recommender of a run, under the label that tables and the report use."""

    label: str
    kind: str
    recommender: Recommender


LABEL_LENGTH = 60
"""A label names a folder: 60 characters of any script stay within what file systems take."""


def read_model(value: object, info: ValidationInfo) -> Model:
    """A `[[model]]` table; a label that is not given is left empty for `label_models`."""
    kind, table = take_kind(value, KINDS)
    wrong: list[ValidationError] = []
    label = table.pop("label", None)
    if label is not None and not (isinstance(label, str) and 0 < len(label.strip()) <= LABEL_LENGTH):
        wrong.append(problem(("label",), label, f"a text of 1 to {LABEL_LENGTH} characters"))
    elif isinstance(label, str) and not label.isprintable():
        wrong.append(problem(("label",), label, "a text without line breaks or control characters"))
    try:
        recommender = build(KINDS[kind], table, info, "kind", "label")
    except ValidationError as error:
        wrong.append(error)
    if wrong:
        raise together(wrong)
    return Model(str(label or "").strip(), kind, recommender)


def label_models(models: tuple[Model, ...]) -> tuple[Model, ...]:
    """Each model with a label of its own: as given, else the recommender's name, counted where it repeats."""
    taken: set[str] = set()
    for place, model in enumerate(models):
        if model.label and model.label.casefold() in taken:
            raise problem((place, "label"), model.label, "a label that no other model has")
        taken.add(model.label.casefold())
    labelled = []
    for model in models:
        label, count = model.label, 1
        while not label or (not model.label and label.casefold() in taken):
            name = type(model.recommender).__name__
            label, count = (name if count == 1 else f"{name} {count}"), count + 1
        taken.add(label.casefold())
        labelled.append(Model(label, model.kind, model.recommender))
    return tuple(labelled)
