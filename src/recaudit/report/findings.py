"""What the tables say: the five numbers that come first, findings in plain sentences, and what is not known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import final

from recaudit.audits.result import fidelity_words
from recaudit.metrics.numbers import percent, signed_percent
from recaudit.report.evidence import QUALITY, Evidence
from recaudit.report.kit.numbers import (
    FEWEST_USERS,
    NOT_AVAILABLE,
    Estimate,
    Finding,
    Headline,
    count,
    listing,
    of_share,
    plural,
    verb,
)
from recaudit.report.sections.section import sections_of
from recaudit.status import Status

NOTABLE = 0.05
"""From this share of users on, it is a finding that they could not be measured."""
_NAMED = 5


@final
@dataclass(frozen=True)
class Gap:
    """Something that was not measured: of which model, what (nothing where no model has any), and why."""

    model: str
    metrics: list[str]
    reason: str
    audit: str


def gaps(evidence: Evidence) -> list[Gap]:
    """Every number that the run does not have, and why."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for (model, audit, metric), estimate in evidence.summaries.items():
        if estimate.value is None:
            found.setdefault((model, evidence.reason(model, metric, audit), audit), []).append(metric)
    audits = dict.fromkeys([*(audit for _, audit, _ in evidence.summaries), *(audit for _, audit in evidence.skipped)])
    for model in evidence.models:
        for audit in audits:
            if audit not in evidence.run.audits(model):
                found[model, evidence.absence(model, audit), audit] = evidence.metrics(audit)
    return [Gap(model, metrics, reason, audit) for (model, reason, audit), metrics in found.items()]


def left_out_lines(evidence: Evidence) -> list[str]:
    """For how many users a number could not be measured, a sentence for each set of metrics that share it."""
    found: dict[tuple[int, int], dict[str, None]] = {}
    for (_, audit, metric), estimate in evidence.summaries.items():
        if estimate.excluded and estimate.value is not None:
            found.setdefault((estimate.users, estimate.excluded), {})[evidence.label(metric, audit)] = None
    return [
        f"{listing(list(labels))} {verb(list(labels), 'stands', 'stand')} on {plural(users, 'user')}; "
        f"{count(excluded)} had nothing to measure."
        for (users, excluded), labels in found.items()
    ]


def failures(evidence: Evidence) -> Iterator[Finding]:
    """Which numbers could not be computed?"""
    failed = [
        f"{evidence.label(metric, audit)} of {model}"
        for (model, audit, metric), row in evidence.summaries.items()
        if row.status == Status.FAILED
    ]
    if failed:
        others = [plural(len(failed) - _NAMED, "other")] if len(failed) > _NAMED else []
        claim = f"{plural(len(failed), 'number')} could not be computed"
        detail = f"{listing([*failed[:_NAMED], *others])} failed; everything else here stands without them."
        yield Finding(claim, detail, "gaps", inf)


def left_out(evidence: Evidence) -> Iterator[Finding]:
    """Does the ranking quality leave a notable part of the users out?"""
    quality = evidence.known(QUALITY).get(evidence.main)
    everybody = 0 if quality is None else quality.users + quality.excluded
    if quality is None or quality.excluded < NOTABLE * everybody:
        return
    claim = f"Ranking quality says nothing about {percent(quality.excluded / everybody)} of the users"
    detail = f"{count(quality.excluded)} of {plural(everybody, 'user')} have no relevant held-out item; "
    detail += f"{evidence.label(QUALITY)} stands on the other {count(quality.users)}."
    yield Finding(claim, detail, "gaps", of_share(quality.excluded / everybody))


def findings_of(evidence: Evidence) -> list[Finding]:
    """Everything that the tables have to say: what failed, then the largest effects first."""
    questions = (failures, *(ask for section in sections_of(evidence) for ask in section.questions), left_out)
    found = [finding for question in questions for finding in question(evidence)]
    firm = [finding for finding in found if finding.users is None or finding.users >= FEWEST_USERS]
    return sorted(firm, key=lambda finding: -finding.effect)


def headlines_of(evidence: Evidence) -> list[Headline]:
    """Exactly five: does it rank, what can users change (else: does it predict, or at least find), what does it hide,
    where does it pull, whom does it fail."""
    return [
        _ranking(evidence),
        _say(evidence) or _rating_error(evidence) or _found(evidence),
        _never_shown(evidence),
        _popularity(evidence),
        _widest_gap(evidence),
    ]


def _card(title: str, own: Estimate, meaning: str) -> Headline:
    """A number with its interval, and a caution where it rests on too few users to be a finding."""
    few = "" if own.rests_on_enough else f" It rests on {plural(own.users, 'user')} only."
    return Headline(title, own.text, meaning + few, own.metric.name, own.interval)


def _absent(title: str, metric: str, audit: str) -> Headline:
    return Headline(title, NOT_AVAILABLE, f"The run has no {audit} audit of this model.", metric)


