"""The recommenders that a configuration can name, each under a label of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from recaudit.models.factor.bayes import BayesMF
from recaudit.models.factor.llorma import LLORMA
from recaudit.models.given.arrays import Factors
from recaudit.models.neural.autorec import AutoRec
from recaudit.models.neural.cfnade import CFNADE
from recaudit.runs.problems import problem, together
from recaudit.runs.sections import build, take_kind

KINDS: Mapping[str, type[Recommender]] = MappingProxyType(
    {
        "als": ALS,
        "wals": WALS,
        "biased-mf": BiasedMF,
        "bayes-mf": BayesMF,
        "item-knn": ItemKNN,
        "user-knn": UserKNN,
        "ease": EASE,
        "slim": SLIM,
        "autorec": AutoRec,
        "llorma": LLORMA,
        "cf-nade": CFNADE,
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


def read_model(
    value: object, info: ValidationInfo, kinds: Mapping[str, type[Recommender]] = KINDS, *also: str
) -> Model:
    """A `[[model]]` table; a label that is not given is left empty for `label_models`.

    `also` are keys of the table that were read already, to be suggested like the recommender's own.
    """
    kind, table = take_kind(value, kinds)
    wrong: list[ValidationError] = []
    try:
        label = read_label(table.pop("label", None))
    except ValidationError as error:
        wrong.append(error)
    try:
        recommender = build(kinds[kind], table, info, "kind", "label", *also)
    except ValidationError as error:
        wrong.append(error)
    if wrong:
        raise together(wrong)
    return Model(label, kind, recommender)


def read_label(label: object) -> str:
    """The label of a table, empty where none is given."""
    if label is None:
        return ""
    if not (isinstance(label, str) and 0 < len(label.strip()) <= LABEL_LENGTH):
        raise problem(("label",), label, f"a text of 1 to {LABEL_LENGTH} characters")
    if not label.isprintable():
        raise problem(("label",), label, "a text without line breaks or control characters")
    return label.strip()


def label_models(models: tuple[Model, ...], what: str = "model") -> tuple[Model, ...]:
    """Each model with a label of its own: as given, else the recommender's name, counted where it repeats."""
    labels = own_labels([model.label for model in models], [type(m.recommender).__name__ for m in models], what)
    return tuple(replace(model, label=label) for model, label in zip(models, labels, strict=True))


def own_labels(given: Sequence[str], names: Sequence[str], what: str) -> list[str]:
    """A label for each of several: as given, else its name, counted where it repeats. `what` they are, in errors."""
    taken: set[str] = set()
    for place, label in enumerate(given):
        if label and label.casefold() in taken:
            raise problem((place, "label"), label, f"a label that no other {what} has")
        taken.add(label.casefold())
    labels = []
    for own, name in zip(given, names, strict=True):
        label, count = own, 1
        while not label or (not own and label.casefold() in taken):
            label, count = (name if count == 1 else f"{name} {count}"), count + 1
        taken.add(label.casefold())
        labels.append(label)
    return labels
