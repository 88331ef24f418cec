"""The configuration of a study of one's own: TOML in, a frozen and validated object with every rung out."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal, Self, final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from recaudit.errors import did_you_mean
from recaudit.plugins import Number, Place, Specification, join_errors, move_error, parse_toml, read_toml, setting_error
from recaudit.registry import AUDITS
from recaudit.runs import Configuration
from recaudit_papers.studies.own.changes import LadderRung
from recaudit_papers.studies.reading import Published

BASE = "base"
"""What the ladder's lowest rung is called."""


def _line(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise setting_error((), text, "a line of text")
    return text.strip()


Line = Annotated[str, AfterValidator(_line)]
"""A text that is not empty, on one line."""


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _tables(key: str) -> BeforeValidator:
    def check(value: object) -> object:
        if isinstance(value, Mapping):
            raise setting_error((), value, f"a list, written with two brackets: [[{key}]]")
        return value

    return BeforeValidator(check)


def _printed(value: object) -> str | None:
    """A number as it is printed: its digits say how exact it is."""
    if value is None:
        return None
    text = str(value).strip() if isinstance(value, int | float | str) and not isinstance(value, bool) else ""
    try:
        exact = isfinite(float(text)) and "_" not in text
    except ValueError:
        exact = False
    if not exact:
        raise setting_error((), value, 'a number, or its digits as a text where the last one is 0: "1.370"')
    return text


@final
class StudyMetric(Specification):
    """A number to look at, and what is printed or claimed of it."""

    audit: str
    """The audit that measures it, by name."""
    name: str
    """The metric: 'recaudit audits NAME' has the names."""
    models: Annotated[tuple[str, ...], BeforeValidator(_listed)] = Field(default=(), alias="model")
    """Of which models, by label; all of the study where nothing is said."""
    published: Annotated[str | None, PlainValidator(_printed)] = None
    """The printed number, exact to half a unit of its last digit."""
    error: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """How exact the printed number is instead."""
    low: Number | None = None
    """The lower end of the printed interval."""
    high: Number | None = None
    """Its upper end."""
    above: Number | None = None
    """In the place of a printed number, a claim: it is larger than this."""
    below: Number | None = None
    """It is smaller than this."""
    claim: str = ""
    """The claim in words."""
    note: str = ""
    """What else is to be said of it: where it is printed."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        directed = self.above is not None or self.below is not None
        if self.published is None:
            for name in ("error", "low", "high"):
                if getattr(self, name) is not None:
                    raise setting_error(("published",), None, f"the printed number that {name!r} belongs to")
        elif directed:
            raise setting_error(("published",), self.published, "a printed number, or above/below: a claim")
        if (self.low is None) != (self.high is None):
            missing = "low" if self.low is None else "high"
            raise setting_error((missing,), None, "both ends of the printed interval, low and high")
        if self.low is not None and self.error is not None:
            raise setting_error(("error",), self.error, "either the error or the interval, low and high")
        if self.low is not None and self.high is not None and not self.low <= self.high:
            raise setting_error(("low",), self.low, f"no more than high, {self.high:g}")
        if self.above is not None and self.below is not None and not self.above < self.below:
            raise setting_error(("above",), self.above, f"less than below, {self.below:g}")
        if self.claim and not directed:
            raise setting_error(("claim",), self.claim, "above or below beside it, which say what is claimed")
        return self

    @property
    def beside(self) -> Published:
        """What ours stands beside."""
        if self.published is not None:
            if self.low is not None and self.high is not None:
                return Published.interval(self.published, self.low, self.high)
            return Published.number(self.published, self.error)
        if self.above is not None and self.below is not None:
            return Published.between(self.above, self.below, self.claim or f"{self.above:g} to {self.below:g}")
        if self.above is not None:
            return Published.above(self.above, self.claim or f"above {self.above:g}")
        if self.below is not None:
            return Published.below(self.below, self.claim or f"below {self.below:g}")
        return Published.nothing("no number given")


@final
class StudyChange(Specification):
    """One rung of the ladder: what is changed in the base."""

    name: Line
    """What the change is called."""
    set: dict[str, Any] = Field(default_factory=dict)
    """What is set, by dotted keys of the base's configuration; models by label: {"model.ALS.factors" = 32}."""
    unset: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    """What is as if nothing were said of it: ["audits.reachability.users"]."""
    cumulative: bool | None = None
    """Whether it is made on top of the change before; as `ladder` says, where nothing is said."""


def _read_base(value: object, info: ValidationInfo) -> LadderRung:
    """A table, or the path of a file with one; a relative path starts at the study's file."""
    folder = Path((info.context or {}).get("folder", Path()))
    if isinstance(value, LadderRung):
        return value
    table: object = value
    if isinstance(value, str | Path):
        path = folder / Path(value).expanduser()
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        # Invalid TOML and bytes that are no text are ValueErrors.
        except (OSError, ValueError, RecursionError) as error:
            told = error.strerror if isinstance(error, OSError) else str(error)
            expected = "the configuration of an audit: a TOML file"
            raise setting_error(
                (), f"{value}: {told}", expected, "A relative path starts at the study's file."
            ) from None
        folder = path.parent
    if not isinstance(table, Mapping):
        raise setting_error((), value, "the configuration of an audit: a file's name, or a table")
    config = Configuration.model_validate(table, context={"folder": folder})
    return LadderRung.of(config, folder)


@final
class OwnStudyConfiguration(Specification):
    """A question: a base configuration, one change at a time, and which numbers are looked at."""

    title: Line
    """The question."""
    paper: str = ""
    """Whose printed numbers ours stand beside."""
    base: Annotated[LadderRung, PlainValidator(_read_base)]
    """The configuration of an audit that all changes begin with: its file, or a table [base] with the same keys."""
    models: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    """Which models, by label; all of the base where nothing is said."""
    ladder: Literal["one-at-a-time", "cumulative"] = "one-at-a-time"
    """Whether each change is made to the base, or on top of the change before."""
    repeat: int = Field(default=1, ge=1, le=1000)
    """With how many seeds the base is measured, the next ones after its own: how far a number moves by itself."""
    metrics: Annotated[tuple[StudyMetric, ...], _tables("metric")] = Field(default=(), alias="metric")
    """The numbers; all that the base's audits give about everybody, where nothing is said."""
    changes: Annotated[tuple[StudyChange, ...], _tables("change")] = Field(default=(), alias="change")
    """The rungs of the ladder."""
    _rungs: tuple[LadderRung, ...] = PrivateAttr(default=())

    @property
    def rungs(self) -> tuple[LadderRung, ...]:
        """A configuration for each change."""
        return self._rungs

    def under(self, place: int) -> int | None:
        """Which change a change is made on top of, by its place; None: the base."""
        own = self.changes[place].cumulative
        return place - 1 if place and (self.ladder == "cumulative" if own is None else own) else None

    def told(self, place: int) -> str:
        """What the ladder calls a change: what is made on top of others follows an 'and'."""
        name = self.changes[place].name
        return name if self.under(place) is None else f"and {name}"

    @property
    def labels(self) -> tuple[str, ...]:
        """The models that are measured."""
        return self.models or tuple(model.label for model in self.base.config.models)

    @property
    def audits(self) -> tuple[str, ...]:
        """The audits that are run, by name."""
        return tuple(dict.fromkeys(metric.audit for metric in self.metrics)) or tuple(self.base.config.audits)

    @model_validator(mode="after")
    def _check(self) -> Self:
        wrong = [*self._unknown(), *self._repeated()]
        if wrong:
            raise join_errors(wrong)
        rungs: list[LadderRung] = []
        for place, change in enumerate(self.changes):
            below = self.base if (under := self.under(place)) is None else rungs[under]
            try:
                rungs.append(below.changed(change.set, change.unset))
            except ValidationError as error:
                wrong.append(move_error(error, partial(_inside, place)))
                break  # what stands on it is not known
            if not change.set and not change.unset:
                wrong.append(setting_error(("change", place, "set"), None, "what is changed"))
            elif rungs[-1].asked(self.labels, self.audits) == below.asked(self.labels, self.audits):
                expected = "something that changes what is measured, and is not so already"
                wrong.append(setting_error(("change", place, "set"), change.set or list(change.unset), expected))
        if not self.changes and self.repeat == 1:
            wrong.append(setting_error(("change",), None, "at least one [[change]], or repeat = 2 or more"))
        if wrong:
            raise join_errors(wrong)
        self._rungs = tuple(rungs)
        return self

    def _unknown(self) -> list[ValidationError]:
        """Models, audits and metrics that the base does not have."""
        known = [model.label for model in self.base.config.models]
        named: list[tuple[Place, str]] = [(("models", place), label) for place, label in enumerate(self.models)]
        named += [(("metric", place, "model"), label) for place, one in enumerate(self.metrics) for label in one.models]
        wrong = []
        for where, label in named:
            own = known if where[0] == "models" else self.labels
            if label not in own:
                wrong.append(setting_error(where, label, "the label of a model", did_you_mean(label, own)))
        audits = self.base.config.audits
        for place, metric in enumerate(self.metrics):
            if metric.audit not in audits:
                remedy = did_you_mean(metric.audit, audits)
                wrong.append(setting_error(("metric", place, "audit"), metric.audit, "an audit of the base", remedy))
                continue
            names = [one.name for one in AUDITS[metric.audit].metrics]
            if metric.name not in names:
                expected, remedy = f"a metric of {metric.audit}", did_you_mean(metric.name, names)
                wrong.append(setting_error(("metric", place, "name"), metric.name, expected, remedy))
        return wrong

    def _repeated(self) -> list[ValidationError]:
        """Names that are there twice."""
        wrong, seen = [], {BASE.casefold()}
        for place, change in enumerate(self.changes):
            names = {change.name.casefold(), self.told(place).casefold()}
            if names & seen:
                wrong.append(setting_error(("change", place, "name"), change.name, "a name that nothing else has"))
            seen |= names
        for place, label in enumerate(self.models):
            if label in self.models[:place]:
                wrong.append(setting_error(("models", place), label, "each model once"))
        asked: set[tuple[str, str, str]] = set()
        for place, metric in enumerate(self.metrics):
            rows = [(metric.audit, metric.name, label) for label in metric.models or self.labels]
            if len(set(rows)) < len(rows) or asked & set(rows):
                wrong.append(setting_error(("metric", place, "name"), metric.name, "each metric of a model once"))
            asked |= set(rows)
        return wrong


def _inside(change: int, place: Place) -> Place:
    return ("change", change, *place)


def read_own(path: str | Path) -> OwnStudyConfiguration:
    """The study in a TOML file; paths in it start at its folder, those of a base file at the folder of that."""
    return read_toml(OwnStudyConfiguration, Path(path))


def parse_own(text: str, *, source: str, folder: Path) -> OwnStudyConfiguration:
    """The study in a TOML text; `source` names it in errors, relative paths start at `folder`."""
    return parse_toml(OwnStudyConfiguration, text, source=source, folder=folder)
