"""Recommenders of the papers: AutoRec, BayesMF, CF-NADE, LLORMA and the recurrent model.

They are registered under `recaudit.models`, so a configuration names them by `kind` like recaudit's own.
"""

from recaudit_papers.models.autorec import AutoRec
from recaudit_papers.models.bayes import BayesMF, BayesMFModel
from recaudit_papers.models.cfnade import CFNADE
from recaudit_papers.models.llorma import LLORMA
from recaudit_papers.models.recurrent import RecurrentModel, RecurrentRecommender

__all__ = ["CFNADE", "LLORMA", "AutoRec", "BayesMF", "BayesMFModel", "RecurrentModel", "RecurrentRecommender"]
