"""The shipped contracts, inherited by another package."""

from __future__ import annotations

from recaudit_example import Logistic, RecentlyPopular, TwoCamps

from recaudit.testing import EnvironmentContract, ModelContract, PolicyContract


class TestRecentlyPopular(ModelContract):
    recommender = RecentlyPopular()


class TestLogistic(PolicyContract):
    policy = Logistic(steepness=2.0)


class TestTwoCamps(EnvironmentContract):
    environment = TwoCamps(users=20, items=30, users_per_step=6)
