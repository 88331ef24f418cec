"""Mistakes of files and logs that are found before any model is fitted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from recaudit.data import Interactions
from recaudit.errors import DataError, InputError
from recaudit.interventions import NextK, Past
from recaudit.models import ALS, TopPop
from recaudit.runs import execute, parse

USERS, ITEMS = [f"u{n}" for n in range(8)], [f"i{n}" for n in range(10)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ratings without times, and models whose fit would be counted."""
    rows = [
        (user, ITEMS[(n + step) % 10], 1.0 + (n * step) % 5) for n, user in enumerate(USERS) for step in range(1, 6)
    ]
    pl.DataFrame(rows, ["user", "item", "rating"], orient="row").write_csv(tmp_path / "ratings.csv")

    def fit(*_: object, **__: object) -> None:
        pytest.fail("a model was fitted before the mistake was found")

    monkeypatch.setattr(ALS, "fit", fit)
    monkeypatch.setattr(TopPop, "fit", fit)
    return tmp_path


def run(folder: Path, more: str) -> None:
    text = '[data]\nfile = "ratings.csv"\nscale = [1, 5]\n[[model]]\nkind = "als"\n' + more
    execute(parse(text, source="run.toml", folder=folder), folder / "run")


def test_lists_without_a_column_are_found(folder: Path) -> None:
    pl.DataFrame({"user": ["u0"], "movie": ["i0"], "rank": [1]}).write_csv(folder / "lists.csv")
    with pytest.raises(DataError, match="item"):
        run(folder, '[[model]]\nkind = "lists"\npath = "lists.csv"\n')


def test_lists_with_unknown_items_are_found(folder: Path) -> None:
    pl.DataFrame({"user": ["u0"], "item": ["strange"], "rank": [1]}).write_csv(folder / "lists.csv")
    with pytest.raises(DataError, match="strange"):
        run(folder, '[[model]]\nkind = "lists"\npath = "lists.csv"\n')


def test_vectors_that_lack_users_are_found(folder: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(
        folder / "own.npz",
        user_factors=rng.random((7, 2)),
        item_factors=rng.random((10, 2)),
        user_ids=np.array(USERS[:7]),
        item_ids=np.array(ITEMS),
    )
    with pytest.raises(InputError, match=r"no row for 'u7' \(1 of 8 ids\)"):
        run(folder, '[[model]]\nkind = "factors"\npath = "own.npz"\npredicts_ratings = true\n')


@pytest.mark.parametrize(
    ("audit", "argument"),
    [
        ("[audits.instability]\n", "edits"),
        ("[audits.instability]\nedits = {kind = 'past', k = 3}\n", "edits"),
        ("[audits.reachability]\nactions = {kind = 'past', k = 3}\n", "actions"),
        ("[audits.recourse]\nactions = {kind = 'past', k = 3}\n", "actions"),
    ],
)
def test_audits_of_the_last_ratings_are_refused_for_a_log_without_times(
    folder: Path, audit: str, argument: str
) -> None:
    with pytest.raises(InputError) as caught:
        run(folder, audit)
    assert caught.value.argument == argument
    assert "next-k" in caught.value.remedy
    assert not (folder / "run").exists()


def test_other_ratings_need_no_times(folder: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="fitted"):
        run(folder, "[audits.instability]\nedits = {kind = 'next-k', k = 3}\n")


def test_weights_by_recency_are_refused_for_a_log_without_times(folder: Path) -> None:
    pl.DataFrame({"item": ITEMS, "genre": ["a", "b"] * 5}).write_csv(folder / "items.csv")
    text = (folder / "ratings.csv").name
    more = '[audits.calibration]\nhistory_weights = "recency"\nhalf_life = 3.0\n'
    config = (
        f'[data]\nfile = "{text}"\nscale = [1, 5]\nitems = "items.csv"\ncategories = {{genre = "genre"}}\n'
        '[[model]]\nkind = "als"\n'
    )
    with pytest.raises(InputError) as caught:
        execute(parse(config + more, source="run.toml", folder=folder), folder / "run")
    assert caught.value.argument == "history_weights"


def test_the_verb_refuses_before_it_computes(tiny: Interactions) -> None:
    frame = tiny.frame()
    timeless = Interactions.from_frame(frame.drop("time") if "time" in frame.columns else frame, scale=tiny.scale)
    model = ALS(factors=2, iterations=1).fit(timeless)
    with pytest.raises(InputError) as caught:
        ra.instability(model)
    assert caught.value.argument == "edits"
    with pytest.raises(InputError):
        ra.reachability(model, actions=Past(2))
    assert ra.reachability(model, actions=NextK(1), users=1).pairs.height > 0
