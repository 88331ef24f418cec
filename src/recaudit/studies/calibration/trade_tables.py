"""Table 2 beside ours: its numbers, its shape, what the text says about it, and what moves it."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

import numpy as np
import polars as pl

from recaudit.audits.calibration.reranking import knee
from recaudit.studies import figures
from recaudit.studies.calibration.published import METRICS, ROUNDING, TABLE_2, TEST_USERS
from recaudit.studies.reading import Published, Quantity, StudyRow, StudyTable
from recaudit.studies.study import Results

NAMES = {"recall": "recall", "kl": "C_KL"}
UNSAID = {
    "ml-20m": "the paper's data, MovieLens 20M",
    "weight-0.3": "unobserved weight 0.3, which is as good for recall@50",
    "regularization-3": "regularisation 3, which is nearly as good for recall@50",
    "pool-200": "the 200 films with the highest scores re-ranked, not all",
    "pool-500": "the 500 films with the highest scores re-ranked, not all",
    "minmax": "each user's scores put on a scale from 0 to 1",
    "base-2": "logarithm to base 2",
    "everybody": "the mean over all users, not over test users",
}
"""Changes that the paper leaves open: which settings were found, what is re-ranked, scores' scale, logarithm, users."""
OTHER = {
    "list": "each list made as a whole for its length (horizon list)",
    "held-5": "5% held out",
    "untuned": "the recommender's default settings, not tuned",
    "iterations-30": "30 rounds of WALS instead of 10",
}
"""Changes that the paper excludes: what they move is worth knowing, and explains nothing."""
READ = {
    "kl_0.001": "alpha 0.001 in the metric",
    "kl_0.1": "alpha 0.1 in the metric",
    "kl_tags": "every genre of a film counts one, so that a film with three counts three",
}
DATA = {
    "ml-100k": "MovieLens 100K",
    "ml-latest-small": "MovieLens latest-small",
    "quarter-of-users": "a quarter of the users",
    "half-of-users": "half of the users",
    "quarter-of-films": "a quarter of the films",
    "half-of-films": "half of the films",
}
POOLED = "recall over all held-out plays together, not by user"


def quantity(frame: pl.DataFrame | None, **where: Any) -> Quantity | None:
    """The one row of a table in which columns have these values."""
    if frame is None:
        return None
    found = frame.filter(**where)
    if not len(found):
        return None
    row = found.row(0, named=True)
    return Quantity(
        row["value"], row.get("lower"), row.get("upper"), f"{row['users']:,} users" if "users" in row else ""
    )


def trade(results: Results) -> list[StudyTable]:
    """Everything about Table 2."""
    base = results.get("table-2/ml-1m")
    if base is None:
        return []
    weights = [weight for weight in TABLE_2 if len(base.filter(weight=weight))]
    return [_numbers(results, base, weights), _shape(results, base, weights), _claims(base), _moved(results, base)]


def _variants(
    results: Results, names: Mapping[str, str], where: Mapping[str, Any], under: str = "table-2"
) -> dict[str, Quantity]:
    found = {text: quantity(results.get(f"{under}/{name}"), **where) for name, text in names.items()}
    return {text: each for text, each in found.items() if each is not None}


def _printed(text: str, ours: Quantity | None, users: int, rounding: float) -> Published:
    """A mean over their test users: rounded, and as uncertain as ours would be over as many."""
    low, high = ours.ends if ours else (0.0, 0.0)
    return Published.number(text, rounding + (high - low) / 2 * sqrt(users / TEST_USERS))


def _users(base: pl.DataFrame) -> int:
    return int(base["users"][0])


def _numbers(results: Results, base: pl.DataFrame, weights: list[float]) -> StudyTable:
    rows = []
    for weight in weights:
        for (metric, length), text in zip(METRICS, TABLE_2[weight], strict=True):
            where = {"metric": metric, "length": length, "weight": weight}
            ours = quantity(base, **where)
            variants = _variants(results, UNSAID, where)
            if metric == "recall":
                variants[POOLED] = quantity(base, **(where | {"metric": "recall_pooled"})) or Quantity(np.nan)
                variants.pop(UNSAID["everybody"], None)
            printed = _printed(text, ours, _users(base), ROUNDING)
            rows.append(StudyRow(f"{NAMES[metric]}@{length}, lambda {weight:g}", printed, ours, variants))
    charts = [_chart(base, metric) for metric in ("recall", "kl")]
    text = (
        "Means over test users. A printed number counts as exact to its rounding and to what our own would vary over "
        f"{TEST_USERS:,} test users, about as many as the paper's 100,000 held-out plays have. The ladder has what the "
        "paper leaves open, one change at a time."
    )
    return StudyTable("table-2", "Table 2: ranking accuracy and calibration", tuple(rows), text, tuple(charts))


