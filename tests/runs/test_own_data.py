"""The user's own files, as the configuration describes them."""

from __future__ import annotations

import hashlib
import inspect
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from recaudit.data import Interactions, read
from recaudit.data.sources import OwnData
from recaudit.errors import ConfigError, DataError
from recaudit.runs import execute, parse

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


ABOUT = COLUMNS + 'items = "films.csv"\ntitle = "name"\nusers = "people.csv"\nattributes = ["region"]\n'


def test_files_of_items_and_users_change_no_number_unless_they_are_the_catalogue(folder: Path) -> None:
    data = loaded(folder, ABOUT)
    assert (data.n_users, data.n_items) == (2, 3)
    assert data.facts == {"merged_repeats": 1, "items_left_out": 1, "users_left_out": 1}


def test_files_of_items_and_users_can_be_the_catalogue(folder: Path) -> None:
    data = loaded(folder, ABOUT + 'catalogue = "all"')
    assert data.user_ids.to_list() == ["ada", "bob", "zoe"]
    assert data.item_labels(np.arange(4)) == ["Alien", "Brazil", "Casablanca", "Never rated"]
    assert data.attributes["region"].to_list() == ["north", "south", "north"]
    assert data.facts == {"merged_repeats": 1}


def test_ids_of_the_catalogue_decide_the_type_of_ids_with_the_logs(folder: Path) -> None:
    (folder / "films.csv").write_text(FILMS + "x1,Extra,drama\n")
    data = loaded(folder, COLUMNS + 'items = "films.csv"\ntitle = "name"\ncatalogue = "all"')
    assert data.item_ids.to_list() == ["10", "20", "30", "40", "x1"]


def test_a_table_says_how_its_file_is_written(folder: Path) -> None:
    lines = FILMS.replace("|", "/").replace(",", "|").splitlines()[1:]
    (folder / "u.item").write_text("\n".join(lines).replace("Alien", "Alién"), encoding="latin-1")
    table = 'items = {file = "u.item", separator = "|", header = false, encoding = "latin-1", id = 0}\n'
    data = loaded(folder, COLUMNS + table + 'title = 1\ncategories = {genre = 2}\ncategory_separator = "/"')
    assert data.item_labels(np.arange(1)) == ["Alién"]
    assert data.categories["genre"].names == ("comedy", "horror", "sci-fi")


def test_attributes_by_number_and_as_numbers(folder: Path) -> None:
    (folder / "people.csv").write_text("ada,F,31\nbob,M,45\n")
    table = 'users = {file = "people.csv", header = false, id = 0}\nattributes = {gender = 1, age = 2}'
    data = loaded(folder, COLUMNS + table)
    assert data.attributes.rows() == [("F", 31), ("M", 45)]


def test_a_whole_catalogue_needs_a_file_of_it(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"data.catalogue: received 'all'; expected 'rated', or a file"):
        loaded(folder, COLUMNS + 'catalogue = "all"')


def test_python_takes_the_same_options(folder: Path) -> None:
    options = {"user": "userId", "item": "movieId", "rating": "stars", "time": "when", "duplicates": "last"}
    about = {"items": folder / "films.csv", "title": "name", "catalogue": "all"}
    data = read(folder / "ratings.csv", **options, **about)
    toml = loaded(folder, COLUMNS + 'items = "films.csv"\ntitle = "name"\ncatalogue = "all"')
    assert data.fingerprint == toml.fingerprint
    assert set(OwnData.model_fields) - {"file"} == set(inspect.signature(read).parameters) - {"path"}


def test_the_run_says_what_was_left_out_and_what_has_no_ratings(folder: Path, tmp_path: Path) -> None:
    (folder / "ratings.csv").write_text(RATINGS + "cem,10,lots,4\ncem,20,3,4\n")
    text = (
        f'[data]\nfile = "ratings.csv"\n{ABOUT}catalogue = "all"\non_error = "skip"\n'
        '[split]\nkind = "leave-last"\n[[model]]\nkind = "random"\n[audits.exposure]\n'
    )
    with pytest.warns(UserWarning, match="1 rows could not be read and were skipped, the first at line 7"):
        record = execute(parse(text, source="run.toml", folder=folder), tmp_path / "run").manifest.data
    assert (record.unrated_items, record.silent_users, record.facts) == (
        1,
        1,
        {"skipped_rows": 1, "merged_repeats": 1},
    )
    told = {file.name: (file.bytes, file.sha256) for file in record.files.values()}
    for name, digest in told.items():
        content = (folder / name).read_bytes()
        assert digest == (len(content), hashlib.sha256(content).hexdigest())
    assert list(record.files) == ["ratings", "items", "users"]
