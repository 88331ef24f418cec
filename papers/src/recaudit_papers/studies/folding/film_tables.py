"""Figures 4 to 6, Table 1, and the ladder: films."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import polars as pl

from recaudit_papers.studies import figures
from recaudit_papers.studies.folding import curves, plans, published
from recaudit_papers.studies.folding.curves import by_seed, over
from recaudit_papers.studies.folding.world_tables import tradeoff
from recaudit_papers.studies.reading import Published, Quantity, StudyRow, StudyTable
from recaudit_papers.studies.study import Results

_CLAIMS: dict[str, tuple[Callable[[pl.DataFrame], float], Published]] = {
    "Largest RMSE": (curves.largest_error, published.START),
    "RMSE at weight 0.03": (curves.error_at_knee, published.AT_KNEE),
    "Share of the fall of RMSE, as the weight falls, that comes above 0.03": (
        curves.gain_before_knee,
        published.MINOR_GAIN,
    ),
    "Share of the rise of folding that comes above 0.03": (curves.rise_before_knee, published.LITTLE_BEFORE),
    "Folding without weight, over folding at weight 0.03": (curves.rise_below_knee, published.HEAVY_BELOW),
    "Folding at the lowest RMSE": (curves.folding_of_best, published.GOOD_MODELS_FOLD),
}
"""What Section 4.2 says of Figure 4 that one curve can fulfil or not."""

REASONS = (
    "The weight adds alpha times the sum over unrated pairs of (t - u.v)^2. Less their mean, ratings have t = 0: a "
    "user's vector is (S + alpha G + lambda I)^-1 b, with S and G the sums of v v' over what the user rated and over "
    "all items, b that of rating times v. What is rated being a share p of all, S is about p G, and the vector "
    "1 / (p + alpha) times (G + lambda / (p + alpha) I)^-1 b: the weight shortens it, which no cosine sees, and turns "
    "it only as a lambda that is p / (p + alpha) as large would. At lambda 10 there is hardly anything to relieve; at "
    "100, where lambda has left few directions, there is. As they are, ratings average 3.6 and t = 0 is far away: "
    "without weight all vectors share the direction of the mean and every cosine is high; with it 3.6 times the "
    "indicator of what is rated is factorised, whose cosines are the relatedness itself. So a weight turns vectors "
    "where unrated pairs are fitted to something below what is rated; and folding falls if that is at or below the "
    "zero of the products: 2 stars is if the mean is taken off, and is not as they are."
)
"""Derived; each sentence has a rung."""


def _rungs(results: Results, plan: plans.Plan) -> dict[str, pl.DataFrame]:
    """The models of each rung of the ladder at the factors where it is climbed; the first is as Section 4.2 reads."""
    return {name: results.under(f"films/{name}/{plan.middle}/") for name in plan.rungs}


def _ladder(
    rungs: Mapping[str, pl.DataFrame], value: Callable[[pl.DataFrame], float]
) -> tuple[Quantity, dict[str, Quantity]]:
    """As Section 4.2 reads, and with each change."""
    found = {name: by_seed(table, value, "splits") for name, table in rungs.items()}
    ours = found.pop(plans.AS_READ)
    return ours, {plans.LADDER[name][0]: quantity for name, quantity in found.items()}


def figure_4(results: Results, plan: plans.Plan) -> StudyTable:
    """RMSE against folding, as Section 4.2 reads and with each change."""
    rungs, k = _rungs(results, plan), plan.middle
    rows = [StudyRow(f"{name}, {k} factors", claim, *_ladder(rungs, value)) for name, (value, claim) in _CLAIMS.items()]
    rows.append(_all_at_once(rows))
    rows += _over_factors(results, plan)
    text = (
        "Section 4.2 as it reads: ratings less their mean, unrated pairs fitted to 0, lambda 10, relatedness of rank "
        f"30; each change at {k} factors. A model that predicts the mean for every pair has the ratings' standard "
        "deviation for its RMSE, 1.12 here: a weight that pulls to the mean cannot lead to 1.5."
    )
    drawn = tuple(
        tradeoff(heading, _mean_over_splits(results.under(f"films/{name}/")))
        for heading, name in (
            ("Films, ratings less their mean", plans.AS_READ),
            ("Films, as they are", plans.NOT_CENTRED),
        )
    )
    return StudyTable("figure-4", "Figure 4: films, RMSE against folding", tuple(rows), text, drawn)


def _all_at_once(rows: list[StudyRow]) -> StudyRow:
    """How many of these claims hold in one and the same form."""

    def held(found: Mapping[str, Quantity | None]) -> Quantity:
        return Quantity(float(sum(row.published.holds(one) for row in rows if (one := found[row.name]) is not None)))

    changes = dict.fromkeys(change for row in rows for change in row.variants)
    counted = {change: held({row.name: row.variants.get(change) for row in rows}) for change in changes}
    most = max(counted, key=lambda change: counted[change].value)
    lacking = [row.name for row in rows if most not in row.explaining]
    return StudyRow(
        f"How many of these {len(rows)} hold at once",
        Published.number(str(len(rows)), error=0),
        held({row.name: row.ours for row in rows}),
        counted,
        f"The most with: {most}. Not there: {'; '.join(lacking) or 'none'}.",
        digits=0,
    )


def _over_factors(results: Results, plan: plans.Plan) -> list[StudyRow]:
    """What is said of all numbers of factors."""
    as_read, as_they_are = (results.under(f"films/{name}/") for name in (plans.AS_READ, plans.NOT_CENTRED))
    change = plans.LADDER[plans.NOT_CENTRED][0]

    def row(name: str, claim: Published, value: Callable[[pl.DataFrame], float], note: str = "") -> StudyRow:
        variants = {change: by_seed(as_they_are, value, "splits")}
        return StudyRow(name, claim, by_seed(as_read, value, "splits"), variants, note)

    rows = [
        row(
            "Spearman of RMSE and folding over weights at fixed factors, the weakest",
            published.OPPOSED,
            curves.correlation("rmse", "folding"),
        ),
        row(
            "Lowest RMSE",
            published.LOWEST_1M,
            curves.lowest_error,
        ),
        row(
            "Share of their lists that is spurious, of the model with the lowest RMSE",
            Published.nothing("not measured by the paper"),
            lambda part: float(part["spurious_share"][part["rmse"].arg_min() or 0]),
        ),
    ]
    if len(plan.film_factors) > 1:
        name = "Fall of folding with more factors at the same weight, the smallest"
        rows.append(row(name, published.MORE_FACTORS_FOLD_LESS, curves.smallest_step("folding")))
    if plans.BEST_OF_10M in plan.film_factors:
        name = f"Lowest RMSE of fewer factors less that of {plans.BEST_OF_10M}, the smallest over weights"
        note = "Ten times fewer ratings support fewer factors; only 10M itself could show that."
        rows.append(row(name, published.FIFTY_ARE_BEST, curves.margin(plans.BEST_OF_10M), note))
    return rows


def reasons(results: Results, plan: plans.Plan) -> StudyTable:
    """What the weight does to folding in each form."""
    rungs, k = _rungs(results, plan), plan.middle
    untold = Published.nothing("not printed")
    asked: tuple[tuple[str, Published, Callable[[pl.DataFrame], float]], ...] = (
        ("Folding at an RMSE 0.1 above the lowest, over that without weight", published.HALVED, curves.folding_left),
        ("Folding at the largest weight, over that without", untold, curves.left("folding")),
        ("Size of unrated pairs' products at the largest weight, over that without", untold, curves.left("unrated")),
        ("Correlation of cosine and relatedness over unrated pairs, largest weight", untold, curves.last("likeness")),
        (
            "Folding without weight if nobody were related to anything: the most that any relatedness gives",
            published.GOOD_MODELS_FOLD,
            lambda part: float(part["folding_unrelated"][0]),
        ),
    )  # fmt: skip
    rows = [StudyRow(f"{name}, {k} factors", claim, *_ladder(rungs, value)) for name, claim, value in asked]
    rows.append(_relieved(results, rungs[plans.AS_READ], plan))
    drawn = pl.concat(
        [
            _mean_over_splits(table).with_columns(rung=pl.lit(plans.LADDER[name][0]))
            for name, table in rungs.items()
            if name in _DRAWN
        ]
    )
    figure = figures.lines(
        "Folding against RMSE, by what is minimised",
        drawn,
        "rmse",
        "folding",
        "rung",
        x_title="RMSE",
        y_title="folding",
    )
    return StudyTable(
        "centring",
        "Why centred WALS hardly reacts to alpha, and what the effect needs",
        tuple(rows),
        REASONS,
        (figure,),
    )


_DRAWN = (plans.AS_READ, plans.NOT_CENTRED, "as-they-are-to-mean", "as-they-are-to-2", "to-2", "by-user-and-item")


def _relieved(results: Results, as_read: pl.DataFrame, plan: plans.Plan) -> StudyRow:
    """What the weight does to folding, by relieving lambda alone."""
    alone = results.under("relieved/").join(as_read, on=["seed", "weight"], suffix="_weighted")
    ratio = pl.col("folding") / pl.col("folding_weighted")
    found = alone.filter(pl.col("weight") == plan.weights[-1]).sort("seed").select(ratio).to_series()
    return StudyRow(
        f"Folding without weight and lambda p / (p + alpha), over that at the largest alpha, {plan.middle} factors",
        Published.nothing("not printed"),
        over(found.to_list(), "splits"),
        note="1: less their mean, the weight changes folding as a smaller lambda does, and not otherwise.",
    )


def figures_5_and_6(results: Results, plan: plans.Plan) -> StudyTable:
    """Folding beside genres, and beside the log's relatedness of other ranks."""
    as_read, as_they_are = (results.under(f"films/{name}/") for name in (plans.AS_READ, plans.NOT_CENTRED))
    change = plans.LADDER[plans.NOT_CENTRED][0]
    both = "Figure 6: Spearman of folding by log and by genres, the lowest"
    asked = [
        ("Figure 5: Spearman of RMSE and folding by genres, the weakest", published.OPPOSED, ("rmse", "folding_genre")),
        (both, published.SAME_ORDER, ("folding", "folding_genre")),
    ]
    for rank in plan.ranks:
        name = f"Spearman of folding by the log at rank {rank} and at the default, 30 or fewer"
        asked.append((name, published.SAME_RANKS, ("folding", f"folding_{rank}")))
    rows = tuple(
        StudyRow(
            f"{name} at fixed factors",
            claim,
            by_seed(as_read, curves.correlation(*columns), "splits"),
            {change: by_seed(as_they_are, curves.correlation(*columns), "splits")},
        )
        for name, claim, columns in asked
    )
    drawn = _mean_over_splits(as_they_are, "folding_genre").with_columns(pl.format("{} factors", "factors").alias("k"))
    figure = figures.lines(
        "Folding by two relatednesses, ratings as they are",
        drawn,
        "folding",
        "folding_genre",
        "k",
        x_title="folding, relatedness from the log",
        y_title="folding, relatedness from genres",
    )
    text = "Spearman's correlation over the weights; of several numbers of factors, the one that agrees least."
    return StudyTable("figures-5-6", "Figures 5 and 6: other relatednesses", rows, text, (figure,))


