"""Check what a manifest says about the settings of an audit, and about the facts that turned out while measuring.

The report and every comparison read settings and facts by name. A run folder may come from anybody, so they are checked
once, when the folder is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, final

from pydantic import ConfigDict, Field, ValidationError, model_validator

from recaudit.errors import InputError
from recaudit.folders.folder import Folder
from recaudit.folders.manifest import MANIFEST, Record, damaged_manifest, field_words
from recaudit.registry import AUDITS
from recaudit.specification import as_data

_NONE: Final = object()

Count = Annotated[int, Field(ge=0, lt=2**63)]
Share = float | None
Reasons = dict[str, list[str]]
"""Names of metrics by the reason why they have no value."""


class _Fact(Record):
    """A fact with parts; parts that are not known here are somebody else's."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)


@final
class _Shares(_Fact):
    least: float
    median: float
    most: float


@final
class _Fidelity(_Fact):
    not_measured: str | None = None
    pairs: Count = 0
    kept: Count | None = None
    median_error: Share = None
    promise_correlation: Share = None
    realised_share: Share = None
    refit_difference: Share = None
    shares: _Shares | None = None

    @model_validator(mode="before")
    @classmethod
    def _check(cls, value: object) -> object:
        given = set(value) if isinstance(value, Mapping) else set()
        if "not_measured" not in given and not {"kept", "pairs"} <= given:
            for name in ("pairs", "realised_share", "median_error"):
                if name not in given:
                    raise ValueError(f"{name!r} is missing")
        return value


@final
class _Drawn(_Fact):
    users: Count | None = None
    of: Count | None = None
    targets: Count | None = None
    items: Count | None = None

    @model_validator(mode="after")
    def _check(self) -> _Drawn:
        if (self.users is None) != (self.of is None) or (self.targets is None) != (self.items is None):
            raise ValueError("a number is missing")
        return self


@final
class _Asked(_Fact):
    users: Count
    of: Count


@final
class _Lists(_Fact):
    users: Count
    without: Count
    shorter: Count
    seen: Count


@final
class _Memory(_Fact):
    status: Literal["not_requested", "not_retrainable", "too_few_refits", "no_scores", "memory", "no_sign"]
    matched_share: Share = None
    limit: Share = None
    refits: list[float] | None = None
    settings: str | None = None

    @model_validator(mode="after")
    def _check(self) -> _Memory:
        is_tested = self.status in ("memory", "no_sign")
        if is_tested and None in (self.matched_share, self.limit, self.refits, self.settings):
            raise ValueError(f"what {self.status!r} rests on is missing")
        return self


@final
class _Overlap(_Fact):
    pairs: Count
    share: float
    users: Count
    user_share: float


@final
class _Users(_Fact):
    users: Count
    of: Count


@final
class _Pairs(_Fact):
    pairs: Count
    of: Count


@final
class _Answers(_Fact):
    used: Count
    cached: Count
    earlier: Count
    oldest: str
    newest: str
    runs: dict[str, Count]


@final
class _Sampled(_Fact):
    users: Count
    targets: Count
    editors: Count


@final
class Facts(_Fact):
    """The facts that the report, comparisons and the gate read by name; others may be there as well."""

    rng: Count = 0
    rule: str | None = None
    fidelity: _Fidelity | None = None
    drawn: _Drawn | None = None
    asked: _Asked | None = None
    failed: dict[str, Count] | None = None
    lists: _Lists | None = None
    memory: _Memory | None = None
    overlap: _Overlap | None = None
    ties: _Users | None = None
    answered: _Users | None = None
    answered_pairs: _Pairs | None = None
    failed_pairs: dict[str, Count] | None = None
    answers: _Answers | None = None
    statuses: dict[str, Count | dict[str, Count]] | None = None
    causes: list[str] | None = None
    left_out: Reasons | None = None
    not_asked: Reasons | None = None
    perplexity: float | None = None
    beta: float | None = None
    spread_users: Count | None = None
    same_scores: Count | None = None
    ratings: dict[str, Any] | None = None
    before: dict[str, float] | None = None
    picked: dict[str, float] | None = None
    aims: dict[str, str] | None = None
    sampled: _Sampled | None = None
    related_by: list[str] | None = None
    draws: Count | None = None
    tested: Count | None = None
    not_predicted: Count | None = None
    k: Count | None = None

    @model_validator(mode="before")
    @classmethod
    def _no_nulls(cls, value: object) -> object:
        """A fact that is there is not null."""
        if isinstance(value, Mapping):
            for name in value:
                if name in cls.model_fields and value[name] is None:
                    raise ValueError(f"{name!r} is null")
        return value

    @model_validator(mode="after")
    def _check(self) -> Facts:
        if self.perplexity is not None and self.beta is None:
            raise ValueError("'beta' is missing next to 'perplexity'")
        levers = self.picked or {}
        for name, own in (("before", self.before), ("aims", self.aims)):
            if not set(levers) <= set(own or {}):
                raise ValueError(f"{name!r} lacks a lever of 'picked'")
        return self


