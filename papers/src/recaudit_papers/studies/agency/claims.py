"""Ours beside theirs: the tables, what the text says of chance, and the figures in their order."""

from __future__ import annotations

from typing import Any

import numpy as np

from recaudit_papers.studies.agency import plots, published
from recaudit_papers.studies.agency.answers import (
    FUTURE_LIFTS,
    FUTURE_MOVES,
    OTHER_BETA,
    Answers,
    Found,
    Of,
    When,
    row,
)
from recaudit_papers.studies.agency.averages import Rows, average, contrast
from recaudit_papers.studies.reading import Published, Quantity, StudyRow, StudyTable
from recaudit_papers.studies.study import Results


def read(results: Results) -> list[StudyTable]:
    """Every table and figure."""
    answers = Answers(results)
    return [
        _dataset(results),
        _accuracy(answers),
        plots.access(answers),
        plots.horizons(answers),
        plots.two_models(answers),
        plots.lifts(answers),
        plots.stability(answers),
        _chance(answers),
        _popular(answers),
        _active(answers),
    ]


def notes(results: Results) -> list[str]:
    """What was chosen where the paper leaves it open."""
    said = [
        "Answers for matrix factorisation are exact unless a change says otherwise; the paper's are searches, whose "
        "steps, learning rate and perturbation it does not print. It does not say which beta Tables II and III and "
        "Figures 2 and 3 have: ours is 0.8, and 5 stands beside it as a change.",
        "After an edit a vector is solved for anew with the penalty of the training. Equations 7 and 8 have none, and "
        "then no single answer for a user or an item with fewer ratings than factors; their shortest is taken where a "
        "change says so.",
    ]
    logs = {str(settings["data"]) for name, settings in results.settings.items() if name.startswith("past/rrn/")}
    said += [f"The recurrent model, and matrix factorisation beside it, are of {log}." for log in sorted(logs)]
    return said


def _dataset(results: Results) -> StudyTable:
    theirs = results.settings.get("shape", {}).get("data") == "ml-1m"
    known: dict[str, float] = dict(results["shape"].iter_rows()) if theirs else {}
    rows = tuple(
        StudyRow(name, printed, Quantity(known[name]) if name in known else None, digits=2 if "%" in name else 0)
        for name, printed in published.DATASET.items()
    )
    return StudyTable("table-1", "Table I: the data", rows)


def _accuracy(answers: Answers) -> StudyTable:
    nothing = Published.nothing("Table I is called performance metrics, and prints none")

    def error(name: str, column: str = "squared") -> Quantity | None:
        return average(answers.of("error", "past", name, None, None), column, np.sqrt)

    told = {
        "ALS": error("als"),
        "SGD with the defaults of Surprise's SVD": error("svd"),
        "ALS, beside the recurrent model": error("mf"),
        "recurrent": error("rrn"),
        "recurrent, each from all that stands before it": error("rrn", "next_squared"),
    }
    text = (
        "Of everybody's last ratings, as many as the longest horizon has, by the models that have not seen them. The "
        "audits take the recurrent model's vectors as they stand before those ratings, as they take those of matrix "
        "factorisation; it is trained to predict each rating from all that stands before it, which is the last row."
    )
    rows = tuple(StudyRow(f"RMSE, {name}", nothing, found) for name, found in told.items())
    return StudyTable("accuracy", "How well the models predict", rows, text)


def _chance(answers: Answers) -> StudyTable:
    """What the text says of stochasticity, which is not the same everywhere."""
    lift, best, moved = (answers.between_betas(of, column, *published.BETAS) for of, column in _COLUMNS)
    agrees = Published.above(1, "'higher beta values increase ... user reach to items' (Section 6.1; also Section 1)")
    denies = Published.below(1, "'with more stochasticity ... the increase of reachability' (Conclusion)")
    helps = Published.above(
        0, "'higher beta values increase ... potential for adversarial manipulation' (Section 6.1; also Section 1)"
    )
    harms = Published.below(0, "'higher stochasticity ... lower stability' (Conclusion; also Section 6.3)")
    rows = (
        row("past lift, beta 5 over 0.8", agrees, lift),
        row("past lift, beta 5 over 0.8, the other claim", denies, lift),
        row("past instability, beta 5 less 0.8", helps, moved, digits=5),
        row("past instability, beta 5 less 0.8, the other claim", harms, moved, digits=5),
        row("best probability in hindsight, beta 5 less 0.8", Published.nothing(), best, digits=6),
    )
    text = "A higher beta is less stochastic. The paper says both of either metric; one of each pair has to disagree."
    return StudyTable("stochasticity", "Sections 1 and 7: stochasticity", rows, text)


