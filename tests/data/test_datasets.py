from __future__ import annotations

import os
from math import log
from pathlib import Path

import polars as pl
import pytest

from recaudit.data import datasets, synthetic
from recaudit.data.interactions import Interactions
from recaudit.errors import DataError, InputError
from recaudit.registry import DATASETS

REAL = os.environ.get("RECAUDIT_DATA")


@pytest.fixture(autouse=True)
def _away_from_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECAUDIT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write(folder: Path, files: dict[str, str], encoding: str = "utf-8") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_bytes(text.encode(encoding))
    return folder


def genres(data: Interactions, system: str = "genre") -> dict[object, dict[str, float]]:
    """The categories of each item, by id: {item: {category: weight}}."""
    categories = data.categories[system]
    rows = categories.weights.toarray()
    return {
        item: {name: float(weight) for name, weight in zip(categories.names, row, strict=True) if weight}
        for item, row in zip(data.item_ids, rows, strict=True)
    }


def rows(data: Interactions) -> list[tuple[object, ...]]:
    return data.frame().rows()


ML_100K = {
    "u.data": "5\t1\t3\t881250949\n2\t2\t5\t891717742\n5\t3\t1\t878887116\n",
    "u.genre": "unknown|0\nAction|1\nComedy|2\n\n",
    "u.item": (
        "1|Café (1995)|01-Jan-1995||http://a|0|0|1\n"
        "2|GoldenEye (1995)|01-Jan-1995||http://b|0|1|1\n"
        "3|unknown||||1|0|0\n"
        "4|Never Rated (1996)|||http://d|0|1|0\n"
    ),
    "u.user": "2|53|F|other|94043\n5|7|M|student|T8H1N\n9|30|F|writer|00000\n",
}
ML_1M = {
    "ratings.dat": "1::1193::5::978300760\n1::661::3::978302109\n2::1193::4::978298413\n",
    "movies.dat": (
        "661::Déjà Vu: The Return (1996)::Animation|Children's\n"
        "1193::One Flew (1975)::Drama\n"
        "9999::Never Rated (1999)::Comedy\n"
    ),
    "users.dat": "1::F::1::10::48067\n2::M::56::0::70072\n",
}
ML_10M = {
    "ratings.dat": "1::122::5::838985046\n1::185::4.5::838983525\n7::122::0.5::838983392\n",
    "movies.dat": "122::Amélie: 日本 (2001)::Comedy|Romance\n185::Pull My Daisy (1958)::(no genres listed)\n",
}
ML_CSV = {
    "ratings.csv": "userId,movieId,rating,timestamp\r\n1,2,3.5,1112486027\r\n1,29,0.5,1112484676\r\n",
    "movies.csv": (
        "movieId,title,genres\r\n"
        '2,"Jumanji, or the ""Game"" (1995)",Adventure|Children\r\n'
        "29,Amélie (2001),(no genres listed)\r\n"
        "30,Never Rated (2001),Drama\r\n"
    ),
}
LASTFM_360K = {
    "usersha1-artmbid-artname-plays.tsv": (
        "aa11\tmbid-1\tdie Ärzte\t9\n"
        "aa11\tmbid-1\tdie ärzte\t10\n"
        'aa11\t\t"weird" name\t3\n'
        "bb22\tmbid-1\tdie Ärzte\t0\n"
        "bb22\tmbid-2\t\t1\n"
        "bb22\t\t\t50\n"
    ),
    "usersha1-profile.tsv": ("aa11\tf\t22\tGermany\tFeb 1, 2007\nbb22\t\t\tCanada\tDec 4, 2007\ncc33\tm\t-5\t\t\n"),
}
HETREC = {
    "user_artists.dat": "userID\tartistID\tweight\r\n2\t51\t13883\r\n2\t52\t1\r\n4\t51\t228\r\n",
    "artists.dat": (
        "id\tname\turl\tpictureURL\n"
        '51\tDuran "Wild" Duran\thttp://a\thttp://b\n'
        "52\tBjörk\thttp://c\t\n"
        "99\tNever Heard\thttp://e\thttp://f\n"
    ),
    "user_taggedartists.dat": (
        "userID\tartistID\ttagID\tday\tmonth\tyear\r\n"
        "2\t51\t1\t1\t4\t2009\r\n4\t51\t1\t1\t4\t2009\r\n4\t51\t2\t1\t4\t2009\r\n2\t99\t2\t1\t4\t2009\r\n"
    ),
}
MIND = {
    "behaviors.tsv": (
        "1\tU1\t11/12/2019 2:14:46 PM\tN1 N2 N1\tN3-0 N4-1\n"
        "2\tU1\t11/13/2019 5:53:12 AM\tN1 N2 N4\tN5-1 N3-0\n"
        "3\tU2\t11/13/2019 5:53:12 AM\t\tN1-1 N9-1\n"
        "4\tU3\t11/13/2019 5:53:12 AM\tN9\tN1-0\n"
    ),
    "news.tsv": "".join(
        f'{news}\t{category}\t{sub}\tA "title\tabout\thttp://a\t[]\t[]\n'
        for news, category, sub in [
            ("N1", "sports", "golf"),
            ("N2", "sports", "golf"),
            ("N3", "news", "politics"),
            ("N4", "news", "video"),
            ("N5", "sports", "golf"),
            ("N6", "tv", "video"),
            ("N7", "tv", "video"),
            ("N8", "tv", "video"),
        ]
    ),
}
OWNERS = {
    "ml-100k": ("ml-100k", ML_100K, "latin-1"),
    "ml-1m": ("ml-1m", ML_1M, "latin-1"),
    "ml-10m": ("ml-10M100K", ML_10M, "utf-8"),
    "ml-20m": ("ml-20m", ML_CSV, "utf-8"),
    "ml-25m": ("ml-25m", ML_CSV, "utf-8"),
    "ml-32m": ("ml-32m", ML_CSV, "utf-8"),
    "ml-latest-small": ("ml-latest-small", ML_CSV, "utf-8"),
    "lastfm-360k": ("lastfm-dataset-360K", LASTFM_360K, "utf-8"),
    "hetrec-lastfm-2k": ("hetrec2011-lastfm-2k", HETREC, "utf-8"),
    "mind-small": ("MINDsmall_train", MIND, "utf-8"),
}


