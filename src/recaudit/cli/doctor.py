"""`recaudit doctor`: what is installed, what the machine has, which data is here, and what to fix."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import asdict, dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from recaudit.cli.messages import NOT_AVAILABLE, AsJson, answers, command, plain_table, print_json
from recaudit.errors import DataError

if TYPE_CHECKING:
    from recaudit.data.datasets import Dataset

_PACKAGES = ("recaudit", "numpy", "scipy", "numba", "polars", "narwhals", "pydantic", "altair")


@dataclass(frozen=True)
class Diagnosis:
    """What doctor found."""

    versions: dict[str, str | None]
    """None: not installed."""
    device: str
    cores: int
    memory_gb: float | None
    """None where the system does not say."""
    extras: dict[str, bool]
    ray: str | None
    """Which cluster the engine `ray` finds here with `address = "auto"`; None where Ray is not installed."""
    looked_in: list[str]
    """Where data sets are looked for, in this order."""
    data: dict[str, str | None]
    """Where each data set is; None: not on this machine."""
    problems: list[str] = field(default_factory=list)
    """What to fix."""

    @property
    def ok(self) -> bool:
        """Whether recaudit can work here."""
        return not self.problems


@command()
def doctor(as_json: AsJson = False) -> None:
    """Look over this installation: versions, device, extras, data; ends with "ok" or with what to fix.

    \b
      recaudit doctor
      recaudit doctor --json    # exit code 0 when ok, 3 when something is to be fixed
    """
    found = examine()
    if as_json:
        print_json({"ok": found.ok, **asdict(found)})
    else:
        _print(found)
    if not found.ok:
        raise typer.Exit(NOT_AVAILABLE)


def examine() -> Diagnosis:
    """Look at everything; nothing is changed, and nothing that fails stops the rest."""
    problems: list[str] = []
    versions = {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}}
    problems += [f"{name} is not installed: run 'pip install recaudit' again." for name, v in versions.items() if not v]
    versions["torch"] = _version("torch")  # optional: the extra `torch`
    looked_in, data = _data(problems)
    return Diagnosis(
        versions=versions,
        device=_device(problems),
        cores=os.cpu_count() or 1,
        memory_gb=_memory_gb(),
        extras=_extras(),
        ray=_ray(problems),
        looked_in=looked_in,
        data=data,
        problems=problems,
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _device(problems: list[str]) -> str:
    if _version("torch") is None:
        return "CPU"
    try:
        import torch
    except (ImportError, OSError) as error:
        problems.append(f"torch cannot be loaded ({error}): run pip install 'recaudit[torch]' again.")
        return "CPU"
    if not torch.cuda.is_available():
        return "CPU"
    return f"CUDA ({torch.cuda.get_device_name()})"


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (AttributeError, ValueError, OSError):
        return None


def _extras() -> dict[str, bool]:
    """Each extra of the installed package, and whether everything that it asks for is here."""
    found: dict[str, bool] = {}
    for requirement in metadata.requires("recaudit") or []:
        match = re.match(r"([\w.-]+).*;.*extra == ['\"]([\w-]+)['\"]", requirement)
        if match:
            package, extra = match.groups()
            found[extra] = found.get(extra, True) and _version(package) is not None
    return found


def _ray(problems: list[str]) -> str | None:
    if _version("ray") is None:
        return None
    from recaudit.engines.cluster import describe
    from recaudit.errors import RecauditError

    try:
        words, faults = describe()
    except (RecauditError, ImportError, OSError, RuntimeError) as error:
        problems.append(f"Ray: {error}")
        return "not reached"
    problems += faults
    return words


def _data(problems: list[str]) -> tuple[list[str], dict[str, str | None]]:
    try:
        from recaudit.data import datasets
        from recaudit.data.datasets.dataset import cache_folder, data_folder
    except (ImportError, OSError) as error:
        problems.append(f"recaudit.data cannot be loaded ({error}): install recaudit again.")
        return [], {}
    cache = cache_folder()
    existing = next(parent for parent in (cache, *cache.parents) if parent.exists())
    if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
        problems.append(f"Downloads go to {cache}, which cannot be written: set XDG_CACHE_HOME to another folder.")
    try:
        named = data_folder()
        where = {one.name: _place(one) for one in datasets.catalogue()}
    except DataError as error:
        problems.append(str(error))
        return [str(cache)], {}
    return [str(folder) for folder in (named, cache) if folder is not None], where


def _place(dataset: Dataset) -> str | None:
    if dataset.location is not None:
        return str(dataset.location)
    return "built in" if dataset.ready else None


def _print(found: Diagnosis) -> None:
    table = plain_table()
    for name, version in found.versions.items():
        table.add_row(name, version or "not installed")
    table.add_row("device", found.device)
    table.add_row("cores", str(found.cores))
    table.add_row("memory", "unknown" if found.memory_gb is None else f"{found.memory_gb:g} GB")
    for extra, installed in found.extras.items():
        table.add_row(f"extra {extra}", "installed" if installed else f"not installed: pip install 'recaudit[{extra}]'")
    if found.ray is not None:
        table.add_row("ray", Text(found.ray, overflow="fold"))
    for folder in found.looked_in:
        table.add_row("data in", Text(folder, overflow="fold"))
    for name, place in found.data.items():
        table.add_row(f"  {name}", Text(place or f"not here: recaudit data fetch {name}", overflow="fold"))
    answers().print(table, soft_wrap=False)
    answers().print()
    for problem in found.problems:
        answers().print(f"To fix: {problem}")
    if found.ok:
        answers().print("ok")
