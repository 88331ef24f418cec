"""What differs between two runs before any number is looked at: configuration, data, models, versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final, get_args

from recaudit.registry import AUDITS
from recaudit.runs.folder import Run
from recaudit.specification import Some, written

_HOW = frozenset({"by", "confidence", "refits", "pairs", "best_ratings", "best_actions"})
"""Settings of an audit that change what is told, and no number of which two results could be compared."""
_NOTHING = dict.fromkeys(("None", "none"), "")
"""How a setting says that it is not set: a model that has no such setting says the same."""
_DRAWN = (Some | None, get_args(Some)[0])
"""Settings that are ids, or how many of them to draw."""


@final
@dataclass(frozen=True)
class RunChange:
    """Something that is not the same in both runs."""

    what: str
    """"data", "configuration", "model" or "versions"."""
    name: str
    before: str
    """In words; empty where it is not there, or none."""
    after: str


def settings_of(audit: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked, as far as numbers of two runs can only be compared where it is the same.

    A spread over so many items is the same question of every model, with whichever beta; so is a draw of other people.
    A draw of anything else, such as targets, is another question for another seed: no draw of people shows its chance.
    """
    if audit not in AUDITS:
        return {}
    asked = {
        name: settings.get(name)
        for name in AUDITS[audit].model_fields
        if name not in _HOW and name not in AUDITS[audit].drawn
    }
    for name, value in asked.items():
        if isinstance(value, int) and AUDITS[audit].model_fields[name].annotation in _DRAWN:
            asked[name] = f"{value} drawn by seed {settings.get('rng', 0)}"
    if settings.get("perplexity") is not None:
        asked["policy"] = {"kind": "softmax", "perplexity": settings["perplexity"]}
    return asked


def changes(before: Run, after: Run, models: Mapping[str, tuple[str, str]]) -> Iterator[RunChange]:
    """Every difference, the weightiest first; `models` are the pairs of labels that are compared."""
    one, other = before.manifest, after.manifest
    # A folder of an earlier version does not know the period of the same log.
    known = {"period"} if one.data.fingerprint == other.data.fingerprint else set[str]()
    data = [each.data.model_dump(mode="json", exclude={"files", *known}) for each in (one, other)]
    yield from differing("data", *data)
    for name, labels in models.items():
        settings = [
            {"kind": model.kind, **model.settings}
            for manifest, label in zip((one, other), labels, strict=True)
            for model in manifest.models
            if model.label == label
        ]
        yield from differing(f"model {name}", *settings)
    # Models are told above, where they are compared; data too.
    written = [
        {**{key: value for key, value in each.config.items() if key != "model"}, "device": each.device}
        for each in (one, other)
    ]
    yield from differing("configuration", *written)
    yield from differing("versions", one.versions, other.versions)


def differing(what: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[RunChange]:
    """Every setting that is not the same in two tables, by its dotted key."""
    first, second = dict(_flat(before)), dict(_flat(after))
    for name in dict.fromkeys([*first, *second]):
        if {} in (first.get(name), second.get(name)) and any(key.startswith(f"{name}.") for key in (*first, *second)):
            continue  # an empty table beside one with keys: the keys are told
        one, other = (_NOTHING.get(own := written(each.get(name)), own) for each in (first, second))
        if first.get(name) != second.get(name) and (one or other):
            yield RunChange(what, name, one, other)


def _flat(value: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    for name, own in value.items():
        if isinstance(own, Mapping) and own:
            yield from _flat(own, f"{within}{name}.")
        else:
            yield f"{within}{name}", own
