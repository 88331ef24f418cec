"""What the tables say: findings in plain sentences, cautions about them, headline numbers, and what is not known."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import final

from recaudit.audits.overlap import overlap_sentence
from recaudit.audits.result import fidelity_doubt, fidelity_words
from recaudit.metrics.numbers import percent
from recaudit.models.given.answers import answer_words
from recaudit.report.evidence import QUALITY, Evidence
from recaudit.report.kit.claims import Caution, Claim, ClaimNumber, Finding, Headline, in_order
from recaudit.report.kit.notes import among
from recaudit.report.kit.numbers import Estimate, count, listing, plural, some, verb
from recaudit.report.sections.exposure import compute_coverage_ceiling
from recaudit.report.sections.groups import find_group
from recaudit.report.sections.section import sections_of
from recaudit.report.significance import compare_groups
from recaudit.runs.services import EARLIER_ANSWERS, FAILED_QUERIES, answers_of, outages_of
from recaudit.status import Status

NOTABLE = 0.05
"""From this share of users on, it is worth saying that they could not be measured."""
FEW_QUERIED_USERS = 100
"""A service that was queried for fewer users is a caution."""
NOTABLE_TIES = 0.01
"""Share of users whose list depends on a tie, above which it is a caution."""


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
            excluded = max(0, own.excluded - _failed_users(evidence, model, audit))
            counts.setdefault((own.users, excluded), {})[model] = None
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


def _failed_users(evidence: Evidence, model: str, audit: str) -> int:
    """The number of users about whom a system gave no answer: they are excluded for another reason."""
    return sum(evidence.facts(model, audit).get("failed", {}).values())


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
        yield Caution("results.failed", claim, detail, "gaps", numbers=_numbers_of(evidence, Status.FAILED))


def _numbers_of(evidence: Evidence, status: Status) -> tuple[ClaimNumber, ...]:
    return tuple(
        ClaimNumber(audit=audit, metric=metric, model=model, users=row.users)
        for (model, audit, metric), row in evidence.summaries.items()
        if row.status == status
    )


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
        numbers = tuple(ClaimNumber(audit=audit) for audit in audits)
        yield Caution("results.no-model", claim, " ".join(refusal_lines(evidence, audits)), "gaps", numbers=numbers)


def find_failed_queries(evidence: Evidence) -> Iterator[Claim]:
    """Name the systems that gave no answer for some of their users or pairs, and why."""
    for outage in outages_of(evidence.run):
        causes = "; ".join(f"{cause.rstrip('.')} ({count(times)})" for cause, times in outage.causes.items())
        missing = sum(outage.causes.values())
        claim = f"{outage.model} gave no answer"
        if outage.unit:
            claim += f" for {count(missing)} of {count(outage.queried)} {outage.unit}"
        share = missing / outage.queried if outage.queried else 1.0
        number = ClaimNumber(audit=outage.audit, model=outage.model, value=share, users=outage.queried)
        detail = f"{outage.audit}: {causes}. The same command queries again."
        yield Caution(FAILED_QUERIES, claim, detail, "gaps", premise=outage.total, numbers=(number,))


def find_earlier_answers(evidence: Evidence) -> Iterator[Claim]:
    """Name the systems whose answers are partly those that an earlier run has queried."""
    for model, answers in answers_of(evidence.run).items():
        if answers["earlier"]:
            detail = "The service may be another one by now; 'recaudit audit --requery' queries it again."
            number = ClaimNumber(model=model, value=answers["earlier"])
            yield Caution(EARLIER_ANSWERS, f"{model}: {answer_words(answers)}", detail, "gaps", numbers=(number,))


def left_out(evidence: Evidence) -> Iterator[Claim]:
    """Does the ranking quality leave a notable part of the users out?"""
    quality = evidence.known(QUALITY).get(evidence.main)
    if quality is None:
        return
    excluded = quality.excluded - _failed_users(evidence, evidence.main, "accuracy")
    everybody = quality.users + excluded
    if excluded <= 0 or excluded < NOTABLE * everybody:
        return
    claim = f"Ranking quality says nothing about {percent(excluded / everybody)} of the users"
    detail = f"{count(excluded)} of {plural(everybody, 'user')} have no relevant held-out item; "
    detail += f"{evidence.label(QUALITY)} stands on the other {count(quality.users)}."
    share = quality.excluded / everybody
    number = ClaimNumber(audit="accuracy", metric=QUALITY, model=evidence.main, value=share, users=everybody)
    yield Caution("accuracy.users-left-out", claim, detail, "gaps", numbers=(number,))


def find_overlap(evidence: Evidence) -> Iterator[Claim]:
    """Name the models that were trained on held-out pairs of a user and an item."""
    found: dict[str, dict[str, list[ClaimNumber]]] = {}
    for model in evidence.models:
        for audit in evidence.run.audits(model):
            overlap = evidence.facts(model, audit).get("overlap", {})
            if sentence := overlap_sentence(overlap):
                number = ClaimNumber(audit=audit, model=model, value=overlap["share"], users=overlap["users"])
                found.setdefault(sentence, {}).setdefault(model, []).append(number)
    for sentence, models in found.items():
        numbers = [number for own in models.values() for number in own]
        audits = list(dict.fromkeys(number.audit or "" for number in numbers))
        yield Caution(
            "results.overlap",
            f"{some(list(models))} {verb(list(models), 'was', 'were')} trained on held-out pairs",
            f"In {listing(audits)}: {sentence}.",
            "gaps",
            premise=evidence.main in models,
            numbers=tuple(numbers),
        )


def find_few_queried_users(evidence: Evidence) -> Iterator[Claim]:
    """Name the services and black boxes that were queried for few users only."""
    services = {model.label for model in evidence.run.manifest.models if model.kind == "http"}
    services |= {step.model for step in evidence.run.manifest.steps if getattr(step, "queried", False)}
    for model in evidence.models:
        queried: dict[str, int] = {}
        for (label, audit, _), row in evidence.summaries.items():
            if label == model and model in services:
                queried[audit] = max(queried.get(audit, 0), row.users + row.excluded)
        few = {audit: users for audit, users in queried.items() if users < FEW_QUERIED_USERS}
        if few:
            audits = [f"{plural(users, 'user')} in {audit}" for audit, users in few.items()]
            yield Caution(
                "service.few-users",
                f"{model} was queried for fewer than {FEW_QUERIED_USERS} users",
                f"{listing(audits)}. Intervals are wide, and differences that matter may not be found: query more "
                "users if that is affordable.",
                "gaps",
                numbers=tuple(ClaimNumber(audit=audit, model=model, users=users) for audit, users in few.items()),
            )


def find_tied_lists(evidence: Evidence) -> Iterator[Claim]:
    """Name the models whose lists depend on how ties of scores are decided, for a notable part of the users."""
    shares: dict[str, float] = {}
    for model in evidence.models:
        for audit in () if model in evidence.run.floors else evidence.run.audits(model):
            tied = evidence.facts(model, audit).get("ties", {"users": 0, "of": 0})
            if tied["users"] > NOTABLE_TIES * tied["of"]:
                shares[model] = max(shares.get(model, 0.0), tied["users"] / tied["of"])
    if shares:
        told = ", ".join(f"{model} {percent(share)}" for model, share in shares.items())
        yield Caution(
            "lists.ties",
            f"Lists of {some(list(shares))} depend on ties",
            f"Share of the users whose list contains tied items, or leaves some out: {told}. Items with equal "
            "scores are in the order of a hash of the user's and the item's id, which is as good as random.",
            "gaps",
            numbers=tuple(ClaimNumber(model=model, value=share) for model, share in shares.items()),
        )


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
        detail = " ".join(f"{some(list(models))}: {why}" for why, models in found.items())
        numbers = tuple(ClaimNumber(model=model) for models in found.values() for model in models)
        yield Caution("fidelity.not-checked", claim, detail, "gaps", numbers=numbers)


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
        detail += "new ratings promises; more refits test more of it."
        numbers = tuple(ClaimNumber(audit=audit, model=model) for model in told)
        yield Caution("fidelity.doubtful", claim, detail, anchors[audit], numbers=numbers)


def claims_of(evidence: Evidence) -> tuple[list[Finding], list[Caution]]:
    """Everything that the tables have to say: what stands, those findings that matter most first; and what is to be
    known about the evidence, first what everything rests on."""
    asked = (ask for section in sections_of(evidence) for ask in section.questions)
    questions = (
        unanswered,
        failures,
        find_failed_queries,
        find_earlier_answers,
        find_overlap,
        *asked,
        left_out,
        find_few_queried_users,
        find_tied_lists,
        unchecked,
        doubtful,
    )
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
    least find), what does it hide, where does it pull, which group differs most."""
    found = (
        _ranking(evidence),
        _say(evidence) or _rating_error(evidence) or _found(evidence),
        _never_shown(evidence),
        _popularity(evidence),
        _group_that_differs(evidence),
    )
    return [headline for headline in found if headline is not None]


