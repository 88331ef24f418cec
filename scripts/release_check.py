"""Is what is committed fit to be released? Builds it, looks inside, installs it elsewhere, and audits with it.

    python scripts/release_check.py              # `make release-check`; some minutes, most of them the demo
    python scripts/release_check.py --quick      # a small audit in the place of the demo
    python scripts/release_check.py --tag v0.2.0 # the version must be this one's

Everything is built from the last commit, exported into an empty folder: what is not committed is not in it. The
packages are left in dist/ when all is well.
"""

from __future__ import annotations

import argparse
import email
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from email.message import Message
from pathlib import Path

from packaging.metadata import Metadata
from trove_classifiers import classifiers

ROOT = Path(__file__).resolve().parents[1]
SMALL = """\
[data]
name = "demo"
[[model]]
kind = "als"
factors = 4
iterations = 2
[audits.accuracy]
[audits.reachability]
users = 5
targets = 5
refits = 0
"""
"""An audit that takes seconds."""
_VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
_RELEASE = re.compile(r"^## \[(.+?)\](?: - (\S+))?$", re.MULTILINE)
_CITED = re.compile(r"^(version|date-released): (\S+)$", re.MULTILINE)
_WORK = re.compile(
    r"(^|/)(__pycache__|\.venv[^/]*|\.git|\.scratch|\.mypy_cache|\.ruff_cache|\.pytest_cache|\.hypothesis)/"
    r"|^(runs|build|dist)/|(?<!results/comparisons)(?<!results/blocks)\.(pyc|nbi|nbc|parquet|safetensors|npz|npy|sqlite|db|zip|gz|csv|tsv|dat)$|(^|/)manifest\.json$"
)
"""Names of caches, of run folders and of data."""
_PLACE = re.compile(rf"(?<![\w.])(?:/(?:home|Users|root)/\w+|{re.escape(str(ROOT))})")
"""Somebody's own folders, and this one."""


class NotFitError(Exception):
    """What keeps the release from being made."""


def version_faults(root: Path, tag: str | None = None) -> list[str]:
    """List where the version is not the same: the packages, the citation, the changelog, the tag.

    Work after a release is listed under `[Unreleased]` in the changelog. A release, which has a tag, has no such list.
    Without a tag the version may be one under development: then citation and changelog name the last release.
    """
    [version] = _VERSION.findall((root / "src/recaudit/version.py").read_text(encoding="utf-8"))
    [of_papers] = _VERSION.findall((root / "papers/src/recaudit_papers/version.py").read_text(encoding="utf-8"))
    cited = dict(_CITED.findall((root / "CITATION.cff").read_text(encoding="utf-8")))
    releases = _RELEASE.findall((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    if tag is None:
        releases = [(name, day) for name, day in releases if name != "Unreleased"]
    name, day = next(iter(releases), ("none", ""))
    places = [("recaudit-papers", of_papers, version), ("the tag", tag, version)]
    if tag is None and ".dev" in version:
        places.append(("CITATION.cff", cited.get("version"), name))
    else:
        places += [("CITATION.cff", cited.get("version"), version), ("CHANGELOG.md", name, version)]
    faults = [
        f"{place} has version {found}, and not {wanted}"
        for place, found, wanted in places
        if found is not None and found.removeprefix("v") != wanted
    ]
    try:
        date.fromisoformat(day)
    except ValueError:
        faults.append(f"CHANGELOG.md: {name} has the date {day or 'of no day'}: write it as 2026-11-16")
    if cited.get("date-released") != day:
        faults.append(f"CITATION.cff was released on {cited.get('date-released')}, CHANGELOG.md on {day}")
    return faults


def content_faults(found: Mapping[str, bytes], expected: set[str], what: str) -> list[str]:
    """What is inside and must not be, or is missing."""
    faults = [f"{what} lacks {name}" for name in sorted(expected - found.keys())]
    faults += [f"{what} has {name}, which is not committed" for name in sorted(found.keys() - expected)]
    faults += [f"{what} has {name}: data, a cache or a run folder" for name in sorted(found) if _WORK.search(name)]
    for name, content in found.items():
        places = {*_PLACE.findall(content.decode(errors="ignore"))} if b"\0" not in content else set()
        faults += [f"{what}: {name} names the folder {place}" for place in sorted(places)]
    return faults


def metadata_faults(text: bytes, version: str) -> list[str]:
    """What the package index would refuse, or show badly."""
    message = email.message_from_bytes(text)
    readme = str(message.get_payload() or message["Description"] or "")
    faults = []
    try:
        Metadata.from_email(text, validate=True)
    except ExceptionGroup as errors:
        faults += [str(error) for error in errors.exceptions]
    faults += [
        f"the classifier {own!r} is unknown" for own in message.get_all("Classifier", []) if own not in classifiers
    ]
    faults += [f"it has no {name}" for name in _lacking(message)]
    if message["Version"] != version:
        faults.append(f"its version is {message['Version']}, not {version}")
    if message["Description-Content-Type"] != "text/markdown" or not readme.startswith("# "):
        faults.append("README.md is not its description")
    faults += [f"its README leads to {link}, a path" for link in re.findall(r"\]\((?!https?:|#)([^)\s]+)\)", readme)]
    urls = [own.partition(", ")[2] for own in message.get_all("Project-URL", [])]
    faults += [f"the address {url!r} is none" for url in urls if not url.startswith("https://")]
    return [f"the metadata: {fault}" for fault in faults]


def _lacking(message: Message) -> list[str]:
    wanted = ("Summary", "License-Expression", "License-File", "Requires-Python", "Author", "Keywords", "Project-URL")
    return [name for name in wanted if not message[name]]


def committed(root: Path, into: Path) -> set[str]:
    """The last commit in an empty folder, and the names of its files."""
    if _run(["git", "status", "--porcelain", "--untracked-files=no"], cwd=root):
        raise NotFitError("there are changes that are not committed: commit them, or put them aside")
    archive = into.with_suffix(".tar")
    _run(["git", "archive", "--output", str(archive), "HEAD"], cwd=root)
    with tarfile.open(archive) as files:
        files.extractall(into, filter="data")
    archive.unlink()
    return {path.relative_to(into).as_posix() for path in into.rglob("*") if path.is_file()}


def build(source: Path, into: Path) -> tuple[Path, Path]:
    """The wheel and the source distribution."""
    _run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(into)], cwd=source)
    [wheel], [sdist] = into.glob("*.whl"), into.glob("*.tar.gz")
    return wheel, sdist


