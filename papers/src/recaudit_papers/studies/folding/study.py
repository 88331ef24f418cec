"""The study of folding: Figures 3 to 6 and Table 1 of Xin et al. (2017), and why centred WALS hardly folds less."""

from __future__ import annotations

from typing import final

from recaudit_papers.studies.folding import film_tables, plans, world_tables
from recaudit_papers.studies.reading import StudyTable
from recaudit_papers.studies.study import Experiment, Results, Size, Study


@final
class FoldingStudy(Study):
    """Xin et al. 2017."""

    name = "folding"
    title = "Folding: good models that make spurious recommendations"
    paper = "Xin, Mayoraz, Pham, Lakshmanan, Anderson: Folding (RecSys 2017)"

    def experiments(self, size: Size) -> list[Experiment]:
        """Block worlds, and films by a ladder of readings of Equation 1."""
        return list(plans.experiments(size))

    def tables(self, results: Results) -> list[StudyTable]:
        """Figures 1 to 6, Table 1, and what the effect needs."""
        plan = plans.PLANS[results.size]
        tables = [world_tables.figure_3(results, plan)]
        tables += [make(results, plan) for make in (film_tables.figure_4, film_tables.reasons)]
        tables += [film_tables.figures_5_and_6(results, plan), film_tables.table_1(results)]
        tables.append(world_tables.figures_1_and_2(results))
        return [*tables, film_tables.ten_million(results)] if len(results.under("10m/")) else tables

    def notes(self, results: Results) -> list[str]:
        """Which data stand for which."""
        plan = plans.PLANS[results.size]
        theirs = "the paper has MovieLens 10M (69,878 users who rated, 1.3% of the pairs; 1M: 6,040 users, 4.5%)"
        return [
            f"Films: {plan.data}, a tenth held out; {theirs}.",
            f"Block worlds: {plan.worlds} (the paper has 100 of 5000 x 6000).",
            "Intervals are 95%, over worlds, splits or films.",
            "The paper's figures have no numbers in the text that we have; its grids of k and alpha are not printed.",
        ]