def _card(code: str, title: str, own: Estimate, meaning: str, model: str, audit: str) -> Headline:
    """A number with its interval, and a note if too few users were measured for an interval."""
    few = "" if own.rests_on_enough else f" It rests on {plural(own.users, 'user')} only."
    number = ClaimNumber(
        audit=audit,
        metric=own.metric.name,
        model=model,
        value=own.value,
        lower=own.lower,
        upper=own.upper,
        users=own.users,
    )
    return Headline(code, title, own.text, meaning + few, own.metric.name, own.interval, (number,))


def _ranking(evidence: Evidence) -> Headline | None:
    known = evidence.known(QUALITY)
    best = known.get(evidence.main)
    if best is None:
        return None
    others = [known[model].value for model in evidence.contestants if model != evidence.main]
    standing = _standing("best", len(others) + 1, "personalise", level=best.value in others)
    beside = f"; {evidence.rival}, which does not, reaches {known[evidence.rival].text}" if evidence.rival else ""
    meaning = f"{evidence.label(QUALITY)} of {evidence.main}{standing}{beside}."
    return _card("headline.ranking-quality", "Ranking quality", best, meaning, evidence.main, "accuracy")


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
            told = said.format(model, about) + kept
            return _card("headline.user-influence", "What users can change", own, told, model, "reachability")
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
    meaning = f"RMSE of {model}{standing}, on a scale from {low:g} to {high:g}."
    return _card("headline.rating-error", "Rating error", known[model], meaning, model, "accuracy")


