"""Peak memory of a step of a run, estimated from its settings and the shape of the interactions."""

from __future__ import annotations

from recaudit.arithmetic import core_count
from recaudit.audits.audit import Audit
from recaudit.audits.reachability.audit import USERS, Reachability
from recaudit.audits.reachability.result import MOST_CELLS
from recaudit.audits.samples import count_of
from recaudit.audits.spill import MOST_ROWS
from recaudit.data.interactions import Interactions
from recaudit.engines.base import BLOCK
from recaudit.models.base import Recommender
from recaudit.models.given.files import GivenFile
from recaudit.models.given.python import PythonObject
from recaudit.models.linear.model import EASE, SLIM
from recaudit.solvers.batches import working_memory


def estimate_memory(step: Recommender | Audit, data: Interactions) -> int | None:
    """Estimate the peak memory of a fit or an audit, next to the interactions and, for an audit, the fitted model.

    With n users, m items, N users and T targets of reachability, k free ratings, b = min(N, 16) users that are solved
    together, and c cores, in bytes:

    - fit: `8 min(n, m)^2` for EASE, `16 m^2` for SLIM, and 0 for other recommenders, which hold few numbers for each
      user or item;
    - audit: `8 * 4 * 256 m`, four arrays of the scores of a block of users;
    - reachability: `84 min(N T, 25 million)` for the table of pairs, and the larger of `51 c max(m, min(N m, 2^20))`
      for its averages and `8 * 4 b m (k + 1) + c w` for the users that are solved, with four copies of their responses
      and the working memory w of the solver.

    Args:
        step: A recommender to be fitted, or an audit.
        data: The interactions that the recommender learns from.

    Returns:
        Number of bytes, or None if it is not known: the model is read from a file or made by other code.
    """
    match step:
        case EASE():
            return 8 * min(data.n_users, step.items or data.n_items, data.n_items) ** 2
        case SLIM():
            return 8 * 2 * data.n_items**2
        case GivenFile() | PythonObject():
            return None
        case Recommender():
            return 0
        case Reachability():
            users = count_of(step.users, data.n_users, step.asking_effort(data))
            targets = count_of(step.resolved_targets(data), data.n_items)
            together, cores, free_ratings = min(users, USERS), core_count(), step.free_ratings(data)
            averages = 51 * cores * max(data.n_items, min(users * data.n_items, MOST_CELLS))
            responses = 8 * 4 * together * data.n_items * (free_ratings + 1)
            solving = cores * working_memory(data.n_items, free_ratings, targets, together)
            return 84 * min(users * targets, MOST_ROWS) + max(averages, responses + solving)
    return 8 * 4 * BLOCK * data.n_items
