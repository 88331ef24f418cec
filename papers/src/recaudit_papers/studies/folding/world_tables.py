"""Figures 1 to 3: worlds of groups whose truth is known."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from recaudit.report import Figure
from recaudit_papers.studies import figures
from recaudit_papers.studies.folding import curves, plans, published
from recaudit_papers.studies.folding.curves import at, by_seed, over
from recaudit_papers.studies.reading import Published, Quantity, StudyRow, StudyTable
from recaudit_papers.studies.study import Results


def figure_3(results: Results, plan: plans.Plan) -> StudyTable:
    """Section 4.1's worlds."""
    models = results.under("blocks/")
    changed = {words: results.under(f"changed-blocks/{name}/") for name, (words, _) in plans.WORLD_CHANGES.items()}
    best = plan.factors[1]

    def row(
        name: str, claim: Published, value: Callable[[pl.DataFrame], float], note: str = "", *, ladder: bool = False
    ) -> StudyRow:
        variants = {words: by_seed(table, value, "worlds") for words, table in changed.items()} if ladder else {}
        return StudyRow(name, claim, by_seed(models, value, "worlds"), variants, note)

    def gain(column: str, first: tuple[int, float], second: tuple[int, float]) -> Callable[[pl.DataFrame], float]:
        (k, alpha), (other, beta) = first, second
        return lambda part: at(part, column, factors=k, weight=alpha) - at(part, column, factors=other, weight=beta)

    rows = [_largest_folding(results)]
    rows += [
        row(
            f"Spearman of RMSE and folding over weights, {k} factors",
            published.OPPOSED,
            lambda part, k=k: curves.correlation("rmse", "folding")(part.filter(pl.col("factors") == k)),  # type: ignore[misc]  # bound at once
        )
        for k in plan.factors
    ]
    low, high = plan.factors[0], plan.factors[-1]
    rows.append(
        row(
            f"Rise of folding from weight 1 to 0, {low} factors less {high}",
            published.WORSE_IN_LOW_DIMENSIONS,
            lambda part: (
                gain("folding", (low, 0.0), (low, 1.0))(part) - gain("folding", (high, 0.0), (high, 1.0))(part)
            ),
        )
    )
    rows.append(
        row(
            "Fall of folding with more factors at the same weight, the smallest",
            published.FEWER_FACTORS_FOLD_MORE,
            curves.smallest_step("folding"),
        )
    )
    rows += [
        row(
            f"RMSE of {k} factors less that of {best}, weight 0",
            published.TEN_FACTORS_ARE_BEST,
            gain("rmse", (k, 0.0), (best, 0.0)),
        )
        for k in plan.factors
        if k != best
    ]
    rows += [
        row(
            f"RMSE at weight {alpha:g} less that at 0, {best} factors",
            published.NO_WEIGHT_IS_BEST,
            gain("rmse", (best, alpha), (best, 0.0)),
            "The paper does not say which weights it tried." if alpha < 0.01 else "",
            ladder=True,
        )
        for alpha in plans.WORLD_WEIGHTS[1:3]
    ]
    rows.append(
        row(
            f"Folding at {best} factors, weight 0",
            published.BEST_FOLDS,
            lambda part: at(part, "folding", factors=best, weight=0.0),
            ladder=True,
        )
    )
    rows.append(
        row(
            f"RMSE of {best} factors, weight 0",
            Published.nothing("not printed"),
            lambda part: at(part, "rmse", factors=best, weight=0.0),
            ladder=True,
        )
    )
    listed = models.filter(pl.col("spurious_share").is_not_null())
    rows += [
        StudyRow(
            f"Share of lists that is spurious, {k} factors, weight 0",
            Published.nothing("not measured by the paper"),
            by_seed(listed, lambda part, k=k: at(part, "spurious_share", factors=k, weight=0.0), "worlds"),  # type: ignore[misc]  # bound at once
        )
        for k in plan.factors
    ]
    drawn = models.group_by("factors", "weight", maintain_order=True).agg(pl.col("rmse", "folding").mean())
    text = (
        "Section 4.1's worlds, ratings as they are, lambda 0.1, 15 rounds of WALS, relatedness the true blocks. Less "
        "their mean (a rung), the same models predict as well and hardly fold: most of what is measured here is the "
        "direction of the mean, which all vectors share. More factors fold less over all pairs; the share of lists "
        "that is spurious does not follow, since folding averages over everything and lists are the extremes."
    )
    return StudyTable("figure-3", "Figure 3: block worlds", tuple(rows), text, (tradeoff("Block worlds", drawn),))


def _largest_folding(results: Results) -> StudyRow:
    twelve, thirteen = results["off-blocks/12"], results["off-blocks/13"]
    odd = pl.col("seed") % 2 == 1
    mixed = pl.concat([twelve.filter(~odd), thirteen])
    return StudyRow(
        "Largest folding there can be: the share of pairs in off-blocks",
        published.MOST_FOLDING,
        over(twelve["off_share"].to_list(), "worlds"),
        {"12 and 13 of the 50 blocks on, by turns": over(mixed["off_share"].to_list(), "worlds")},
        "A quarter of 50 blocks is 12.5; ours has 12 on, so that 0.76 is to be expected.",
    )


def figures_1_and_2(results: Results) -> StudyTable:
    """Who lies near what in small worlds."""
    table = results["toy"]
    none, some = (table.filter(pl.col("weight") == alpha).sort("seed") for alpha in (0.0, 0.1))

    def share(found: pl.Series) -> Quantity:
        return over(found.cast(pl.Float64).to_list(), "worlds")

    rows = (
        StudyRow(
            "Mean prediction above the mean for unrelated pairs, weight 0 less weight 0.1",
            published.OVERPREDICTED,
            over((none["overprediction"] - some["overprediction"]).to_list(), "worlds"),
        ),
        StudyRow(
            "Share of worlds in which children point to horror films",
            published.CHILDREN_NEAR_HORROR,
            share(none["children to Horror"] > 0),
        ),
        StudyRow(
            "Share of worlds in which action fans are nearer to Japanese than to action films",
            published.ACTION_NEAR_JAPANESE,
            share(none["action fans to Japanese"] > none["action fans to Action"]),
            note="An accident of the draw, as in the paper's one world: which groups fall together is left open.",
        ),
        StudyRow(
            "Folding, weight 0 less weight 0.1",
            Published.nothing("not printed"),
            over((none["folding"] - some["folding"]).to_list(), "worlds"),
        ),
    )
    text = "Worlds drawn as the text of Section 3.1 says (its matrix is not printed): centred, 3 factors."
    return StudyTable("figures-1-2", "Figures 1 and 2: a small world", rows, text)


def tradeoff(heading: str, models: pl.DataFrame) -> Figure:
    """RMSE against folding, a line for each number of factors."""
    named = models.with_columns(pl.format("{} factors", "factors").alias("k"))
    return figures.lines(heading, named, "rmse", "folding", "k", x_title="RMSE on held-out ratings", y_title="folding")
