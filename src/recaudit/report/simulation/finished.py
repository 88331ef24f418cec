"""The part of a study that is finished: an interrupted one has trials, and recommenders, that are not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import final

import polars as pl

from recaudit.report.kit.numbers import listing, plural
from recaudit.simulate.loop.simulation import Comparison
from recaudit.simulate.offline.comparison import OfflineOnline


@final
@dataclass(frozen=True, eq=False)
class Finished:
    """Of one environment: the trials that all these recommenders have run to the end."""

    environment: str
    comparison: Comparison
    left_out: tuple[str, ...]
    """What is missing, in sentences."""


def finished_parts(result: OfflineOnline) -> list[Finished]:
    """Every environment in which anything is finished."""
    found = [_finished(name, comparison) for name, comparison in result.comparisons.items()]
    return [part for part in found if part is not None]


def _finished(environment: str, comparison: Comparison) -> Finished | None:
    simulations = comparison.simulations
    lengths = {
        name: dict(simulation.steps.group_by("trial").agg(pl.col("step").n_unique()).iter_rows())
        for name, simulation in simulations.items()
    }
    whole = max((steps for trials in lengths.values() for steps in trials.values()), default=0)
    ended = {name: {trial for trial, steps in trials.items() if steps == whole} for name, trials in lengths.items()}
    times = Counter(trial for trials in ended.values() for trial in sorted(trials))
    if not times:
        return None
    # Trials are run in order: the one that most have finished is among the first of each of them.
    shared = times.most_common(1)[0][0]
    kept = [name for name, trials in ended.items() if shared in trials]
    common = sorted(set.intersection(*(ended[name] for name in kept)))
    begun = {trial for trials in lengths.values() for trial in trials}
    left_out = []
    if missing := [name for name in simulations if name not in kept]:
        left_out.append(
            f"{environment}: {listing(missing)} {'has' if len(missing) == 1 else 'have'} not finished the trials that "
            "the others have, and cannot be compared yet."
        )
    if len(common) < len(begun):
        left_out.append(
            f"{environment}: numbers are those of the {plural(len(common), 'trial')} that everybody on this page has "
            f"finished, of {len(begun)} begun."
        )
    kept_trials = pl.col("trial").is_in(common)
    ended_parts = {
        name: replace(
            simulations[name],
            steps=simulations[name].steps.filter(kept_trials).sort("trial", "step"),
            audits=simulations[name].audits.filter(kept_trials),
        )
        for name in kept
    }
    return Finished(environment, Comparison(ended_parts), tuple(left_out))
