"""The recommenders that a configuration can name, each under a label of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, final

from pydantic import AfterValidator, ValidationError, ValidationInfo

from recaudit.models.base import Recommender
from recaudit.models.baseline.popularity import Random, TopPop
from recaudit.registry import MODELS, Registry
from recaudit.specification import build, mistake, take_kind, together


@final
@dataclass(frozen=True)
class Model:
    """One recommender of a run, under the label that tables and the report use."""

    label: str
    kind: str
    recommender: Recommender
    floor: bool = False
    """Whether it was put beside the others for comparison, and nobody asked for it."""


def _known_device(device: str) -> str:
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        remedy = "Which there are 'recaudit doctor' says: numbers depend on the device, so that none is chosen for you."
        raise mistake((), device, "'cpu', 'cuda' or 'cuda:1'", remedy)
    return device


Device = Annotated[str, AfterValidator(_known_device)]
"""Device that computes, by the name that torch has for it."""


def on_device(model: Model, device: str) -> Model:
    """The model, trained on this device if its recommender can be and names none itself."""
    kind = type(model.recommender)
    if "device" not in kind.model_fields or "device" in model.recommender.model_fields_set:
        return model
    return replace(model, recommender=model.recommender.model_copy(update={"device": device}))


IMPERSONAL = ("top-pop", "random")
"""The kinds of models that do not personalise: what every other model has to beat."""


def floors(models: tuple[Model, ...]) -> tuple[Model, ...]:
    """What every number is compared with: a random and a most-popular recommender, where the models have none."""
    wanted = (Model("Random", "random", Random(), floor=True), Model("Most popular", "top-pop", TopPop(), floor=True))
    lacking = [floor for floor in wanted if all(model.recommender != floor.recommender for model in models)]
    taken = {model.label.casefold() for model in models}
    return tuple(
        replace(floor, label=f"{floor.label} (floor)") if floor.label.casefold() in taken else floor
        for floor in lacking
    )


LABEL_LENGTH = 60
"""A label names a folder: 60 characters of any script stay within what file systems take."""


def read_model(value: object, info: ValidationInfo, registry: Registry = MODELS, *also: str) -> Model:
    """A `[[model]]` table; a label that is not given is left empty for `label_models`.

    `also` are keys of the table that were read already, to be suggested like the recommender's own.
    """
    if isinstance(value, Model):
        return value
    kind, table = take_kind(registry, value)
    wrong: list[ValidationError] = []
    try:
        label = read_label(table.pop("label", None))
    except ValidationError as error:
        wrong.append(error)
    try:
        recommender = build(registry[kind], table, info, "kind", "label", *also)
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
        raise mistake(("label",), label, f"a text of 1 to {LABEL_LENGTH} characters")
    if not label.isprintable():
        raise mistake(("label",), label, "a text without line breaks or control characters")
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
            raise mistake((place, "label"), label, f"a label that no other {what} has")
        taken.add(label.casefold())
    labels = []
    for own, name in zip(given, names, strict=True):
        label, count = own, 1
        while not label or (not own and label.casefold() in taken):
            label, count = (name if count == 1 else f"{name} {count}"), count + 1
        taken.add(label.casefold())
        labels.append(label)
    return labels
