"""What a section says below its numbers: what they rest on, model by model, from the facts that results carry."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Any, NamedTuple

from recaudit.report.evidence import Evidence
from recaudit.report.kit.numbers import count, listing, plural, verb

CHOSEN = "Each model's beta is chosen so that it spreads over {:g} items on average"


class Note(NamedTuple):
    """A sentence or two; a warning stands out."""

    text: str
    warning: bool = False


def notes(evidence: Evidence, audit: str) -> list[Note]:
    """Whatever is known about what this audit's numbers rest on: warnings, chosen betas, update rules, questions."""
    facts = {model: evidence.facts(model, audit) for model in evidence.models if audit in evidence.run.audits(model)}
    rules = [Note(f"How {model} takes in ratings: {_rule(own)}") for model, own in facts.items() if "rule" in own]
    asked = [Note(_asked(model, own)) for model, own in facts.items() if "asked" in own]
    return [*_seen_before(evidence, audit, facts), *_spread(facts), *rules, *asked]


def basis(evidence: Evidence, audit: str, model: str) -> str:
    """The rule behind a number of this model and how it was checked, to stand after the number; empty without one."""
    facts = evidence.facts(model, audit)
    return f" How {model} takes in ratings: {_rule(facts)}" if "rule" in facts else ""


def _rule(facts: Mapping[str, Any]) -> str:
    return f"{str(facts['rule']).rstrip('.')}. {checked(facts['fidelity'])}"


def checked(fidelity: Mapping[str, Any]) -> str:
    """How far a rule's promises were kept by refits, as a sentence."""
    if "not_measured" in fidelity:
        return f"Not checked: {str(fidelity['not_measured']).rstrip('.')}."
    share, error = fidelity["realised_share"], fidelity["median_error"]
    if share is not None:
        kept = f"{share:.0%} of the promised gain came"
    elif error is not None:
        kept = f"half of the numbers are within a factor of {exp(error):.2f}"
    else:
        return "Not checked: no refit gave an answer."
    return f"Checked by {plural(fidelity['pairs'], 'refit')}: {kept}."


def _spread(facts: Mapping[str, Mapping[str, Any]]) -> list[Note]:
    """A note for each perplexity for which betas were chosen."""
    found: dict[float, dict[str, float]] = {}
    for model, own in facts.items():
        if "perplexity" in own:
            found.setdefault(own["perplexity"], {})[model] = own["beta"]
    each = {n: ", ".join(f"{model} {beta:.3g}" for model, beta in betas.items()) for n, betas in found.items()}
    return [Note(f"{CHOSEN.format(n)}: {betas}.") for n, betas in each.items()]


def _asked(model: str, facts: Mapping[str, Any]) -> str:
    """`facts`: how many users were `asked` about, by cause for how many it `failed`, out of a `sample` of how many."""
    failed: Mapping[str, int] = facts.get("failed") or {}
    causes = ", ".join(f"{cause} ({count(times)})" for cause, times in failed.items())
    drawn = f" of a sample of {count(facts['sample'])}" if facts.get("sample") else ""
    told = f", {count(sum(failed.values()))} failed: {causes}" if failed else ""
    return f"{model} was asked about {plural(facts['asked'], 'user')}{drawn}{told}."


def _seen_before(evidence: Evidence, audit: str, facts: Mapping[str, Mapping[str, Any]]) -> list[Note]:
    """Whether held-out ratings may have been seen: of accuracy."""
    memory = {model: own["memory"] for model, own in facts.items() if "memory" in own}
    given = [model.label for model in evidence.run.manifest.models if model.given and model.label in facts]
    found = [Note(f"{model}: {own['text']}", warning=True) for model, own in memory.items() if own["suspect"]]
    if given and audit == "accuracy":
        were = verb(given, "was", "were")
        text = f"{listing(given)} {were} made elsewhere: the held-out part cannot be shown to be unseen by "
        found.append(Note(f"{text}{verb(given, 'this model', 'these models')}."))
    return found
