"""Every data set that has a name: where it comes from, which files it needs, and who reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from recaudit.data.datasets import lastfm, mind, movielens
from recaudit.data.interactions import Interactions
from recaudit.data.synthetic import demo
from recaudit.errors import InputError, did_you_mean


@final
@dataclass(frozen=True)
class Archive:
    """A file on the owner's site."""

    url: str
    digest: str | None = None
    """`md5:...` or `sha256:...`; None where the owner replaces the file in place and publishes `url`.md5."""


@final
@dataclass(frozen=True)
class Dataset:
    """One data set by name."""

    name: str
    title: str
    about: str
    page: str
    """The owner's page, with the terms of use."""
    read: Callable[[Path], Interactions]
    """From the folder with the files to the log."""
    files: tuple[str, ...] = ()
    """What `read` needs; nothing for generated data."""
    folders: tuple[str, ...] = ()
    """What the folder is called: by its owner, and by us."""
    archive: Archive | None = None
    megabytes: float = 0.0
    """The size of the download."""


def find(name: str) -> Dataset:
    """The data set of this name; an unknown name is an error that suggests the nearest."""
    if name not in DATASETS:
        raise InputError(
            "name",
            received=repr(name),
            expected="the name of a data set",
            remedy=did_you_mean(name, DATASETS),
        )
    return DATASETS[name]


_GROUPLENS = "https://files.grouplens.org/datasets"
_U_FILES = ("u.data", "u.item", "u.genre", "u.user")
_CSV_FILES = ("ratings.csv", "movies.csv")

