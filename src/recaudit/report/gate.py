"""What a gate has decided: rows for a table, a summary for a pull request, a file for what reads test results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from math import isnan
from typing import Any, cast
from xml.etree import ElementTree

from recaudit.metrics.numbers import minus
from recaudit.metrics.paired import ROUNDING
from recaudit.report.kit.numbers import plural
from recaudit.runs.gate import Answer, Decision
from recaudit.runs.gate.decision import OUTCOMES

HEADINGS = ("verdict", "model", "rule", "number", "change", "allowed", "detectable", "p pass", "p fail", "users")
"""Headings of the table, which has a row for each question."""
LEGEND = (
    "p pass is small if the rule is satisfied, p fail if it is violated; p fail is corrected for the number of rules. "
    "Detectable: the distance from what is allowed at which the rule is decided in 80% of samples of so many users."
)
NO_BOUND = "no bound declared"
"""Next to the verdict of a rule whose error rates are not guaranteed."""
_MEANINGS = {
    "failed": "A rule is shown to be violated: do not release.",
    "undecided": "No rule is shown to be violated, but not every rule is shown to be satisfied: this is not a pass.",
    "passed": "Every rule is shown to be satisfied.",
}
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>&#|~@:$]")
"""What Markdown, or GitHub's, may take for something else than itself."""
_NAMED = 3
"""Questions that a sentence names."""


def ordered(decision: Decision) -> list[Answer]:
    """The answers, what is broken first."""
    return sorted(decision.answers, key=lambda answer: OUTCOMES.index(answer.outcome))


def cells(answer: Answer) -> tuple[str, ...]:
    """Return the row of an answer in a table with HEADINGS; numbers in the metric's units, as in the rules."""
    asked, arrow = answer.question, "\N{RIGHTWARDS ARROW}"
    before = "" if asked.before is None else f"{asked.before:.4g} {arrow} "
    return (
        f"{answer.outcome} ({NO_BOUND})" if lacks_bound(answer) else answer.outcome,
        asked.model,
        question(answer),
        "" if asked.value is None else f"{before}{asked.value:.4g}",
        _signed(answer, asked.change),
        _allowed(answer),
        "" if asked.test is None or asked.test.detectable is None else f"{asked.test.detectable:.3g}",
        "" if asked.test is None else _p(asked.test.p_pass),
        _p(answer.adjusted),
        "" if asked.users is None else f"{asked.users:,}",
    )


def lacks_bound(answer: Answer) -> bool:
    """Whether a rule was decided by a test whose error rates are not guaranteed."""
    test = answer.question.test
    return answer.outcome != "undecided" and test is not None and not test.has_bound


def _p(value: float | None) -> str:
    return "" if value is None or isnan(value) else "<0.0001" if value < 0.0001 else f"{value:.2g}"


def question(answer: Answer) -> str:
    """What is asked: the metric, the group, and what it is held to."""
    asked = answer.question
    group = f"{asked.by}: {asked.group}" if asked.group else asked.by
    return ", ".join(filter(None, (asked.rule.metric, asked.rule.audit, group, asked.rule.words)))


def _signed(answer: Answer, change: float | None) -> str:
    """A change that goes the forbidden way, as a change of the number itself."""
    if change is None:
        return ""
    own = change if answer.question.rule.rising else -change
    return "0" if abs(own) <= ROUNDING * abs(answer.question.value or 0) else minus(f"{own:+.3g}")


def _allowed(answer: Answer) -> str:
    asked = answer.question
    if asked.allowed is None:
        return ""
    if asked.rule.has_margin:
        return _signed(answer, asked.allowed)
    return f"{'at most' if asked.rule.rising else 'at least'} {asked.allowed:.4g}"


def told(answer: Answer) -> str:
    """The outcome in a sentence or two."""
    asked, row = answer.question, dict(zip(HEADINGS, cells(answer), strict=True))
    near = f" It is decided in 80% of samples at a distance of {row['detectable']}." if row["detectable"] else ""
    if answer.outcome == "undecided":
        numbers = f" ({row['number']}, allowed {row['allowed']})" if row["number"] and row["allowed"] else ""
        return f"Not decided: {answer.reason}{numbers}.{near}"
    p = f" (p = {row['p fail' if answer.outcome == 'failed' else 'p pass']})"
    bound = f" This metric has {NO_BOUND}." if lacks_bound(answer) else ""
    if not asked.rule.has_margin:
        return f"{row['number']}, where {row['allowed']} is required{p}.{bound}"
    return f"{row['number']}: a change of {row['change']}, where {row['allowed']} is allowed{p}.{bound}"