def split_names(names: set[str]) -> tuple[set[str], set[str]]:
    """Split the committed files into those of recaudit and, relative to their folder, those of recaudit-papers."""
    papers = {name for name in names if name.startswith("papers/")}
    return names - papers, {name.removeprefix("papers/") for name in papers}


def inside(package: Path) -> dict[str, bytes]:
    """The files of a package by name; of a source distribution without the folder around them."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as files:
            return {name: files.read(name) for name in files.namelist()}
    with tarfile.open(package) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        return {
            member.name.partition("/")[2]: file.read()
            for member in members
            if (file := archive.extractfile(member)) is not None
        }


def package_faults(wheel: Path, sdist: Path, names: set[str], version: str, package: str) -> list[str]:
    """List what is wrong with the wheel and the source distribution of a package before anything is installed."""
    whole, source = inside(wheel), inside(sdist)
    about = {name: own for name, own in whole.items() if name.startswith(f"{package}-{version}.dist-info/")}
    code = {name: own for name, own in whole.items() if name not in about}
    expected = {name.removeprefix("src/") for name in names if name.startswith(f"src/{package}/")}
    expected |= {f"{package}/{name}" for name in names if name.startswith("results/")}
    described = about.get(f"{package}-{version}.dist-info/METADATA", b"")
    faults = content_faults(code, expected, "the wheel")
    faults += [] if any(name.endswith("licenses/LICENSE") for name in about) else ["the wheel has no licence"]
    faults += metadata_faults(described, version)
    made = source.pop("PKG-INFO", b"")
    faults += content_faults(source, names, "the source distribution")
    return faults + ([] if made == described else ["the two packages describe themselves differently"])


def install(python: Path, packages: Sequence[Path], constraints: Path) -> None:
    """Into an environment that has nothing yet."""
    venv.create(python.parents[1], with_pip=True, clear=True)
    _run([str(python), "-m", "pip", "install", "--quiet", "-c", str(constraints), *map(str, packages)])


def use_papers(python: Path, folder: Path) -> None:
    """List the studies, and render the published results."""
    studies = json.loads(_run([str(python.with_name("recaudit")), "study", "--list", "--json"], cwd=folder))
    _run([str(python), "-m", "recaudit_papers.pages", "pages"], cwd=folder)
    if {one["name"] for one in studies} != {page.stem for page in (folder / "pages").iterdir()}:
        raise NotFitError("recaudit-papers has other studies than pages")


def use(python: Path, folder: Path, version: str, *, demo: bool) -> None:
    """What a person would do first, where no source is near; every command must end well."""
    folder.mkdir()
    recaudit = str(python.with_name("recaudit"))
    told = _run([str(python), "-c", "import recaudit; print(recaudit.__version__, recaudit.__file__)"], cwd=folder)
    if not told.startswith(f"{version} {python.parents[1]}"):
        raise NotFitError(f"another recaudit was imported: {told}")
    doctor = json.loads(_run([recaudit, "doctor", "--json"], cwd=folder))
    if doctor["versions"]["recaudit"] != version:
        raise NotFitError(f"recaudit doctor sees version {doctor['versions']['recaudit']}")
    (folder / "audit.toml").write_text(SMALL, encoding="utf-8")
    run = "runs/demo" if demo else "runs/small"
    _run([recaudit, "demo"] if demo else [recaudit, "audit", "audit.toml", "--out", run], cwd=folder)
    for arguments in (["verify", run], ["report", run], ["report", run, "--format", "md"], ["verify", run], ["audits"]):
        _run([recaudit, *arguments], cwd=folder)
    if not demo:
        _run([recaudit, "explore", run], cwd=folder)
    for name in ("report.html", "explore.html", "statement.md"):
        if not (folder / run / name).is_file():
            raise NotFitError(f"{name} was not written")


def _run(command: Sequence[str], cwd: Path | None = None) -> str:
    """What a command prints, in an environment that knows nothing of these sources."""
    clean = {
        name: own for name, own in os.environ.items() if not name.startswith(("PYTHON", "RECAUDIT", "VIRTUAL_ENV"))
    }
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise NotFitError(f"{' '.join(command)}: exit code {done.returncode}\n{last}")
    return done.stdout.strip()


@contextmanager
def _step(what: str) -> Iterator[None]:
    print(f"{what} ...", flush=True)
    start = time.monotonic()
    yield
    print(f"  {time.monotonic() - start:.0f} s", flush=True)


def _stop_at(faults: list[str]) -> None:
    if faults:
        raise NotFitError("\n".join(faults))


def check(work: Path, tag: str | None, *, demo: bool) -> None:
    """All of it, in an empty folder."""
    source, built = work / "source", work / "dist"
    with _step("The last commit, its version and its changelog"):
        names = committed(ROOT, source)
        _stop_at(version_faults(source, tag))
    [version] = _VERSION.findall((source / "src/recaudit/version.py").read_text(encoding="utf-8"))
    with _step("Two packages, and what is in them"):
        wheel, sdist = build(source, built)
        own, papers = split_names(names)
        _stop_at(package_faults(wheel, sdist, own, version, "recaudit"))
    with _step("The same of recaudit-papers"):
        papers_wheel, papers_sdist = build(source / "papers", work / "papers")
        _stop_at(package_faults(papers_wheel, papers_sdist, papers, version, "recaudit_papers"))
    with _step("The wheel that the source distribution makes is the same"):
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(work / "again"), str(sdist)]
        _run(command)
        [again] = (work / "again").glob("*.whl")
        _stop_at([] if inside(again) == inside(wheel) else [f"{sdist.name} makes another wheel than the sources do"])
    constraints = work / "constraints.txt"
    shutil.copy(source / "constraints.txt", constraints)
    shutil.rmtree(source)
    for packages, whole in (([wheel], demo), ([sdist, papers_sdist], False)):
        package = packages[0]
        python = work / f"venv-{package.suffix[1:]}" / "bin" / "python"
        with _step(f"{' and '.join(one.name for one in packages)} in an empty environment"):
            install(python, packages, constraints)
        folder = work / f"elsewhere-{package.suffix[1:]}"
        with _step("The demo, and what follows it" if whole else "A small audit, and what follows it"):
            use(python, folder, version, demo=whole)
        if len(packages) > 1:
            with _step("The studies of recaudit-papers"):
                use_papers(python, folder)
        shutil.rmtree(python.parents[1])
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    shutil.copytree(built, ROOT / "dist")
    shutil.copytree(work / "papers", ROOT / "dist", dirs_exist_ok=True)
    for package in (wheel, sdist, papers_wheel, papers_sdist):
        print(f"{hashlib.sha256(package.read_bytes()).hexdigest()}  dist/{package.name}")


def main() -> int:
    """Check, and say what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tag", help="the tag that is released, such as v0.2.0")
    parser.add_argument("--quick", action="store_true", help="a small audit in the place of the demo")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="recaudit-release-") as work:
        try:
            check(Path(work).resolve(), asked.tag, demo=not asked.quick)
        except NotFitError as error:
            print(f"\nNot fit to be released:\n{error}", file=sys.stderr)
            return 1
    print("\nFit to be released: the packages are in dist/.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
