"""How old is what people are shown?"""

import numpy as np

import recaudit as ra
from recaudit.audits import Context, ListAudit, Metric, Result, Subject
from recaudit.audits.recipe import Measured, Nothing, Recipe, RecommendedList
from recaudit.data import Interactions
from recaudit.errors import NotSupportedError
from recaudit.policies import AnyPolicy, Top1

AGE = Metric(
    name="age",
    label="Age of lists@k",
    definition="How long ago the items of a user's list were first rated, as a share of the time that the log spans.",
    formula="mean over users of the mean over the list of (end - first rating of i) / (end - start)",
    range="0 to 1; 0: all appeared at the end of the log; 1: all were there at its start.",
    better="neither",
    format="share",
)
AGE_GAP = Metric(
    name="age_gap",
    label="Age gap to one's own choices@k",
    definition="The age of a user's list less the age of what the user has rated. Who has rated nothing is left out.",
    formula="mean over users of (age of the list - age of the rated items)",
    range="-1 to 1; above 0: people are shown older items than they chose.",
    better="lower",
    format="signed share",
)


class Staleness(ListAudit):
    """How old what people are shown is, beside what they chose themselves."""

    metrics = (AGE, AGE_GAP)
    policy: AnyPolicy = Top1()
    """How scores become a list."""

    @property
    def recipe(self) -> Recipe:
        """What is, with nothing changed."""
        return Recipe(Nothing(), RecommendedList(self.k), Measured(AGE_GAP))

    def measure(self, subject: Subject, context: Context) -> Result:
        """Everybody's list, and everybody's history."""
        assert subject.model is not None  # `needs` says so
        data = subject.model.data
        lists = ra.recommend(subject.model, n=self.k, policy=self.policy, rng=context.rng, engine=context.engine)
        ages = item_ages(data)
        shown = mean_by_user(data, data.users_at(lists["user"]), ages[data.items_at(lists["item"])])
        chosen = mean_by_user(data, data.users, ages[data.items])
        return self.per_user(data, {"age": shown, "age_gap": shown - chosen}, context.rng)


def item_ages(data: Interactions) -> np.ndarray:
    """(items,): from 0, first rated at the end of the log, to 1, at its start; NaN for an item that nobody rated."""
    if data.times is None:
        raise NotSupportedError("staleness: the log has no times. Name the column of times when you read it: time=...")
    first = np.full(data.n_items, np.inf)
    np.minimum.at(first, data.items, data.times)
    end, start = data.times.max(), data.times.min()
    return np.where(np.isfinite(first), (end - first) / max(end - start, 1), np.nan)


def mean_by_user(data: Interactions, users: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(users,): the mean of each user's values that are known, NaN for who has none."""
    known = ~np.isnan(values)
    count = np.bincount(users[known], minlength=data.n_users)
    total = np.bincount(users[known], values[known], data.n_users)
    return np.divide(total, count, out=np.full(data.n_users, np.nan), where=count > 0)
