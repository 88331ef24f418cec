"""Changes of an audit's configuration, by dotted keys: as tables of a TOML file, models by their label."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

from pydantic import ValidationError

from recaudit.errors import did_you_mean
from recaudit.plugins import Place, as_data, move_error, setting_error
from recaudit.registry import SPLITS
from recaudit.runs import Configuration

PARTS = ("seed", "data", "split", "model", "audits")
"""What a change can change. How the work is spread changes no number, and floors are not looked at."""
_KINDS = ("kind", "rule")
"""Keys that say which part a table describes: a table with one is a whole part, and no change of the one before."""
_SOURCES = ("name", "file")
"""Of data: the other one begins anew."""


@final
@dataclass(frozen=True)
class LadderRung:
    """A configuration of a study: the tables of its file, audits with all their settings, and what they say."""

    tables: Mapping[str, Any]
    """As PARTS; models by label, without it."""
    config: Configuration
    folder: Path
    """Where relative paths start."""

    @classmethod
    def of(cls, config: Configuration, folder: Path) -> Self:
        """The rung of a whole configuration."""
        written = config.written
        labels = [model.label for model in config.models]
        tables = {
            "seed": config.seed,
            "data": written.get("data", {}),
            "split": written.get("split", as_data(config.split, SPLITS)),
            "model": {
                label: {key: value for key, value in table.items() if key != "label"}
                for label, table in zip(labels, written["model"], strict=True)
            },
            "audits": {name: as_data(audit) for name, audit in config.audits.items()},
        }
        _check_plain(tables, ())
        return cls(tables, config, folder)

    def changed(self, settings: Mapping[str, Any], unset: tuple[str, ...] = ()) -> Self:
        """The same with some settings changed, and some as if nothing were said; a mistake counts from the change."""
        tables = copy.deepcopy(dict(self.tables))
        for key in unset:
            self._unset(tables, key)
        for place, value in sorted(_settings(settings), key=lambda setting: not _begins(setting[0])):
            self._set(tables, place, value)
        _check_plain(tables, ("set",))
        return type(self)(tables, _validated(tables, self.folder), self.folder)

    def asked(self, labels: Iterable[str], audits: Iterable[str]) -> list[object]:
        """All that the numbers of these models and audits follow from."""
        config = self.config
        models = [[self.model(label).kind, as_data(self.model(label).recommender)] for label in labels]
        own = [as_data(config.audits[name]) for name in audits]
        return [config.seed, as_data(config.data), as_data(config.split, SPLITS), models, own]

    def seeded(self, seed: int) -> Self:
        """The same with another seed."""
        return self.changed({"seed": seed})

    def model(self, label: str) -> Any:
        """A model by its label."""
        return next(model for model in self.config.models if model.label == label)

    def _path(self, key: str, place: Place) -> list[str]:
        """The parts of a dotted key; the label of a model may have dots itself."""
        part, _, rest = key.partition(".")
        if part not in PARTS:
            raise setting_error(place, key, "a key that begins with what can be changed", did_you_mean(part, PARTS))
        if part == "model":
            labels = sorted(self.tables["model"], key=len, reverse=True)
            label = next((one for one in labels if f"{rest}.".startswith(f"{one}.")), None)
            if label is None:
                raise setting_error(place, key, "model.LABEL.SETTING", did_you_mean(rest.partition(".")[0], labels))
            return [part, label, *filter(None, rest[len(label) :].split("."))]
        names = [name for name in rest.split(".") if name]
        if part == "audits" and (not names or names[0] not in self.tables["audits"]):
            remedy = did_you_mean(names[0] if names else "", self.tables["audits"])
            raise setting_error(place, key, "audits.NAME.SETTING, of an audit of the base", remedy)
        return [part, *names]

    def _default(self, path: list[str]) -> object:
        """What a setting of a model is where the file does not say it."""
        if path[0] != "model":
            return None
        found: object = as_data(self.model(path[1]).recommender)
        for name in path[2:]:
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

    def _set(self, tables: dict[str, Any], place: tuple[str, ...], value: object) -> None:
        at = ("set", *place)
        *outer, last = path = self._path(".".join(place), at)
        if path[0] in ("model", "audits") and len(path) == 2 and not isinstance(value, Mapping):
            raise setting_error(at, value, "a table of settings")
        if path[0] == "model" and path[2:3] == ["label"]:
            raise setting_error(at, value, "no label: it names the same model everywhere")
        table = self._inner(tables, outer, at)
        if last in _KINDS or (path[0] == "data" and len(path) == 2 and last in _SOURCES and last not in table):
            table.clear()
        if value != {} or not isinstance(table.get(last), Mapping):
            table[last] = value

    def _inner(self, tables: dict[str, Any], path: list[str], at: Place) -> dict[str, Any]:
        table = tables
        for depth, name in enumerate(path):
            if table.get(name) is None:
                default = self._default(path[: depth + 1])
                table[name] = dict(default) if isinstance(default, Mapping) else {}
            if not isinstance(table[name], dict):
                raise setting_error(at, table[name], f"{'.'.join(path[: depth + 1])} to be a table, which has settings")
            table = table[name]
        return table

    def _unset(self, tables: dict[str, Any], key: str) -> None:
        *outer, last = path = self._path(key, ("unset",))
        table: object = tables
        for name in outer:
            table = table.get(name) if isinstance(table, Mapping) else None
        if not isinstance(table, dict) or last not in table or (path[0] in ("model", "audits") and len(path) < 3):
            known = table if isinstance(table, Mapping) and len(path) > 1 else {}
            raise setting_error(
                ("unset",), key, "a setting that the base has", did_you_mean(last, known) if known else ""
            )
        del table[last]


def _whole(value: object) -> bool:
    return isinstance(value, Mapping) and any(name in value for name in _KINDS)


def _settings(settings: Mapping[str, Any], outer: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Each setting and its place: `{a.b = 1}` and `{"a.b" = 1}` say the same; a table that names its kind is one."""
    for key, value in settings.items():
        if isinstance(value, Mapping) and value and not _whole(value):
            yield from _settings(value, (*outer, key))
        else:
            yield (*outer, key), value


def _begins(place: tuple[str, ...]) -> bool:
    """Whether a setting comes first, since it begins a table anew."""
    return place[-1].rpartition(".")[2] in (*_KINDS, *_SOURCES)


def _check_plain(tables: Mapping[str, Any], place: Place) -> None:
    """That the tables can be kept as what an experiment follows from."""
    try:
        json.dumps(tables, allow_nan=False)
    except (TypeError, ValueError) as error:
        expected = "values that JSON can hold: numbers, texts, truths, lists and tables"
        raise setting_error(place, str(error), expected) from None


def _validated(tables: Mapping[str, Any], folder: Path) -> Configuration:
    labels = list(tables["model"])
    models = [{**table, "label": label} for label, table in tables["model"].items()]

    def named(place: Place) -> Place:
        """Models by label, as the change names them."""
        model = place[:1] == ("model",) and len(place) > 1 and isinstance(place[1], int)
        return ("set", "model", labels[int(place[1])], *place[2:]) if model else ("set", *place)

    try:
        return Configuration.model_validate({**tables, "model": models}, context={"folder": folder})
    except ValidationError as error:
        raise move_error(error, named) from None
