"""Fitted models as files: the fields of the model as arrays and JSON, rebuilt from recaudit's own classes alone."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel

from recaudit.data.interactions import Interactions
from recaudit.folders.arrays import Arrays, encoded, read
from recaudit.models.base import FittedModel
from recaudit.models.factor.bayes import BayesMFModel
from recaudit.models.factor.bayes_kernel import Chain, Group, Units
from recaudit.models.factor.llorma import LLORMAModel, Nearness
from recaudit.models.factor.llorma_training import Vectors
from recaudit.models.factor.model import FactorModel
from recaudit.models.neural.autorec import AutoRecModel
from recaudit.models.neural.autorec_training import Weights
from recaudit.models.neural.cfnade import CFNADEModel
from recaudit.models.neural.cfnade_network import Levels, Network
from recaudit.models.updates import AlsSolve, SgdStep, WalsSolve

_CLASSES: dict[str, type] = {
    f"{kind.__module__}.{kind.__qualname__}": kind
    for kind in (
        *(FactorModel, SgdStep, AlsSolve, WalsSolve),
        *(AutoRecModel, Weights),
        *(BayesMFModel, Units, Chain, Group),
        *(CFNADEModel, Levels, Network),
        *(LLORMAModel, Vectors, Nearness),
    )
}
"""What a file may name: the models that `warm_fit` goes on from, and what they are made of."""

Json = Any


def stored(model: FittedModel) -> bytes | None:
    """The file of a model without its log; None for a model that holds anything but arrays, numbers and texts."""
    arrays: Arrays = {}
    try:
        about = _told(model, "model", model.data, arrays)
    except TypeError:
        return None
    return encoded(arrays, about)


def restored(path: Path, data: Interactions) -> FittedModel:
    """The model of a file, fitted to this log; a ValueError where the file tells of none."""
    arrays, about = read(path)
    try:
        model = _made(about, data, arrays)
    except (TypeError, LookupError, AttributeError, RuntimeError, RecursionError) as error:
        raise ValueError(f"{path} tells of no model") from error
    if not isinstance(model, FittedModel):
        raise ValueError(f"{path} tells of a {type(model).__name__}, not of a model")
    return model


def _told(value: object, place: str, data: Interactions, arrays: Arrays) -> Json:
    """A value as JSON; its arrays go to `arrays` under `place`."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if value is data:
        return {"is": "log"}
    if isinstance(value, torch.Tensor):
        return {**_told(value.detach().cpu().numpy(), place, data, arrays), "is": "tensor"}
    if isinstance(value, np.ndarray) and value.dtype != object:
        turned = value.flags.f_contiguous and not value.flags.c_contiguous
        arrays[place] = value.T if turned else value
        return {"is": "array", "at": place, "turned": bool(turned)}
    if isinstance(value, tuple):
        return {"is": "tuple", "of": [_told(each, f"{place}.{n}", data, arrays) for n, each in enumerate(value)]}
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if _CLASSES.get(name) is type(value):
        fields = {key: _told(each, f"{place}.{key}", data, arrays) for key, each in _fields(value).items()}
        return {"is": name, "with": fields}
    raise TypeError(f"{place} is a {name}")


def _fields(value: object) -> dict[str, object]:
    """What the class is called with to make the value again."""
    if isinstance(value, Network):
        return {"levels": value.levels, "columns": value.columns, "hidden": len(value.c), **value.state_dict()}
    if isinstance(value, BaseModel):
        return dict(value)
    assert dataclasses.is_dataclass(value)
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _made(told: Json, data: Interactions, arrays: Arrays) -> Any:
    if not isinstance(told, dict):
        return told
    kind = told["is"]
    if kind == "log":
        return data
    if kind in ("array", "tensor"):
        array = arrays[told["at"]].T if told["turned"] else arrays[told["at"]]
        return torch.from_numpy(array) if kind == "tensor" else array
    if kind == "tuple":
        return tuple(_made(each, data, arrays) for each in told["of"])
    fields = {key: _made(each, data, arrays) for key, each in told["with"].items()}
    if _CLASSES[kind] is Network:
        network = Network(*(fields.pop(key) for key in ("levels", "columns", "hidden"))).requires_grad_(False)
        network.load_state_dict(fields)
        return network
    return _CLASSES[kind](**fields)