def put(parent: Path, name: str) -> Path:
    """The small files of a data set, in a folder with its owner's name."""
    folder, files, encoding = OWNERS[name]
    put_there = write(parent / folder, files, encoding)
    if name == "hetrec-lastfm-2k":
        write(put_there, {"tags.dat": "tagID\ttagValue\r\n1\tpop\r\n2\tchanson française\r\n"}, "latin-1")
    return put_there


# ---- what each owner's files say -----------------------------------------------------------------------


def test_ml_100k(tmp_path: Path) -> None:
    data = datasets.load("ml-100k", put(tmp_path, "ml-100k"))
    assert rows(data) == [(2, 2, 5.0, 891717742), (5, 1, 3.0, 881250949), (5, 3, 1.0, 878887116)]
    assert data.scale == (1.0, 5.0)
    assert data.titles is not None
    assert data.titles.to_list() == ["Café (1995)", "GoldenEye (1995)", "unknown"]
    assert genres(data) == {1: {"Comedy": 1}, 2: {"Action": 0.5, "Comedy": 0.5}, 3: {"unknown": 1}}
    assert data.attributes.to_dicts() == [
        {"gender": "F", "age": "50-55", "occupation": "other"},
        {"gender": "M", "age": "Under 18", "occupation": "student"},
    ]


