"""MIND, the Microsoft News data set, with news subcategories as the items (paper 000, appendix B.1)."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from recaudit.data.datasets.dataset import Archive, Dataset
from recaudit.data.datasets.formats import Layout, bad_line, read_file, read_numbered
from recaudit.data.interactions import Interactions
from recaudit.data.records import LINE
from recaudit.errors import DataError

_BEHAVIORS = Layout(
    ("impression", "user", "time", "history", "shown"),
    keep={"user": pl.String, "history": pl.String, "shown": pl.String},
    optional=frozenset({"history"}),
)
_NEWS = Layout(
    ("news", "category", "subcategory", "title", "abstract", "url", "title_entities", "abstract_entities"),
    keep={"news": pl.String, "category": pl.String, "subcategory": pl.String},
)

_SHOWN = r"^\S+-[01]$"


def read_small(folder: Path) -> Interactions:
    """Subcategories as items, a rating of log(1 + clicks), and the system "category" above them.

    A click is one article that the user opened, in the history or among the articles shown, counted once: the
    history stands again in each of the user's lines. Clicks on articles that news.tsv does not describe have
    no subcategory and are left out. A subcategory that stands under several categories has each of them in
    proportion to its articles.
    """
    behaviors, news = folder / "behaviors.tsv", folder / "news.tsv"
    articles = read_file(news, _NEWS)
    clicks = (
        _clicks(behaviors)
        .join(articles, on="news")
        .group_by("user", "subcategory")
        .agg(rating=pl.len().log1p())
        .rename({"subcategory": "item"})
    )
    if clicks.is_empty():
        raise DataError(
            str(behaviors),
            received="no click on any article of news.tsv",
            expected="clicks on articles that news.tsv describes",
            remedy="Take both files from the same archive.",
        )
    log = Interactions.from_frame(clicks, scale=(0.0, float(clicks["rating"].to_numpy().max())))
    parents = articles.group_by("subcategory", "category").len().sort("subcategory", "category")
    return log.with_categories("category", parents, item="subcategory", weight="len", unknown="ignore")


def _clicks(path: Path) -> pl.DataFrame:
    """One row for each user and article opened: columns user, news."""
    table = read_numbered(path, _BEHAVIORS).with_columns(pl.col("history", "shown").str.strip_chars().str.split(" "))
    shown = table.select(LINE, "user", news="shown").explode("news", empty_as_null=True)
    for line, _, article in shown.filter(~pl.col("news").str.contains(_SHOWN)).head(1).iter_rows():
        expected = "every article shown as N1-0, passed over, or as N1-1, opened"
        raise bad_line(path, line, received=article, expected=expected)
    opened = shown.drop(LINE).filter(pl.col("news").str.ends_with("-1"))
    history = table.select("user", news="history").explode("news", empty_as_null=True).drop_nulls()
    return pl.concat([opened.with_columns(pl.col("news").str.strip_suffix("-1")), history]).unique()


MIND_SMALL = Dataset(
    name="mind-small",
    title="MIND small",
    about="clicks of 50,000 users on news, by subcategory, as log(1 + clicks), 2020",
    page="https://msnews.github.io/",
    read=read_small,
    files=("behaviors.tsv", "news.tsv"),
    folders=("MINDsmall_train", "mind-small"),
    archive=Archive(
        "https://huggingface.co/datasets/Recommenders/MIND/resolve/main/MINDsmall_train.zip",
        "sha256:6ef97a271580b98ccfc4301ada55cc639423cb0576a78b8dcfcf74a4dbcc3194",
    ),
    megabytes=53.0,
)
