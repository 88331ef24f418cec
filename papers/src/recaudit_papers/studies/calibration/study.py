"""What is measured at each size, and how it is read."""

from __future__ import annotations

from typing import Any, final

from recaudit_papers.studies.calibration import (
    examples,
    figure_tables,
    genres,
    ladder_tables,
    measures,
    notebook,
    trade_tables,
)
from recaudit_papers.studies.calibration.published import TABLE_1, TABLE_2
from recaudit_papers.studies.reading import StudyTable
from recaudit_papers.studies.study import Experiment, Results, Size, Study

WEIGHTS = list(TABLE_2)
ONE_MILLION: dict[str, Any] = {"data": "ml-1m"}
TUNED = {"factors": 50, "unobserved_weight": 0.1, "regularization": 10.0, "iterations": 10}
"""The best of the grid on MovieLens 1M, which the study measures again."""
GRIDS: dict[str, tuple[list[float], list[float]]] = {
    "ml-1m": ([0.03, 0.1, 0.3, 1.0], [1.0, 3.0, 10.0, 30.0]),
    "ml-100k": ([0.03, 0.1, 0.3], [1.0, 3.0, 10.0, 30.0]),
    "ml-latest-small": ([0.03, 0.1, 0.3], [1.0, 3.0, 10.0]),
}
"""Unobserved weights, and regularisations."""
DATA: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ml-100k": ({"data": "ml-100k"}, {**TUNED, "unobserved_weight": 0.3}),
    "ml-latest-small": ({"data": "ml-latest-small"}, {**TUNED, "unobserved_weight": 0.1, "regularization": 3.0}),
    "quarter-of-users": ({**ONE_MILLION, "users": 0.25}, TUNED),
    "half-of-users": ({**ONE_MILLION, "users": 0.5}, TUNED),
    "quarter-of-films": ({**ONE_MILLION, "items": 0.25}, TUNED),
    "half-of-films": ({**ONE_MILLION, "items": 0.5}, TUNED),
}
"""Smaller logs, and settings tuned for them, or for MovieLens 1M where they are parts of it."""
CHANGES: dict[str, dict[str, Any]] = {
    "weight-0.3": {"model": {**TUNED, "unobserved_weight": 0.3}},
    "regularization-3": {"model": {**TUNED, "regularization": 3.0}},
    "pool-200": {"pool": 200},
    "pool-500": {"pool": 500},
    "minmax": {"transform": "minmax"},
    "base-2": {"base": "2"},
    "everybody": {"everybody": True},
    "pool-200-everybody": {"pool": 200, "everybody": True},
    "list": {"horizon": "list"},
    "held-5": {"held": 0.05},
    "untuned": {"model": {"factors": 50, "unobserved_weight": 0.01, "regularization": 10.0, "iterations": 15}},
    "iterations-30": {"model": {**TUNED, "iterations": 30}},
}