def table_1(results: Results) -> StudyTable:
    """What lies next to children's films with and without the weight."""
    found = {name: results.under(f"table-1/{name}/") for name in plans.TABLE_1}
    films = len(found["as-read"].filter(pl.col("seed") == 0))

    def row(name: str, claim: Published, gain: pl.Expr, note: str = "", *, unit: str = "film") -> StudyRow:
        def of(table: pl.DataFrame) -> Quantity:
            each = table.group_by(unit, maintain_order=True).agg(gain.mean().alias("gain"))
            return over(each["gain"].to_list(), f"{unit}s".replace("seed", "split"))

        variants = {words: of(found[name]) for name, (words, _) in plans.TABLE_1.items() if words}
        return StudyRow(name, claim, of(found["as-read"]), variants, note)

    col = pl.col
    shared = col("shared_weighted") - col("shared")
    rows = [
        row(
            "MSE with the weight less MSE without", published.WORSE_ERROR, col("mse_weighted") - col("mse"), unit="seed"
        ),
        row(
            f"Cosine of the 9 nearest without the weight less that with it, {films} films",
            published.LOWER_COSINES,
            col("cosine") - col("cosine_weighted"),
        ),
        _for_one_film(found),
        row(
            f"Share of the 9 nearest with a genre in common, with the weight less without, {films} films",
            published.MORE_FITTING,
            shared,
            "By the genre Children, Table 1 itself goes from 2 of 9 to none.",
        ),
        row(
            f"Jaccard index of their genres, with the weight less without, {films} films",
            Published.nothing("not printed"),
            col("jaccard_weighted") - col("jaccard"),
        ),
    ]
    if found["as-read"]["query"].any():
        found = {name: table.filter("query") for name, table in found.items()}
        name = "Jaccard index for Cinderella alone (1950; 1M has not that of 1997), with the weight less without"
        rows.append(row(name, published.MORE_FITTING, col("jaccard_weighted") - col("jaccard"), unit="seed"))
    text = (
        "Section 3.2 as it reads: stars as they are, missing ones 2, weight 0.001 against none; over all children's "
        "films with enough ratings. A weight counts users, so that 0.001 weighs 70 ratings an item in 10M and 6 in 1M: "
        "one rung multiplies it by 11.6."
    )
    return StudyTable("table-1", "Table 1: the neighbours of a children's film", tuple(rows), text)


