"""What a run has to say about the systems that it queried: failures with their causes, and how old the answers are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

from recaudit.audits.failures import causes_of, measured_nothing
from recaudit.models.given.answers import answer_words, joined_answers
from recaudit.runs.cautions import RunCaution
from recaudit.runs.folder import Run

SHARED_ANSWERS = "service.shared-answers"
"""Code of the caution that two runs used the same answers of a service."""
EARLIER_ANSWERS = "service.earlier-answers"
"""Code of the caution that a run used answers that an earlier run had queried."""
FAILED_QUERIES = "service.failed-queries"
"""Code of the caution that a system gave no answer about some users or pairs."""


@final
@dataclass(frozen=True)
class Outage:
    """A system that gave no answer to some of what an audit queried."""

    model: str
    audit: str
    answered: int
    queried: int
    unit: str
    """What was queried: "users" or "pairs"; "" if the audit failed as a whole."""
    causes: Mapping[str, int]
    """How many have no answer, by cause, most frequent first."""
    total: bool
    """Whether the audit measured nothing."""

    @property
    def cause(self) -> str:
        """The most frequent cause, without a full stop."""
        return next(iter(self.causes), "").rstrip(".")

    def __str__(self) -> str:
        others = len(self.causes) - 1
        more = f" (and {others:,} other {'cause' if others == 1 else 'causes'})" if others > 0 else ""
        if not self.unit:
            return f"{self.model} gave no answer: {self.cause}"
        return f"{self.model} answered for {self.answered:,} of {self.queried:,} {self.unit}: {self.cause}{more}"


def outages_of(run: Run) -> list[Outage]:
    """Every audit for which a system gave no answer to something, in the order of the steps."""
    found = [outage for step in run.manifest.steps for outage in _outages(step.model, step.audit, step.settings)]
    failed = (skip for skip in run.manifest.skipped if skip.failed)
    return [*found, *(Outage(own.model, own.audit, 0, 0, "", {own.reason: 1}, True) for own in failed)]


def _outages(model: str, audit: str, settings: Mapping[str, Any]) -> Iterator[Outage]:
    total = measured_nothing(settings)
    if "answered" in settings:
        counts = settings["answered"]
        yield Outage(model, audit, counts["users"], counts["of"], "users", settings["failed"], total)
    causes = causes_of({**settings, "failed": {}})
    if causes:
        counts = settings["answered_pairs"]
        yield Outage(model, audit, counts["pairs"], counts["of"], "pairs", causes, total)


def outage_lines(run: Run) -> list[str]:
    """A line for each outage; audits with the same one share it: "svc answered for 0 of 12 users (accuracy): ..."."""
    audits: dict[str, list[str]] = {}
    for outage in outages_of(run):
        audits.setdefault(str(outage), []).append(outage.audit)
    return [f"{text} ({', '.join(names)})." for text, names in audits.items()]


def has_result(run: Run) -> bool:
    """Whether any audit of a model that the user has named has measured something."""
    return any(step.model in run.models and not measured_nothing(step.settings) for step in run.manifest.steps)


def answers_of(run: Run) -> dict[str, dict[str, Any]]:
    """The answers that audits have used, by model: fields as in `answer_facts`."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for step in run.manifest.steps:
        if "answers" in step.settings:
            found.setdefault(step.model, []).append(step.settings["answers"])
    return {model: joined_answers(parts) for model, parts in found.items()}


def answer_lines(run: Run) -> list[str]:
    """A line for each model with remembered answers: "svc: 22 answers, 22 from the cache of an earlier run, ..."."""
    again = " To query it again: --requery."
    return [
        f"{model}: {answer_words(answers)}.{again if answers['earlier'] else ''}"
        for model, answers in answers_of(run).items()
    ]


@final
@dataclass(frozen=True)
class SharedAnswers:
    """Answers of a service that two runs have used both, so that they cannot show a change of it."""

    models: tuple[str, str]
    """The labels of the model in the two runs."""
    answers: int
    """How many of the second run's answers were queried by a run whose answers the first run has used too."""
    used: int
    """How many answers the second run has used."""
    code: str = SHARED_ANSWERS

    def __str__(self) -> str:
        label = self.models[1]
        return (
            f"Both runs used the same answers of {label}: {self.answers:,} of the {self.used:,} of the second run were "
            "queried for the first, or before both, and came from the cache. They cannot show that the service has "
            "changed; --requery queries it again."
        )

    @property
    def caution(self) -> RunCaution:
        """The same as a caution of a comparison or a gate."""
        return RunCaution(self.code, str(self))


def shared_answers(before: Run, after: Run, models: Mapping[str, tuple[str, str]]) -> list[SharedAnswers]:
    """For each pair of models (as in `RunComparison.models`): the answers that both runs have used."""
    if before.path.resolve() == after.path.resolve():
        return []
    first, second = answers_of(before), answers_of(after)
    found = []
    for one, other in models.values():
        if one not in first or other not in second:
            continue
        runs = set(first[one]["runs"])
        count = sum(number for run, number in second[other]["runs"].items() if run in runs)
        if count:
            found.append(SharedAnswers((one, other), count, second[other]["used"]))
    return found
