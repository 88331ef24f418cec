"""The tables and figures of five papers, measured again with recaudit, and the papers' own recommenders.

- `recaudit_papers.studies`: the studies, as `recaudit study` runs them.
- `recaudit_papers.models`: AutoRec, BayesMF, CF-NADE, LLORMA and the recurrent model.
- `recaudit_papers.recommenders`: the eleven recommenders of paper 003 with the settings of its authors.
- `recaudit_papers.geometry`: which items a user can bring to the top, by linear programs (paper 000).
- `recaudit_papers.access`: what an auditor finds with how much access (paper 001).
- `recaudit_papers.pages`: renders the published results in `papers/results` as Markdown.
"""

from recaudit_papers.version import __version__ as __version__