@final
class CalibrationStudy(Study):
    """Tables 1 and 2 and Figures 1 to 3 of the paper, and what it says about them."""

    name = "calibration"
    title = "Calibrated recommendations"
    paper = "Steck 2018"

    def experiments(self, size: Size) -> list[Experiment]:
        """Table 2 on MovieLens 1M, each change of it, other data, the figures, and the worked examples."""
        if size == "tiny":
            return _tiny()
        splits = [0] if size == "quick" else list(range(5))
        of = ("ml-1m",)
        base: dict[str, Any] = {"log": ONE_MILLION, "held": 0.01, "splits": splits, "model": TUNED, "weights": WEIGHTS}
        found = [Experiment("table-2/ml-1m", measures.tradeoff, base, of)]
        found += [Experiment(f"table-2/{name}", measures.tradeoff, base | it, of) for name, it in CHANGES.items()]
        for name, (log, model) in DATA.items():
            # Smaller logs need more splits for as many held-out plays.
            more = base | {"log": log, "model": model, "splits": list(range(4 if size == "quick" else 10))}
            found.append(Experiment(f"data/{name}", measures.tradeoff, more, (log["data"],)))
            if name == "ml-latest-small":
                more |= CHANGES["pool-200-everybody"]
                found.append(Experiment(f"table-2/{name}", measures.tradeoff, more, (log["data"],)))
        once = base | {"log": {"data": "ml-20m"}, "splits": [0]}
        for name, change in (("ml-20m", {}), ("ml-20m-pool-200", CHANGES["pool-200-everybody"])):
            found.append(Experiment(f"table-2/{name}", measures.tradeoff, once | change, ("ml-20m",), optional=True))
        for data, (unobserved, regularizations) in GRIDS.items():
            if size == "paper" or data == "ml-1m":
                found += _grid(data, unobserved if size == "paper" else [0.1], regularizations)
        found += _figures(ONE_MILLION, TUNED, WEIGHTS, of)
        log, model = DATA["ml-latest-small"]
        figure_3 = {"log": log, "held": 0.01, "split": 0, "model": model, "weight": 0.99, "everybody": True}
        found.append(Experiment("figure-3/ml-latest-small", genres.representation, figure_3, (log["data"],)))
        users = 250 if size == "quick" else 1000
        asked = {"log": ONE_MILLION, "held": 0.01, "split": 0, "model": TUNED, "weights": [0.5, 0.9, 0.99]}
        found.append(Experiment("notebook", notebook.overlap, {**asked, "users": users}, of))
        found.append(Experiment("optimality", measures.optimality, {**asked, "users": users}, of))
        for data in ("ml-1m", "ml-100k", "ml-latest-small", "ml-20m"):
            sizes = {"log": {"data": data}}
            found.append(Experiment(f"sizes/{data}", examples.sizes, sizes, (data,), optional=data == "ml-20m"))
            for shares in (False, True):
                name = f"titles/{data}{'/shares' if shares else ''}"
                settings = {"log": {"data": data}, "first": "Action", "tenth": "Romance", "shares": shares}
                found.append(Experiment(name, examples.titles, settings, (data,), optional=data == "ml-20m"))
        return [*found, *_worked(2000)]

    def tables(self, results: Results) -> list[StudyTable]:
        """Each table and figure, and what moves the numbers of Table 2."""
        return [
            *ladder_tables.data(results),
            *figure_tables.worked(results),
            *trade_tables.trade(results),
            *ladder_tables.ladder(results),
            *figure_tables.figures(results),
            *ladder_tables.tuning(results, {name: DATA[name][1] if name in DATA else TUNED for name in GRIDS}),
            *ladder_tables.other_lists(results),
        ]

    def notes(self, results: Results) -> list[str]:
        """On which data."""
        if results.size == "tiny":
            return ["Generated data stand in for MovieLens: only directions mean anything here."]
        return [
            "The paper's data are MovieLens 20M. Here MovieLens 1M stands in, with everything else as the paper has it "
            "(ratings of 4 and more, 1% held out, rank 50, tuned for recall@50, greedy over all films), unless a row "
            "says otherwise; where MovieLens 20M is at hand it is measured too."
        ]


def _tiny() -> list[Experiment]:
    log = {"data": "demo"}
    model = {"factors": 8, "unobserved_weight": 0.1, "regularization": 3.0, "iterations": 5}
    base: dict[str, Any] = {"log": log, "held": 0.05, "splits": [0], "model": model, "weights": [0.0, 0.5, 0.9, 0.99]}
    asked = {"log": log, "held": 0.05, "split": 0, "model": model, "weights": [0.5, 0.9], "users": 40}
    return [
        Experiment("table-2/ml-1m", measures.tradeoff, base),
        Experiment("table-2/everybody", measures.tradeoff, base | {"everybody": True}),
        Experiment("table-2/pool-200", measures.tradeoff, base | {"pool": 100}),
        Experiment("table-2/list", measures.tradeoff, base | {"horizon": "list"}),
        Experiment("table-2/base-2", measures.tradeoff, base | {"base": "2"}),
        *_figures(log, model, [0.0, 0.5, 0.99], (), held=0.05),
        Experiment("notebook", notebook.overlap, asked),
        Experiment("optimality", measures.optimality, asked),
        Experiment("titles/ml-1m", examples.titles, {"log": log, "first": "Action", "tenth": "Romance"}),
        *_worked(500),
    ]


def _grid(data: str, unobserved: list[float], regularizations: list[float]) -> list[Experiment]:
    settings: dict[str, Any] = {"log": {"data": data}, "held": 0.05, "split": 0, "iterations": [10]}
    settings |= {"factors": 50, "regularizations": regularizations}
    return [
        Experiment(f"grid/{data}/{weight:g}", measures.grid, {**settings, "unobserved_weight": weight}, (data,))
        for weight in unobserved
    ]


def _figures(
    log: dict[str, Any], model: dict[str, Any], weights: list[float], data: tuple[str, ...], held: float = 0.01
) -> list[Experiment]:
    common: dict[str, Any] = {"log": log, "held": held, "split": 0, "model": model}
    return [
        Experiment("figure-1", genres.spread, {**common, "weights": weights}, data),
        Experiment("figure-2", genres.crowding, {**common, "weight": 0.99}, data),
        Experiment("figure-3/ml-1m", genres.representation, {**common, "weight": 0.99}, data),
    ]


def _worked(users: int) -> list[Experiment]:
    """What needs no data."""
    lists = [*TABLE_1, (0.3, 31, 69), (0.3, 29, 71), (0.02, 1, 99), (0.5, 49, 51)]
    settings = {"targets": [one[0] for one in lists], "counts": [list(one[1:]) for one in lists]}
    drawn = {"users": users, "genres": 18, "titles_each": 200, "length": 10, "draws": 20, "seed": 0}
    return [
        Experiment("table-1", examples.metrics, settings),
        Experiment("two-steps", examples.two_steps, drawn),
    ]
