"""The papers' tables and figures, ours beside theirs; and the same for a question of one's own."""

from recaudit.studies.own.study import own
from recaudit.studies.reading import Agreement, PlainTable, Published, Quantity, StudyRow, StudyTable
from recaudit.studies.report import StudyReport
from recaudit.studies.running import run
from recaudit.studies.study import Experiment, Results, Size, Study

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
