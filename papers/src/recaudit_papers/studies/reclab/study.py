"""RecLab (Krauth et al. 2020): do offline metrics predict what happens online?"""

from __future__ import annotations

from typing import final

from recaudit_papers.studies.reading import StudyTable
from recaudit_papers.studies.reclab.claims import exploration_tables, figure_4, figure_6, text_table
from recaudit_papers.studies.reclab.found import Found
from recaudit_papers.studies.reclab.plan import EXTENTS, planned
from recaudit_papers.studies.reclab.tables import cadence_table, offline_tables, rating_tables, world_table
from recaudit_papers.studies.study import Experiment, Results, Size, Study


@final
class ReclabStudy(Study):
    """Eleven recommenders in the paper's environments, offline and online, and exploration."""

    name = "reclab"
    title = "Do offline metrics predict online performance?"
    paper = "Krauth, Dean, Zhao, Guo, Curmei, Recht and Jordan (2020)"

    def experiments(self, size: Size) -> list[Experiment]:
        """Trials, folds and worlds."""
        return planned(size)

    def tables(self, results: Results) -> list[StudyTable]:
        """Numbers first, then worlds and cadence, then what the text says."""
        found = Found(results)
        return [
            *rating_tables(found),
            *offline_tables(found),
            world_table(found),
            cadence_table(found),
            text_table(found),
            figure_4(found),
            *exploration_tables(found),
            figure_6(found),
        ]

    def notes(self, results: Results) -> list[str]:
        """Other sizes than the paper's."""
        extent = EXTENTS[results.size]
        said = [
            "The people, items and initial log of topics and latent-static are the authors' own, drawn as their code "
            "draws them; who is online, and the scatter of later ratings, are not.",
        ]
        if extent.topics:
            said.append("Environments are tiny: numbers do not stand beside the printed ones.")
        elif extent.elsewhere:
            said.append(
                f"Environments other than the topics are smaller than the paper's: {extent.elsewhere['users']} users x "
                f"{extent.elsewhere['items']} items, {extent.elsewhere['steps']} steps."
            )
        return said
