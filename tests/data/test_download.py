from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from recaudit.data import datasets
from recaudit.data.datasets import Archive, info
from recaudit.data.datasets.download import download, unpack
from recaudit.engines.progress import Step, listening
from recaudit.errors import DownloadError

Pack = Callable[[Mapping[str, bytes]], bytes]
MEGABYTE = 1 << 20
CONTENT = bytes(range(256)) * 4096 * 2 + b"the end"  # two megabytes and a bit


@dataclass
class Site:
    """An owner's site on this machine: what it serves, how it misbehaves, and what it was asked for."""

    files: dict[str, bytes] = field(default_factory=dict)
    knows_ranges: bool = True
    breaks_after: int | None = None
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    address: str = ""

    def url(self, name: str) -> str:
        return f"{self.address}/{name}"


def handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            site.asked.append((self.path, wanted))
            content = site.files.get(self.path.removeprefix("/"))
            if content is None:
                self.send_error(404)
                return
            start = 0
            if wanted and site.knows_ranges:
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start and start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            end = len(content) if site.breaks_after is None else start + site.breaks_after
            self.wfile.write(content[start:end])

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
            pass

    return Handler


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "*")
    site = Site()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(site))
    site.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("RECAUDIT_DATA", raising=False)
    return tmp_path / "cache" / "recaudit"


def md5(content: bytes) -> str:
    return "md5:" + hashlib.md5(content, usedforsecurity=False).hexdigest()


