"""What stands on a simulation's page for each environment: its charts and tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from recaudit.report.charts import Figure
from recaudit.report.charts.simulation import against, correlations, far_off, known_people
from recaudit.report.charts.simulation_time import MOST_BANDS, over_time
from recaudit.report.findings.simulation import told_p
from recaudit.report.kit.numbers import NOT_AVAILABLE, Estimate, figure, listing, plural
from recaudit.report.kit.tables import Cell, Mark, Row, cell
from recaudit.report.simulation.audits import AuditPart, audit_parts
from recaudit.report.simulation.evidence import Arena, Study
from recaudit.report.simulation.terms import OFFLINE, ONLINE, TERMS

_HINTS = {"higher": "further right: better", "lower": "further left: better"}


@final
@dataclass(frozen=True)
class Number:
    """A number of a recommender, and what was published for it."""

    cell: Cell
    published: str = ""


@final
@dataclass(frozen=True)
class Line:
    """One recommender in one environment."""

    name: str
    numbers: list[Number]
    reference: bool
    settings: str
    tuned: str
    policy: str


@final
@dataclass(frozen=True)
class ArenaSection:
    """One environment."""

    arena: Arena
    told: str
    """How long it was run, in words."""
    foreseen: list[Figure]
    """What was measured on the log against the mean rating (Figures 1 and 3)."""
    far_off: bool
    """Whether somebody is written at the edge of these."""
    over_time: list[Figure]
    """Mean rating and error step by step (Figure 2)."""
    bands: bool
    """Whether these show everybody's intervals."""
    not_drawn: str
    """Whose error is too large for the chart."""
    known_people: list[Figure]
    """Error over everybody, and error against rating at the end (Figure 5)."""
    shown: list[Figure]
    """How many items were shown against the mean rating (Figure 6), and drift."""
    audits: list[AuditPart]
    """What was asked of the models while they learned."""
    measures: list[str]
    lines: list[Line]
    beside_published: bool


@final
@dataclass(frozen=True)
class Overview:
    """Offline against online, over all environments."""

    figures: list[Figure]
    """Spearman by environment (Figure 4)."""
    rows: list[Row]
    beside_published: bool


def overview_of(study: Study) -> Overview | None:
    """None where no order can be compared with another."""
    found = [figure for metric in OFFLINE if (figure := correlations(study, metric)) is not None]
    if not found:
        return None
    rows = []
    for arena in study.arenas:
        cells = []
        for metric in OFFLINE:
            own = arena.correlations[metric]
            cells += [_told(own.estimate), _p_value(own.p_value, arena.trials)]
        rows.append(Row(arena.name, [*cells, Cell(str(max(o.recommenders for o in arena.correlations.values())))]))
    published = [arena.correlations[metric].published for arena in study.arenas for metric in OFFLINE]
    return Overview(found, rows, any(value is not None for value in published))


def _p_value(p_value: float | None, trials: int) -> Cell:
    if p_value is None or trials == 1:
        return Cell(NOT_AVAILABLE, reason="one trial is not enough" if trials == 1 else "there was nothing to measure")
    return Cell(told_p(p_value).removeprefix("p ").removeprefix("= "))