def counted(decision: Decision) -> str:
    """How many questions there were, and how they came out."""
    counts = Counter(answer.outcome for answer in decision.answers)
    each = ", ".join(f"{counts[outcome]:,} {outcome}" for outcome in OUTCOMES if counts[outcome])
    return f"{plural(len(decision.answers), 'question')}: {each}."


def meaning(decision: Decision) -> str:
    """What the outcome as a whole means."""
    return _MEANINGS[decision.outcome]


def remarks(decision: Decision) -> list[str]:
    """Cautions, then why questions could not be decided, those with the same reason together."""
    found = dict[str, list[str]]()
    for answer in decision.answers:
        if answer.outcome == "undecided":
            found.setdefault(f"Not decided, since {answer.reason}", []).append(_named(answer))
    return [*decision.notes, *(f"{why}: {_some(asked)}." for why, asked in found.items())]


def _some(asked: list[str]) -> str:
    """The first few; every question has a row of its own anyway."""
    others = [f"{len(asked) - _NAMED:,} others"] if len(asked) > _NAMED + 1 else asked[_NAMED:]
    return "; ".join([*asked[:_NAMED], *others])


def _named(answer: Answer) -> str:
    return f"{answer.question.model}, {question(answer)}"


def document(decision: Decision) -> dict[str, Any]:
    """What a program wants to know."""
    answers = decision.frame.fill_nan(None).to_dicts()
    for row, answer in zip(answers, decision.answers, strict=True):
        row["told"] = told(answer)
    return {
        "run": str(decision.run.path),
        "baseline": decision.baseline and str(decision.baseline.path),
        "outcome": decision.outcome,
        "confidence": decision.gate.confidence,
        "notes": list(decision.notes),
        "cautions": [asdict(caution) for caution in decision.cautions],
        "answers": answers,
    }


def markdown(decision: Decision) -> str:
    """A summary for a pull request: what is broken and what is open in a table, everything else folded away."""
    first = [answer for answer in ordered(decision) if answer.outcome != "passed"]
    beside = "" if decision.baseline is None else f" beside {_escaped(str(decision.baseline.path))}"
    lines = [
        f"### recaudit check: {decision.outcome}",
        "",
        f"{meaning(decision)} {counted(decision)} Run {_escaped(str(decision.run.path))}{beside}.",
        *(["", *_table(first)] if first else []),
        *(f"\n{_escaped(line)}" for line in remarks(decision)),
        "",
        f"<details><summary>All {plural(len(decision.answers), 'question')}</summary>",
        "",
        *_table(ordered(decision)),
        "",
        LEGEND,
        "",
        "</details>",
    ]
    return "\n".join(lines) + "\n"


def _table(answers: Iterable[Answer]) -> list[str]:
    rows = [f"| {' | '.join(map(_escaped, cells(answer)))} |" for answer in answers]
    return [f"| {' | '.join(HEADINGS)} |", f"|{' --- |' * len(HEADINGS)}", *rows]


def _escaped(text: str) -> str:
    """Text that stays text in Markdown, whatever somebody has called a model or a group."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", plain)


def junit(decision: Decision) -> bytes:
    """JUnit's XML: a test case a question, failed where a rule is broken, in error where it is not decided."""
    counts = Counter(answer.outcome for answer in decision.answers)
    sizes = {"tests": len(decision.answers), "failures": counts["failed"], "errors": counts["undecided"], "skipped": 0}
    attributes = {"name": "recaudit check", **{name: str(size) for name, size in sizes.items()}}
    root = ElementTree.Element("testsuites", attributes)
    suite = ElementTree.SubElement(root, "testsuite", attributes)
    facts = ElementTree.SubElement(suite, "properties")
    for name, run in (("run", decision.run), ("baseline", decision.baseline)):
        if run is not None:
            ElementTree.SubElement(facts, "property", name=name, value=_whole(str(run.path)))
    for answer in decision.answers:
        asked = answer.question
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=_whole(f"{asked.model}.{asked.audit}"),
            name=_whole(f"rule {asked.place}: {question(answer)}"),
        )
        kind = {"failed": "failure", "undecided": "error"}.get(answer.outcome)
        if kind:
            ElementTree.SubElement(case, kind, message=_whole(told(answer)), type=answer.outcome)
        else:
            ElementTree.SubElement(case, "system-out").text = _whole(told(answer))
    if decision.notes:
        ElementTree.SubElement(suite, "system-out").text = _whole("\n".join(decision.notes))
    ElementTree.indent(root)
    return cast("bytes", ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def _whole(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
