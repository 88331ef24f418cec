"""What the numbers of an audit cannot say: stated once, for the statement and whoever reads it."""

from __future__ import annotations

from recaudit.audits.recipe.recipe import Rung

_BY_AUDIT = {
    "accuracy": "Held-out ratings are of what people came across and chose to rate. The numbers do not say what they "
    "would have made of items that they never saw, nor that lists with a higher number are liked better in use.",
    "exposure": "It counts what lists hold, not what people look at or choose. That something is shown rarely does not "
    "say that it should be shown more.",
    "reachability": "It is what the model lets people bring about at best, under the named rule and policy: not what "
    "people do, know how to do, or want. What is out of reach by these ratings may be in reach by search or settings.",
    "instability": "It is how far another person's ratings could move somebody's recommendations: not that anybody has "
    "done so, or would.",
    "recourse": "It is the least that somebody must do who knows the model. People do not, and need more. That little "
    "would do does not say that people find it, nor that it is fair to ask it of them.",
    "agency": "It is what people could bring about at best, and what others could do to them, under the named rule and "
    "policy: not what anybody does, or wants.",
    "folding": "Relatedness stands in for people's own sense of what belongs together. A recommendation that stands on "
    "nothing in the log is not thereby a bad or a harmful one.",
    "calibration": "In proportion is to what people rated before, in categories that somebody drew up: not to what "
    "they want to see now, nor to what is good for them.",
    "reranking": "It is what re-ranking does to lists and to held-out ratings: not how people would take to the lists.",
    "calibration-curve": "It is what re-ranking does to lists and to held-out ratings: not how people would take to "
    "the lists.",
    "mitigation": "It is what a change does to lists, on the log and for the people asked about: not what it does once "
    "people live with it.",
    "fidelity": "It is about refits of this model on this log: not about how a system in production takes ratings in.",
}
_BY_RUNG = {
    Rung.ASSOCIATIONAL: "It says what the model does with the log as it is: not what any change would bring about.",
    Rung.INTERVENTIONAL: "It says what the model would do if something were set so, under the named rule: not what "
    "people do.",
    Rung.COUNTERFACTUAL: "It says what the model would have done, had ratings been others, under the named rule: no "
    "experiment shows both, and it does not say what people would have done.",
}


def cannot_say(audit: str, rung: Rung | None) -> str:
    """What the numbers of an audit leave open; of another package's, what follows from its rung."""
    return _BY_AUDIT.get(audit) or (_BY_RUNG[rung] if rung is not None else "")
