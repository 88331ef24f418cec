"""Simulations in a notebook."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from recaudit.report.inline.card import Card, CardTable, number
from recaudit.report.inline.figures import lines
from recaudit.report.kit.numbers import Estimate, plural
from recaudit.report.simulation.terms import ONLINE, term
from recaudit.simulate.loop.simulation import Comparison, Simulation, interval
from recaudit.specification import written

_QUESTION = "What happens when people rate what they are shown, and the recommender learns from it?"
_INTERVAL = "95% interval"
_SHOWN = ("mean_rating", "distinct_items", "gini")


def shown_simulation(simulation: Simulation) -> str:
    """Its measures with intervals over trials, and the mean rating step by step."""
    settings = simulation.settings
    found = {name: _estimate(simulation, name) for name in ONLINE}
    rows = [(own.metric.label, *number(own)) for own in found.values() if own.value is not None]
    return Card(
        title="Simulation",
        question=_QUESTION,
        asked=", ".join(
            (
                f"{settings['recommender']['kind']} in {settings['scenario']['name']}",
                f"policy {written(settings['policy'])}",
                _length(simulation),
            )
        ),
        tables=[CardTable(("", "value", _INTERVAL), rows)],
        drawings=[lines("Mean rating, step by step", _curves({"": simulation}), [""], "step", "mean rating")],
        terms=[(term(name).label, term(name).definition) for name in found],
    ).html


def shown_simulations(comparison: Comparison) -> str:
    """What people thought of each recommender, best first, and the mean rating step by step."""
    order = comparison.overall()["name"].to_list()
    rows = []
    for name in order:
        rating, *others = (_estimate(comparison[name], measure) for measure in _SHOWN)
        rows.append((name, *number(rating), *(own.full for own in others)))
    headings = ("", "mean rating", _INTERVAL, *(term(name).label.lower() for name in _SHOWN[1:]))
    first = next(iter(comparison.simulations.values()))
    drawn = lines("Mean rating, step by step", _curves(comparison.simulations), order, "step", "mean rating")
    return Card(
        title="Simulations",
        question=_QUESTION,
        asked=f"{first.settings['scenario']['name']}, {_length(first)}, the same people and the same chance for all",
        tables=[CardTable(headings, rows)],
        drawings=[drawn],
        notes=["Trials are paired: differences(baseline) tells two recommenders apart better than their intervals do."],
        terms=[(term(name).label, term(name).definition) for name in _SHOWN],
    ).html


def _estimate(simulation: Simulation, name: str) -> Estimate:
    return Estimate.around(term(name), interval(simulation.by_trial(ONLINE[name])), simulation.trials)


def _length(simulation: Simulation) -> str:
    return f"{plural(simulation.trials, 'trial')} of {plural(simulation.steps['step'].n_unique(), 'step')}"


def _curves(simulations: Mapping[str, Simulation]) -> pl.DataFrame:
    """The mean rating of each at every step, as a chart of lines takes it."""
    return pl.concat(
        own.curve("mean_rating").select(
            pl.lit(name).alias("name"), pl.col("step").alias("at"), "value", "lower", "upper"
        )
        for name, own in simulations.items()
    )
