"""Models that a function of one's own makes: `object = "package.module:function"`."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable
from functools import cached_property
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Self, final

from pydantic import Field, PrivateAttr, ValidationInfo, computed_field, model_validator

from recaudit.data.interactions import Interactions
from recaudit.errors import UNMEASURED, InputError, MachineError, did_you_mean
from recaudit.machine import machine_error
from recaudit.models.base import FittedModel, Recommender
from recaudit.registry import check_allowed
from recaudit.specification import mistake

_LOADED: dict[str, str] = {}
"""The digest of each module that was loaded here: where the file is another by now, it is loaded again."""
_EXPECTED = "a fitted model, a recommender, or a fitted model of a library that recaudit.models.adapt knows"


@final
class PythonObject(Recommender):
    """A model that a function of your own makes, called as `function(data, **arguments)` with the training log.

    It returns a fitted model, a recommender (which is then fitted), or a fitted model of a library that is known here.
    Whoever runs such a configuration runs that code.
    """

    object: Annotated[str, Field(pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*$")]
    """The function, as "package.module:function"; the configuration file's folder is looked into first."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """What the function is called with beside the log, by name."""

    _source: Path = PrivateAttr()
    """The file of the module."""
    _folder: Path = PrivateAttr()
    """Where modules are looked for first."""

    @model_validator(mode="after")
    def _locate(self, info: ValidationInfo) -> Self:
        """Find the module's file; nothing of it is run."""
        check_allowed("object", self.object, self._names[0])
        self._folder = Path((info.context or {}).get("folder", Path())).resolve()
        source = _source_of(self._names[0], self._folder)
        if source is None:
            remedy = f"Put it into {self._folder}, or install the package that has it."
            raise mistake(("object",), self.object, f"a module {self._names[0]!r} that can be imported", remedy)
        self._source = source
        return self

    @property
    def _names(self) -> tuple[str, str]:
        """Of the module, and of the function in it."""
        module, _, name = self.object.partition(":")
        return module, name

    @computed_field(return_type=str)  # type: ignore[prop-decorator]  # pydantic's documented order
    @cached_property
    def sha256(self) -> str:
        """What the module's file holds, so that a run is never resumed with another function under the same name."""
        return hashlib.sha256(self._source.read_bytes()).hexdigest()

    def fit(self, data: Interactions, rng: int = 0) -> FittedModel:
        """What the function makes of the log; a recommender is fitted with this seed."""
        check_allowed("object", self.object, self._names[0])
        function = self._function()
        try:
            made = function(data, **self.arguments)
        except Exception as error:
            if machine_error(error) is not None or isinstance(error, MachineError):
                raise
            received = f"{self.object}, which raised {type(error).__name__}: {error}"
            raise InputError("object", received=received, expected="a function that returns a model") from error
        if isinstance(made, Recommender):
            made = made.fit(data, rng)
        model = made if isinstance(made, FittedModel) else self._adapted(made, data)
        if not (model.data.user_ids.equals(data.user_ids) and model.data.item_ids.equals(data.item_ids)):
            raise InputError(
                "object",
                received=f"{self.object}, which returned a model of {model.data!r}",
                expected=f"a model of the log that it was called with, {data!r}",
            )
        return model

    def _adapted(self, made: Any, data: Interactions) -> FittedModel:
        """A model of another library, as one of ours."""
        from recaudit.models.adapt import adapt  # noqa: PLC0415  only where another library's model comes

        try:
            return adapt(made, data)
        except UNMEASURED as error:
            received = f"{self.object}, which returned {type(made).__name__}: {error}"
            raise InputError("object", received=received, expected=_EXPECTED) from error

    def _function(self) -> Callable[..., Any]:
        module, name = self._names
        loaded = self._module()
        if not hasattr(loaded, name):
            names = [each for each in vars(loaded) if callable(getattr(loaded, each)) and not each.startswith("_")]
            received, remedy = f"{self.object}, which {self._source.name} does not have", did_you_mean(name, names)
            raise InputError("object", received=received, expected=f"a function of {module}", remedy=remedy)
        function = getattr(loaded, name)
        if not callable(function):
            received = f"{self.object}, {type(function).__name__}"
            raise InputError("object", received=received, expected="a function that takes the log and returns a model")
        # A module that is allowed may have imported functions of others, which are not.
        check_allowed("object", self.object, str(getattr(function, "__module__", None)))
        return function  # type: ignore[no-any-return]  # whatever can be called

    def _module(self) -> ModuleType:
        """The module, as its file is now. The folder stays on the path, where worker processes look as well."""
        name, folder = self._names[0], str(self._folder)
        if self._source.is_relative_to(folder) and sys.path[:1] != [folder]:
            sys.path.insert(0, folder)
        held = sys.modules.get(name)
        if held is not None and name not in _LOADED and Path(held.__file__ or "").resolve() != self._source:
            raise InputError(
                "object",
                received=f"{self.object} in {self._source}, beside a module {name!r} from {held.__file__}",
                expected="a module name that nothing else has",
                remedy="Rename the file.",
            )
        try:
            again = held is not None and _LOADED.get(name, self.sha256) != self.sha256
            module = importlib.reload(held) if held is not None and again else importlib.import_module(name)
        except Exception as error:
            if machine_error(error) is not None:
                raise
            received = f"{self.object}, whose import raised {type(error).__name__}: {error}"
            raise InputError("object", received=received, expected="a module that can be imported") from error
        _LOADED[name] = self.sha256
        return module


def _source_of(module: str, folder: Path) -> Path | None:
    """The file of a module, in the folder or where Python looks; None where there is none. No code is run."""
    importlib.invalidate_caches()
    name, *rest = module.split(".")
    spec = PathFinder.find_spec(name, [str(folder)])
    if spec is None or spec.origin is None:  # a folder without a module says nothing
        spec = _installed(name) or spec
    for part in rest:
        name = f"{name}.{part}"
        spec = spec and PathFinder.find_spec(name, spec.submodule_search_locations or [])
    file = Path(spec.origin) if spec is not None and spec.origin is not None else None
    return file.resolve() if file is not None and file.is_file() else None


def _installed(name: str) -> ModuleSpec | None:
    """What Python itself finds under the name of a module that is in no package."""
    try:
        return find_spec(name)
    except ValueError:  # a module that came from no file
        return None