def _chart(base: pl.DataFrame, metric: str) -> Any:
    shown = base.filter(metric=metric).with_columns(name=pl.lit(f"{NAMES[metric]}@") + pl.col("length").cast(pl.String))
    published = {
        f"{NAMES[metric]}@{length}": [
            (weight, float(texts[METRICS.index((metric, length))])) for weight, texts in TABLE_2.items()
        ]
        for _, length in METRICS[:2]
    }
    return figures.lines(
        f"{NAMES[metric]} by lambda",
        shown,
        "weight",
        "value",
        "name",
        x_title="lambda",
        y_title=NAMES[metric],
        published=published,
    )


def _shape(results: Results, base: pl.DataFrame, weights: list[float]) -> StudyTable:
    """Numbers at each lambda beside those without calibration: these compare between data."""
    rows = []
    for weight in weights[1:]:
        for at, (metric, length) in enumerate(METRICS):
            before, after = float(TABLE_2[0.0][at]), float(TABLE_2[weight][at])
            where = {"metric": {"recall": "kept", "kl": "left"}[metric], "length": length, "weight": weight}
            ours = quantity(base, **where)
            rounding = after / before * ROUNDING * (1 / after + 1 / before)
            printed = _printed(f"{after / before:.3f}", ours, _users(base), rounding + ROUNDING)
            variants = _variants(results, UNSAID, where)
            rows.append(StudyRow(f"{NAMES[metric]}@{length}, lambda {weight:g} / lambda 0", printed, ours, variants))
    text = "Each number of Table 2 divided by that without calibration: shape, which compares better between data."
    shown = [base.with_columns(name=pl.lit("MovieLens 1M"))] + [
        frame.with_columns(name=pl.lit(DATA[name]))
        for name in ("ml-100k", "ml-latest-small")
        if (frame := results.get(f"data/{name}")) is not None
    ]
    charts = []
    for metric, length in METRICS:
        of = pl.concat(shown, how="diagonal_relaxed").filter(
            metric={"recall": "kept", "kl": "left"}[metric], length=length
        )
        at = METRICS.index((metric, length))
        points = [(weight, float(texts[at]) / float(TABLE_2[0.0][at])) for weight, texts in TABLE_2.items()]
        heading = f"What is left of {NAMES[metric]}@{length}"
        charts.append(
            figures.lines(
                heading,
                of,
                "weight",
                "value",
                "name",
                x_title="lambda",
                y_title="of that at lambda 0",
                published={"MovieLens 1M": points},
            )
        )
    return StudyTable("table-2-shape", "Table 2 beside its first line", tuple(rows), text, tuple(charts))


def _claims(base: pl.DataFrame) -> StudyTable:
    """What Section 6 says about Table 2."""
    weights = sorted(set(base["weight"]))

    def at(metric: str, length: int, weight: float) -> Quantity | None:
        return quantity(base, metric=metric, length=length, weight=weight)

    def extreme(metric: str, length: int, *, largest: bool) -> Quantity | None:
        rows = base.filter(
            pl.col("weight") > 0 if metric == "step" else pl.lit(value=True), metric=metric, length=length
        )
        return quantity(rows.sort("value", descending=largest).head(1))

    said: list[tuple[str, Published, Quantity | None]] = [
        (
            f"largest step of C_KL@{length} from one lambda to the next",
            Published.below(0, "an increased value of lambda results in better calibration on average"),
            extreme("step", length, largest=True),
        )
        for length in (10, 50)
    ]
    said += [
        (
            "smallest C_KL@10 less C_KL@50",
            Published.above(0, "C_KL@10 are larger than C_KL@50"),
            extreme("shorter", 50, largest=False),
        ),
        (
            "left of C_KL@10 at lambda 0.2",
            Published.below(0.8, "calibration can be improved considerably for rather small lambda"),
            at("left", 10, 0.2),
        ),
        (
            "kept of recall@10 at lambda 0.2",
            Published.above(0.95, "while accuracy is reduced only slightly"),
            at("kept", 10, 0.2),
        ),
        (
            "left of C_KL@50 less left of C_KL@10, lambda 0.2",
            Published.above(0, "a larger lambda is needed for notable improvements of C_KL@50"),
            at("slower", 50, 0.2),
        ),
        (
            "kept of recall@10 at lambda 0.95",
            Published.below(0.75, "recall@10 deteriorates a lot for larger values of lambda"),
            at("kept", 10, 0.95),
        ),
        (
            "kept of recall@50 at lambda 0.9",
            Published.above(0.95, "recall@50 is fairly constant up to around lambda = 0.95"),
            at("kept", 50, 0.9),
        ),
        (
            "kept of recall@50 at lambda 0.95",
            Published.above(0.95, "recall@50 is fairly constant up to around lambda = 0.95"),
            at("kept", 50, 0.95),
        ),
        (
            "kept of recall@50 at lambda 0.999",
            Published.below(0.95, "only for large values of lambda the accuracy drops quickly"),
            at("kept", 50, 0.999),
        ),
    ]
    rows = [StudyRow(name, published, ours) for name, published, ours in said if ours is not None]
    if weights == list(TABLE_2):
        theirs = np.array([[float(text) for text in texts] for texts in TABLE_2.values()])
        own = [base.filter(metric=metric, length=50).sort("weight")["value"].to_numpy() for metric in NAMES]
        bend = [weights[knee(*pair)] for pair in ((theirs[:, 1], theirs[:, 3]), own)]
        rows.append(
            StudyRow("the knee of recall@50 against C_KL@50", Published.number(f"{bend[0]:g}", 0.0), Quantity(bend[1]))
        )
    text = (
        "In the paper's words, with a number set beforehand for each: considerable is a fifth, slight and fairly "
        "constant a twentieth, a lot a quarter. The knee is the lambda that `calibration_curve` would mark, in their "
        "table and in ours."
    )
    return StudyTable("section-6", "What Section 6 says about Table 2", tuple(rows), text)