def section_of(study: Study, arena: Arena) -> ArenaSection:
    """Everything that is known of one environment."""
    known = [measure for measure in (*OFFLINE, *ONLINE) if arena.known(measure)]
    measures = [measure for measure in known if measure != "drift" or arena.drifts]
    foreseen = [
        against(
            study,
            arena,
            metric,
            (f"{study.label(metric)} ({_HINTS[TERMS[metric].better]})", study.label("mean_rating")),
            heading=f"{study.label(metric)} and what people thought",
        )
        for metric in OFFLINE
    ]
    steps = [
        over_time(study, arena, "mean_rating", "Mean rating, step by step"),
        over_time(study, arena, "shown_rmse", "Error of what was taken, step by step", zero=True),
    ]
    last = f"last {plural(arena.last, 'rating')}"
    knowledge = [
        known_people(study, arena),
        against(
            study,
            arena,
            "final_shown_rmse",
            ("RMSE of what was taken (further left: better)", study.label("mean_rating")),
            up="final_mean_rating",
            heading=f"Error and mean rating of the {last}",
        ),
    ]
    shown = [
        against(
            study,
            arena,
            "distinct_items",
            ("distinct items at a step", study.label("mean_rating")),
            heading="Distinct items and mean rating",
        ),
        over_time(study, arena, "drift", "How far tastes have moved, step by step", zero=True)
        if arena.drifts
        else None,
    ]
    off = far_off(arena.known("shown_rmse"))
    lines = [_line(arena, name, measures) for name in arena.recommenders]
    return ArenaSection(
        arena=arena,
        told=_told_length([arena]),
        foreseen=[drawn for drawn in foreseen if drawn],
        far_off=any(far_off(arena.known(metric)) for metric in OFFLINE),
        over_time=[drawn for drawn in steps if drawn],
        bands=len(arena.recommenders) <= MOST_BANDS,
        not_drawn=listing([f"{name} ({estimate.text})" for name, estimate in off.items()]) if off else "",
        known_people=[drawn for drawn in knowledge if drawn] if arena.known("population_rmse") else [],
        shown=[drawn for drawn in shown if drawn],
        audits=audit_parts(study, arena),
        measures=measures,
        lines=lines,
        beside_published=any(number.published for line in lines for number in line.numbers),
    )


def _line(arena: Arena, name: str, measures: list[str]) -> Line:
    settings, tuned, edge = arena.settings[name]
    return Line(
        name=name,
        numbers=[_number(arena, name, measure) for measure in measures],
        reference=name in arena.references,
        settings=settings,
        tuned=f"yes, to {edge}" if edge else "yes" if tuned else "no",
        policy=arena.policy(name),
    )


def _number(arena: Arena, name: str, measure: str) -> Number:
    published = arena.published.get(name, {}).get(measure)
    return Number(
        _told(arena.estimates[name, measure], _mark(arena, name, measure)),
        "" if published is None else figure(measure, published),
    )


def _told(estimate: Estimate, mark: Mark = "") -> Cell:
    if estimate.value is None:
        return Cell(NOT_AVAILABLE, reason="there was nothing to measure")
    return cell(estimate, mark)


def _mark(arena: Arena, name: str, measure: str) -> Mark:
    """The best of those that could be used, and who cannot be told apart from it: the paired interval has a 0."""
    usable = arena.ranked(measure, oracle=False) if TERMS[measure].better != "neither" else []
    if len(usable) < 2 or name not in usable:
        return ""
    if name == usable[0]:
        return "best"
    gap = arena.difference(name, usable[0], measure)
    return "near" if gap.interval and not gap.above(0) and not gap.below(0) else ""


def told_study(study: Study) -> str:
    """What was run, in two sentences."""
    names = [arena.name for arena in study.arenas]
    where = f"of {listing(names)}" if len(names) < 4 else f"of {len(names)} environments"
    folds = max(arena.folds for arena in study.arenas)
    count = plural(len(study.recommenders), "recommender")
    met = f"{count} met the simulated people {where}: {_told_length(list(study.arenas))}."
    if not folds:
        return f"{met} Nothing was measured beforehand on the log that they began with."
    return (
        f"{met} Before that, each was measured on the log that it began with, over {plural(folds, 'fold')}: do such "
        "metrics foresee what people think of what they are shown?"
    )


def _told_length(arenas: list[Arena]) -> str:
    """`10 trials of 500 steps, 200 ratings a step`; from the least to the most where environments differ."""
    trials = _range([arena.trials for arena in arenas], "trial")
    steps = _range([arena.steps for arena in arenas], "step")
    return f"{trials} of {steps}, {_range([round(arena.ratings_per_step) for arena in arenas], 'rating')} a step"


def _range(values: list[int], word: str) -> str:
    low, high = min(values), max(values)
    return plural(high, word) if low == high else f"{low:,} to {plural(high, word)}"


def retraining(arena: Arena) -> str:
    """When recommenders learned, in words."""
    settings = next(iter(arena.comparison.simulations.values())).settings
    retrain, warm = settings.get("retrain", 1), settings.get("warm", False)
    how = "from the model before" if warm else "from scratch"
    if retrain == 0:
        return "never after the start"
    return f"at every step, {how}" if retrain == 1 else f"every {retrain} steps, {how}"
