"""Items that nobody rated and users without ratings go through every audit of every model."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from recaudit.audits.agency.audit import Agency
from recaudit.audits.audit import Audit, Subject
from recaudit.audits.calibration.audit import Calibration
from recaudit.audits.calibration.reranking import CalibrationCurve, Reranking
from recaudit.audits.composed.audit import Composed
from recaudit.audits.fidelity.audit import Fidelity
from recaudit.audits.folding.audit import Folding
from recaudit.audits.instability.audit import Instability
from recaudit.audits.lists.accuracy import Accuracy
from recaudit.audits.lists.exposure import Exposure
from recaudit.audits.mitigation.audit import Mitigation
from recaudit.audits.reachability.audit import Reachability
from recaudit.audits.recipe import Change, Max, Own, PredictedRating
from recaudit.audits.recourse.audit import Recourse
from recaudit.audits.result import Result
from recaudit.data import Interactions
from recaudit.data.catalogue import extended
from recaudit.data.splits import Split, leave_last
from recaudit.data.synthetic import demo_world
from recaudit.errors import NotSupportedError
from recaudit.interventions import HistoryEdits, NextK, Past
from recaudit.models.base import FittedModel, Recommender
from recaudit.registry import AUDITS, MODELS
from recaudit.simulate import FromData
from recaudit.testing.models import some_ratings

ITEMS, USERS = (-1, 7000, 7001), ("a0", "zz")
ASKED = ("a0", "u3", "zz")
QUICK = {
    "als": {"factors": 2, "iterations": 2},
    "wals": {"factors": 2, "iterations": 2},
    "biased-mf": {"factors": 2, "epochs": 2},
    "bayes-mf": {"factors": 2, "iterations": 4, "burn_in": 2},
    "autorec": {"epochs": 2},
    "llorma": {"epochs": 2},
    "cf-nade": {"epochs": 2},
    "recurrent": {"epochs": 1},
}
AUDITED: list[Audit] = [
    Accuracy(k=5),
    Exposure(k=5),
    Reachability(actions=NextK(2), users=ASKED),
    Reachability(actions=HistoryEdits(2), users=ASKED),
    Reachability(actions=Past(2), users=ASKED),
    Instability(viewers=("a0",), editors=("u3", "zz")),
    Agency(k=2, horizons=(1,), betas=(1.0,), users=ASKED, followed=2, targets=4, editors=2),
    Folding(k=5),
    Calibration(k=5, tested=5),
    Reranking(k=5, tested=5, curve=(0.0, 0.9)),
    CalibrationCurve(weights=(0.0, 0.9)),
    Mitigation(k=3, weights=(0.9,), unobserved_weights=(0.3,), beta_factors=(2.0,), users=ASKED, targets=3),
    Fidelity(),
    Recourse(actions=NextK(2), users=ASKED, items=3),
    Composed(intervention=Own(NextK(2)), outcome=PredictedRating(), functional=Change(), over=Max(), viewers=ASKED),
]


@pytest.fixture(scope="module")
def data() -> Interactions:
    """32 users, two of them silent; 23 items, three of them unrated."""
    log = Interactions.from_frame(some_ratings(0).frame(), time="time", scale=(1, 5), items=ITEMS, users=USERS)
    genres = ["drama|comedy" if i % 3 else "drama" for i in range(log.n_items)]
    films = pl.DataFrame({"item": log.item_ids, "genre": genres})
    people = pl.DataFrame({"user": log.user_ids, "region": ["north", "south"] * 16})
    return log.with_items(films, categories={"genre": "genre"}).with_users(people, attributes=["region"])


@pytest.fixture(scope="module")
def halves(data: Interactions) -> Split:
    return leave_last(data, k=2)


@pytest.fixture(scope="module", params=[kind for kind in MODELS if kind != "python" and not MODELS[kind].given])
def fitted(request: pytest.FixtureRequest, halves: Split) -> tuple[Recommender, FittedModel]:
    recommender: Recommender = MODELS[request.param](**QUICK.get(request.param, {}))
    return recommender, recommender.fit(halves.train)


def check(result: Result) -> None:
    """Nothing that counts as solved is missing, and no number is NaN."""
    for name, table in result.tables.items():
        for column in table:
            assert not (column.dtype.is_float() and column.is_nan().any()), f"{name}.{column.name}"
    solved = result.frame.filter(pl.col("status") == "solved")
    assert solved["value"].null_count() == 0


def test_every_audit_is_here() -> None:
    assert {type(audit) for audit in AUDITED} == set(AUDITS.values())


def test_scores_are_finite(fitted: tuple[Recommender, FittedModel], data: Interactions) -> None:
    assert np.isfinite(fitted[1].scores(np.arange(data.n_users))).all()


@pytest.mark.parametrize("audit", AUDITED, ids=lambda audit: f"{AUDITS.kind_of(audit)}")
def test_no_audit_stumbles(
    audit: Audit, fitted: tuple[Recommender, FittedModel], data: Interactions, halves: Split
) -> None:
    recommender, model = fitted
    try:
        result = audit.run(Subject(model, recommender, data, halves.test))
    except NotSupportedError:
        return  # the model has no such answer, about anybody
    check(result)


def test_unrated_items_are_shown_and_counted(halves: Split) -> None:
    model = MODELS["random"]().fit(halves.train)
    shown = Exposure(k=halves.train.n_items).run(model)
    assert shown["coverage"] == 1
    counts = dict(shown.items.select("item", "recommended").iter_rows())
    assert all(counts[item] == halves.train.n_users for item in ITEMS)
    assert np.isfinite(shown["novelty"])


def test_unrated_items_can_be_asked_for_by_users_without_ratings(halves: Split) -> None:
    model = MODELS["als"](factors=2, iterations=2).fit(halves.train)
    pairs = Reachability(actions=NextK(2), users=USERS).run(model).pairs
    assert set(ITEMS) <= set(pairs["item"])
    assert set(pairs["user"]) == set(USERS)


def test_an_environment_has_everybody_and_everything() -> None:
    log = extended(demo_world(users=40, items=30).data, items=["film-new"], users=["user-new"])
    environment = FromData(data=log, factors=2)
    assert (environment.users, environment.items) == (log.n_users, log.n_items)
    assert np.isfinite(environment.offline(60).ratings).all()
    assert np.isfinite(environment.population().utilities(np.arange(log.n_users))).all()