_NEEDED: Final = {"mitigation": ("before", "picked", "aims", "sampled", "left_out", "not_asked")}
"""Facts without which nothing can be said about an audit."""


def facts_of(asked: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what turned out while measuring: the settings of a result that are not as they were asked."""
    return {name: value for name, value in settings.items() if name != "rng" and asked.get(name, _NONE) != value}


def check_facts(audit: str, asked: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Check the settings of a step: what was asked by the audit of this name, and what turned out.

    Raises:
        ValueError: A setting or a fact is missing or cannot be true; the message names it.
    """
    if audit in AUDITS:
        _check_settings(AUDITS[audit], asked, settings)
    facts = facts_of(asked, settings)
    for name in _NEEDED.get(audit, ()):
        if name not in facts:
            raise ValueError(f"settings.{name} is missing")
    try:
        Facts.model_validate({**facts, "rng": settings.get("rng", 0)})
    except ValidationError as error:
        raise ValueError(f"settings.{_first(error)}") from None
    metrics = {metric.name for metric in AUDITS[audit].metrics} if audit in AUDITS else set()
    for aim in facts.get("aims", {}).values():
        if aim not in metrics:
            raise ValueError(f"settings.aims: {aim[:100]!a} is no metric of this audit")


def _check_settings(kind: type[Any], asked: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Check that settings are complete, and written as the audit itself writes them."""
    for name in kind.model_fields:
        if name not in settings:
            raise ValueError(f"settings.{name} is missing")
    own = asked or {name: settings[name] for name in kind.model_fields}
    turned = {name: settings[name] for name in kind.model_fields if settings[name] != own.get(name, _NONE)}
    checked = [("asked", own)]
    checked += [("settings", {**own, name: value}) for name, value in turned.items() if name not in Facts.model_fields]
    for where, given in checked:
        try:
            usual = as_data(kind.model_validate(given))
        except (ValidationError, InputError) as error:
            raise ValueError(f"{where}.{_first(error)}") from None
        wrong = next((name for name in (*usual, *given) if usual.get(name, _NONE) != given.get(name, _NONE)), None)
        if wrong is not None:
            value = str(given.get(wrong, "nothing"))[:100]
            raise ValueError(f"{where}.{wrong}: {value!a} is not as the audit writes it")


def _first(error: ValidationError | InputError) -> str:
    """The first mistake: its place and what is wrong there."""
    if isinstance(error, InputError):
        return f"{error.argument}: {error.expected} is expected"
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg'].removeprefix('Value error, ')}"


@final
class ResultRecord(Record):
    """What the folder of a single result says about it."""

    kind: str
    audit: dict[str, Any]
    rng: Count
    facts: dict[str, Any]

    @model_validator(mode="after")
    def _check(self) -> ResultRecord:
        if self.kind not in AUDITS:
            raise ValueError(f"kind: no audit has the name {self.kind[:100]!a}")
        check_facts(self.kind, self.audit, {**self.audit, "rng": self.rng, **self.facts})
        return self

    @classmethod
    def of(cls, folder: Folder) -> ResultRecord:
        """Return what the manifest of the folder says; raises a DamagedError if it cannot be true."""
        try:
            return cls.model_validate(folder.manifest.record)
        except ValidationError as error:
            raise damaged_manifest(folder.path / MANIFEST, f"in which {field_words(error, 'record')}") from None
