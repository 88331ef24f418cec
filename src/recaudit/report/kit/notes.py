"""What a section says below its numbers: what they rest on, model by model, from the facts that results carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from recaudit.audits.result import fidelity_words
from recaudit.audits.samples import drawn_words
from recaudit.models.given.answers import answer_words
from recaudit.report.evidence import Evidence
from recaudit.report.kit.numbers import count, listing, plural

CHOSEN = "Each model's beta is chosen so that it spreads over {:g} items on average"


_ASKED = {
    "targets": ("item", "items"),
    "items": ("item for each user", "items for each user"),
    **dict.fromkeys(("users", "viewers", "sample"), ("user", "users")),
    "editors": ("editor", "editors"),
}
"""Settings that say whom or what an audit asks about, and what one and several of these are called."""


class Note(NamedTuple):
    """A sentence or two; a warning stands out."""

    text: str
    warning: bool = False


def notes(evidence: Evidence, audit: str) -> list[Note]:
    """Whatever is known about what this audit's numbers rest on: warnings, chosen betas, update rules, questions."""
    facts = {model: evidence.facts(model, audit) for model in evidence.models if audit in evidence.run.audits(model)}
    rules = [Note(f"How {model} takes in ratings: {_rule(own)}") for model, own in facts.items() if "rule" in own]
    asked = [note for model, own in facts.items() for note in _questions(model, own)]
    seen = _seen_before(evidence, facts) if audit == "accuracy" else []
    drawn = dict.fromkeys(drawn_words(own["drawn"]) for own in facts.values() if "drawn" in own)
    return [*seen, *map(Note, drawn), *_spread(facts), *rules, *asked]


def basis(evidence: Evidence, audit: str, model: str) -> str:
    """The rule behind a number of this model and how it was checked, to stand after the number; empty without one."""
    facts = evidence.facts(model, audit)
    return f" How {model} takes in ratings: {_rule(facts)}" if "rule" in facts else ""


def among(evidence: Evidence, audit: str, model: str, *settings: str) -> str:
    """Whom and what a number of this model is about, to stand at the end of a claim, where the settings of these names
    drew or named them: `, among 50 drawn items and 200 drawn users`; empty where it is about all."""
    facts, data = evidence.facts(model, audit), evidence.run.manifest.data
    drawn, told = facts.get("drawn", {}), []
    for name in settings:
        one, many = _ASKED[name]
        unsaid = drawn.get("users" if one == "user" else name)
        some = evidence.asked(model, audit).get(name) or facts.get(name) or unsaid
        if isinstance(some, list):
            told.append(plural(len(some), f"named {one.partition(' ')[0]}"))
        elif isinstance(some, int) and some < (data.items if name in ("targets", "items") else data.users):
            told.append(plural(some, f"drawn {one}", f"drawn {many}"))
    return f", among {listing(told)}" if told else ""


def _rule(facts: Mapping[str, Any]) -> str:
    tested = fidelity_words(facts["fidelity"]) if "fidelity" in facts else "Not checked by refits."
    return f"{str(facts['rule']).rstrip('.')}. {tested}"


def _spread(facts: Mapping[str, Mapping[str, Any]]) -> list[Note]:
    """A note for each perplexity for which betas were chosen."""
    found: dict[float, list[str]] = {}
    for model, own in facts.items():
        if "perplexity" in own:
            left_out = plural(own["same_scores"], "user") if "same_scores" in own else ""
            less = f" (without {left_out} for whom all items score the same)" if left_out else ""
            found.setdefault(own["perplexity"], []).append(f"{model} {own['beta']:.3g}{less}")
    return [Note(f"{CHOSEN.format(n)}: {', '.join(betas)}.") for n, betas in found.items()]


def _questions(model: str, facts: Mapping[str, Any]) -> list[Note]:
    """Of a system that was asked: about whom, for how many users it failed and why, and what its lists are like."""
    told = []
    if "asked" in facts:
        told.append(
            f"{model} was asked about {count(facts['asked']['users'])} of {plural(facts['asked']['of'], 'user')}."
        )
    if "failed" in facts:
        causes = ", ".join(f"{cause} ({count(times)})" for cause, times in facts["failed"].items())
        told.append(f"{model} gave no answer about {plural(sum(facts['failed'].values()), 'user')}: {causes}.")
    if "failed_pairs" in facts:
        causes = ", ".join(f"{cause} ({count(times)})" for cause, times in facts["failed_pairs"].items())
        told.append(f"{model} gave no answer about {plural(sum(facts['failed_pairs'].values()), 'pair')}: {causes}.")
    if "answers" in facts:
        told.append(f"{model}: {answer_words(facts['answers'])}.")
    if "lists" in facts:
        lists = facts["lists"]
        less = f", {count(lists['shorter'])} of them shorter than asked for" if lists["shorter"] else ""
        without = f"; {count(lists['without'])} have none" if lists["without"] else ""
        told.append(f"The lists of {model} are its own: of {plural(lists['users'], 'user')}{less}{without}.")
    return [Note(text) for text in told]


def memory_of(evidence: Evidence, model: str) -> str:
    """Sentence about a model that has used held-out interactions, or an empty string without such a sign."""
    memory = evidence.facts(model, "accuracy").get("memory", {})
    if memory.get("status") != "memory":
        return ""
    return (
        f"{model} scores held-out items higher than {len(memory['refits'])} refits with these settings do: its matched "
        f"share is {memory['matched_share']:.3f}, and an honest refit exceeds {memory['limit']:.3f} once in 1,000 "
        f"times. Settings: {memory['settings']}."
    )


_UNTESTED = {
    "not_requested": "no comparison with refits was requested (accuracy, refits = 5)",
    "not_retrainable": "the model cannot be trained again here",
    "too_few_refits": "at least 4 refits are needed",
    "no_scores": "the model has no finite scores to compare",
}


def _seen_before(evidence: Evidence, facts: Mapping[str, Mapping[str, Any]]) -> list[Note]:
    """Notes of accuracy on whether models have used held-out interactions."""
    given = {model.label for model in evidence.run.manifest.models if model.given}
    found = []
    for model, own in facts.items():
        memory = own.get("memory", {"status": "not_requested"})
        if text := memory_of(evidence, model):
            found.append(Note(text, warning=True))
        elif memory["status"] == "no_sign":
            refits = f"{len(memory['refits'])} refits with these settings"
            found.append(Note(f"{model} does not score held-out items higher than {refits} do: {memory['settings']}."))
        elif model in given:
            text = f"{model} was made elsewhere: the held-out part cannot be shown to be unseen by this model; "
            found.append(Note(f"{text}{_UNTESTED[memory['status']]}."))
    return found