_LOOKED_AT = (
    ("recall", 10, 0.0),
    ("recall", 50, 0.0),
    ("kl", 10, 0.0),
    ("kl", 50, 0.0),
    ("kl", 10, 0.99),
    ("kl", 50, 0.99),
)
_SHAPES = (
    ("kept", 10, 0.5),
    ("kept", 10, 0.99),
    ("kept", 50, 0.99),
    ("left", 10, 0.5),
    ("left", 50, 0.5),
    ("left", 50, 0.99),
)


def _moved(results: Results, base: pl.DataFrame) -> StudyTable:
    """How far each change of data and of protocol moves a number."""
    rows = []
    for metric, length, weight in (*_LOOKED_AT, *_SHAPES):
        where = {"metric": metric, "length": length, "weight": weight}
        ours = quantity(base, **where)
        of = {"kept": "recall", "left": "kl"}.get(metric, metric)
        place = METRICS.index((of, length))
        if ours is None:
            continue
        printed = float(TABLE_2[weight][place]) / (float(TABLE_2[0.0][place]) if of != metric else 1.0)
        data = _variants(results, DATA, where, "data")
        protocol = _variants(results, {**OTHER, **{k: v for k, v in UNSAID.items() if k != "ml-20m"}}, where)
        if metric == "kl":
            protocol |= {
                text: each
                for name, text in READ.items()
                if (each := quantity(base, **(where | {"metric": name}))) is not None
            }
        moved = [
            max((abs(one.value - ours.value) for one in each.values()), default=np.nan) for each in (data, protocol)
        ]
        note = (
            f"{abs(printed - ours.value):.3f} from the printed {printed:.3f}; data move it by up to {moved[0]:.3f}, "
            f"protocol by up to {moved[1]:.3f}."
        )
        name = {"kept": "kept of recall", "left": "left of C_KL"}.get(metric, NAMES.get(metric, metric))
        rows.append(
            StudyRow(
                f"{name}@{length}, lambda {weight:g}",
                Published.nothing(f"{printed:.3f}, on MovieLens 20M"),
                ours,
                {**data, **protocol},
                note,
            )
        )
    text = (
        "How much of a difference may be data and how much protocol: the same numbers on smaller and other data, and "
        "with one thing done otherwise. Nothing here is taken as an explanation: the paper's data are larger than all "
        "of these, and some of the changes are excluded by its text."
    )
    return StudyTable("ladder", "What moves the numbers of Table 2", tuple(rows), text)


def tuning(results: Results, tuned: Mapping[str, float]) -> list[StudyTable]:
    """The grid that the settings are from: how far those that were taken are from the best."""
    grid = results.under("grid/ml-1m")
    if grid.is_empty():
        return []
    best = grid.sort("value", descending=True).row(0, named=True)
    taken = quantity(grid, **{name: tuned[name] for name in ("unobserved_weight", "regularization", "iterations")})
    note = f"The best has unobserved weight {best['unobserved_weight']:g}, regularisation {best['regularization']:g}."
    rows = tuple(
        StudyRow(
            f"recall@50, unobserved weight {row['unobserved_weight']:g}, regularisation {row['regularization']:g}",
            Published.nothing("settings are not printed"),
            Quantity(row["value"], row["lower"], row["upper"], f"{row['users']:,} users"),
        )
        for row in grid.iter_rows(named=True)
    )
    first = StudyRow(
        "recall@50 with the settings that were taken", Published.nothing("settings are not printed"), taken, note=note
    )
    text = "MovieLens 1M, a validation split of the training plays, 5% of them; 50 factors, 10 rounds."
    return [StudyTable("tuning", "The settings, tuned for recall@50", (first, *rows), text)]


def other_lists(results: Results) -> list[StudyTable]:
    """What a popular notebook's lists have in common with Equation 6's."""
    found = results.get("notebook")
    if found is None:
        return []
    rows = tuple(
        StudyRow(
            f"{row['lists']}, lambda {row['weight']:g}",
            Published.nothing("not the paper's"),
            Quantity(row["value"], row["lower"], row["upper"], f"{row['users']:,} users"),
        )
        for row in found.iter_rows(named=True)
    )
    text = (
        "The share of Equation 6's ten films that lists have too which are made with logarithms to base 2, with "
        "distributions rounded to three digits at every step, or with both, as in a popular notebook."
    )
    return [StudyTable("notebook", "A popular notebook's lists", rows, text)]