_COLUMNS: tuple[tuple[Of, str], ...] = (("own", "log_lift"), ("own", "best"), ("others", "instability"))


def _difference(answers: Answers, of: Of, column: str, first: str, second: str) -> tuple[Found, Found]:
    """What the first group has above the second in the future, and how much more that is than in the past."""

    def rows(when: When, name: str, beta: float) -> tuple[Rows, Rows]:
        return answers.of(of, when, name, beta, first), answers.of(of, when, name, beta, second)

    def future(name: str, beta: float) -> Quantity | None:
        ahead = rows("future", name, beta)
        return contrast(ahead[0], ahead[1], column)

    def less_past(name: str, beta: float) -> Quantity | None:
        ahead, behind = rows("future", name, beta), rows("past", name, beta)
        return contrast(ahead[0], ahead[1], column, less=behind)

    return future, less_past


def _popular(answers: Answers) -> StudyTable:
    def mean(group: str) -> Found:
        return lambda name, beta: average(answers.of("own", "future", name, beta, group), "mean_lift")

    def baselines(name: str, beta: float) -> Quantity | None:
        groups = [average(answers.of("own", "future", name, beta, group), "baseline") for group in _ITEMS]
        first, second = groups
        return None if first is None or second is None else Quantity(first.value / second.value, over=first.over)

    future, less_past = _difference(answers, "own", "mean_lift", *_ITEMS)
    more = Published.above(0, "'popular items have higher values of max future reachability on average' (appendix E)")
    similar = Published.between(0.8, 1.25, "'The baseline values ... were observed to be similar on average'")
    prominent = Published.above(0, "'this difference is not as prominent when measuring past reachability'")
    rows = (
        row("mean lift, popular items", published.POPULAR, mean("popular"), FUTURE_LIFTS),
        row("mean lift, intermediate items", published.INTERMEDIATE_ITEMS, mean("intermediate"), FUTURE_LIFTS),
        row("popular less intermediate", more, future, FUTURE_LIFTS),
        row("baseline, popular over intermediate", similar, baselines, FUTURE_LIFTS, note="Similar: within a quarter."),
        row("that difference, in the future less in the past", prominent, less_past, (OTHER_BETA,)),
    )
    text = (
        "Arithmetic means over a user's items, then over users, of exact future-5 lifts; intervals are over users. The "
        "paper's own intervals for the two groups overlap: what it says of their difference is within its error."
    )
    return StudyTable("table-2", "Table II: popular and intermediate items", rows, text)


_ITEMS = ("popular", "intermediate")
_EDITORS = ("active", "intermediate")


def _active(answers: Answers) -> StudyTable:
    future, less_past = _difference(answers, "others", "instability", *_EDITORS)
    more = Published.above(0, "'active users introduce more instability on average' (appendix E)")
    prominent = Published.above(0, "'this effect is not as prominent when measuring past stability'")
    shared: dict[str, Any] = {"changes": FUTURE_MOVES, "digits": 4}
    rows = (
        row("future instability, active adversaries", published.ACTIVE, answers.moved("future", "active"), **shared),
        row(
            "future instability, intermediate adversaries",
            published.INTERMEDIATE_EDITORS,
            answers.moved("future", "intermediate"),
            **shared,
        ),
        row("active less intermediate", more, future, **shared),
        row("that difference, in the future less in the past", prominent, less_past, **shared),
    )
    return StudyTable("table-3", "Table III: active and intermediate adversaries", rows)
