"""A sweep is the audit at each point, with the right model at each."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import recaudit as ra
from recaudit.audits.agency.sweeps import Sweep, sweep_beta, sweep_horizon
from recaudit.data import Interactions
from recaudit.data.synthetic import World
from recaudit.errors import InputError
from recaudit.interventions import Future, Past
from recaudit.metrics.tables import SERIES_SCHEMA
from recaudit.models import ALS
from recaudit.policies import Softmax

RECOMMENDER = ALS(factors=4, iterations=2)
ASKED: dict[str, Any] = {"users": 4, "targets": 6, "samples": 10, "rng": 3}


@pytest.fixture(scope="module")
def log(world: World) -> Interactions:
    return world.data


def point(sweep: Sweep, at: float, metric: str) -> float:
    (value,) = sweep.curve(metric).filter(pl.col("at") == at)["value"]
    return float(value)


def test_each_horizon_of_the_past_asks_a_model_that_has_not_seen_it(log: Interactions) -> None:
    sweep = sweep_horizon(RECOMMENDER, log, horizons=(1, 3), policy=Softmax(beta=2), **ASKED)
    assert sweep.frame.columns == list(SERIES_SCHEMA)
    assert sweep.frame["over"].unique().to_list() == ["horizon"]
    for k in (1, 3):
        model = RECOMMENDER.fit(Past(k).before(log), rng=3)
        users = log.user_ids.gather(ra.audits.samples.resolve_users(4, log, 3)).to_list()
        targets = log.item_ids.gather(ra.audits.samples.resolve_items(6, log, 3)).to_list()
        found = ra.reachability(
            model, log, actions=Past(k), policy=Softmax(beta=2), users=users, targets=targets, samples=10, rng=3
        )
        rows = sweep.frame.filter(pl.col("at") == k).drop("over", "at")
        assert_frame_equal(rows, found.frame)


def test_a_model_that_is_there_is_not_fitted_again(log: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = [RECOMMENDER.fit(Past(k).before(log), rng=3) for k in (1, 2)]
    monkeypatch.setattr(ALS, "fit", lambda *args, **kwargs: pytest.fail("was fitted again"))
    sweep = sweep_horizon(RECOMMENDER, log, horizons=(1, 2), fitted=fitted, **ASKED)
    assert sweep.frame["at"].unique().to_list() == [1, 2]


def test_one_model_serves_every_horizon_of_the_future(log: Interactions) -> None:
    model = RECOMMENDER.fit(log, rng=3)
    one, other = (
        sweep_horizon(subject, log, kind="future", horizons=(1, 2), **ASKED).frame for subject in (model, RECOMMENDER)
    )
    assert_frame_equal(one, other)
    assert one.filter(pl.col("metric") == "lift")["value"].is_sorted()


def test_instability_of_the_future_by_horizon(log: Interactions) -> None:
    model = RECOMMENDER.fit(log, rng=3)
    sweep = sweep_horizon(
        model, log, audit="instability", kind="future", horizons=(1, 2), users=5, editors=["user-001"], samples=10
    )
    found = ra.audits.instability(
        model,
        log,
        edits=Future(2),
        viewers=log.user_ids.gather(ra.audits.samples.resolve_users(5, log, 0)).to_list(),
        editors=["user-001"],
    )
    assert point(sweep, 2, "instability") == pytest.approx(found.aggregate(by=[], samples=10)["instability"])


def test_beta_alone_changes_along_a_sweep_of_beta(log: Interactions) -> None:
    model = RECOMMENDER.fit(Past(2).before(log), rng=3)
    sweep = sweep_beta(model, log, actions=Past(2), betas=(0.5, 4), **ASKED)
    users = log.user_ids.gather(ra.audits.samples.resolve_users(4, log, 3)).to_list()
    targets = log.item_ids.gather(ra.audits.samples.resolve_items(6, log, 3)).to_list()
    found = ra.reachability(model, log, actions=Past(2), policy=Softmax(beta=4), users=users, targets=targets)
    assert point(sweep, 4, "lift") == pytest.approx(found["lift"])
    assert point(sweep, 0.5, "lift") < point(sweep, 4, "lift")


@pytest.mark.parametrize("actions", [Past(2), Future(1)], ids=str)
def test_a_recommender_is_fitted_to_what_came_before(log: Interactions, actions: Past | Future) -> None:
    fitted = RECOMMENDER.fit(actions.before(log) if isinstance(actions, Past) else log, rng=3)
    unfitted, known = (sweep_beta(model, log, actions=actions, betas=[2.0], **ASKED) for model in (RECOMMENDER, fitted))
    assert_frame_equal(unfitted.frame, known.frame, rel_tol=1e-9)
    with pytest.raises(InputError, match="data: received None; expected the log to fit the recommender to"):
        sweep_beta(RECOMMENDER)


def test_beta_of_instability_without_another_log(log: Interactions) -> None:
    sweep = sweep_beta(RECOMMENDER.fit(log), audit="instability", betas=(1,), users=3, editors=3, samples=5)
    assert set(sweep.frame["metric"]) == {"instability", "max_instability", "unstable_share"}


def test_it_prints_a_line_for_each_point(log: Interactions) -> None:
    sweep = sweep_horizon(RECOMMENDER, log, horizons=(1, 2), **ASKED)
    head, names, *lines = repr(sweep).splitlines()
    assert head == "reachability over horizon (kind=past, policy=Softmax(beta=1.0), users=4, targets=6, rng=3)"
    assert names.split() == ["horizon", "Discovery", "Availability", "Lift"]
    assert [line.split()[0] for line in lines] == ["1", "2"]


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"kind": "present"}, "'past' or 'future'"),
        ({"audit": "accuracy"}, "'reachability' or 'instability'"),
        ({"editors": 3}, "editors for instability"),
        ({"audit": "instability", "targets": 3}, "targets for reachability"),
        ({"horizons": ()}, "at least one"),
        ({"horizons": (1, 1.5)}, r"horizons: received \(1, 1.5\); expected a list, each a whole number"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(log: Interactions, wrong: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        sweep_horizon(RECOMMENDER, log, **wrong)


def test_the_past_needs_a_recommender_to_fit(log: Interactions) -> None:
    with pytest.raises(InputError, match="that can be fitted without the last ratings"):
        sweep_horizon(RECOMMENDER.fit(log), log)


def test_an_unknown_metric_is_told_the_known(log: Interactions) -> None:
    sweep = sweep_horizon(RECOMMENDER, log, horizons=(1,), **ASKED)
    with pytest.raises(InputError, match="discovery, availability, lift"):
        sweep.curve("instability")
