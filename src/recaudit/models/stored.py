"""Fitted models as files: the fields of the model as arrays and JSON, rebuilt from recaudit's own classes alone."""

from __future__ import annotations

import dataclasses
import inspect
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

import numpy as np
from pydantic import BaseModel

from recaudit import models
from recaudit.data.interactions import Interactions
from recaudit.folders.arrays import Arrays, encoded, read
from recaudit.models.base import FittedModel, Recommender

Json = Any


@cache
def _classes() -> dict[str, type]:
    """What a file may name: the models that `warm_fit` starts from, and what their fields are made of."""
    public = [getattr(models, name) for name in models.__all__]
    recommenders = [each for each in public if isinstance(each, type) and issubclass(each, Recommender)]
    warm = [kind.warm_fit for kind in recommenders if kind.warm_fit is not Recommender.warm_fit]
    hints, found = [get_type_hints(fit)["return"] for fit in warm], dict[str, type]()
    while hints:
        kind = hints.pop()
        hints += get_args(kind)
        if isinstance(kind, type) and _name(kind) not in found and kind.__module__.startswith(f"{models.__name__}."):
            found[_name(kind)] = kind
            hints += kind.__subclasses__() if inspect.isabstract(kind) else []
            if not issubclass(kind, BaseModel):
                hints += [hint for hint in get_type_hints(kind).values() if get_origin(hint) is not ClassVar]
    return found


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def stored(model: FittedModel) -> bytes | None:
    """The file of a model without its log; None for a model that holds anything but arrays, numbers and texts."""
    arrays: Arrays = {}
    try:
        about = _encoded(model, "model", model.data, arrays)
    except TypeError:
        return None
    return encoded(arrays, about)


def restored(path: Path, data: Interactions) -> FittedModel:
    """The model of a file, fitted to this log; a ValueError where the file tells of none."""
    arrays, about = read(path)
    try:
        model = _decoded(about, data, arrays)
    except (TypeError, LookupError, AttributeError, RuntimeError, RecursionError) as error:
        raise ValueError(f"{path} tells of no model") from error
    if not isinstance(model, FittedModel):
        raise ValueError(f"{path} tells of a {type(model).__name__}, not of a model")
    return model


def _encoded(value: object, place: str, data: Interactions, arrays: Arrays) -> Json:
    """A value as JSON; its arrays go to `arrays` under `place`."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if value is data:
        return {"is": "log"}
    if isinstance(value, np.ndarray) and value.dtype != object:
        turned = value.flags.f_contiguous and not value.flags.c_contiguous
        arrays[place] = value.T if turned else value
        return {"is": "array", "at": place, "turned": bool(turned)}
    name = _name(type(value))
    if _classes().get(name) is type(value):
        fields = {key: _encoded(each, f"{place}.{key}", data, arrays) for key, each in _fields(value).items()}
        return {"is": name, "with": fields}
    if isinstance(value, tuple):
        return {"is": "tuple", "of": [_encoded(each, f"{place}.{n}", data, arrays) for n, each in enumerate(value)]}
    raise TypeError(f"{place} is a {name}")


def _fields(value: Any) -> dict[str, object]:
    """What the class is called with to make the value again."""
    if isinstance(value, BaseModel):
        return dict(value)
    names = getattr(value, "_fields", None) or [field.name for field in dataclasses.fields(value)]
    return {name: getattr(value, name) for name in names}


def _decoded(value: Json, data: Interactions, arrays: Arrays) -> Any:
    """The value that `_encoded` gave as JSON."""
    if not isinstance(value, dict):
        return value
    kind = value["is"]
    if kind == "log":
        return data
    if kind == "array":
        return arrays[value["at"]].T if value["turned"] else arrays[value["at"]]
    if kind == "tuple":
        return tuple(_decoded(each, data, arrays) for each in value["of"])
    fields = {key: _decoded(each, data, arrays) for key, each in value["with"].items()}
    return _classes()[kind](**fields)