# Digests are the owners' where they publish one: GroupLens in an .md5 beside each MovieLens archive, Zenodo
# for Last.fm 360K. HetRec and MIND come without; theirs are the sha256 on which independent downloads agree.
_ALL = (
    Dataset(
        name="demo",
        title="Demo",
        about="generated: 23,000 ratings of 400 films by 600 users, with genres, regions and age groups",
        page="",
        read=lambda _: demo(),
    ),
    Dataset(
        name="ml-100k",
        title="MovieLens 100K",
        about="100,000 ratings of 1,682 films by 943 users, 1 to 5 stars, 1998",
        page="https://grouplens.org/datasets/movielens/100k/",
        read=movielens.read_100k,
        files=_U_FILES,
        folders=("ml-100k",),
        archive=Archive(f"{_GROUPLENS}/movielens/ml-100k.zip", "md5:0e33842e24a9c977be4e0107933c0723"),
        megabytes=4.9,
    ),
    Dataset(
        name="ml-1m",
        title="MovieLens 1M",
        about="1,000,209 ratings of 3,706 films by 6,040 users, 1 to 5 stars, 2003",
        page="https://grouplens.org/datasets/movielens/1m/",
        read=movielens.read_1m,
        files=("ratings.dat", "movies.dat", "users.dat"),
        folders=("ml-1m",),
        archive=Archive(f"{_GROUPLENS}/movielens/ml-1m.zip", "md5:c4d9eecfca2ab87c1945afe126590906"),
        megabytes=5.9,
    ),
    Dataset(
        name="ml-10m",
        title="MovieLens 10M",
        about="10,000,054 ratings of 10,677 films by 69,878 users, 0.5 to 5 stars, 2009",
        page="https://grouplens.org/datasets/movielens/10m/",
        read=movielens.read_10m,
        files=("ratings.dat", "movies.dat"),
        folders=("ml-10M100K", "ml-10m"),
        archive=Archive(f"{_GROUPLENS}/movielens/ml-10m.zip", "md5:ce571fd55effeba0271552578f2648bd"),
        megabytes=65.6,
    ),
    Dataset(
        name="ml-20m",
        title="MovieLens 20M",
        about="20,000,263 ratings of 26,744 films by 138,493 users, 0.5 to 5 stars, 2015",
        page="https://grouplens.org/datasets/movielens/20m/",
        read=movielens.read_csv,
        files=_CSV_FILES,
        folders=("ml-20m",),
        archive=Archive(f"{_GROUPLENS}/movielens/ml-20m.zip", "md5:cd245b17a1ae2cc31bb14903e1204af3"),
        megabytes=198.7,
    ),
    Dataset(
        name="ml-25m",
        title="MovieLens 25M",
        about="25,000,095 ratings of 59,047 films by 162,541 users, 0.5 to 5 stars, 2019",
        page="https://grouplens.org/datasets/movielens/25m/",
        read=movielens.read_csv,
        files=_CSV_FILES,
        folders=("ml-25m",),
        archive=Archive(f"{_GROUPLENS}/movielens/ml-25m.zip", "md5:6b51fb2759a8657d3bfcbfc42b592ada"),
        megabytes=262.0,
    ),
    Dataset(
        name="ml-32m",
        title="MovieLens 32M",
        about="32,000,204 ratings of 84,432 films by 200,948 users, 0.5 to 5 stars, 2024",
        page="https://grouplens.org/datasets/movielens/32m/",
        read=movielens.read_csv,
        files=_CSV_FILES,
        folders=("ml-32m",),
        archive=Archive(f"{_GROUPLENS}/movielens/ml-32m.zip", "md5:d472be332d4daa821edc399621853b57"),
        megabytes=239.0,
    ),
    Dataset(
        name="ml-latest-small",
        title="MovieLens Latest (small)",
        about="100,836 ratings of 9,724 films by 610 users, 0.5 to 5 stars, 2018; its owner may replace it",
        page="https://grouplens.org/datasets/movielens/latest/",
        read=movielens.read_csv,
        files=_CSV_FILES,
        folders=("ml-latest-small",),
        archive=Archive(f"{_GROUPLENS}/movielens/ml-latest-small.zip"),
        megabytes=1.0,
    ),
    Dataset(
        name="lastfm-360k",
        title="Last.fm 360K",
        about="17,559,530 listening counts of artists by 359,347 users, as log(1 + count), 2010",
        page="https://www.upf.edu/web/mtg/lastfm360k",
        read=lastfm.read_360k,
        files=("usersha1-artmbid-artname-plays.tsv", "usersha1-profile.tsv"),
        folders=("lastfm-dataset-360K", "lastfm-360k"),
        archive=Archive(
            "https://zenodo.org/records/6090214/files/lastfm-dataset-360K.tar.gz",
            "md5:635e6ed3fc873aa4ba33aba0ebce02b1",
        ),
        megabytes=569.2,
    ),
    Dataset(
        name="hetrec-lastfm-2k",
        title="Last.fm 2K (HetRec 2011)",
        about="92,834 listening counts of 17,632 artists by 1,892 users, as log(1 + count), with tags, 2011",
        page="https://grouplens.org/datasets/hetrec-2011/",
        read=lastfm.read_hetrec,
        files=("user_artists.dat", "artists.dat", "tags.dat", "user_taggedartists.dat"),
        folders=("hetrec2011-lastfm-2k", "hetrec-lastfm-2k"),
        archive=Archive(
            f"{_GROUPLENS}/hetrec2011/hetrec2011-lastfm-2k.zip",
            "sha256:6738f48195667ff03caaab4d32ca9a3133d8cc026b7c3cdaf6ce1010e913c59c",
        ),
        megabytes=2.6,
    ),
    Dataset(
        name="mind-small",
        title="MIND small",
        about="clicks of 50,000 users on news, by subcategory, as log(1 + clicks), 2020",
        page="https://msnews.github.io/",
        read=mind.read_small,
        files=("behaviors.tsv", "news.tsv"),
        folders=("MINDsmall_train", "mind-small"),
        archive=Archive(
            "https://huggingface.co/datasets/Recommenders/MIND/resolve/main/MINDsmall_train.zip",
            "sha256:6ef97a271580b98ccfc4301ada55cc639423cb0576a78b8dcfcf74a4dbcc3194",
        ),
        megabytes=53.0,
    ),
)

DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in _ALL}
