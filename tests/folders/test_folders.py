"""A folder says what it holds, notices what is no longer so, and lets nobody lead it elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from folders.forged import forge
from recaudit import lock
from recaudit.errors import DamagedError, DamageWarning, InputError
from recaudit.folders import MANIFEST, Folder, Manifest, claimed, keep, read_manifest, verify
from recaudit.version import __version__


def new(kind: Any = "audit", folders: tuple[str, ...] = (), **plan: object) -> Manifest:
    return Manifest(kind=kind, recaudit=__version__, plan=plan, folders=dict.fromkeys(folders))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder.begin(tmp_path / "run", new())
    made.put({"results/a": b"one", "results/b": b"two", "report.html": b"page"})
    return made


class TestReading:
    def test_a_file_is_as_it_was_written_or_it_is_not_read(self, folder: Folder) -> None:
        assert Folder.open(folder.path, "audit").checked("results/a").read_bytes() == b"one"
        (folder.path / "results" / "a").write_bytes(b"onE")
        with pytest.raises(DamagedError, match=r"results/a, which is not as it was written.*Run the same command"):
            Folder.open(folder.path, "audit").checked("results/a")
        (folder.path / "results" / "a").unlink()
        with pytest.raises(DamagedError, match="results/a, which is missing"):
            Folder.open(folder.path, "audit").checked("results/a")

    def test_a_folder_of_another_kind(self, folder: Folder) -> None:
        with pytest.raises(InputError, match="the folder of an audit; expected one of a trial"):
            Folder.open(folder.path, "trial")

    def test_every_byte_of_the_manifest_counts(self, folder: Folder) -> None:
        file = folder.path / MANIFEST
        content = file.read_bytes()
        assert read_manifest(folder.path) == folder.manifest
        for place in range(len(content)):
            file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises(DamagedError, match="Put it back from a copy"):
                read_manifest(folder.path)
        for size in range(len(content)):
            file.write_bytes(content[:size])
            with pytest.raises(DamagedError, match=MANIFEST):
                read_manifest(folder.path)

    @pytest.mark.parametrize("content", [b"[]", b"1", b"{}", b"null", b"[" * 100_000, b'{"sha256": 1}', b"\xff"])
    def test_what_is_no_manifest(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / MANIFEST).write_bytes(content)
        with pytest.raises(DamagedError, match="recaudit leaves this one as it is"):
            read_manifest(tmp_path)
        (finding,) = verify(tmp_path).lost
        assert (finding.name, finding.fault) == (MANIFEST, "damaged")


def forged(path: Path, **changes: object) -> None:
    """A manifest with other fields."""
    forge(path, lambda content: content.update(changes))


class TestStrangers:
    @pytest.mark.parametrize("name", ["../victim", "/etc/passwd", "a/../../victim", "", ".", "a\\b", "C:x", "a//b"])
    @pytest.mark.parametrize("field", ["files", "folders"])
    def test_no_name_leads_out_of_the_folder(self, folder: Folder, name: str, field: str) -> None:
        victim = folder.path.parent / "victim"
        victim.write_text("mine")
        forged(folder.path, **{field: {name: {"bytes": 1, "sha256": "0"} if field == "files" else "0"}})
        with pytest.raises(DamagedError):
            Folder.open(folder.path, "audit")
        assert victim.read_text() == "mine"

    def test_a_forged_manifest_with_a_good_name_is_read(self, folder: Folder) -> None:
        forged(folder.path, status="complete")
        assert Folder.open(folder.path, "audit").manifest.status == "complete"

    def test_links_are_not_followed(self, folder: Folder) -> None:
        elsewhere = folder.path.parent / "elsewhere"
        (folder.path / "results").rename(elsewhere)
        (folder.path / "results").symlink_to(elsewhere)
        found = verify(folder.path)
        assert {(finding.name, finding.fault) for finding in found.lost} == {
            ("results/a", "link"),
            ("results/b", "link"),
        }
        assert [(finding.name, finding.fault) for finding in found.irregular] == [("results", "link")]
        with pytest.raises(DamagedError, match="symbolic link"):
            Folder.open(folder.path, "audit").checked("results/a")
        folder.put({}, without=["results/a"])
        folder.put({"results/b": b"new"})
        assert {path.name: path.read_bytes() for path in elsewhere.iterdir()} == {"a": b"one", "b": b"two"}
        assert verify(folder.path).lost == ()

    def test_nothing_is_removed_or_written_through_a_link_to_a_folder_inside(self, tmp_path: Path) -> None:
        with claimed(tmp_path / "run", new("comparison", ("A/x",))) as run:
            Folder.begin(run.path / "A/x", new("trial"), nested=True).put({"a": b"mine"}, status="complete")
            run.complete()
        (run.path / "A").rename(tmp_path / "elsewhere")
        (run.path / "A").symlink_to(tmp_path / "elsewhere")
        with (
            pytest.warns(DamageWarning, match=rf"A/x/{MANIFEST} \(missing\)"),
            claimed(run.path, new("comparison", ("A/x",))) as again,
        ):
            assert again.manifest.status == "running"
        assert not (run.path / "A").exists()
        assert (tmp_path / "elsewhere" / "x" / "a").read_bytes() == b"mine"

    def test_the_manifest_is_not_read_through_a_link(self, folder: Folder, tmp_path: Path) -> None:
        (folder.path / MANIFEST).rename(tmp_path / "theirs")
        (folder.path / MANIFEST).symlink_to(tmp_path / "theirs")
        with pytest.raises(DamagedError, match="symbolic link"):
            Folder.open(folder.path, "audit")
        assert [(finding.name, finding.fault) for finding in verify(folder.path).lost] == [(MANIFEST, "link")]

    def test_a_pipe_in_the_place_of_a_file_does_not_block(self, folder: Folder) -> None:
        for name in ("results/a", MANIFEST):
            (folder.path / name).unlink()
            os.mkfifo(folder.path / name)
            assert ("results/a" if name != MANIFEST else MANIFEST, "special") in {
                (finding.name, finding.fault) for finding in verify(folder.path).lost
            }
        with pytest.raises(DamagedError, match="not a regular file"):
            Folder.open(folder.path, "audit")

    @pytest.mark.parametrize("link", [False, True])
    @pytest.mark.parametrize("name", ["a\x1b[2Jb", "a\nwhole", "a\u202eb", "a\x85b", "\ud800"])
    def test_names_cannot_change_what_a_terminal_shows(self, folder: Folder, name: str, *, link: bool) -> None:
        forged(folder.path, **({"folders": {name: None}} if link else {"files": {name: {"bytes": 1, "sha256": "0"}}}))
        with pytest.raises(DamagedError):
            Folder.open(folder.path, "audit")

    @pytest.mark.parametrize("address", ["http://127.0.0.1:9/x", "ftp://127.0.0.1/x", "/etc", "..", "x", "\0", "/proc"])
    def test_tables_elsewhere_are_not_looked_for(self, folder: Folder, address: str) -> None:
        forged(folder.path, elsewhere={"results": address})
        if address == "\0":
            with pytest.raises(DamagedError):
                Folder.open(folder.path, "audit")
            return
        for parts in (None, folder.path, folder.path.parent):
            assert {finding.fault for finding in verify(folder.path, parts).lost} == {"outside"}
            with pytest.raises(InputError) as refused:
                Folder.open(folder.path, "audit", parts=parts).checked("results/a")
            assert refused.value.argument == "parts"

    def test_a_path_through_the_folder_of_parts_and_out_of_it_again(self, folder: Folder, tmp_path: Path) -> None:
        (tmp_path / "parts").mkdir()
        (tmp_path / "a").write_bytes(b"one")
        forged(folder.path, elsewhere={"results": f"{tmp_path}/parts/.."})
        assert {finding.fault for finding in verify(folder.path, tmp_path / "parts").lost} == {"outside"}


class TestLock:
    @pytest.mark.parametrize("exists", [False, True])
    def test_a_link_is_left_as_it_is_and_so_is_its_target(
        self, folder: Folder, tmp_path: Path, *, exists: bool
    ) -> None:
        victim = tmp_path / "victim"
        if exists:
            victim.write_text("1234\n")
        (folder.path / lock.NAME).symlink_to(victim)
        with pytest.raises(DamagedError, match=lock.NAME):
            keep(folder.path, "report.html", b"new")
        assert victim.exists() == exists
        assert not exists or victim.read_text() == "1234\n"
        assert (folder.path / lock.NAME).is_symlink()
        assert [(finding.name, finding.fault) for finding in verify(folder.path).lost] == [(lock.NAME, "link")]

    def test_a_second_name_of_another_file(self, folder: Folder, tmp_path: Path) -> None:
        (tmp_path / "victim").write_text("1234\n")
        (folder.path / lock.NAME).hardlink_to(tmp_path / "victim")
        with pytest.raises(DamagedError, match=lock.NAME):
            keep(folder.path, "report.html", b"new")
        assert (tmp_path / "victim").read_text() == "1234\n"

    @pytest.mark.parametrize("content", ["precious", "12\n34\n", "9" * 100])
    def test_a_file_that_is_no_lock(self, folder: Folder, content: str) -> None:
        (folder.path / lock.NAME).write_text(content)
        with pytest.raises(DamagedError, match=lock.NAME):
            keep(folder.path, "report.html", b"new")
        assert (folder.path / lock.NAME).read_text() == content

    def test_a_pipe_or_a_folder(self, folder: Folder) -> None:
        for make, remove in ((os.mkfifo, os.unlink), (os.mkdir, os.rmdir)):
            make(folder.path / lock.NAME)
            with pytest.raises(DamagedError, match=lock.NAME):
                keep(folder.path, "report.html", b"new")
            assert [(finding.name, finding.fault) for finding in verify(folder.path).lost] == [(lock.NAME, "special")]
            remove(folder.path / lock.NAME)

    @pytest.mark.parametrize("left", ["", "1234", "1234\n"])
    def test_what_a_killed_run_left_is_taken_over(self, folder: Folder, left: str) -> None:
        (folder.path / lock.NAME).write_text(left)
        with lock.alone(folder.path):
            assert (folder.path / lock.NAME).read_text() == f"{os.getpid()}\n"
        assert not (folder.path / lock.NAME).exists()


class TestVerify:
    def test_links_and_special_files_that_no_manifest_lists_are_named(self, folder: Folder) -> None:
        (folder.path / "link").symlink_to("nowhere")
        (folder.path / ".recaudit-link").symlink_to("nowhere")
        os.mkfifo(folder.path / "results" / "pipe")
        found = verify(folder.path)
        assert [(finding.name, finding.fault) for finding in found.irregular] == [
            (".recaudit-link", "link"),
            ("link", "link"),
            ("results/pipe", "special"),
        ]
        assert (found.lost, found.unknown) == ((), ())

    def test_folders_without_end(self, folder: Folder) -> None:
        deep = folder.path
        for _ in range(1200):
            deep /= "d"
            deep.mkdir()
        (deep / "x").write_text("mine")
        unknown = verify(folder.path).unknown
        # `shutil.rmtree`, by which pytest removes old folders, calls itself for each level, and is too deep here.
        (deep / "x").unlink()
        while deep != folder.path:
            deep.rmdir()
            deep = deep.parent
        assert len(unknown) == 1

    def test_whole_damaged_missing_and_unknown(self, folder: Folder) -> None:
        assert verify(folder.path).lost == ()
        (folder.path / "results" / "a").write_bytes(b"two")
        (folder.path / "results" / "b").unlink()
        (folder.path / "notes.txt").write_text("mine")
        found = verify(folder.path)
        assert {(finding.name, finding.fault) for finding in found.lost} == {
            ("results/a", "damaged"),
            ("results/b", "missing"),
        }
        assert found.unknown == ("notes.txt",)
        assert set(found.whole) == {MANIFEST, "report.html"}

    def test_folders_inside_that_were_swapped(self, tmp_path: Path) -> None:
        with claimed(tmp_path / "run", new("simulation", ("x", "y"))) as run:
            for name in ("x", "y"):
                Folder.begin(run.path / name, new("trial", trial=name), nested=True).put(
                    {"a": name.encode()}, status="complete"
                )
            run.complete()
        assert verify(run.path).lost == ()
        (run.path / "x").rename(run.path / "z")
        (run.path / "y").rename(run.path / "x")
        (run.path / "z").rename(run.path / "y")
        assert {finding.name for finding in verify(run.path).lost} == {f"x/{MANIFEST}", f"y/{MANIFEST}"}

    def test_the_manifest_of_a_folder_inside_in_the_place_of_its_own(self, tmp_path: Path) -> None:
        Folder.begin(tmp_path / "run", new("study", ("loop",)))
        Folder.begin(tmp_path / "run" / "loop", new("trial"), nested=True)
        outer, inner = tmp_path / "run" / MANIFEST, tmp_path / "run" / "loop" / MANIFEST
        assert not verify(tmp_path / "run").lost
        mine, theirs = outer.read_bytes(), inner.read_bytes()
        outer.write_bytes(theirs)
        inner.write_bytes(mine)
        assert [finding.name for finding in verify(tmp_path / "run").lost] == [MANIFEST]

    def test_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="expected a run folder"):
            verify(tmp_path / "nowhere")


class TestGoingOn:
    def test_a_part_that_is_not_as_planned_is_started_over(self, tmp_path: Path) -> None:
        Folder.begin(tmp_path / "x", new("trial", trial=0), nested=True).put({"a": b""})
        with pytest.warns(DamageWarning, match=rf"x: not as it was written.*{MANIFEST} \(damaged\)"):
            again = Folder.begin(tmp_path / "x", new("trial", trial=1), nested=True)
        assert again.manifest.files == {}
        assert not (tmp_path / "x" / "a").exists()

    def test_a_run_that_is_another_is_refused(self, folder: Folder) -> None:
        with pytest.raises(InputError, match="which holds an audit with other settings"):
            Folder.begin(folder.path, new(settings="x"))
        with pytest.raises(InputError, match=r"which holds an audit; expected .*very simulation"):
            Folder.begin(folder.path, new("simulation"))

    def test_what_is_replaced_is_gone_after_the_manifest_says_so(
        self, folder: Folder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def killed() -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(folder, "_save", killed)
            with pytest.raises(KeyboardInterrupt):
                folder.put({"results/c": b"three"}, without=["results/a"])
        assert verify(folder.path).lost == ()
        assert verify(folder.path).unknown == ("results/c",)
        again = Folder.begin(folder.path, new())
        again.sweep("results")
        assert not (folder.path / "results" / "c").exists()

    def test_a_page_is_not_put_where_a_run_is_at_work(self, folder: Folder) -> None:
        with lock.alone(folder.path), pytest.raises(InputError, match="is at work"):
            keep(folder.path, "report.html", b"new")
        keep(folder.path, "report.html", b"new")
        assert verify(folder.path).lost == ()