def test_ml_1m(tmp_path: Path) -> None:
    data = datasets.load("ml-1m", put(tmp_path, "ml-1m"))
    assert rows(data) == [(1, 661, 3.0, 978302109), (1, 1193, 5.0, 978300760), (2, 1193, 4.0, 978298413)]
    assert data.scale == (1.0, 5.0)
    assert data.titles is not None
    assert data.titles.to_list() == ["Déjà Vu: The Return (1996)", "One Flew (1975)"]
    assert genres(data) == {661: {"Animation": 0.5, "Children's": 0.5}, 1193: {"Drama": 1}}
    assert data.attributes.to_dicts() == [
        {"gender": "F", "age": "Under 18", "occupation": "K-12 student"},
        {"gender": "M", "age": "56+", "occupation": "other or not specified"},
    ]


def test_ml_10m(tmp_path: Path) -> None:
    data = datasets.load("ml-10m", put(tmp_path, "ml-10m"))
    assert rows(data) == [(1, 122, 5.0, 838985046), (1, 185, 4.5, 838983525), (7, 122, 0.5, 838983392)]
    assert data.scale == (0.5, 5.0)
    assert data.titles is not None
    assert data.titles[0] == "Amélie: 日本 (2001)"
    assert genres(data) == {122: {"Comedy": 0.5, "Romance": 0.5}, 185: {}}
    assert data.attributes.width == 0


@pytest.mark.parametrize("name", ["ml-20m", "ml-25m", "ml-32m", "ml-latest-small"])
def test_movielens_as_csv(tmp_path: Path, name: str) -> None:
    data = datasets.load(name, put(tmp_path, name))
    assert rows(data) == [(1, 2, 3.5, 1112486027), (1, 29, 0.5, 1112484676)]
    assert data.scale == (0.5, 5.0)
    assert data.titles is not None
    assert data.titles.to_list() == ['Jumanji, or the "Game" (1995)', "Amélie (2001)"]
    assert genres(data) == {2: {"Adventure": 0.5, "Children": 0.5}, 29: {}}


def test_lastfm_360k_names_artists_without_an_id_and_adds_up_repeated_rows(tmp_path: Path) -> None:
    data = datasets.load("lastfm-360k", put(tmp_path, "lastfm-360k"))
    expected = [
        ("aa11", '"weird" name', log(4)),
        ("aa11", "mbid-1", log(20)),
        ("bb22", "mbid-1", 0.0),
        ("bb22", "mbid-2", log(2)),
    ]
    assert [row[:2] for row in rows(data)] == [row[:2] for row in expected]
    assert data.ratings.tolist() == pytest.approx([row[2] for row in expected])
    assert data.scale == pytest.approx((0, log(20)))
    assert data.times is None
    assert data.titles is not None
    assert data.titles.to_list() == ['"weird" name', "die Ärzte", None]
    assert data.attributes.to_dicts() == [
        {"gender": "F", "age": "18-24", "country": "Germany"},
        {"gender": None, "age": None, "country": "Canada"},
    ]


def test_hetrec_weighs_tags_by_how_often_they_were_given(tmp_path: Path) -> None:
    data = datasets.load("hetrec-lastfm-2k", put(tmp_path, "hetrec-lastfm-2k"))
    assert [row[:2] for row in rows(data)] == [(2, 51), (2, 52), (4, 51)]
    assert data.ratings.tolist() == pytest.approx([log(13884), log(2), log(229)])
    assert data.scale == pytest.approx((0, log(13884)))
    assert data.titles is not None
    assert data.titles.to_list() == ['Duran "Wild" Duran', "Björk"]
    assert genres(data, "tag") == {51: pytest.approx({"pop": 2 / 3, "chanson française": 1 / 3}), 52: {}}