def _for_one_film(found: Mapping[str, pl.DataFrame]) -> StudyRow:
    """Table 1 is about one film: the interval is that of single films, not of their mean."""

    def of(table: pl.DataFrame) -> Quantity:
        gain = table.select(pl.col("cosine") - pl.col("cosine_weighted")).to_series()
        low, high = (gain.quantile(share, "linear") for share in (0.025, 0.975))
        return Quantity(gain.mean(), low, high, "95% of the films")  # type: ignore[arg-type]  # a column of numbers

    variants = {words: of(found[name]) for name, (words, _) in plans.TABLE_1.items() if words}
    name = "The same for a single film: the mean, and where 95% of the films are"
    return StudyRow(name, published.LOWER_BY, of(found["as-read"]), variants, "Printed for one film of 10M.")


def ten_million(results: Results) -> StudyTable:
    """Figure 4 on the paper's own data."""
    as_read, as_they_are = (results.under(f"10m/{name}/") for name in (plans.AS_READ, plans.NOT_CENTRED))
    change = plans.LADDER[plans.NOT_CENTRED][0]
    asked = [(name, *claim) for name, claim in _CLAIMS.items()]
    asked.append(("Lowest RMSE", curves.lowest_error, published.LOWEST_10M))
    rows = []
    for name, value, claim in asked:
        ours, other = (
            by_seed(table.filter(pl.col("factors") == plans.BEST_OF_10M), value, "splits")
            for table in (as_read, as_they_are)
        )
        rows.append(StudyRow(f"{name}, {plans.BEST_OF_10M} factors", claim, ours, {change: other}))
    drawn = tradeoff("Films of 10M, ratings less their mean", _mean_over_splits(as_read))
    return StudyTable("figure-4-10m", "Figure 4 on MovieLens 10M", tuple(rows), "", (drawn,))


def _mean_over_splits(models: pl.DataFrame, *more: str) -> pl.DataFrame:
    grouped = models.sort("factors", "weight").group_by("factors", "weight", maintain_order=True)
    return grouped.agg(pl.col("rmse", "folding", *more).mean())