def sha256(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def zipped(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


# ---- the bytes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("digest", [md5(CONTENT), sha256(CONTENT)])
def test_a_file_arrives_whole_and_leaves_nothing_else(site: Site, tmp_path: Path, digest: str) -> None:
    site.files["a.zip"] = CONTENT
    download(site.url("a.zip"), tmp_path / "new" / "a.zip", digest)
    assert (tmp_path / "new" / "a.zip").read_bytes() == CONTENT
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["a.zip"]


def test_a_broken_download_is_kept_and_resumed_where_it_broke(site: Site, tmp_path: Path) -> None:
    site.files["a.zip"] = CONTENT
    site.breaks_after = 1_500_000
    target = tmp_path / "a.zip"
    with pytest.raises(DownloadError, match=r"broke off after 1,500,000 of 2,097,159 bytes.* 1\.5 MB are kept"):
        download(site.url("a.zip"), target, md5(CONTENT))
    assert not target.exists()
    assert (tmp_path / "a.zip.part").stat().st_size == 1_500_000

    site.breaks_after = None
    download(site.url("a.zip"), target, md5(CONTENT))
    assert target.read_bytes() == CONTENT
    assert site.asked == [("/a.zip", None), ("/a.zip", "bytes=1500000-")]


def test_a_server_without_ranges_starts_over(site: Site, tmp_path: Path) -> None:
    site.files["a.zip"] = CONTENT
    site.knows_ranges = False
    (tmp_path / "a.zip.part").write_bytes(CONTENT[:1000])
    download(site.url("a.zip"), tmp_path / "a.zip", md5(CONTENT))
    assert (tmp_path / "a.zip").read_bytes() == CONTENT


def test_a_part_that_is_already_complete_is_not_fetched_again(site: Site, tmp_path: Path) -> None:
    site.files["a.zip"] = CONTENT
    (tmp_path / "a.zip.part").write_bytes(CONTENT)
    download(site.url("a.zip"), tmp_path / "a.zip", md5(CONTENT))
    assert (tmp_path / "a.zip").read_bytes() == CONTENT
    assert site.asked == [("/a.zip", f"bytes={len(CONTENT)}-")]


def test_a_part_longer_than_the_file_is_thrown_away(site: Site, tmp_path: Path) -> None:
    site.files["a.zip"] = CONTENT
    (tmp_path / "a.zip.part").write_bytes(CONTENT + b"more")
    download(site.url("a.zip"), tmp_path / "a.zip", md5(CONTENT))
    assert (tmp_path / "a.zip").read_bytes() == CONTENT


def test_a_wrong_checksum_says_both_and_the_next_try_starts_over(site: Site, tmp_path: Path) -> None:
    site.files["a.zip"] = b"a captive portal's page"
    with pytest.raises(DownloadError) as caught:
        download(site.url("a.zip"), tmp_path / "a.zip", md5(CONTENT))
    for digest in (md5(CONTENT), md5(b"a captive portal's page")):
        assert digest.removeprefix("md5:") in str(caught.value)
    assert "23 bytes" in str(caught.value)
    assert list(tmp_path.iterdir()) == []

    site.files["a.zip"] = CONTENT
    download(site.url("a.zip"), tmp_path / "a.zip", md5(CONTENT))
    assert site.asked == [("/a.zip", None), ("/a.zip", None)]


@pytest.mark.parametrize("line", ["MD5 (a.zip) = {}\n", "{}  a.zip\n"])
def test_without_a_digest_the_owners_md5_file_is_believed(site: Site, tmp_path: Path, line: str) -> None:
    site.files["a.zip"] = CONTENT
    site.files["a.zip.md5"] = line.format(md5(CONTENT).removeprefix("md5:").upper()).encode()
    download(site.url("a.zip"), tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == CONTENT

    site.files["a.zip.md5"] = line.format("0" * 32).encode()
    with pytest.raises(DownloadError, match=f"expected md5 {'0' * 32}"):
        download(site.url("a.zip"), tmp_path / "b.zip")


def test_an_md5_file_without_an_md5_is_refused(site: Site, tmp_path: Path) -> None:
    site.files |= {"a.zip": CONTENT, "a.zip.md5": b"<html>not found</html>"}
    with pytest.raises(DownloadError, match="no MD5 checksum"):
        download(site.url("a.zip"), tmp_path / "a.zip")


def test_a_missing_file_names_its_address_and_the_answer(site: Site, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"/gone\.zip answered 404 Not Found"):
        download(site.url("gone.zip"), tmp_path / "gone.zip", md5(CONTENT))


def test_an_unreachable_server_is_a_download_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    closed = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    closed.server_close()
    address = f"http://127.0.0.1:{closed.server_port}/a.zip"
    with pytest.raises(DownloadError, match="refused"):
        download(address, tmp_path / "a.zip", md5(CONTENT))


def test_progress_counts_megabytes_and_what_was_there_before(site: Site, tmp_path: Path) -> None:
    site.files["a.zip"] = CONTENT
    (tmp_path / "a.zip.part").write_bytes(CONTENT[:MEGABYTE])
    steps: list[Step] = []
    with listening(steps.append):
        download(site.url("a.zip"), tmp_path / "a.zip", md5(CONTENT), label="a")
    assert [step.done for step in steps] == [0, 1, 2, 3, 3]
    assert {step.total for step in steps} == {3}
    assert {step.label for step in steps} == {"a"}


# ---- the archive ---------------------------------------------------------------------------------------

FILES = {"u.data": b"1\t2\t3\t4\n", "u.item": b"2|Film\n"}


@pytest.mark.parametrize("inside", ["", "ml-100k/", "./a/b/"])
@pytest.mark.parametrize(("ending", "pack"), [("zip", zipped), ("tar.gz", tarred)])
def test_wanted_files_and_the_readme_are_unpacked_flat(tmp_path: Path, ending: str, pack: Pack, inside: str) -> None:
    contents = {**FILES, "README": b"terms of use", "huge.csv": b"never read"}
    archive = tmp_path / f"a.{ending}"
    archive.write_bytes(pack({inside + name: content for name, content in contents.items()}))
    unpack(archive, tmp_path / "ml-100k", tuple(FILES))
    unpacked = {file.name: file.read_bytes() for file in (tmp_path / "ml-100k").iterdir()}
    assert unpacked == {**FILES, "README": b"terms of use"}
    assert {file.name for file in tmp_path.iterdir()} == {archive.name, "ml-100k"}


@pytest.mark.parametrize("outside", ["../u.item", "a/../../u.item", "/etc/u.item", "C:/u.item", "..\\u.item"])
@pytest.mark.parametrize(("ending", "pack"), [("zip", zipped), ("tar.gz", tarred)])
def test_an_archive_that_points_outside_is_refused(tmp_path: Path, ending: str, pack: Pack, outside: str) -> None:
    archive = tmp_path / f"a.{ending}"
    archive.write_bytes(pack({"u.data": b"", outside: b"evil"}))
    with pytest.raises(DownloadError, match=r"refused.*points outside"):
        unpack(archive, tmp_path / "ml-100k", tuple(FILES))
    assert [file.name for file in tmp_path.iterdir()] == [archive.name]


def test_a_link_in_an_archive_is_not_a_file(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        link = tarfile.TarInfo("u.data")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(link)
    with pytest.raises(DownloadError, match=r"lacks u\.data"):
        unpack(archive, tmp_path / "ml-100k", ("u.data",))


def test_an_archive_without_the_files_leaves_no_folder(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    archive.write_bytes(zipped({"u.data": b"1"}))
    with pytest.raises(DownloadError, match=r"lacks u\.item"):
        unpack(archive, tmp_path / "ml-100k", tuple(FILES))
    assert [file.name for file in tmp_path.iterdir()] == ["a.zip"]


def test_the_checksums_inside_a_zip_are_checked(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    archive.write_bytes(zipped({"u.data": b"unmistakable"}).replace(b"unmistakable", b"unmistakably"))
    with pytest.raises(DownloadError, match=r"a\.zip is damaged: Bad CRC-32"):
        unpack(archive, tmp_path / "ml-100k", ("u.data",))


@pytest.mark.parametrize(("ending", "pack"), [("zip", zipped), ("tar.gz", tarred)])
def test_a_cut_off_archive_is_damaged(tmp_path: Path, ending: str, pack: Pack) -> None:
    archive = tmp_path / f"a.{ending}"
    archive.write_bytes(pack({"u.data": CONTENT})[:-2000])
    with pytest.raises(DownloadError, match="is damaged"):
        unpack(archive, tmp_path / "ml-100k", ("u.data",))


def test_a_folder_with_some_of_the_files_is_completed(tmp_path: Path) -> None:
    folder = tmp_path / "ml-100k"
    folder.mkdir()
    (folder / "u.data").write_bytes(b"half of")
    (folder / "notes.txt").write_bytes(b"mine")
    archive = tmp_path / "a.zip"
    archive.write_bytes(zipped(FILES))
    unpack(archive, folder, tuple(FILES))
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {**FILES, "notes.txt": b"mine"}


# ---- a data set by name --------------------------------------------------------------------------------

ML_1M = {
    "ml-1m/ratings.dat": b"1::10::5::978300760\n1::20::3::978302109\n2::10::4::978301968\n",
    "ml-1m/movies.dat": b"10::Heat (1995)::Action\n20::Big: Again (1996)::Comedy|Drama\n",
    "ml-1m/users.dat": b"1::F::1::10::48067\n2::M::56::16::70072\n",
}


def publish(site: Site, monkeypatch: pytest.MonkeyPatch, content: bytes, digest: str | None) -> None:
    """Put ml-1m on the local site instead of its owner's."""
    site.files["ml-1m.zip"] = content
    moved = replace(info("ml-1m"), archive=Archive(site.url("ml-1m.zip"), digest))
    monkeypatch.setattr("recaudit.data.datasets.dataset.info", lambda name: moved)


def test_load_downloads_once(site: Site, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(site, monkeypatch, zipped(ML_1M), md5(zipped(ML_1M)))
    assert not datasets.info("ml-1m").ready
    assert len(datasets.load("ml-1m")) == 3
    assert len(datasets.load("ml-1m")) == 3
    assert datasets.fetch("ml-1m") == cache / "ml-1m"
    assert datasets.info("ml-1m").location == cache / "ml-1m"
    assert len(site.asked) == 1
    assert [file.name for file in cache.iterdir()] == ["ml-1m"]


def test_a_failed_fetch_says_what_to_put_where(site: Site, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(site, monkeypatch, b"", md5(CONTENT))
    del site.files["ml-1m.zip"]
    with pytest.raises(DownloadError) as caught:
        datasets.load("ml-1m")
    message = str(caught.value)
    for part in (
        "404 Not Found",
        site.url("ml-1m.zip"),
        "https://grouplens.org/datasets/movielens/1m/",
        "ratings.dat, movies.dat, users.dat",
        str(cache / "ml-1m"),
        "RECAUDIT_DATA",
    ):
        assert part in message

    (cache / "ml-1m").mkdir()
    for name, content in ML_1M.items():
        (cache / name).write_bytes(content)
    assert len(datasets.load("ml-1m")) == 3


def test_an_archive_that_was_verified_but_not_unpacked_is_used(
    site: Site, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(site, monkeypatch, b"", md5(CONTENT))
    cache.mkdir(parents=True)
    (cache / "ml-1m.zip").write_bytes(zipped(ML_1M))
    assert datasets.fetch("ml-1m") == cache / "ml-1m"
    assert site.asked == []


def test_a_damaged_archive_is_a_download_error_with_the_remedy(
    site: Site, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(site, monkeypatch, b"no zip at all", md5(b"no zip at all"))
    with pytest.raises(DownloadError, match=r"ml-1m could not be fetched: .* is damaged.* by hand"):
        datasets.fetch("ml-1m")
    assert not (cache / "ml-1m").exists()
