"""A sweep is the audit at each point, with the right model at each."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import recaudit as ra
from recaudit.audits.agency.sweeps import Sweep, sweep_beta, sweep_horizon
from recaudit.audits.audit import Subject
from recaudit.audits.instability.audit import Instability
from recaudit.audits.reachability.audit import Reachability
from recaudit.data import Interactions
from recaudit.data.synthetic import World
from recaudit.errors import InputError
from recaudit.interventions import Future, GivenItems, Past
from recaudit.metrics.tables import SERIES_SCHEMA
from recaudit.models import ALS
from recaudit.policies import Softmax

RECOMMENDER = ALS(factors=4, iterations=2)
ASKED: dict[str, Any] = {"users": 4, "targets": 6}
PAST, FUTURE = (Reachability(actions=actions, **ASKED) for actions in (Past(2), Future(2)))


@pytest.fixture(scope="module")
def log(world: World) -> Interactions:
    return world.data


def point(sweep: Sweep, at: float, metric: str) -> float:
    (value,) = sweep.curve(metric).filter(pl.col("at") == at)["value"]
    return float(value)


def test_each_horizon_of_the_past_asks_a_model_that_has_not_seen_it(log: Interactions) -> None:
    sweep = sweep_horizon(RECOMMENDER, log, audit=PAST, horizons=(1, 3), rng=3)
    assert dict(sweep.series.schema) == SERIES_SCHEMA
    assert sweep.series["over"].unique().to_list() == ["horizon"]
    for k in (1, 3):
        model = RECOMMENDER.fit(Past(k).before(log), rng=3)
        found = ra.reachability(model, log, actions=Past(k), **ASKED, rng=3)
        assert_frame_equal(sweep.series.filter(pl.col("at") == k).drop("over", "at"), found.frame)


def test_a_model_that_is_there_is_not_fitted_again(log: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Subject(recommender=RECOMMENDER, model=RECOMMENDER.fit(Past(1).before(log), rng=3))
    monkeypatch.setattr(ALS, "fit", lambda *args, **kwargs: pytest.fail("was fitted again"))
    sweep = sweep_horizon(known, log, audit=PAST, horizons=(1,), rng=3)
    assert sweep.series["at"].unique().to_list() == [1]


def test_one_model_serves_every_horizon_of_the_future(log: Interactions) -> None:
    model = RECOMMENDER.fit(log, rng=3)
    one, other = (
        sweep_horizon(subject, log, audit=FUTURE, horizons=(1, 2), rng=3).series for subject in (model, RECOMMENDER)
    )
    assert_frame_equal(one, other)
    assert one.filter(pl.col("metric") == "lift")["value"].is_sorted()


def test_instability_of_the_future_by_horizon(log: Interactions) -> None:
    model = RECOMMENDER.fit(log, rng=3)
    audit = Instability(edits=Future(5), viewers=5, editors=("user-001",))
    sweep = sweep_horizon(model, log, audit=audit, horizons=(1, 2))
    found = ra.instability(model, log, edits=Future(2), viewers=5, editors=["user-001"])
    assert point(sweep, 2, "instability") == pytest.approx(found["instability"])


def test_beta_alone_changes_along_a_sweep_of_beta(log: Interactions) -> None:
    model = RECOMMENDER.fit(Past(2).before(log), rng=3)
    sweep = sweep_beta(model, log, audit=PAST, betas=(0.5, 4), rng=3)
    found = ra.reachability(model, log, actions=Past(2), policy=Softmax(beta=4), **ASKED, rng=3)
    assert point(sweep, 4, "lift") == pytest.approx(found["lift"])
    assert point(sweep, 0.5, "lift") < point(sweep, 4, "lift")


@pytest.mark.parametrize("actions", [Past(2), Future(1)], ids=str)
def test_a_recommender_is_fitted_to_what_came_before(log: Interactions, actions: Past | Future) -> None:
    fitted = RECOMMENDER.fit(actions.before(log) if isinstance(actions, Past) else log, rng=3)
    audit = Reachability(actions=actions, **ASKED)
    unfitted, known = (sweep_beta(model, log, audit=audit, betas=[2.0], rng=3) for model in (RECOMMENDER, fitted))
    assert_frame_equal(unfitted.series, known.series, rel_tol=1e-9)
    with pytest.raises(InputError, match="data: received None; expected the log to fit the recommender to"):
        sweep_beta(RECOMMENDER)


def test_beta_of_instability_without_another_log(log: Interactions) -> None:
    sweep = sweep_beta(RECOMMENDER.fit(log), audit=Instability(viewers=3, editors=3), betas=(1,))
    assert set(sweep.series["metric"]) == {"instability", "max_instability", "unstable_share"}


def test_it_prints_a_line_for_each_point(log: Interactions) -> None:
    sweep = sweep_horizon(RECOMMENDER, log, audit=PAST, horizons=(1, 2))
    head, names, *lines = repr(sweep).splitlines()
    assert head.startswith("reachability over horizon (")
    assert "targets=6" in head
    assert names.split() == ["horizon", "Discovery", "Availability", "Lift"]
    assert [line.split()[0] for line in lines] == ["1", "2"]


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"audit": ra.audits.Agency()}, "audit: received an Agency; expected a Reachability or an Instability"),
        ({"audit": Reachability(actions=GivenItems(("film-001",)))}, "audit: .*a number of ratings"),
        ({"horizons": ()}, "at least one"),
        ({"horizons": (1, 1.5)}, r"horizons: received \(1, 1.5\); expected a list, each a whole number"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(log: Interactions, wrong: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        sweep_horizon(RECOMMENDER, log, **wrong)


def test_the_past_needs_a_recommender_to_fit(log: Interactions) -> None:
    with pytest.raises(InputError, match="that can be fitted without the last ratings"):
        sweep_horizon(RECOMMENDER.fit(log), log, audit=PAST)


def test_an_unknown_metric_is_told_the_known(log: Interactions) -> None:
    sweep = sweep_horizon(RECOMMENDER, log, audit=PAST, horizons=(1,))
    with pytest.raises(InputError, match="discovery, availability, lift"):
        sweep.curve("instability")
