"""Reachability in a run: who is asked, what is kept, and what becomes of models that cannot be asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from recaudit import audits, runs
from recaudit.data import Interactions, datasets, splits
from recaudit.data.synthetic import World
from recaudit.interventions import HistoryEdits
from recaudit.models import ALS, TopPop
from recaudit.policies import Softmax
from recaudit.runs import Configuration, Run, execute

CONFIG = """
seed = 3
[data]
name = "demo"
[split]
kind = "leave-last"
k = 2
[[model]]
kind = "top-pop"
label = "Most rated"
[[model]]
kind = "als"
factors = 4
[[model]]
kind = "item-knn"
[audits.reachability]
actions = {kind = "history-edits", k = 2}
policy = {kind = "softmax", beta = 1.0}
users = 6
by = ["region", "popularity"]
[audits.exposure]
by = []
"""


def parsed(text: str) -> Configuration:
    return runs.parse(text, source="run.toml", folder=Path())


@pytest.fixture(autouse=True)
def _small_world(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load", lambda name, path=None: world.data)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return execute(parsed(CONFIG), tmp_path / "out")


def test_numbers_are_those_of_the_library(run: Run, world: World) -> None:
    train, _ = splits.leave_last(world.data, k=2)
    users = run.table("ALS", "reachability", "users")["user"].to_list()
    result = audits.reachability(
        ALS(factors=4).fit(train, rng=3),
        actions=HistoryEdits(2),
        policy=Softmax(beta=1),
        users=users,
        by=["region", "popularity"],
        rng=3,
    )
    for name in ("summary", "groups", "users", "items", "pairs", "example"):
        assert_frame_equal(run.table("ALS", "reachability", name), result.table(name))


def test_every_model_is_asked_about_the_same_users(run: Run) -> None:
    als, knn = (run.table(model, "reachability", "users")["user"] for model in ("ALS", "ItemKNN"))
    assert als.n_unique() == 6
    assert als.to_list() == knn.to_list()


def test_everybody_is_asked_where_there_are_fewer_than_wanted_or_nothing_is_said(tmp_path: Path) -> None:
    text = CONFIG.replace('[[model]]\nkind = "item-knn"\n', "").replace("k = 2}", "k = 1}")
    for place, users in enumerate(("users = 1000\n", "")):
        run = execute(parsed(text.replace("users = 6\n", users)), tmp_path / str(place))
        assert len(run.table("ALS", "reachability", "users")) == run.manifest.data.users


def test_who_is_drawn_does_not_depend_on_those_who_are_not(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(out: str) -> list[str]:
        run = execute(parsed(CONFIG.replace('"region", ', "")), tmp_path / out)
        return run.table("ALS", "reachability", "users")["user"].to_list()

    before = asked("all")
    first = next(user for user in world.data.user_ids if user not in before)
    frame = world.data.frame().filter(pl.col("user") != first)
    fewer = Interactions.from_frame(frame, time="time", scale=world.data.scale)
    monkeypatch.setattr(datasets, "load", lambda name, path=None: fewer)
    assert asked("fewer") == before


def test_the_pair_that_climbs_most_has_its_best_action(run: Run, world: World) -> None:
    pairs = run.table("ALS", "reachability", "pairs")
    (row,) = run.table("ALS", "reachability", "example").to_dicts()
    assert row["rank_gain"] == pairs["rank_gain"].max()
    train, _ = splits.leave_last(world.data, k=2)
    model = ALS(factors=4).fit(train, rng=3)
    (user,) = train.users_at([row["user"]])
    acted = train.items_at(row["action_items"])
    scores = model.respond(int(user), int(user), acted).scores(np.array(row["action_ratings"]))
    free = np.setdiff1d(np.flatnonzero(~train.seen(np.array([user]))[0]), acted)
    chance = np.exp(scores[train.items_at([row["item"]])[0]]) / np.exp(scores[free]).sum()
    assert row["value"] == pytest.approx(chance, rel=1e-4)


class TestSkipped:
    def test_a_model_that_cannot_be_asked_is_noted_and_stops_nothing(self, run: Run) -> None:
        (skip,) = run.manifest.skipped
        assert (skip.model, skip.audit) == ("Most rated", "reachability")
        assert "no formula says" in skip.reason
        assert run.manifest.status == "complete"
        assert run.audits("Most rated") == ("exposure",)
        assert run.audits("ALS") == ("reachability", "exposure")
        assert not (run.path / "results" / "Most rated" / "reachability").exists()

    def test_it_is_settled_when_the_run_is_resumed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(ALS, "fit", interrupt)
            with pytest.raises(KeyboardInterrupt):
                execute(parsed(CONFIG), tmp_path / "out")
        halted = Run.open(tmp_path / "out")
        assert [skip.model for skip in halted.manifest.skipped] == ["Most rated"]
        monkeypatch.setattr(TopPop, "fit", interrupt)  # all of its steps are settled: it is not fitted again
        resumed = execute(parsed(CONFIG), tmp_path / "out")
        assert resumed.manifest.status == "complete"
        assert resumed.manifest.skipped == halted.manifest.skipped

    def test_starting_over_asks_again(self, run: Run) -> None:
        assert execute(parsed(CONFIG), run.path, fresh=True).manifest.skipped == run.manifest.skipped


def interrupt(*args: object, **kwargs: object) -> object:
    raise KeyboardInterrupt


class TestSeveralModels:
    def test_an_audit_without_a_policy_spreads_each_over_as_many_items(self, tmp_path: Path) -> None:
        text = CONFIG.replace('policy = {kind = "softmax", beta = 1.0}\n', "")
        steps = execute(parsed(text), tmp_path / "out").manifest.steps
        found = {step.model: step.settings for step in steps if step.audit == "reachability"}
        assert {settings["perplexity"] for settings in found.values()} == {20.0}
        betas = {model: settings["policy"]["beta"] for model, settings in found.items()}
        assert betas == {model: settings["beta"] for model, settings in found.items()}
        assert betas["ALS"] != betas["ItemKNN"]

    def test_a_policy_of_ones_own_stays(self, run: Run) -> None:
        settings = [step.settings for step in run.manifest.steps if step.audit == "reachability"]
        assert [own["policy"]["beta"] for own in settings] == [1.0, 1.0]
        assert not any("perplexity" in own for own in settings)

    def test_one_model_is_asked_as_in_python(self) -> None:
        text = CONFIG.replace('policy = {kind = "softmax", beta = 1.0}\n', "")
        head, rest = text.split("[[model]]", 1)
        alone = parsed(head + '[[model]]\nkind = "als"\n[audits.reachability]' + rest.split("[audits.reachability]")[1])
        assert alone.audits["reachability"].policy == Softmax()  # type: ignore[attr-defined]
        assert parsed(text).audits["exposure"] == alone.audits["exposure"]
