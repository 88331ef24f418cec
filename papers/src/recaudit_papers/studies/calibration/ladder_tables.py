"""What moves the numbers of Table 2: data, settings, and other ways to make lists and to read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from recaudit_papers.studies.calibration.published import METRICS, SIZES, TABLE_2
from recaudit_papers.studies.calibration.trade_tables import DATA, NAMES, UNSAID, changed, printed_beside_ours, quantity
from recaudit_papers.studies.reading import Published, Quantity, StudyRow, StudyTable
from recaudit_papers.studies.study import Results

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


def data(results: Results) -> list[StudyTable]:
    """How large the paper's data are, and what stands in for them."""
    if results.size == "tiny":
        return []
    found, other = results.get("sizes/ml-20m"), results.get("sizes/ml-1m")
    rows = []
    for what, (text, error) in SIZES.items():
        stands_in = quantity(other, what=what)
        note = f"MovieLens 1M has {stands_in.value:,.0f}. " if stands_in else ""
        note += "" if found is not None else f"{results.why_not('sizes/ml-20m')}."
        rows.append(
            StudyRow(
                f"{what} of MovieLens 20M",
                Published.number(text, error),
                quantity(found, what=what),
                note=note,
                digits=0,
            )
        )
    return [StudyTable("data", "Section 6: the data", tuple(rows))]


def ladder(results: Results) -> list[StudyTable]:
    """How far each change of data and of protocol moves the numbers of Table 2, and how many of them it brings out."""
    base = results.get("table-2/ml-1m")
    if base is None:
        return []
    all_rows = printed_beside_ours(results, base, {**UNSAID, **OTHER})
    came = sum(row.ours is not None and row.published.holds(row.ours) for row in all_rows)
    brought = Counter(change for row in all_rows for change in row.explaining)
    counts = {change: Quantity(brought[change]) for row in all_rows for change in row.variants}
    rows = [
        StudyRow(
            "printed numbers that come out",
            Published.nothing(f"{len(all_rows)} numbers"),
            Quantity(came),
            counts,
            digits=0,
        )
    ]
    for metric, length, weight in (*_LOOKED_AT, *_SHAPES):
        where = {"metric": metric, "length": length, "weight": weight}
        ours = quantity(base, **where)
        of = {"kept": "recall", "left": "kl"}.get(metric, metric)
        place = METRICS.index((of, length))
        if ours is None:
            continue
        printed = float(TABLE_2[weight][place]) / (float(TABLE_2[0.0][place]) if of != metric else 1.0)
        smaller = changed(results, DATA, where, "data")
        unsaid = {name: text for name, text in UNSAID.items() if not name.startswith("ml-")}
        protocol = changed(results, {**OTHER, **unsaid}, where)
        if metric == "kl":
            protocol |= {
                text: each
                for name, text in READ.items()
                if (each := quantity(base, **(where | {"metric": name}))) is not None
            }
        moved = [
            max((abs(one.value - ours.value) for one in each.values()), default=np.nan) for each in (smaller, protocol)
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
                {**smaller, **protocol},
                note,
            )
        )
    text = (
        "How much of a difference may be data and how much protocol: the same numbers on smaller and other data, and "
        "with one thing done otherwise. Nothing here is taken as an explanation: the paper's data are larger than all "
        "of these, and some of the changes are excluded by its text. Recall over all plays together is counted with "
        "the two columns of recall alone."
    )
    return [StudyTable("ladder", "What moves the numbers of Table 2", tuple(rows), text)]


def tuning(results: Results, tuned: Mapping[str, Mapping[str, float]]) -> list[StudyTable]:
    """The grids that the settings of each data set are from: those that were taken are marked, and the best named."""
    rows = []
    for name, settings in tuned.items():
        grid = results.under(f"grid/{name}/")
        if grid.is_empty():
            continue
        best = grid.sort("value", descending=True).row(0, named=True)
        for row in grid.iter_rows(named=True):
            taken = all(row[key] == settings[key] for key in ("unobserved_weight", "regularization", "iterations"))
            note = f"Taken. The best has {best['value']:.3f}." if taken else ""
            at = f"unobserved weight {row['unobserved_weight']:g}, regularisation {row['regularization']:g}"
            ours = Quantity(row["value"], row["lower"], row["upper"], f"{row['users']:,} users")
            rows.append(StudyRow(f"{name}: {at}", Published.nothing("settings are not printed"), ours, note=note))
    text = "Recall@50 on a validation split, 5% of the training plays; 50 factors, 10 rounds."
    return [StudyTable("tuning", "The settings, tuned for recall@50", tuple(rows), text)] if rows else []


def other_lists(results: Results) -> list[StudyTable]:
    """How good the greedy is, and what a popular notebook's lists have in common with Equation 6's."""
    return [*_optimality(results), *_notebook(results)]


def _optimality(results: Results) -> list[StudyTable]:
    found = results.get("optimality")
    if found is None:
        return []
    names = {"below": "lists below the list by score", "gap": "by how much the best list may be better"}
    made = {"prefix": "the paper's greedy", "list": "as a whole"}
    rows = tuple(
        StudyRow(
            f"{names[row['what']]}: {made[row['horizon']]}, lambda {row['weight']:g}",
            Published.nothing("no number"),
            Quantity(row["value"], row["lower"], row["upper"], f"{row['users']:,} users"),
        )
        for row in found.iter_rows(named=True)
    )
    text = (
        "Section 4 has it that the greedy's list is optimal to a factor of 1 - 1/e, and so is each beginning of it. "
        "That guarantee is Equation 9's, which is minus infinity for the empty list. By Equation 6, lists of 50 as a "
        "whole, in units of the objective; the list by score is what one has without any calibration."
    )
    return [StudyTable("section-4", "Section 4: how good the greedy's lists are", rows, text)]


def _notebook(results: Results) -> list[StudyTable]:
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