def test_hetrec_keeps_the_fifty_tags_given_most_often(tmp_path: Path) -> None:
    folder = put(tmp_path, "hetrec-lastfm-2k")
    numbers = range(1, 61)
    tags = "".join(f"{number}\ttag{number:02}\r\n" for number in numbers)
    given = "".join(f"{user}\t51\t{number}\t1\t4\t2009\r\n" for number in numbers for user in range(number))
    write(folder, {"tags.dat": f"tagID\ttagValue\r\n{tags}"})
    write(folder, {"user_taggedartists.dat": f"userID\tartistID\ttagID\tday\tmonth\tyear\r\n{given}"})
    names = datasets.load("hetrec-lastfm-2k", folder).categories["tag"].names
    assert names == tuple(f"tag{number:02}" for number in range(11, 61))


def test_mind_counts_each_article_once_and_rates_subcategories(tmp_path: Path) -> None:
    data = datasets.load("mind-small", put(tmp_path, "mind-small"))
    # U1 opened N1, N2, N5 (golf) and N4 (video); U2 opened N1 and the unknown N9; U3 nothing that is known.
    assert [row[:2] for row in rows(data)] == [("U1", "golf"), ("U1", "video"), ("U2", "golf")]
    assert data.ratings.tolist() == pytest.approx([log(4), log(2), log(2)])
    assert data.scale == pytest.approx((0, log(4)))
    assert genres(data, "category") == {"golf": {"sports": 1}, "video": {"news": 0.25, "tv": 0.75}}


def test_demo_is_generated() -> None:
    assert datasets.load("demo").fingerprint == synthetic.demo().fingerprint


@pytest.mark.parametrize("name", OWNERS)
def test_the_order_of_lines_does_not_matter(tmp_path: Path, name: str) -> None:
    folder = put(tmp_path, name)
    before = datasets.load(name, folder).fingerprint
    for file in folder.iterdir():
        lines = file.read_bytes().splitlines(keepends=True)
        head = [] if name.startswith(("ml-1", "lastfm", "mind")) else [lines.pop(0)]
        file.write_bytes(b"".join(head + lines[::-1]))
    assert datasets.load(name, folder).fingerprint == before


# ---- where files are looked for ------------------------------------------------------------------------


@pytest.mark.parametrize("name", OWNERS)
def test_files_are_found_by_path_by_variable_and_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert datasets.locate(name) is None
    cached = put(tmp_path / "cache" / "recaudit", name)
    assert datasets.locate(name) == cached
    named = put(tmp_path / "variable", name)
    for value in (named, named.parent):
        monkeypatch.setenv("RECAUDIT_DATA", str(value))
        assert datasets.locate(name) == named
        assert datasets.info(name).location == named
        assert datasets.fetch(name) == named
    given = put(tmp_path / "path", name)
    for path in (given, str(given), given.parent):
        assert datasets.locate(name, path) == given


def test_a_path_may_have_any_name(tmp_path: Path) -> None:
    folder = put(tmp_path, "mind-small").rename(tmp_path / "mind-small-sample")
    assert datasets.load("mind-small", folder).n_users == 2


def test_a_folder_is_not_taken_for_another_data_set_with_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = put(tmp_path, "ml-25m")
    monkeypatch.setenv("RECAUDIT_DATA", str(folder))
    assert datasets.locate("ml-20m") is None
    with pytest.raises(DataError, match=r"ml-25m, which by its name holds 'ml-25m'"):
        datasets.load("ml-20m", folder)


def test_a_path_without_the_files_says_which_are_missing(tmp_path: Path) -> None:
    folder = put(tmp_path, "ml-1m")
    (folder / "users.dat").unlink()
    for path in (folder, tmp_path):
        with pytest.raises(DataError, match=r"ml-1m, which lacks users\.dat; expected a folder with ratings"):
            datasets.load("ml-1m", path)
    with pytest.raises(DataError, match="nowhere, which is no folder"):
        datasets.load("ml-1m", tmp_path / "nowhere")


def test_a_variable_that_names_no_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECAUDIT_DATA", str(tmp_path / "mispelt"))
    with pytest.raises(DataError, match=r"RECAUDIT_DATA: received .*mispelt; expected a folder that exists"):
        datasets.load("ml-1m")