def _ranking(evidence: Evidence) -> Headline:
    title, known = "Ranking quality", evidence.known(QUALITY)
    best = known.get(evidence.main)
    if best is None:
        return _absent(title, QUALITY, "accuracy")
    others = [known[model].value for model in evidence.contestants if model != evidence.main]
    standing = _standing("best", len(others) + 1, "personalise", level=best.value in others)
    beside = f"; {evidence.rival}, which does not, reaches {known[evidence.rival].text}" if evidence.rival else ""
    return _card(title, best, f"{evidence.label(QUALITY)} of {evidence.main}{standing}{beside}.")


def _standing(word: str, models: int, do: str, *, level: bool) -> str:
    """Where a model stands among those that were measured."""
    if models < 2:
        return ""
    return f", {'with another ' if level else ''}the {word} of {models} models that {do}"


def _say(evidence: Evidence) -> Headline | None:
    """None where reachability was not asked for, or has no answer."""
    meanings = {
        "lift": "How many times as likely users of {} can make an item at best, on average.",
        "discovery": "The share of items that users of {} can make likelier than by chance at best.",
    }
    for metric, meaning in meanings.items():
        for model, own in evidence.known(metric).items():
            facts = evidence.facts(model, "reachability")
            kept = f" {fidelity_words(facts['fidelity'])}" if "fidelity" in facts else ""
            less = "Even at best an item is, on average, less likely once users of {} have rated other items."
            said = less if metric == "lift" and own.below(1) else meaning
            return _card("What users can change", own, said.format(model) + kept)
    return None


def _rating_error(evidence: Evidence) -> Headline | None:
    """None where no model is known to predict ratings."""
    known = evidence.known("rmse")
    if not known:
        return None
    model = evidence.ranked("rmse")[0]
    low, high = evidence.run.manifest.data.scale
    level = [estimate.value for estimate in known.values()].count(known[model].value) > 1
    standing = _standing("lowest", len(known), "predict ratings", level=level)
    return _card("Rating error", known[model], f"RMSE of {model}{standing}, on a scale from {low:g} to {high:g}.")


def _found(evidence: Evidence) -> Headline:
    title, found = "Held-out items found", evidence.known("recall").get(evidence.main)
    if found is None:
        return _absent(title, "recall", "accuracy")
    share = "the share of a user's relevant held-out items in the list"
    return _card(title, found, f"{evidence.label('recall')} of {evidence.main}: {share}.")


def _never_shown(evidence: Evidence) -> Headline:
    title, shown = "Catalogue nobody is shown", evidence.known("coverage").get(evidence.main)
    if shown is None:
        return _absent(title, "coverage", "exposure")
    ends = (shown.value, shown.lower, shown.upper)
    value, upper, lower = (None if end is None else max(0.0, 1 - end) for end in ends)
    items, k = evidence.run.manifest.data.items, evidence.list_length("exposure")
    left = f"{count(round((value or 0.0) * items))} of {plural(items, 'item')}"
    asked = evidence.facts(evidence.main, "exposure").get("asked")
    whose = "every user's list" if asked is None else f"the lists of all {plural(asked['users'], 'user')} asked about,"
    meaning = f"{evidence.main} leaves {left} out of {whose} of {k}."
    return _card(title, replace(shown, value=value, lower=lower, upper=upper), meaning)


def _popularity(evidence: Evidence) -> Headline:
    title, lift = "Popularity against own choices", evidence.known("popularity_lift").get(evidence.main)
    if lift is None or lift.value is None:
        return _absent(title, "popularity_lift", "exposure")
    size = signed_percent(abs(lift.value)).lstrip("+")
    way = f"{size} {'more' if lift.value > 0 else 'less'} popular than" if size != "0%" else "as popular as"
    return _card(title, lift, f"On average {evidence.main} shows users what is {way} what they chose before.")


def _widest_gap(evidence: Evidence) -> Headline:
    title = "Widest gap between user groups"
    groups = [evidence.firm_groups(evidence.main, QUALITY, by) for by in evidence.user_groupings]
    gaps = evidence.widest_gaps(evidence.main, QUALITY)
    if max(map(len, groups), default=0) < 2:
        meaning = f"The run has no accuracy by groups of {FEWEST_USERS} users or more."
        return Headline(title, NOT_AVAILABLE, meaning, QUALITY)
    if not gaps:
        meaning = f"{evidence.main} serves no group of {FEWEST_USERS} users or more measurably better than another."
        return Headline(title, "none", meaning, QUALITY)
    worst, best = gaps[0]
    meaning = f"{evidence.label(QUALITY)} of {evidence.main} for {worst.people} and for {best.people}."
    ends = f"{worst.estimate.interval} {best.estimate.interval}"
    return Headline(title, f"{worst.estimate.text} to {best.estimate.text}", meaning, QUALITY, ends)
