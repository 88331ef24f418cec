"""Figures 2 to 5: what is read off them in Sections 6.2 and 6.3."""

from __future__ import annotations

import numpy as np
import polars as pl

from recaudit.report import Figure
from recaudit_papers.studies import figures
from recaudit_papers.studies.agency.answers import (
    FIRST,
    OTHER_BETA,
    PAST_MOVES,
    SECOND,
    Answers,
    Change,
    Found,
    Of,
    When,
    curve,
    row,
)
from recaudit_papers.studies.agency.averages import Rows, average, contrast, only
from recaudit_papers.studies.agency.published import BETAS, CURVE
from recaudit_papers.studies.reading import Published, Quantity, StudyRow, StudyTable

WHENS: tuple[When, When] = ("past", "future")


def access(answers: Answers) -> StudyTable:
    """Figure 2."""
    bars = Published.nothing("the bars of Figure 2 have no printed values")
    lifts = Published.above(1, "'black box access still obtains a solution with Lift > 1' (Section 6.2)")
    same = Published.between(0.99, 1.01, "'black box access converges to the same solution as GD' (Section 6.2)")
    rows, drawn = [], []
    for when in WHENS:
        lift, moved = (_Access(answers, when, metric) for metric in ("lift", "instability"))
        other = (OTHER_BETA,)
        rows += [
            _outperforming(f"{when} lift: gradient over black box", lift),
            row(f"{when} lift: black box", lifts, lift.mean("black_box"), other),
            row(f"{when} lift: gradient over exact", bars, lift.ratio("gradient", "exact"), other),
            row(f"{when} instability: black box over gradient", same, moved.ratio("black_box", "gradient"), other),
            row(f"{when} instability: gradient over exact", bars, moved.ratio("gradient", "exact"), other),
        ]
        for asked in (lift, moved):
            for method in ("exact", "gradient", "black_box"):
                name = f"{when} {asked.metric}, {method.replace('_', ' ')}"
                drawn.append((name, 0.0, asked.mean(method)("als", FIRST)))
    text = (
        "On the same pairs, by the same model: exact answers (for instability the paper's oracle, all vertices), "
        "gradient ascent, and questions alone, 100 for each pair. Ratios are geometric means over users; whoever "
        "outperforms finds a thousandth more at least."
    )
    charts = [
        figures.bars("What three kinds of access find", table, "series", "y", title="at beta 0.8")
        for table in [curve(drawn)]
        if len(table)
    ]
    return StudyTable("figure-2", "Figure 2: access", tuple(rows), text, tuple(charts))


def _outperforming(name: str, lift: _Access) -> StudyRow:
    printed = Published.above(1.001, "'gradient descent (GD) outperforms black box access' (Section 6.2)")
    found = row(name, printed, lift.ratio("gradient", "black_box"), (OTHER_BETA,))
    told = "the estimate of Section 5.2 as printed: without sign and direction, all ratings go up together"
    as_printed = lift.ratio("gradient", "as_printed")("als", FIRST)
    variants = dict(found.variants) | ({} if as_printed is None else {told: as_printed})
    note = "With sign and direction 100 questions find what ascent finds: log-probability is concave in past ratings."
    return StudyRow(name, printed, found.ours, variants, note if as_printed is not None else "")


class _Access:
    """What the methods find for one metric."""

    def __init__(self, answers: Answers, when: When, metric: str) -> None:
        self.table = answers.results.get(f"access/{when}", pl.DataFrame())
        self.metric = metric

    def _at(self, beta: float) -> Rows:
        return only(self.table, metric=self.metric, beta=beta)

    def mean(self, method: str) -> Found:
        return lambda _, beta: average(self._at(beta), method)

    def ratio(self, first: str, second: str) -> Found:
        def found(_: str, beta: float) -> Quantity | None:
            rows = self._at(beta)
            if rows.is_empty() or not {first, second} <= {name for name in rows.columns if rows[name].count()}:
                return None
            logs = pl.col(first).log() - pl.col(second).log()
            return average(rows.filter(pl.col(second) > 0).select(logs.alias("ratio")), "ratio", np.exp)

        return found


_LONGER = "'Both reachability and instability increase with longer horizons' (Figure 3)"


