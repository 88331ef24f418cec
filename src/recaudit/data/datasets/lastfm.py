"""Last.fm: how often people listened to artists; a rating is log(1 + count) (paper 000, section 5.1)."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from recaudit.data.datasets.dataset import Archive, Dataset
from recaudit.data.datasets.formats import Layout, age_group, read_file
from recaudit.data.interactions import Interactions

_COUNTS = (0.0, float("inf"))
_USER_ARTISTS = Layout(
    ("userID", "artistID", "weight"),
    keep={"userID": pl.Int32, "artistID": pl.Int32, "weight": pl.Int64},
    ranges={"weight": _COUNTS},
    header=True,
)
_ARTISTS = Layout(
    ("id", "name", "url", "pictureURL"),
    keep={"id": pl.Int32, "name": pl.String},
    header=True,
)
_TAGS = Layout(
    ("tagID", "tagValue"),
    keep={"tagID": pl.Int32, "tagValue": pl.String},
    header=True,
    encoding="latin-1",
)
_TAGGED = Layout(
    ("userID", "artistID", "tagID", "day", "month", "year"),
    keep={"artistID": pl.Int32, "tagID": pl.Int32},
    header=True,
)
_TOP_TAGS = 50

# Each id stands in many of the 17.5 million rows: as categories they are kept, and hashed, once.
_PLAYS_360K = Layout(
    ("user", "mbid", "artist", "plays"),
    keep={"user": pl.Categorical, "mbid": pl.Categorical, "artist": pl.Categorical, "plays": pl.Int64},
    optional=frozenset({"mbid", "artist"}),
    ranges={"plays": _COUNTS},
)
_PROFILES_360K = Layout(
    ("user", "gender", "age", "country", "signup"),
    keep={"user": pl.String, "gender": pl.String, "age": pl.Int64, "country": pl.String},
    optional=frozenset({"gender", "age", "country"}),
)


def read_hetrec(folder: Path) -> Interactions:
    """HetRec 2011: artists as items, and the 50 tags that users gave most often as the system "tag".

    An artist's tags weigh as often as users gave them; an artist with none of the 50 has no category.
    """
    plays = read_file(folder / "user_artists.dat", _USER_ARTISTS)
    log = _log(plays.select(user="userID", item="artistID", plays="weight"))
    log = log.with_items(read_file(folder / "artists.dat", _ARTISTS), item="id", title="name", unknown="ignore")
    heard = pl.Series("artistID", log.item_ids).implode()
    given = read_file(folder / "user_taggedartists.dat", _TAGGED).filter(pl.col("artistID").is_in(heard))
    counts = given.join(read_file(folder / "tags.dat", _TAGS), on="tagID")
    by_use = counts.group_by("tagValue").len().sort(["len", "tagValue"], descending=[True, False])
    tags = (
        counts.join(by_use.head(_TOP_TAGS), on="tagValue", how="semi")
        .group_by(["artistID", "tagValue"])
        .agg(pl.len().alias("times"))
        .sort(["artistID", "tagValue"])
    )
    return log.with_categories("tag", tags, item="artistID", category="tagValue", weight="times")


def read_360k(folder: Path) -> Interactions:
    """Last.fm 360K: an artist's id is the MusicBrainz id, or the name where there is none.

    Several rows of one user and artist are added up. Rows that name no artist at all are left out.
    """
    plays = (
        read_file(folder / "usersha1-artmbid-artname-plays.tsv", _PLAYS_360K)
        .lazy()
        .with_columns(item=pl.coalesce("mbid", "artist"))
        .filter(pl.col("item").is_not_null())
        .group_by("user", "item")
        .agg(pl.sum("plays"), pl.first("artist"))
        .collect()
    )
    log = _log(plays)
    names = (
        plays.drop_nulls("artist")
        .group_by("item", "artist")
        .len()
        .cast({"artist": pl.String})
        .sort(["len", "artist"], descending=[True, False])
        .unique("item", keep="first", maintain_order=True)
    )
    profiles = read_file(folder / "usersha1-profile.tsv", _PROFILES_360K).with_columns(
        age=age_group(), gender=pl.col("gender").str.to_uppercase()
    )
    return log.with_items(names, title="artist").with_users(
        profiles, attributes=["gender", "age", "country"], unknown="ignore"
    )


def _log(plays: pl.DataFrame) -> Interactions:
    """Columns user, item, plays as a log; 0, the lowest rating, is an artist never listened to."""
    rated = plays.select("user", "item", rating=pl.col("plays").log1p())
    return Interactions.from_frame(rated, scale=(0.0, float(rated["rating"].to_numpy().max())))


LASTFM_360K = Dataset(
    name="lastfm-360k",
    title="Last.fm 360K",
    about="17,559,530 listening counts of artists by 359,347 users, as log(1 + count), 2010",
    page="https://www.upf.edu/web/mtg/lastfm360k",
    read=read_360k,
    files=("usersha1-artmbid-artname-plays.tsv", "usersha1-profile.tsv"),
    folders=("lastfm-dataset-360K", "lastfm-360k"),
    archive=Archive(
        "https://zenodo.org/records/6090214/files/lastfm-dataset-360K.tar.gz",
        "md5:635e6ed3fc873aa4ba33aba0ebce02b1",
    ),
    megabytes=569.2,
)

HETREC_LASTFM_2K = Dataset(
    name="hetrec-lastfm-2k",
    title="Last.fm 2K (HetRec 2011)",
    about="92,834 listening counts of 17,632 artists by 1,892 users, as log(1 + count), with tags, 2011",
    page="https://grouplens.org/datasets/hetrec-2011/",
    read=read_hetrec,
    files=("user_artists.dat", "artists.dat", "tags.dat", "user_taggedartists.dat"),
    folders=("hetrec2011-lastfm-2k", "hetrec-lastfm-2k"),
    archive=Archive(
        "https://files.grouplens.org/datasets/hetrec2011/hetrec2011-lastfm-2k.zip",
        "sha256:6738f48195667ff03caaab4d32ca9a3133d8cc026b7c3cdaf6ce1010e913c59c",
    ),
    megabytes=2.6,
)
