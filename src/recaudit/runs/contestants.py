"""The recommenders of a simulation: each with a policy of its own and a way to be tuned, where it has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import final

from pydantic import ValidationError, ValidationInfo

from recaudit.errors import did_you_mean
from recaudit.models import Recommender
from recaudit.policies import Policy
from recaudit.runs.audits import POLICIES
from recaudit.runs.problems import problem, together, within
from recaudit.runs.recommenders import KINDS, Model, label_models, read_model
from recaudit.runs.sections import build, by_kind
from recaudit.simulate.loop.oracle import Oracle
from recaudit.simulate.loop.tuning import Grid, Search

CONTESTANTS: Mapping[str, type[Recommender]] = MappingProxyType({**KINDS, "oracle": Oracle})
"""As in `recaudit audit`, and the oracle, which there is only in a simulation."""

_read_policy = by_kind(POLICIES)


@final
@dataclass(frozen=True)
class Contestant:
    """A recommender under its label."""

    model: Model
    policy: Policy | None
    """Its own; else the simulation's."""
    tuning: Grid | Search | None
    """How its settings are chosen; else they are as written."""


def read_contestant(value: object, info: ValidationInfo) -> Contestant:
    """A `[[recommender]]` table; a label that is not given is left empty for `label_contestants`."""
    if not isinstance(value, Mapping):
        return Contestant(read_model(value, info, CONTESTANTS), None, None)
    table, wrong = dict(value), list[ValidationError]()
    how = table.pop("tune", None)
    policy: Policy | None = None
    tuning: Grid | Search | None = None
    if "policy" in table:
        try:
            policy = _read_policy(table.pop("policy"), info)
        except ValidationError as error:
            wrong.append(within("policy", error))
    try:
        model = read_model(table, info, CONTESTANTS, "policy", "tune")
        if how is not None:
            tuning = _read_tuning(how, model.recommender, info)
    except ValidationError as error:
        wrong.append(error)
    if wrong:
        raise together(wrong)
    return Contestant(model, policy, tuning)


def label_contestants(contestants: tuple[Contestant, ...]) -> tuple[Contestant, ...]:
    """Each under a label of its own: as given, else the recommender's name, counted where it repeats."""
    models = label_models(tuple(contestant.model for contestant in contestants), "recommender")
    return tuple(replace(each, model=model) for each, model in zip(contestants, models, strict=True))


def _read_tuning(how: object, recommender: Recommender, info: ValidationInfo) -> Grid | Search:
    """A grid `{factors = [10, 20]}`, or `{search = {regularization = [0.001, 1.0]}, tries = 30}`."""
    if not isinstance(how, Mapping) or not how:
        raise problem(("tune",), how, "lists of values to try, {factors = [10, 20]}, or {search = {...}, tries = 30}")
    searched = "search" in how
    try:
        tuning = _search(how, info) if searched else Grid(values={name: _several(name, how[name]) for name in how})
    except ValidationError as error:
        raise within("tune", error) from None
    wrong = list(_mistakes(tuning, recommender))
    if wrong:
        inside = [within("search", error) for error in wrong] if searched else wrong
        raise within("tune", together(inside))
    return tuning


def _search(how: Mapping[str, object], info: ValidationInfo) -> Search:
    """Written `search`, what the search itself calls `ranges`."""
    written = {"ranges" if name == "search" else name: value for name, value in how.items()}
    ranges = how["search"]
    if not isinstance(ranges, Mapping) or not ranges:
        raise problem(
            ("search",), ranges, "the lowest and highest value of each setting: {regularization = [0.001, 1]}"
        )
    for name, ends in ranges.items():
        if not (isinstance(ends, list) and len(ends) == 2 and all(map(_is_number, ends)) and 0 < ends[0] <= ends[1]):
            raise problem(("search", name), ends, "the lowest and highest value to try, both above 0: [0.001, 1.0]")
    return build(Search, written, info, "search")


def _several(name: str, values: object) -> tuple[object, ...]:
    if not isinstance(values, list) or not values:
        raise problem((name,), values, "a list of the values to try")
    return tuple(values)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _mistakes(tuning: Grid | Search, recommender: Recommender) -> Iterator[ValidationError]:
    """What the recommender would not take, one setting at a time."""
    tried: Mapping[str, tuple[object, ...]] = tuning.values if isinstance(tuning, Grid) else tuning.ranges
    kind, known = type(recommender), type(recommender).model_fields
    for name, values in tried.items():
        if name not in known:
            expected = f"a setting of {kind.__name__}" if known else f"nothing: {kind.__name__} has no settings"
            yield problem((name,), list(values), expected, did_you_mean(name, known) if known else "")
            continue
        for value in values:
            try:
                kind(**dict(recommender) | {name: value})
            except ValidationError as error:
                # Settings that do not go together may do so once others of them are tried as well.
                if any(line["loc"][:1] == (name,) for line in error.errors()):
                    yield error
                    break
