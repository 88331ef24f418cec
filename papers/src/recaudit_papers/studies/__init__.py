"""The papers' tables and figures, ours beside theirs; and the same for a question of one's own."""

from recaudit_papers.studies.own.study import own
from recaudit_papers.studies.reading import Agreement, PlainTable, Published, Quantity, StudyRow, StudyTable
from recaudit_papers.studies.report import StudyReport
from recaudit_papers.studies.running import run
from recaudit_papers.studies.study import Experiment, Results, Size, Study

__all__ = [
    "Agreement",
    "Experiment",
    "PlainTable",
    "Published",
    "Quantity",
    "Results",
    "Size",
    "Study",
    "StudyReport",
    "StudyRow",
    "StudyTable",
    "own",
    "run",
]
