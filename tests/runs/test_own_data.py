"""The user's own files, as the configuration describes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from recaudit.data import Interactions
from recaudit.errors import DataError
from recaudit.runs import parse

RATINGS = """userId,movieId,stars,when
ada,10,5,1
ada,20,3,2
bob,10,1,1
bob,30,4,2
bob,30,2,3
"""
FILMS = """movieId,name,genres
10,Alien,horror|sci-fi
20,Brazil,comedy
30,Casablanca,
40,Never rated,drama
"""
PEOPLE = """userId,region
bob,south
ada,north
zoe,north
"""
COLUMNS = 'user = "userId"\nitem = "movieId"\nrating = "stars"\ntime = "when"\nduplicates = "last"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("ratings", RATINGS), ("films", FILMS), ("people", PEOPLE)):
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    return tmp_path


def loaded(folder: Path, more: str) -> Interactions:
    text = f'[data]\nfile = "ratings.csv"\n{more}\n[[model]]\nkind = "random"'
    source = parse(text, source="run.toml", folder=folder).data
    assert source.label == "ratings.csv"
    return source.load()


def test_ratings_under_ones_own_column_names(folder: Path) -> None:
    data = loaded(folder, COLUMNS + "scale = [0.5, 5]")
    assert data.frame().rows() == [("ada", 10, 5.0, 1), ("ada", 20, 3.0, 2), ("bob", 10, 1.0, 1), ("bob", 30, 2.0, 3)]
    assert data.scale == (0.5, 5.0)


def test_rating_false_takes_every_row_as_a_one(folder: Path) -> None:
    data = loaded(folder, COLUMNS.replace('"stars"', "false"))
    np.testing.assert_array_equal(data.ratings, np.ones(4))


def test_titles_and_categories_come_from_the_items_file(folder: Path) -> None:
    data = loaded(folder, COLUMNS + 'items = "films.csv"\ntitle = "name"\ncategories = {genre = "genres"}')
    assert data.titles is not None
    assert data.titles.to_list() == ["Alien", "Brazil", "Casablanca"]
    assert data.categories["genre"].names == ("comedy", "horror", "sci-fi")
    np.testing.assert_array_equal(data.categories["genre"].weights.toarray(), [[0, 0.5, 0.5], [1, 0, 0], [0, 0, 0]])


def test_attributes_come_from_the_users_file(folder: Path) -> None:
    data = loaded(folder, COLUMNS + 'users = "people.csv"\nattributes = ["region"]')
    assert data.attributes["region"].to_list() == ["north", "south"]


def test_a_column_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(DataError, match=r"ratings.csv, column 'rating': received columns .*'stars'"):
        loaded(folder, COLUMNS.replace('rating = "stars"\n', ""))
    with pytest.raises(DataError, match=r"films.csv, column 'names'.*Did you mean 'name'"):
        loaded(folder, COLUMNS + 'items = "films.csv"\ntitle = "names"')
    with pytest.raises(DataError, match=r"people.csv, column 'regoin'.*Did you mean 'region'"):
        loaded(folder, COLUMNS + 'users = "people.csv"\nattributes = ["regoin"]')


def test_a_remedy_is_a_line_of_the_configuration(folder: Path) -> None:
    with pytest.raises(DataError, match=r"ratings.csv, columns .*Say duplicates = 'last'"):
        loaded(folder, COLUMNS.replace('duplicates = "last"', ""))


@pytest.mark.parametrize(
    ("split", "held"),
    [
        ("kind = 'leave-last'\nk = 1", [("ada", 20), ("bob", 30)]),
        ("kind = 'by-time'\nfraction = 0.25", [("bob", 30)]),
    ],
)
def test_splits_by_time(folder: Path, split: str, held: list[tuple[str, int]]) -> None:
    text = f'[data]\nfile = "ratings.csv"\n{COLUMNS}[split]\n{split}\n[[model]]\nkind = "random"'
    config = parse(text, source="run.toml", folder=folder)
    halves = config.split.split(config.data.load(), config.seed)
    assert halves.test.frame().select(pl.col("user", "item")).rows() == held
    assert len(halves.train) == 4 - len(held)


def test_a_random_split_follows_the_seed(folder: Path) -> None:
    text = (
        f'[data]\nfile = "ratings.csv"\n{COLUMNS}[split]\nkind = "random"\nfraction = 0.5\n[[model]]\nkind = "random"'
    )
    config = parse(text, source="run.toml", folder=folder)
    data = config.data.load()
    held = {str(config.split.split(data, seed).test.frame().rows()) for seed in range(20)}
    assert len(held) > 1
    assert len(config.split.split(data, 0).test) == 2