def _found(evidence: Evidence) -> Headline | None:
    found = evidence.known("recall").get(evidence.main)
    if found is None:
        return None
    share = "the share of a user's relevant held-out items in the list"
    meaning = f"{evidence.label('recall')} of {evidence.main}: {share}."
    return _card("headline.recall", "Held-out items found", found, meaning, evidence.main, "accuracy")


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
    ceiling = compute_coverage_ceiling(evidence, evidence.main)
    if ceiling < 1:
        meaning += f" Lists of {plural(shown.users, 'user')} hold at most {percent(ceiling)} of the catalogue."
    hidden = replace(shown, value=value, lower=lower, upper=upper)
    return _card("headline.never-shown", "Catalogue nobody is shown", hidden, meaning, evidence.main, "exposure")


def _popularity(evidence: Evidence) -> Headline | None:
    lift = evidence.known("popularity_lift").get(evidence.main)
    if lift is None or lift.value is None:
        return None
    size = f"{100 * abs(lift.value):,.0f}%"
    way = f"{size} {'more' if lift.value > 0 else 'less'} popular than" if size != "0%" else "as popular as"
    meaning = f"On average {evidence.main} shows users what is {way} what they chose before."
    title = "Popularity against own choices"
    return _card("headline.popularity", title, lift, meaning, evidence.main, "exposure")


def _group_that_differs(evidence: Evidence) -> Headline | None:
    """The group of users that differs most from all others in ranking quality; None where none is shown to differ."""
    tests = [
        (test, group)
        for test in compare_groups(evidence)
        if test.is_significant and (test.model, test.metric) == (evidence.main, QUALITY)
        if (group := find_group(evidence, test)) is not None
    ]
    if not tests:
        return None
    test, group = max(tests, key=lambda own: (round(own[0].effect.size, 6), own[0].value < own[0].rest))
    rest = evidence.definitions[QUALITY].written(test.rest)
    meaning = f"{evidence.label(QUALITY)} of {evidence.main} for {group.people}; for all other users {rest}."
    own = group.estimate
    numbers = (test.number(own),)
    title = "Group that differs from the rest"
    return Headline("headline.group-differs", title, own.text, meaning, QUALITY, own.interval, numbers)
