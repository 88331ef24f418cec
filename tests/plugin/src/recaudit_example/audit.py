"""Does everybody get the same list?"""

import numpy as np

import recaudit as ra
from recaudit.audits.audit import Context, ListAudit, Subject
from recaudit.audits.recipe import Measured, Nothing, Recipe, RecommendedList
from recaudit.audits.result import Result
from recaudit.metrics.metric import Metric
from recaudit.policies import AnyPolicy, Top1

OVERLAP = Metric(
    "overlap",
    "Overlap of lists@k",
    "The share of a user's list that another user's list has too, averaged over other users, then over users.",
    "mean over others of |list of u and list of v| / k",
    "0 to 1; 0: no two lists share an item; 1: everybody gets the same list.",
    "lower",
    "share",
)


class Overlap(ListAudit):
    """How much of a user's list everybody else is shown too."""

    metrics = (OVERLAP,)
    policy: AnyPolicy = Top1()
    """How scores become a list."""

    @property
    def recipe(self) -> Recipe:
        """What is, without any intervention."""
        return Recipe(Nothing(), RecommendedList(self.k), Measured(OVERLAP))

    def measure(self, subject: Subject, context: Context) -> Result:
        """Count how often each item is shown."""
        assert subject.model is not None
        data = subject.model.data
        lists = ra.recommend(subject.model, n=self.k, policy=self.policy, rng=context.rng, engine=context.engine)
        shown = np.bincount(data.items_at(lists["item"]), minlength=data.n_items)
        others = (shown[data.items_at(lists["item"])] - 1) / max(1, data.n_users - 1)
        own = np.bincount(data.users_at(lists["user"]), others, data.n_users) / self.k
        return self.per_user(data, {"overlap": own}, context.rng)
