"""Write Last.fm 2K (HetRec 2011) as plain files: artists with at least ten listeners, log(1 + count), and their tags.

python examples/libraries/prepare.py
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

import recaudit as ra

FOLDER = Path(__file__).parent / "data"


def main() -> None:
    """Fetch the data set, unless it is here, and write two files."""
    data = ra.datasets.load("hetrec-lastfm-2k")
    log = data.frame()
    heard = log.group_by("item").len().filter(pl.col("len") >= 10)["item"]
    FOLDER.mkdir(exist_ok=True)
    log.filter(pl.col("item").is_in(heard.implode())).write_csv(FOLDER / "plays.csv")
    tags = data.categories["tag"]
    shares = tags.weights.toarray()
    rows = [
        {
            "item": item,
            "artist": title,
            "tags": "|".join(tags.names[tag] for tag in row.argsort()[::-1][:3] if row[tag]),
        }
        for item, title, row in zip(data.item_ids, data.titles, shares, strict=True)
    ]
    pl.DataFrame(rows).filter(pl.col("item").is_in(heard.implode())).write_csv(FOLDER / "artists.csv")


if __name__ == "__main__":
    main()
