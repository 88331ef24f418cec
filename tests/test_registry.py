"""Parts of other packages are found by name, and used only where code of other packages may be."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from recaudit.errors import InputError
from recaudit.registry import MODELS, Registry, check_allowed, is_allowed, own_code_only

MODULE = "package_of_others"


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """A registry with a part of another package, which is in a module below a package."""
    (tmp_path / MODULE).mkdir()
    (tmp_path / MODULE / "__init__.py").touch()
    (tmp_path / MODULE / "parts.py").write_text("class Part: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in (MODULE, f"{MODULE}.parts"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    made = Registry("recaudit.models", "a recommender")
    other = EntryPoint("other", f"{MODULE}.parts:Part", "recaudit.models")
    # A package can register a module of recaudit too, and is another package nevertheless.
    python = EntryPoint("borrowed", "recaudit.models.given.python:PythonObject", "recaudit.models")
    made.__dict__["_points"] = {**made._points, "other": other, "borrowed": python}
    return made


def test_any_installed_part_is_loaded_by_its_name(registry: Registry) -> None:
    assert registry["other"].__name__ == "Part"
    assert registry.is_usable("other")
    assert not registry.is_usable("nobody")


@pytest.mark.parametrize("allowed", [(), ("package_of_other",), (f"{MODULE}.part",), (f"{MODULE}.parts.Part",)])
def test_only_own_parts_are_loaded_where_other_code_is_not_allowed(
    registry: Registry, allowed: tuple[str, ...]
) -> None:
    with own_code_only(allowed):
        assert registry["als"].__name__ == "ALS"
        assert registry.kind_of(registry["als"]) == "als"
        for name in ("other", "borrowed"):
            assert not registry.is_usable(name)
            with pytest.raises(InputError, match="--allow-code"):
                registry[name]
        assert MODULE not in sys.modules
    assert registry.is_usable("other")


@pytest.mark.parametrize("allowed", [MODULE, f"{MODULE}.parts"])
def test_a_module_that_is_allowed_with_what_is_below_it(registry: Registry, allowed: str) -> None:
    with own_code_only(["json", allowed]):
        assert registry["other"].__name__ == "Part"
        assert registry.kind_of(registry["other"]) == "other"
        with own_code_only():
            assert not is_allowed(f"{MODULE}.parts")
        assert is_allowed(f"{MODULE}.parts")


def test_the_error_names_the_module() -> None:
    with own_code_only(), pytest.raises(InputError) as refused:
        check_allowed("object", "os:system", "os")
    assert refused.value.argument == "object"
    assert "--allow-code os" in refused.value.remedy


def test_every_kind_of_recaudit_is_its_own() -> None:
    assert [name for name in MODELS if MODELS.is_own(name) != MODELS.module_of(name).startswith("recaudit.")] == []
