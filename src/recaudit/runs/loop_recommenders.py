"""The recommenders of a simulation: each with a policy of its own and a way to be tuned, where it has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import final

from pydantic import TypeAdapter, ValidationError, ValidationInfo

from recaudit.errors import did_you_mean
from recaudit.models import Recommender
from recaudit.policies import AnyPolicy, Policy
from recaudit.registry import SIMULATED_MODELS
from recaudit.runs.environments import collected
from recaudit.runs.recommenders import Model, label_models, read_model
from recaudit.simulate.offline.tuning import GridSearch, OptunaSearch
from recaudit.specification import build, mistake, together, within


@final
@dataclass(frozen=True)
class LoopRecommender:
    """A recommender under its label."""

    model: Model
    policy: Policy | None = None
    """Its own; else the simulation's."""
    tuning: GridSearch | OptunaSearch | None = None
    """How its settings are chosen; else they are as written."""


def read_recommender(value: object, info: ValidationInfo) -> LoopRecommender:
    """A `[[recommender]]` table; a label that is not given is left empty for `label_recommenders`."""
    if not isinstance(value, Mapping):
        return LoopRecommender(read_model(value, info, SIMULATED_MODELS))
    table, wrong = dict(value), list[ValidationError]()
    how, policy, tuning = table.pop("tune", None), None, None
    if "policy" in table:
        with collected(wrong, "policy"):
            policy = TypeAdapter[Policy](AnyPolicy).validate_python(table.pop("policy"), context=info.context)
    with collected(wrong):
        model = read_model(table, info, SIMULATED_MODELS, "policy", "tune")
    if how is not None and not wrong:
        with collected(wrong, "tune"):
            tuning = _read_tuning(how, model.recommender, info)
    if wrong:
        raise together(wrong)
    return LoopRecommender(model, policy, tuning)


def label_recommenders(recommenders: tuple[LoopRecommender, ...]) -> tuple[LoopRecommender, ...]:
    """Each under a label of its own: as given, else the recommender's name, counted where it repeats."""
    models = label_models(tuple(each.model for each in recommenders), "recommender")
    return tuple(replace(each, model=model) for each, model in zip(recommenders, models, strict=True))


def _read_tuning(how: object, recommender: Recommender, info: ValidationInfo) -> GridSearch | OptunaSearch:
    """A grid `{factors = [10, 20]}`, or `{ranges = {regularization = [0.001, 1.0]}, tries = 30}`."""
    if not isinstance(how, Mapping) or not how:
        raise mistake((), how, "lists of values to try, {factors = [10, 20]}, or {ranges = {...}, tries = 30}")
    if "ranges" in how:
        search = build(OptunaSearch, how, info)
        wrong = [within("ranges", error) for error in _refused(search.ranges, recommender)]
        tuning: GridSearch | OptunaSearch = search
    else:
        for name, values in how.items():
            if not isinstance(values, list) or not values:
                raise mistake((name,), values, "a list of the values to try")
        tuning = GridSearch(values={name: tuple(values) for name, values in how.items()})
        wrong = list(_refused(tuning.values, recommender))
    if wrong:
        raise together(wrong)
    return tuning


def _refused(tried: Mapping[str, tuple[object, ...]], recommender: Recommender) -> Iterator[ValidationError]:
    """What the recommender would not take, one setting at a time."""
    kind, known = type(recommender), type(recommender).model_fields
    for name, values in tried.items():
        if name not in known:
            expected = f"a setting of {kind.__name__}" if known else f"nothing: {kind.__name__} has no settings"
            yield mistake((name,), list(values), expected, did_you_mean(name, known) if known else "")
            continue
        for value in values:
            try:
                kind(**dict(recommender) | {name: value})
            except ValidationError as error:
                # Settings that do not go together may do so once others of them are tried as well.
                if any(line["loc"][:1] == (name,) for line in error.errors()):
                    yield error
                    break
