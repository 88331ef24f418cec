"""What the page is made of is what the verbs say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from explore.explored import ALLOWED, ALS, LABELS, array, explored
from explore.twin import PageState, random_states, twin
from recaudit.errors import ConfigError, DataError, InputError, NotSupportedError
from recaudit.explore import Exploration, explore, render_explorer
from recaudit.explore.refit import run_again
from recaudit.explore.views import STANDINGS, STAYS
from recaudit.interventions import NextK, Stars
from recaudit.models.base import FittedModel
from recaudit.policies.calibrated import Calibrated
from recaudit.runs import Run
from recaudit.status import Status


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return explored(tmp_path_factory.mktemp("gather"))


@pytest.fixture(scope="module")
def found(run: Run) -> Exploration:
    return explore(run, users=3, models=LABELS, folder=run.path.parent, allow_code=ALLOWED)


@pytest.fixture(scope="module")
def fitted(run: Run) -> dict[str, FittedModel]:
    return dict(run_again(run, tuple(LABELS), run.path.parent).fitted())


def places(found: Exploration, log: ra.Interactions) -> list[int]:
    return [int(at) for at in log.users_at([person["id"] for person in found.payload["people"]])]


def test_the_page_scores_as_the_models_do(found: Exploration, fitted: dict[str, FittedModel]) -> None:
    payload = found.payload
    for state in random_states(payload, 60):
        model = fitted[payload["models"][state.model]["label"]]
        users = places(found, model.data)
        editing = payload["people"][state.editor]["views"][state.model]
        values = payload["models"][state.model]["stars"]
        chosen = zip(state.stars, editing["now"], strict=True)
        ratings = np.array([now if star is None else values[star] for star, now in chosen])
        response = model.respond(users[state.person], users[state.editor], np.array(editing["acted"]))
        rows = array(payload["people"][state.person]["views"][state.model]["rows"], np.uint32)
        expected = response.scores(ratings)[rows]
        scores = twin(payload, state).scores
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_its_calibrated_lists_are_those_of_the_policy(found: Exploration, fitted: dict[str, FittedModel]) -> None:
    payload = found.payload
    log = fitted["ALS"].data
    users = places(found, log)
    for weight in (0.3, 0.8, 1.0):
        lister = Calibrated(weight=weight, horizon="prefix").lister(log)
        view = payload["people"][1]["views"][0]
        made = twin(payload, PageState(1, 0, 1, [None] * len(view["acted"]), 1.0, weight))
        rows = array(view["rows"], np.uint32).astype(np.int64)
        scores, allowed = np.zeros((1, log.n_items)), np.zeros((1, log.n_items), dtype=bool)
        scores[0, rows] = made.scores
        allowed[0, rows[~np.isin(rows, view["acted"])]] = True
        lists = lister(scores, allowed, np.array([users[1]]), 10, 0)
        assert rows[made.list].tolist() == lists[0].tolist()


def test_its_answers_are_those_of_recourse_and_do_what_they_say(
    found: Exploration, fitted: dict[str, FittedModel]
) -> None:
    payload, model = found.payload, fitted["ALS"]
    person = payload["people"][0]
    view = person["views"][0]
    asked = ra.Recourse(actions=NextK(10, ratings=Stars(1, 5)), users=(person["id"],), items=None, refits=0)
    pairs = asked.run(model, rng=0).pairs
    rows = array(view["rows"], np.uint32)
    at = np.searchsorted(rows, model.data.items_at(pairs["item"].to_list()))
    standing, least = array(view["standing"], np.uint8), array(view["least"], np.uint8).reshape(len(rows), -1)
    kinds = set()
    for row, pair in zip(at, pairs.iter_rows(named=True), strict=True):
        kinds.add(STANDINGS[standing[row]])
        if pair["status"] == Status.IMPOSSIBLE:
            assert STANDINGS[standing[row]] in ("impossible", "open")
        elif standing[row] == STANDINGS.index("least"):
            assert (least[row] != STAYS).sum() == pair["value"]
            stars = [None if star == STAYS else int(star) for star in least[row]]
            made = twin(payload, PageState(0, 0, 0, stars, 1.0, 0.0))
            assert row in made.list
    assert {"least", "impossible"} <= kinds


def test_no_stars_make_an_item_more_likely_than_the_best_ones(found: Exploration) -> None:
    payload = found.payload
    view, beta = payload["people"][0]["views"][0], payload["models"][0]["beta"]
    rows = array(view["rows"], np.uint32)
    best, free = array(view["best"], np.uint8).reshape(len(rows), -1), ~np.isin(rows, view["acted"])
    draw = np.random.default_rng(0)
    for row in np.flatnonzero(free)[:10].tolist():
        given = [None if star == STAYS else int(star) for star in best[row]]
        most = twin(payload, PageState(0, 0, 0, given, beta, 0.0)).chances[row]
        for _ in range(20):
            stars: list[int | None] = draw.integers(5, size=len(given)).tolist()
            assert twin(payload, PageState(0, 0, 0, stars, beta, 0.0)).chances[row] <= most * (1 + 1e-9)


def test_what_each_model_allows(found: Exploration) -> None:
    about = {model["label"]: (model["kind"], model["acts"]) for model in found.payload["models"]}
    assert about == {
        "ALS": ("affine", "next"),
        "ItemKNN": ("affine", "next"),
        "EASE": ("affine", "seen"),  # its scores are no ratings: only what was rated has one
        "Nonlinear": ("searched", "next"),
        "Popular": ("fixed", "next"),
    }
    searched = found.payload["people"][0]["views"][3]
    assert "slope" not in searched
    assert searched["answers"]
    assert found.payload["models"][found.payload["first"]]["kind"] == "affine"


def test_models_that_follow_no_ratings_are_left_out_unless_they_are_named(run: Run) -> None:
    assert [model.label for model in run_again(run, (), run.path.parent).models] == LABELS[:-1]


def test_a_searched_answer_leads_to_its_list(found: Exploration, fitted: dict[str, FittedModel]) -> None:
    model, [user, *_] = fitted["Nonlinear"], places(found, fitted["Nonlinear"].data)
    view, values = found.payload["people"][0]["views"][3], found.payload["models"][3]["stars"]
    rows = array(view["rows"], np.uint32).astype(np.int64)
    reached = [answer for answer in view["answers"] if answer["stars"] is not None]
    for answer in reached:
        ratings = [now if s == STAYS else values[s] for s, now in zip(answer["stars"], view["now"], strict=True)]
        scores = model.respond(user, user, np.array(view["acted"])).scores(np.array(ratings))[rows]
        scores[np.isin(rows, view["acted"])] = -np.inf
        assert set(answer["list"]) == set(np.argsort(-scores, kind="stable")[:10].tolist())
        assert answer["row"] in answer["list"]


def test_people_beyond_the_limit_are_left_out_and_named(run: Run) -> None:
    few = explore(run, users=10, models=["ALS"], limit=160_000, folder=run.path.parent)
    assert 1 <= len(few.kept) < 10
    assert len(few.kept) + len(few.left) == 10
    assert all(one in few.told for one in (*few.kept, *few.left))
    assert len(render_explorer(few)) <= 160_000
    with pytest.raises(InputError, match="room for at least one person"):
        explore(run, users=1, limit=1_000, folder=run.path.parent)


def test_the_actions_and_the_length_of_the_list_are_those_of_the_run(tmp_path: Path) -> None:
    asked = 'users = 2\nitems = 2\nactions = {kind = "history-edits", k = 4}\ngoal = {kind = "top", n = 3}\n'
    run = explored(tmp_path, models=ALS, more=f"[audits.recourse]\n{asked}")
    payload = explore(run, users=1, folder=tmp_path).payload
    assert (payload["models"][0]["acts"], payload["models"][0]["n"]) == ("seen", 3)
    [person] = payload["people"]
    assert len(person["views"][0]["acted"]) == 4
    assert (
        dict(person["history"]).items()
        >= dict(zip(*(person["views"][0][k] for k in ("acted", "now")), strict=True)).items()
    )


def test_models_without_scores_are_left_out_with_the_reason(tmp_path: Path) -> None:
    log = explored(tmp_path / "first", models=ALS)
    frame = pl.read_parquet(log.path.parent / "ratings.parquet")
    shown = frame.unique("user", maintain_order=True).select("user", "item", rank=pl.lit(1))
    shown.write_parquet(tmp_path / "shown.parquet")
    lists = f'[[model]]\nkind = "lists"\nlabel = "Shown"\npath = "{tmp_path / "shown.parquet"}"\n'
    run = explored(tmp_path, models=ALS + lists)
    found = explore(run, users=1, folder=tmp_path)
    assert [model["label"] for model in found.payload["models"]] == ["ALS"]
    assert "Shown is not: " in found.told
    with pytest.raises(NotSupportedError, match="lists that were shown have no scores"):
        explore(run, users=1, models=["Shown"], folder=tmp_path)


def test_the_run_must_be_as_it_was(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.file: .* a file that exists"):
        explore(run, folder=tmp_path)
    with pytest.raises(InputError, match="a model of this run"):
        explore(run, models=["AsL"], folder=run.path.parent)
    with pytest.raises((InputError, DataError), match="nobody"):
        explore(run, users=["nobody"], models=["ALS"], folder=run.path.parent)
    frame = pl.read_parquet(run.path.parent / "ratings.parquet")
    for name in ("ratings", "films"):
        (tmp_path / f"{name}.parquet").write_bytes((run.path.parent / f"{name}.parquet").read_bytes())
    frame.with_columns(rating=6 - pl.col("rating")).write_parquet(tmp_path / "ratings.parquet")
    with pytest.raises(InputError, match="it has changed since"):
        explore(run, folder=tmp_path)


def test_a_log_without_titles_or_categories(tmp_path: Path, world: Any) -> None:
    from recaudit.runs import execute, parse

    world.data.frame().write_parquet(tmp_path / "bare.parquet")
    text = f'[data]\nfile = "bare.parquet"\n{ALS}\n[audits.accuracy]\n'
    bare = execute(parse(text, source="run.toml", folder=tmp_path), tmp_path / "run")
    payload = explore(bare, users=1, folder=tmp_path).payload
    assert payload["items"]["genres"] == []
    assert payload["items"]["titles"] == [str(item) for item in world.data.item_ids]


def test_clicks_are_given_or_taken_back(tmp_path: Path, world: Any) -> None:
    from recaudit.runs import execute, parse

    world.data.frame().write_parquet(tmp_path / "clicks.parquet")
    models = '[[model]]\nkind = "ease"\n[[model]]\nkind = "wals"\nfactors = 4\nvalues = "ones"\n'
    text = f'[data]\nfile = "clicks.parquet"\nrating = false\n{models}\n[audits.accuracy]\n'
    clicks = execute(parse(text, source="run.toml", folder=tmp_path), tmp_path / "run")
    found = explore(clicks, users=1, folder=tmp_path)
    assert [model["label"] for model in found.payload["models"]] == ["EASE"]
    assert "WALS is not: Every rating of this log is 1" in found.told
    [model], [person] = found.payload["models"], found.payload["people"]
    assert (model["stars"], model["acts"]) == ([0.0, 1.0], "seen")
    assert set(person["views"][0]["now"]) == {1.0}