def horizons(answers: Answers) -> StudyTable:
    """Figure 3, the upper row, and what Section 6.2 says of past lifts and future instability."""
    rows = []
    for when in WHENS:
        rows += [
            row(
                f"{when} lift, 5 ratings over 1", Published.above(1, _LONGER), answers.longer_lift(when), (OTHER_BETA,)
            ),
            row(
                f"{when} instability, 5 ratings less 1",
                Published.above(0, _LONGER),
                answers.longer_move(when),
                (OTHER_BETA,),
                digits=5,
            ),
        ]

    def two_ended(name: str, beta: float) -> Quantity | None:
        found = answers.of("others", "past", name, beta)
        return average(found.with_columns(ends=pl.col("near_0") + pl.col("near_1")), "ends") if len(found) else None

    most = Published.above(0.5, "'most user-adversary pairs have instability values close to 0 or 1' (Section 6.2)")
    heap = Published.above(0.1, "a 'concentration of instability values around 1' (Section 6.3)")
    rows += [
        row("past instability below 0.1 or above 0.9, share of pairs", most, two_ended, PAST_MOVES),
        row(
            "past instability above 0.9, share of pairs",
            heap,
            answers.moved("past", column="near_1"),
            PAST_MOVES,
            note="A concentration: more than the tenth of all pairs that a flat histogram has there.",
        ),
    ]
    return StudyTable(
        "figure-3", "Figure 3: horizons, matrix factorisation", tuple(rows), figures=_horizon_charts(answers)
    )


def _horizon_charts(answers: Answers) -> tuple[Figure, ...]:
    charts = []
    for of, column, scale, title in (
        ("own", "log_lift", np.exp, "mean lift (geometric)"),
        ("others", "instability", float, "mean instability"),
    ):
        points = []
        for when in WHENS:
            table = only(answers.results.under(f"{when}/als/"), of=of, group="drawn")
            for (k, beta), found in table.group_by("k", "beta", maintain_order=True) if len(table) else ():
                if beta in BETAS:
                    points.append((f"{when}, beta {beta:g}", float(str(k)), average(found, column, scale)))
        drawn = curve(points)
        if len(drawn):
            charts.append(
                figures.lines(
                    f"{title.capitalize()} by horizon",
                    drawn.sort("series", "x"),
                    "x",
                    "y",
                    "series",
                    x_title="ratings that are free",
                    y_title=title,
                )
            )
    return tuple(charts)


def two_models(answers: Answers) -> StudyTable:
    """Figure 3, both rows: matrix factorisation beside the recurrent model."""
    more = Published.above(1, "'MF-based recommender system has higher reachability than the RNN' (Section 6.3)")
    less = Published.above(0, "'RNN consistently has higher stability than the MF-based system' (Section 6.3)")
    heap = Published.below(0.1, "'no concentration of instability values around 1' for the RNN (Section 6.3)")
    rows, mf, ours = [], ("mf", FIRST), ("rrn", FIRST)
    for when in WHENS:
        rows += [
            row(f"{when} lift, MF over recurrent", more, _beside(answers, when, "own", "log_lift"), _BESIDE, ours=mf),
            row(
                f"{when} instability, MF less recurrent",
                less,
                _beside(answers, when, "others", "instability"),
                _BESIDE,
                ours=mf,
                digits=5,
            ),
        ]
        recurrent: tuple[Change, ...] = ((OTHER_BETA[0], "rrn", SECOND),)
        longer_lift, longer_move = answers.longer_lift(when), answers.longer_move(when)
        above = Published.above(1, _LONGER), Published.above(0, _LONGER)
        rows += [
            row(f"recurrent, {when} lift, 5 ratings over 1", above[0], longer_lift, recurrent, ours=ours),
            row(f"recurrent, {when} instability, 5 less 1", above[1], longer_move, recurrent, ours=ours, digits=5),
        ]
        near = answers.moved(when, column="near_1")
        rows.append(row(f"recurrent, {when} instability above 0.9", heap, near, recurrent, ours=ours))
    text = (
        "Both on the same users, items and others. What is found for the recurrent model are lower bounds (gradient "
        "ascent from several starts for lifts, 33 ratings for each item that another rates); for matrix factorisation "
        "they are exact."
    )
    return StudyTable("figure-3-models", "Figure 3: matrix factorisation and the recurrent model", tuple(rows), text)


_BESIDE: tuple[Change, ...] = (
    (OTHER_BETA[0], "mf", SECOND),
    ("MF as Surprise's SVD, vectors solved for anew without a penalty", "mf-free", FIRST),
    ("and beta = 5", "mf-free", SECOND),
)


def _beside(answers: Answers, when: When, of: Of, column: str) -> Found:
    scale = np.exp if column.startswith("log") else float

    def found(name: str, beta: float) -> Quantity | None:
        return contrast(answers.of(of, when, name, beta), answers.of(of, when, "rrn", beta), column, scale)

    return found


_NO_PENALTY: tuple[Change, ...] = (
    ("vectors solved for anew without a penalty, as Equations 7 and 8 are printed", "als-free", FIRST),
    ("and Surprise's SVD with its defaults in place of ALS", "svd-free", FIRST),
)


