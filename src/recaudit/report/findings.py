"""What the tables say: findings in plain sentences, cautions about them, headline numbers, and what is not known."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import final

from recaudit.audits.result import fidelity_doubt, fidelity_words
from recaudit.metrics.numbers import percent
from recaudit.report.evidence import QUALITY, Evidence
from recaudit.report.kit.claims import Caution, Claim, Finding, Headline, in_order
from recaudit.report.kit.notes import among
from recaudit.report.kit.numbers import Estimate, count, listing, plural, some, verb
from recaudit.report.sections.section import sections_of
from recaudit.status import Status

NOTABLE = 0.05
"""From this share of users on, it is worth saying that they could not be measured."""


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
    for model in (model for model in evidence.models if model not in evidence.run.floors):
        for audit in audits:
            if audit not in evidence.run.audits(model):
                found[model, evidence.absence(model, audit), audit] = evidence.metrics(audit)
    return [Gap(model, metrics, reason, audit) for (model, reason, audit), metrics in found.items()]


def left_out_lines(evidence: Evidence) -> list[str]:
    """For how many users a number could not be measured, a sentence for each set of metrics that share it."""
    alike: dict[str, dict[tuple[int, int], dict[str, None]]] = {}
    for (model, audit, metric), own in evidence.summaries.items():
        if own.value is not None:
            counts = alike.setdefault(evidence.label(metric, audit), {})
            counts.setdefault((own.users, own.excluded), {})[model] = None
    found: dict[tuple[int, int, str], list[str]] = {}
    for label, counts in alike.items():
        for (users, excluded), models in counts.items():
            whose = f" of {listing(list(models))}" if len(counts) > 1 else ""
            if excluded:
                found.setdefault((users, excluded, whose), []).append(label)
    return [
        f"{listing(labels)}{whose} {verb(labels, 'stands', 'stand')} on {plural(users, 'user')}; "
        f"{count(excluded)} had nothing to measure."
        for (users, excluded, whose), labels in found.items()
    ]


def failures(evidence: Evidence) -> Iterator[Claim]:
    """Which numbers could not be computed?"""
    failed = [
        f"{evidence.label(metric, audit)} of {model}"
        for (model, audit, metric), row in evidence.summaries.items()
        if row.status == Status.FAILED
    ]
    if failed:
        claim = f"{plural(len(failed), 'number')} could not be computed"
        detail = f"{some(failed)} failed; everything else here stands without them."
        yield Caution(claim, detail, "gaps")


def refusal_lines(evidence: Evidence, audits: Collection[str] | None = None) -> list[str]:
    """Which of these audits (of all, by default) have no result of which models, and why."""
    models: dict[tuple[str, str], list[str]] = {}
    for (model, audit), reason in evidence.skipped.items():
        if audits is None or audit in audits:
            models.setdefault((audit, reason), []).append(model)
    alike: dict[tuple[str, str], list[str]] = {}
    for (audit, reason), own in models.items():
        alike.setdefault((some(own), reason), []).append(audit)
    return [f"{listing(same)} of {named}: {reason.rstrip('.')}." for (named, reason), same in alike.items()]


def unanswered(evidence: Evidence) -> Iterator[Claim]:
    """Which audits have no result at all?"""
    refused = dict.fromkeys(audit for _, audit in evidence.skipped)
    audits = [own for own in refused if all((model, own) in evidence.skipped for model in evidence.run.models)]
    if audits:
        claim = f"No model of this run has an answer to {listing(audits)}"
        yield Caution(claim, " ".join(refusal_lines(evidence, audits)), "gaps")


def left_out(evidence: Evidence) -> Iterator[Claim]:
    """Does the ranking quality leave a notable part of the users out?"""
    quality = evidence.known(QUALITY).get(evidence.main)
    everybody = 0 if quality is None else quality.users + quality.excluded
    if quality is None or quality.excluded < NOTABLE * everybody:
        return
    claim = f"Ranking quality says nothing about {percent(quality.excluded / everybody)} of the users"
    detail = f"{count(quality.excluded)} of {plural(everybody, 'user')} have no relevant held-out item; "
    detail += f"{evidence.label(QUALITY)} stands on the other {count(quality.users)}."
    yield Caution(claim, detail, "gaps")


def unchecked(evidence: Evidence) -> Iterator[Claim]:
    """Whose answers about new ratings were not compared with a refit, in no audit?"""
    told = [
        (step.model, step.settings["fidelity"]) for step in evidence.run.manifest.steps if "fidelity" in step.settings
    ]
    checked = {model for model, own in told if own.get("median_error") is not None or "kept" in own}
    found: dict[str, dict[str, None]] = {}
    for model, fidelity in told:
        if model not in checked:
            found.setdefault(fidelity_words(fidelity), {})[model] = None
    if found:
        named = some(list(dict.fromkeys(model for models in found.values() for model in models)))
        claim = f"What {named} would make of new ratings was not checked by refits"
        yield Caution(claim, " ".join(f"{some(list(models))}: {why}" for why, models in found.items()), "gaps")


def doubtful(evidence: Evidence) -> Iterator[Claim]:
    """Where did refits give hardly anything of what a rule promises, or were they so few that they do not tell?"""
    found: dict[str, dict[str, str]] = {}
    for step in evidence.run.manifest.steps:
        if doubt := fidelity_doubt(step.settings.get("fidelity", {})):
            found.setdefault(step.audit, {})[step.model] = doubt
    anchors = {audit: section.anchor for section in sections_of(evidence) for audit in section.audits}
    for audit, told in found.items():
        claim = f"Refits cast doubt on the {audit} of {some(list(told))}"
        detail = (
            f"{'; '.join(f'{model}: {doubt}' for model, doubt in told.items())}. The numbers are what the rule for "
        )
        yield Caution(claim, detail + "new ratings promises; more refits test more of it.", anchors[audit])


def claims_of(evidence: Evidence) -> tuple[list[Finding], list[Caution]]:
    """Everything that the tables have to say: what stands, those findings that matter most first; and what is to be
    known about the evidence, first what everything rests on."""
    asked = (ask for section in sections_of(evidence) for ask in section.questions)
    questions = (unanswered, failures, *asked, left_out, unchecked, doubtful)
    claims = [claim for question in questions for claim in question(evidence)]
    cautions = [claim for claim in claims if isinstance(claim, Caution)]
    everybody = evidence.run.manifest.data.users
    findings = in_order(replace(claim, among=everybody) for claim in claims if isinstance(claim, Finding))
    return findings, sorted(cautions, key=lambda caution: not caution.premise)


def looked_for(evidence: Evidence) -> bool:
    """Whether any section looks for something among the numbers of this run."""
    audits, sections = set(evidence.settings), sections_of(evidence)
    return any(section.questions and audits & set(section.audits) for section in sections)


def findings_of(evidence: Evidence) -> list[Finding]:
    """The findings alone."""
    return claims_of(evidence)[0]


def cautions_of(evidence: Evidence) -> list[Caution]:
    """The cautions alone."""
    return claims_of(evidence)[1]


def headlines_of(evidence: Evidence) -> list[Headline]:
    """Up to five numbers, where they were measured: does it rank, what can users change (else: does it predict, or at
    least find), what does it hide, where does it pull, whom does it fail."""
    found = (
        _ranking(evidence),
        _say(evidence) or _rating_error(evidence) or _found(evidence),
        _never_shown(evidence),
        _popularity(evidence),
        _widest_gap(evidence),
    )
    return [headline for headline in found if headline is not None]


def _card(title: str, own: Estimate, meaning: str) -> Headline:
    """A number with its interval, and a caution where it rests on too few users to be a finding."""
    few = "" if own.rests_on_enough else f" It rests on {plural(own.users, 'user')} only."
    return Headline(title, own.text, meaning + few, own.metric.name, own.interval)


def _ranking(evidence: Evidence) -> Headline | None:
    known = evidence.known(QUALITY)
    best = known.get(evidence.main)
    if best is None:
        return None
    others = [known[model].value for model in evidence.contestants if model != evidence.main]
    standing = _standing("best", len(others) + 1, "personalise", level=best.value in others)
    beside = f"; {evidence.rival}, which does not, reaches {known[evidence.rival].text}" if evidence.rival else ""
    return _card("Ranking quality", best, f"{evidence.label(QUALITY)} of {evidence.main}{standing}{beside}.")


def _standing(word: str, models: int, do: str, *, level: bool) -> str:
    """Where a model stands among those that were measured."""
    if models < 2:
        return ""
    return f", {'with another ' if level else ''}the {word} of {models} models that {do}"


def _say(evidence: Evidence) -> Headline | None:
    """None where reachability was not asked for, or has no answer."""
    meanings = {
        "lift": "How many times as likely users of {} can make an item at best, on average{}.",
        "discovery": "The share of items that users of {} can make likelier than by chance at best{}.",
    }
    for metric, meaning in meanings.items():
        for model, own in evidence.spoken_of(metric).items():
            facts = evidence.facts(model, "reachability")
            kept = f" {fidelity_words(facts['fidelity'])}" if "fidelity" in facts else ""
            less = "Even at best an item is, on average, less likely once users of {} have rated other items{}."
            said = less if metric == "lift" and own.below(1) else meaning
            about = among(evidence, "reachability", model, "targets", "users")
            return _card("What users can change", own, said.format(model, about) + kept)
    return None


def _rating_error(evidence: Evidence) -> Headline | None:
    """None where no model that the page is about is known to predict ratings."""
    known = evidence.spoken_of("rmse")
    if not known:
        return None
    model = next(model for model in evidence.ranked("rmse") if model in known)
    low, high = evidence.run.manifest.data.scale
    level = [estimate.value for estimate in known.values()].count(known[model].value) > 1
    standing = _standing("lowest", len(known), "personalise and predict ratings", level=level)
    return _card("Rating error", known[model], f"RMSE of {model}{standing}, on a scale from {low:g} to {high:g}.")


def _found(evidence: Evidence) -> Headline | None:
    found = evidence.known("recall").get(evidence.main)
    if found is None:
        return None
    share = "the share of a user's relevant held-out items in the list"
    return _card("Held-out items found", found, f"{evidence.label('recall')} of {evidence.main}: {share}.")


def _never_shown(evidence: Evidence) -> Headline | None:
    shown = evidence.known("coverage").get(evidence.main)
    if shown is None:
        return None
    ends = (shown.value, shown.lower, shown.upper)
    value, upper, lower = (None if end is None else max(0.0, 1 - end) for end in ends)
    items, k = evidence.run.manifest.data.items, evidence.list_length("exposure")
    left = f"{count(round((value or 0.0) * items))} of {plural(items, 'item')}"
    asked = evidence.facts(evidence.main, "exposure").get("asked")
    whose = "every user's list" if asked is None else f"the lists of all {plural(asked['users'], 'user')} asked about,"
    meaning = f"{evidence.main} leaves {left} out of {whose} of {k}."
    return _card("Catalogue nobody is shown", replace(shown, value=value, lower=lower, upper=upper), meaning)


def _popularity(evidence: Evidence) -> Headline | None:
    lift = evidence.known("popularity_lift").get(evidence.main)
    if lift is None or lift.value is None:
        return None
    size = f"{100 * abs(lift.value):,.0f}%"
    way = f"{size} {'more' if lift.value > 0 else 'less'} popular than" if size != "0%" else "as popular as"
    meaning = f"On average {evidence.main} shows users what is {way} what they chose before."
    return _card("Popularity against own choices", lift, meaning)


def _widest_gap(evidence: Evidence) -> Headline | None:
    gaps = evidence.widest_gaps(evidence.main, QUALITY)
    if not gaps:
        return None
    worst, best = gaps[0]
    meaning = f"{evidence.label(QUALITY)} of {evidence.main} for {worst.people} and for {best.people}."
    value = f"{worst.estimate.text} to {best.estimate.text}"
    ends = f"{worst.estimate.interval} {best.estimate.interval}"
    return Headline("Widest gap between user groups", value, meaning, QUALITY, ends)
