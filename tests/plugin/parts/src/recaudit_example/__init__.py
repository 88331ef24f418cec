"""Parts of recaudit from another package: a recommender, a policy and an environment."""

from recaudit_example.environment import TwoCamps
from recaudit_example.model import RecentlyPopular
from recaudit_example.policy import Logistic

__all__ = ["Logistic", "RecentlyPopular", "TwoCamps"]