def lifts(answers: Answers) -> StudyTable:
    """Figure 4: past-5 lifts at two betas."""

    def own(column: str, beta: float) -> Found:
        return lambda name, _: average(answers.of("own", "past", name, beta), column)

    def largest(name: str, _: float) -> Quantity | None:
        found = answers.of("own", "past", name, FIRST)
        return None if found.is_empty() else _pooled(found, "max_lift", "largest of")

    def thousands(name: str, _: float) -> Quantity | None:
        found = answers.of("own", "past", name, SECOND)
        return None if found.is_empty() else _pooled(found, "thousandfold", "among")

    rows = [
        row(
            "lift at beta 5 over that at 0.8",
            Published.above(1, "'higher values of Lift (gain in reachability) for lower stochasticity'"),
            answers.between_betas("own", "log_lift", FIRST, SECOND),
            _NO_PENALTY,
        ),
        row(
            "median lift at beta 0.8",
            Published.between(1.0, 1.5, "'lift values slightly greater than 1 for the most part'"),
            own("median_lift", FIRST),
            _NO_PENALTY,
            note="Slightly: up to 1.5. Users' medians, averaged.",
        ),
        row(
            "largest lift at beta 0.8",
            Published.between(10**0.5, 10**1.5, "'of the order of 10 at best'"),
            largest,
            _NO_PENALTY,
        ),
        row(
            "pairs with lifts of 1,000 and more at beta 5",
            Published.above(2, "'multiple Lift values of the order of 10^3'"),
            thousands,
            _NO_PENALTY,
            digits=0,
        ),
    ]
    for beta in BETAS:
        claim = Published.above(0, "'these values are higher for items with high baseline reachability values'")
        gain = own("gain_with_baseline", beta)("als", beta)
        found = row(f"rank correlation of lift and baseline, beta {beta:g}", claim, own("lift_with_baseline", beta))
        scatter = {"the distance from the line y = x, by which the text judges, in place of the lift": gain}
        changes = {text: value for text, value in scatter.items() if value is not None}
        rows.append(StudyRow(found.name, claim, found.ours, changes, "Of a user's items, averaged over users."))
    return StudyTable("figure-4", "Figure 4: past lifts at two betas", tuple(rows))


def _pooled(found: Rows, column: str, told: str) -> Quantity:
    value = found[column].max() if column == "max_lift" else found[column].sum()
    return Quantity(float(str(value)), over=f"{told} {found['pairs'].sum():,} pairs")


_SCORES: Change = ("and the distance from the model's scores, as Algorithm 3 has it", "svd-free-scores", FIRST)


def stability(answers: Answers) -> StudyTable:
    """Figure 5: past-5 instability by beta."""
    low, high = CURVE[0], CURVE[-1]
    changes = (*_NO_PENALTY, _SCORES)

    def searched(first: float, second: float, column: str) -> dict[str, Quantity]:
        found = {}
        for name, told in (
            ("als-factual", "Algorithm 3 from the factual ratings, which are the baseline"),
            ("als-scores", "Algorithm 3 from the factual ratings, the model's scores the baseline"),
            ("svd-free-scores", "and Surprise's SVD without a penalty"),
        ):
            table = answers.results.get(f"algorithm-3/{name}", pl.DataFrame())
            value = contrast(only(table, beta=second), only(table, beta=first), column)
            if value is not None:
                found[told] = value
        return found

    falls = Published.below(0, "'As we increase beta ... user recommendations tend to become more stable' (Figure 5a)")
    zeros = Published.above(
        0, "'a greater percentage ... for beta = 5 have their instability values around 0' (Figure 5b)"
    )
    rows = []
    for name, printed, first, second, column in (
        (f"past instability, beta {high:g} less {low:g}", falls, low, high, "instability"),
        ("past instability, beta 5 less 0.8", falls, FIRST, SECOND, "instability"),
        ("share of pairs below 0.1, beta 5 less 0.8", zeros, FIRST, SECOND, "near_0"),
    ):
        found = row(name, printed, answers.between_betas("others", column, first, second), changes, digits=5)
        climbed = {**found.variants, **searched(first, second, column)}
        rows.append(StudyRow(name, printed, found.ours, climbed, _AT_ZERO if column != "near_0" else "", 5))
    points = [
        (told, beta, answers.moved("past")(name, beta))
        for name, told in (
            ("als", "ours"),
            ("als-free", "no penalty"),
            ("svd-free-scores", "SVD, no penalty, from scores"),
        )
        for beta in CURVE
    ]
    charts = [
        figures.lines(
            "Mean past instability by beta", drawn, "x", "y", "series", x_title="beta", y_title="mean instability"
        )
        for drawn in [curve(points)]
        if len(drawn)
    ]
    return StudyTable("figure-5", "Figure 5: past instability by beta", tuple(rows), figures=tuple(charts))


_AT_ZERO = (
    "At beta 0 every item is as likely as any other, whatever is rated: instability is 0 there and can only rise from "
    "it. It falls again only where one item has nearly all of the probability."
)