# ---- the catalogue -------------------------------------------------------------------------------------


def test_the_catalogue_lists_every_name_with_what_it_needs(tmp_path: Path) -> None:
    put(tmp_path / "cache" / "recaudit", "ml-1m")
    listed = {entry.name: entry for entry in datasets.catalogue()}
    assert list(listed) == datasets.names()
    assert set(listed) == {"demo", *OWNERS}
    assert listed["demo"].ready
    assert (listed["demo"].files, listed["demo"].megabytes, listed["demo"].location) == ((), 0, None)
    assert [name for name, entry in listed.items() if entry.ready] == ["demo", "ml-1m"]
    for name in OWNERS:
        entry = listed[name]
        assert entry.page.startswith("https://")
        assert entry.megabytes > 0
        assert entry.files
        assert entry == datasets.info(name)


@pytest.mark.parametrize("name", OWNERS)
def test_every_archive_can_be_verified_and_is_found_after_fetching(name: str) -> None:
    dataset = DATASETS[name]
    assert dataset.archive is not None
    assert dataset.archive.url.startswith("https://")
    assert dataset.name in dataset.folders
    if name == "ml-latest-small":
        assert dataset.archive.digest is None
    else:
        assert dataset.archive.digest is not None
        algorithm, _, value = dataset.archive.digest.partition(":")
        assert len(bytes.fromhex(value)) == {"md5": 16, "sha256": 32}[algorithm]


def test_an_unknown_name_suggests_the_nearest() -> None:
    for call in (datasets.load, datasets.info, datasets.locate, datasets.fetch):
        with pytest.raises(InputError, match=r"name: received 'ml1m'; .* Did you mean 'ml-1m'\?"):
            call("ml1m")


def test_generated_data_needs_no_files(tmp_path: Path) -> None:
    assert datasets.locate("demo") is None
    with pytest.raises(InputError, match="Demo is generated"):
        datasets.fetch("demo")
    with pytest.raises(InputError, match="path: received"):
        datasets.load("demo", tmp_path)


# ---- the owners' own files, where they are at hand -----------------------------------------------------

REAL_SIZES = {
    "ml-100k": (943, 1_682, 100_000, "genre", 19),
    "ml-1m": (6_040, 3_706, 1_000_209, "genre", 18),
    "ml-latest-small": (610, 9_724, 100_836, "genre", 19),
    "hetrec-lastfm-2k": (1_892, 17_632, 92_834, "tag", 50),
}


@pytest.mark.skipif(REAL is None, reason="RECAUDIT_DATA names no folder with the owners' files")
@pytest.mark.parametrize("name", REAL_SIZES)
def test_the_published_numbers(name: str) -> None:
    assert REAL is not None
    data = datasets.load(name, REAL)
    system = REAL_SIZES[name][3]
    sizes = (data.n_users, data.n_items, len(data), system, len(data.categories[system].names))
    assert sizes == REAL_SIZES[name]
    assert data.titles is not None
    assert data.titles.null_count() == 0
    assert not any(column.null_count() for column in data.attributes)
    assert data.attributes.width == (3 if name in ("ml-100k", "ml-1m") else 0)


@pytest.mark.skipif(REAL is None, reason="RECAUDIT_DATA names no folder with the owners' files")
def test_ml_1m_is_right_in_every_field_of_some_known_rows() -> None:
    assert REAL is not None
    data = datasets.load("ml-1m", REAL)
    first = data.frame().filter((pl.col("user") == 1) & (pl.col("item") == 1193))
    assert first.rows() == [(1, 1193, 5.0, 978300760)]
    assert data.item_labels(data.items_at([1, 73])) == ["Toy Story (1995)", "Misérables, Les (1995)"]
    assert genres(data)[1] == pytest.approx({"Animation": 1 / 3, "Children's": 1 / 3, "Comedy": 1 / 3})
    assert data.attributes.row(int(data.users_at([3])[0])) == ("M", "25-34", "scientist")
