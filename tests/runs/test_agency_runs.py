"""Agency in a run: read from a configuration, the run's own model in hindsight, and models that cannot be asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from recaudit import runs
from recaudit.audits.agency.audit import agency
from recaudit.audits.reachability.audit import Reachability
from recaudit.data import Interactions, datasets
from recaudit.data.synthetic import World
from recaudit.errors import ConfigError
from recaudit.interventions import Future, Past, Stars
from recaudit.models import ALS
from recaudit.models.base import FittedModel
from recaudit.policies import Softmax
from recaudit.runs import Configuration, execute

CONFIG = """
seed = 3
[data]
name = "demo"
[split]
kind = "leave-last"
k = 2
[[model]]
kind = "als"
factors = 4
iterations = 2
[[model]]
kind = "top-pop"
label = "Most rated"
[audits.agency]
k = 2
horizons = [2]
betas = []
policy = {kind = "softmax", beta = 1.0}
users = 5
followed = 2
targets = 6
editors = 4
by = ["history"]
refits = 0
"""
PAST = """
[audits.reachability]
actions = {kind = "past", k = 1, ratings = {kind = "stars", low = 1, high = 5}}
users = 3
by = []
"""


def parsed(text: str) -> Configuration:
    return runs.parse(text, source="run.toml", folder=Path())


@pytest.fixture(autouse=True)
def _small_world(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load", lambda name, path=None: world.data)


def fitted_logs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the logs that ALS is fitted to from now on."""
    sizes: list[int] = []
    fit = ALS.fit

    def counted(self: ALS, data: Interactions, rng: int = 0) -> FittedModel:
        sizes.append(len(data))
        return fit(self, data, rng)

    monkeypatch.setattr(ALS, "fit", counted)
    return sizes


def test_numbers_are_those_of_the_library_and_hindsight_needs_no_other_model(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = fitted_logs(monkeypatch)
    run = execute(parsed(CONFIG), tmp_path / "out")
    before = Past(2).before(world.data)
    assert sizes == [len(before), len(world.data)]
    result = agency(
        ALS(factors=4, iterations=2),
        world.data,
        k=2,
        horizons=(2,),
        betas=(),
        policy=Softmax(beta=1),
        users=5,
        followed=2,
        targets=6,
        editors=4,
        by=["history"],
        refits=0,
        rng=3,
    )
    for name, table in result.tables.items():
        assert_frame_equal(run.table("ALS", "agency", name), table)


def test_a_model_that_cannot_be_asked_is_noted(tmp_path: Path) -> None:
    (skip,) = execute(parsed(CONFIG), tmp_path / "out").manifest.skipped
    assert (skip.model, skip.audit) == ("Most rated", "agency")


def test_with_another_split_the_model_of_hindsight_is_fitted(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = fitted_logs(monkeypatch)
    execute(
        parsed(CONFIG.replace('k = 2\n[[model]]\nkind = "als"', 'k = 1\n[[model]]\nkind = "als"')), tmp_path / "out"
    )
    assert sizes == [len(Past(1).before(world.data)), len(Past(2).before(world.data)), len(world.data)]


def test_the_past_as_actions_asks_a_model_without_it(world: World, tmp_path: Path) -> None:
    run = execute(parsed(CONFIG.split("[audits.agency]", maxsplit=1)[0] + PAST), tmp_path / "out")
    pairs = run.table("ALS", "reachability", "pairs")
    assert pairs["user"].n_unique() == 3
    unseen = [
        world.data.n_items - len(world.data.history(int(u))[0]) for u in world.data.users_at(pairs["user"].unique())
    ]
    assert len(pairs) == sum(unseen)  # the whole log is what was seen


class TestConfiguration:
    def test_past_and_future_are_kinds_of_actions(self) -> None:
        (audit,) = parsed(CONFIG.split("[audits.agency]", maxsplit=1)[0] + PAST).audits.values()
        assert isinstance(audit, Reachability)
        assert audit.actions == Past(1, ratings=Stars(1, 5))
        follows = PAST.replace(
            '{kind = "past", k = 1, ratings = {kind = "stars", low = 1, high = 5}}',
            '{kind = "future", k = 3, follows = {kind = "softmax", beta = 4.0}}',
        )
        (audit,) = parsed(CONFIG.split("[audits.agency]", maxsplit=1)[0] + follows).audits.values()
        assert isinstance(audit, Reachability)
        assert audit.actions == Future(3, follows=Softmax(beta=4))

    @pytest.mark.parametrize(
        ("written", "wrong"),
        [
            ("horizons = [2]", "horizons = [0]"),
            ("betas = []", "betas = [-1.0]"),
            ('policy = {kind = "softmax", beta = 1.0}', 'policy = {kind = "top-1"}'),
            ("editors = 4", 'distance = "cosine"'),
            ("followed = 2", "follow = 2"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, written: str, wrong: str) -> None:
        with pytest.raises(ConfigError, match=r"audits\.agency"):
            parsed(CONFIG.replace(written, wrong))
