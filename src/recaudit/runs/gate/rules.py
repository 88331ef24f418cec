"""What a release must hold to: rules about the numbers of a run, read from a TOML file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self, final

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, PlainValidator, model_validator

from recaudit.audits.audit import definitions
from recaudit.errors import InputError, did_you_mean
from recaudit.metrics.inference import MIN_USERS
from recaudit.registry import AUDITS
from recaudit.runs.toml_files import parse_toml, read_toml
from recaudit.specification import Count, Number, Specification, mistake

BOUNDS = ("at_least", "at_most")
"""What a number of the run itself is held to."""
MARGINS = ("not_worse_by", "not_lower_by", "not_higher_by")
"""What a number is held to beside the baseline's."""
_SHARE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")
Unsettled = Literal["undecided", "accept"]


def _margin(value: object) -> float | str:
    expected = "a number of 0 or more, in the metric's units, or a share of the baseline's value: '2%'"
    if isinstance(value, str) and _SHARE.fullmatch(value):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf"):
        return float(value)
    raise mistake((), value, expected)


def _level(value: object) -> float | None:
    if value is None or (isinstance(value, float) and 0 < value < 1):
        return value
    raise mistake((), value, "a number between 0 and 1")


Margin = Annotated[float | str, PlainValidator(_margin)]
Level = Annotated[float | None, PlainValidator(_level)]


@final
class Rule(Specification):
    """A release criterion for one number: exactly one threshold or margin is set.

    A threshold is for the number of the run, a margin for its change since the baseline. The rule passes if it is
    shown that the number satisfies it, fails if it is shown that it does not, and is undecided otherwise.
    """

    metric: str
    """The number, by its name."""
    at_least: Number | None = None
    """The number is no lower than this."""
    at_most: Number | None = None
    """The number is no higher than this."""
    not_worse_by: Margin | None = None
    """The number is not worse than the baseline's by more than this, in its own units, or "2%" of the baseline's
    value; which way is worse follows from the metric's definition."""
    not_lower_by: Margin | None = None
    """The number is not lower than the baseline's by more than this."""
    not_higher_by: Margin | None = None
    """The number is not higher than the baseline's by more than this."""
    audit: str | None = None
    """Which audit's number, where several measure it; else that of the audit which defines it."""
    model: str | None = None
    """Whose number, by label; else every model's, save those that the run added for comparison."""
    by: str | None = None
    """A grouping: one question for each of its groups."""
    group: str | None = None
    """One group of the grouping alone."""
    people: Count = MIN_USERS
    """A rule about fewer users is undecided. Fewer than the default are always too few for a test."""
    confidence: Level = None
    """Confidence of this rule alone, whose failure is then not corrected for the number of rules."""
    failures: Unsettled = "undecided"
    """What to do where the audit failed for some users or pairs; "accept" takes the numbers as they are."""
    bounds: Unsettled = "undecided"
    """What to do with a number that is only a bound; "accept" takes it for the number."""

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        held = [name for name in (*BOUNDS, *MARGINS) if getattr(self, name) is not None]
        if len(held) != 1:
            raise InputError(
                "",
                received=" and ".join(held) or "neither bound nor margin",
                expected=f"one of {', '.join((*BOUNDS, *MARGINS))}",
                remedy="Write a rule for each." if held else "",
            )
        known = definitions()
        if self.metric not in known:
            remedy = did_you_mean(self.metric, known)
            raise InputError("metric", received=repr(self.metric), expected="the name of a metric", remedy=remedy)
        if self.audit is not None and self.audit not in AUDITS:
            remedy = did_you_mean(self.audit, AUDITS)
            raise InputError("audit", received=repr(self.audit), expected="the name of an audit", remedy=remedy)
        if self.audit not in (None, *measuring(self.metric)):
            expected = f"one that measures {self.metric}: {' or '.join(measuring(self.metric))}"
            raise InputError("audit", received=repr(self.audit), expected=expected)
        if self.not_worse_by is not None and known[self.metric].better == "neither":
            raise InputError(
                "not_worse_by",
                received=f"{self.not_worse_by} of {self.metric}, of which neither more nor less is better",
                expected="a way that it must not go",
                remedy="Write not_lower_by or not_higher_by.",
            )
        if self.group is not None and self.by is None:
            raise InputError("by", received="nothing", expected=f"the grouping that {self.group!r} is a group of")
        return self

    @property
    def held_to(self) -> str:
        """The bound or margin that is set, by its name."""
        return next(name for name in (*BOUNDS, *MARGINS) if getattr(self, name) is not None)

    @property
    def has_margin(self) -> bool:
        """Whether it asks about a change, for which there must be a baseline."""
        return self.held_to in MARGINS

    @property
    def limit(self) -> float:
        """The bound or margin; of a relative margin the share, 0.02 for "2%"."""
        value = getattr(self, self.held_to)
        found = _SHARE.fullmatch(value) if isinstance(value, str) else None
        return float(found[1]) / 100 if found else float(value)

    @property
    def relative(self) -> bool:
        """Whether the margin is a share of the baseline's value."""
        return isinstance(getattr(self, self.held_to), str)

    @property
    def rising(self) -> bool:
        """Whether it is by rising that the number breaks the rule."""
        if self.held_to == "not_worse_by":
            return definitions()[self.metric].better == "lower"
        return self.held_to in ("at_most", "not_higher_by")

    @property
    def measured_by(self) -> str:
        """The audit whose number it is about."""
        return self.audit or next(name for name in measuring(self.metric) if self.metric not in AUDITS[name].borrowed)

    @property
    def words(self) -> str:
        """What the number is held to, as the file says it."""
        value = getattr(self, self.held_to)
        return f"{self.held_to.replace('_', ' ')} {value if isinstance(value, str) else f'{value:.6g}'}"


def measuring(metric: str) -> list[str]:
    """The audits that measure a metric."""
    return [name for name, audit in AUDITS.items() if metric in (own.name for own in audit.metrics)]


_EXAMPLE = (
    "For example Gate(rule=[Rule(metric='ndcg', not_worse_by='5%')]); in a file each rule is a table under two "
    "brackets, [[rule]]."
)


def _listed(rules: object) -> object:
    if not isinstance(rules, list | tuple):
        raise mistake((), rules, "a list of rules", _EXAMPLE)
    for place, rule in enumerate(rules):
        if not isinstance(rule, Rule | Mapping):
            raise mistake((place,), rule, "a rule: a Rule, or a table with its settings", _EXAMPLE)
    return rules


def _some(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    if not rules:
        raise mistake((), None, "at least one rule", _EXAMPLE)
    return rules


@final
class Gate(Specification):
    """What a run must hold to before its models are released."""

    model_config = ConfigDict(populate_by_name=True)

    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Confidence of the gate: a violated rule passes, and a gate of satisfied rules fails, in at most 1 - confidence
    of samples."""
    rules: Annotated[tuple[Rule, ...], BeforeValidator(_listed), AfterValidator(_some)] = Field(
        alias="rule", default=(), validate_default=True
    )
    """What is asked."""


def read_gate(path: str | Path) -> Gate:
    """The gate in a TOML file."""
    return read_toml(Gate, Path(path))


def parse_gate(text: str, *, source: str) -> Gate:
    """The gate in a TOML text; `source` names it in errors."""
    return parse_toml(Gate, text, source=source, folder=Path())
