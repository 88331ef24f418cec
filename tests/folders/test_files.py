"""Files of a run folder are opened only if they are regular and inside the folder."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from recaudit.errors import DamagedError
from recaudit.folders.files import irregularity, open_input, open_regular, read_regular


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "run"
    (made / "results").mkdir(parents=True)
    (made / "results" / "a").write_bytes(b"one")
    (tmp_path / "secret").write_bytes(b"secret")
    return made


def test_a_regular_file_is_read(root: Path) -> None:
    assert read_regular(root / "results" / "a", root) == b"one"
    with open_regular(root / "results" / "a", root) as file:
        assert file.read() == b"one"


def test_the_root_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    link = tmp_path / "latest"
    link.symlink_to(root)
    assert read_regular(link / "results" / "a", link) == b"one"


@pytest.mark.parametrize("target", ["../secret", "results/a", "nowhere"])
def test_a_link_is_refused_wherever_it_leads(root: Path, target: str) -> None:
    (root / "link").symlink_to(target)
    assert irregularity(root / "link", root) == "link"
    with pytest.raises(DamagedError, match="symbolic link"):
        open_regular(root / "link", root)


def test_a_folder_that_is_a_link_is_refused(root: Path, tmp_path: Path) -> None:
    (root / "results").rename(tmp_path / "elsewhere")
    (root / "results").symlink_to(tmp_path / "elsewhere")
    assert irregularity(root / "results" / "a", root) == "link"
    with pytest.raises(DamagedError, match="symbolic link"):
        open_regular(root / "results" / "a", root)


def test_a_link_that_appears_after_the_check_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "link").symlink_to("../secret")
    (root / "folder").symlink_to("results")
    monkeypatch.setattr("recaudit.folders.files.irregularity", lambda *_: None)
    with pytest.raises(DamagedError, match="symbolic link"):
        open_regular(root / "link", root)
    with pytest.raises((DamagedError, FileNotFoundError)):
        open_regular(root / "folder" / "a", root)


def test_pipes_sockets_devices_and_folders_are_refused_at_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)  # the address of a socket is short
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    for name in ("pipe", "socket", "results"):
        assert irregularity(root / name, root) == "special"
        with pytest.raises(DamagedError, match="not a regular file"):
            open_regular(root / name, root)
    with pytest.raises(DamagedError, match="not a regular file"):
        open_regular(Path("/dev/null"), Path("/dev"))
    with pytest.raises(DamagedError, match="not a regular file"):
        open_input(root / "pipe")


@pytest.mark.parametrize("name", ["nothing", "results/a/b", "x" * 5000, "x/" * 3000])
def test_a_file_that_is_not_there(root: Path, name: str) -> None:
    assert irregularity(root / name, root) is None
    with pytest.raises(FileNotFoundError):
        open_regular(root / name, root)


@pytest.mark.parametrize("name", ["../secret", "results/../../secret", "/etc/passwd", ""])
def test_no_path_leads_out_of_the_root(root: Path, name: str) -> None:
    with pytest.raises(DamagedError, match="not inside"):
        open_regular(root / name, root)


def test_an_input_may_be_reached_through_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("secret")
    with open_input(tmp_path / "link") as file:
        assert file.read() == b"secret"
    with pytest.raises(FileNotFoundError):
        open_input(tmp_path / "nothing")
