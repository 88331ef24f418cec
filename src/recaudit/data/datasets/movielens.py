"""MovieLens, in the three formats in which GroupLens published it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

from recaudit.data.datasets.dataset import Archive, Dataset
from recaudit.data.datasets.formats import Layout, age_group, read_file
from recaudit.data.interactions import Interactions

_STARS = (1.0, 5.0)
_HALF_STARS = (0.5, 5.0)
_NO_GENRES = "(no genres listed)"

_RATING = {"user": pl.Int32, "item": pl.Int32, "rating": pl.Float64, "time": pl.Int64}
_U_DATA = Layout(tuple(_RATING), keep=_RATING, ranges={"rating": _STARS})
_U_USER = Layout(
    ("user", "age", "gender", "occupation", "zip"),
    keep={"user": pl.Int32, "age": pl.Int32, "gender": pl.String, "occupation": pl.String},
    separator="|",
)
_U_GENRE = Layout(("genre", "number"), keep={"genre": pl.String, "number": pl.Int32}, separator="|")


# The numbers of users.dat and what they stand for, from the README of MovieLens 1M.
_OCCUPATIONS = (
    "other or not specified",
    "academic/educator",
    "artist",
    "clerical/admin",
    "college/grad student",
    "customer service",
    "doctor/health care",
    "executive/managerial",
    "farmer",
    "homemaker",
    "K-12 student",
    "lawyer",
    "programmer",
    "retired",
    "sales/marketing",
    "scientist",
    "self-employed",
    "technician/engineer",
    "tradesman/craftsman",
    "unemployed",
    "writer",
)
_USERS_DAT = Layout(
    ("user", "gender", "age", "occupation", "zip"),
    keep={
        "user": pl.Int32,
        "gender": pl.String,
        "age": pl.Int32,
        "occupation": pl.Enum([str(number) for number in range(len(_OCCUPATIONS))]),
    },
    separator="::",
)

_RATINGS_CSV = Layout(
    ("userId", "movieId", "rating", "timestamp"),
    keep={"userId": pl.Int32, "movieId": pl.Int32, "rating": pl.Float64, "timestamp": pl.Int64},
    ranges={"rating": _HALF_STARS},
    separator=",",
    header=True,
)
_MOVIES_CSV = Layout(
    ("movieId", "title", "genres"),
    keep={"movieId": pl.Int32, "title": pl.String, "genres": pl.String},
    optional=frozenset({"genres"}),
    separator=",",
    header=True,
    quoted=True,
)


def read_100k(folder: Path) -> Interactions:
    """MovieLens 100K: u.data, u.item with a flag a genre of u.genre, u.user."""
    log = _log(read_file(folder / "u.data", _U_DATA), _STARS)
    genres = read_file(folder / "u.genre", _U_GENRE).sort("number")["genre"].to_list()
    items = _flagged_items(folder / "u.item", genres)
    users = read_file(folder / "u.user", _U_USER).with_columns(age=age_group())
    return log.with_items(items, title="title", categories={"genre": "genres"}, unknown="ignore").with_users(
        users, attributes=["gender", "age", "occupation"], unknown="ignore"
    )


def read_1m(folder: Path) -> Interactions:
    """MovieLens 1M: ratings.dat, movies.dat in Latin-1, users.dat with numbers for ages and occupations."""
    named = pl.col("occupation").to_physical().replace_strict(dict(enumerate(_OCCUPATIONS)), return_dtype=pl.String)
    users = read_file(folder / "users.dat", _USERS_DAT).with_columns(age=age_group(), occupation=named)
    log = _log(read_file(folder / "ratings.dat", _ratings_dat(_STARS)), _STARS)
    log = _with_movies(log, read_file(folder / "movies.dat", _movies_dat("latin-1")))
    return log.with_users(users, attributes=["gender", "age", "occupation"], unknown="ignore")


def read_10m(folder: Path) -> Interactions:
    """MovieLens 10M: ratings.dat with half stars, movies.dat in UTF-8; nothing is known about the users."""
    log = _log(read_file(folder / "ratings.dat", _ratings_dat(_HALF_STARS)), _HALF_STARS)
    return _with_movies(log, read_file(folder / "movies.dat", _movies_dat("utf-8")))


def read_csv(folder: Path) -> Interactions:
    """MovieLens 20M and everything after it: ratings.csv and movies.csv."""
    ratings = read_file(folder / "ratings.csv", _RATINGS_CSV)
    log = _log(ratings.rename(dict(zip(ratings.columns, _RATING, strict=True))), _HALF_STARS)
    return _with_movies(log, read_file(folder / "movies.csv", _MOVIES_CSV).rename({"movieId": "item"}))


def _log(ratings: pl.DataFrame, scale: tuple[float, float]) -> Interactions:
    return Interactions.from_frame(ratings, time="time", scale=scale)


def _with_movies(log: Interactions, movies: pl.DataFrame) -> Interactions:
    genres = pl.when(pl.col("genres") != _NO_GENRES).then("genres")
    return log.with_items(
        movies.with_columns(genres=genres), title="title", categories={"genre": "genres"}, unknown="ignore"
    )


def _ratings_dat(scale: tuple[float, float]) -> Layout:
    return Layout(tuple(_RATING), keep=_RATING, ranges={"rating": scale}, separator="::")


def _movies_dat(encoding: str) -> Layout:
    return Layout(
        ("item", "title", "genres"),
        keep={"item": pl.Int32, "title": pl.String, "genres": pl.String},
        optional=frozenset({"genres"}),
        separator="::",
        encoding=encoding,
    )


def _flagged_items(path: Path, genres: list[str]) -> pl.DataFrame:
    """u.item with the genres as a list: after five columns there is a 0 or a 1 for each genre."""
    layout = Layout(
        ("item", "title", "released", "video", "url", *genres),
        keep={"item": pl.Int32, "title": pl.String, **dict.fromkeys(genres, pl.Int32)},
        separator="|",
        encoding="latin-1",
    )
    flagged = [pl.when(pl.col(name) == 1).then(pl.lit(name)) for name in genres]
    return read_file(path, layout).select("item", "title", genres=pl.concat_list(flagged).list.drop_nulls())


_CSV_FILES = ("ratings.csv", "movies.csv")


def _edition(
    edition: str,
    about: str,
    megabytes: float,
    md5: str | None,
    read: Callable[[Path], Interactions] = read_csv,
    files: tuple[str, ...] = _CSV_FILES,
    folders: tuple[str, ...] = (),
) -> Dataset:
    """One edition, as GroupLens names its archive, folder and page."""
    name = f"ml-{edition}"
    return Dataset(
        name=name,
        title=f"MovieLens {edition.upper() if edition[0].isdigit() else 'Latest (small)'}",
        about=about,
        page=f"https://grouplens.org/datasets/movielens/{edition.partition('-')[0]}/",
        read=read,
        files=files,
        folders=(*folders, name),
        archive=Archive(f"https://files.grouplens.org/datasets/movielens/{name}.zip", md5 and f"md5:{md5}"),
        megabytes=megabytes,
    )


ML_100K = _edition(
    "100k",
    "100,000 ratings of 1,682 films by 943 users, 1 to 5 stars, 1998",
    4.9,
    "0e33842e24a9c977be4e0107933c0723",
    read_100k,
    ("u.data", "u.item", "u.genre", "u.user"),
)
ML_1M = _edition(
    "1m",
    "1,000,209 ratings of 3,706 films by 6,040 users, 1 to 5 stars, 2003",
    5.9,
    "c4d9eecfca2ab87c1945afe126590906",
    read_1m,
    ("ratings.dat", "movies.dat", "users.dat"),
)
ML_10M = _edition(
    "10m",
    "10,000,054 ratings of 10,677 films by 69,878 users, 0.5 to 5 stars, 2009",
    65.6,
    "ce571fd55effeba0271552578f2648bd",
    read_10m,
    ("ratings.dat", "movies.dat"),
    ("ml-10M100K",),
)
ML_20M = _edition(
    "20m",
    "20,000,263 ratings of 26,744 films by 138,493 users, 0.5 to 5 stars, 2015",
    198.7,
    "cd245b17a1ae2cc31bb14903e1204af3",
)
ML_25M = _edition(
    "25m",
    "25,000,095 ratings of 59,047 films by 162,541 users, 0.5 to 5 stars, 2019",
    262.0,
    "6b51fb2759a8657d3bfcbfc42b592ada",
)
ML_32M = _edition(
    "32m",
    "32,000,204 ratings of 84,432 films by 200,948 users, 0.5 to 5 stars, 2024",
    239.0,
    "d472be332d4daa821edc399621853b57",
)
ML_LATEST_SMALL = _edition(
    "latest-small",
    "100,836 ratings of 9,724 films by 610 users, 0.5 to 5 stars, 2018; its owner may replace it",
    1.0,
    None,
)
