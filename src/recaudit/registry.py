"""What can be named in a configuration: built-in parts and those of other packages, found alike by entry points.

A part is registered by one line in its package's metadata, for recaudit's own in pyproject.toml:

    [project.entry-points."recaudit.models"]
    als = "recaudit.models.factor.als:ALS"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, wraps
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, final

from recaudit.errors import InputError, did_you_mean
from recaudit.terminal import visible

_OWN = "recaudit"
"""The name of the package whose code always may be used."""

_allowed: ContextVar[tuple[str, ...] | None] = ContextVar("recaudit_allowed_modules", default=None)
"""The modules of other packages that may be used; None where all may be."""


@contextmanager
def own_code_only(allowed: Iterable[str] = ()) -> Iterator[None]:
    """Use no code of another package inside the block: for a configuration that came with a run folder.

    Args:
        allowed: Modules of other packages that may be used nevertheless, each with the modules below it.
    """
    token = _allowed.set(tuple(allowed))
    try:
        yield
    finally:
        _allowed.reset(token)


def is_allowed(module: str) -> bool:
    """Return whether code that a configuration names may be used: inside `own_code_only`, only that of its modules."""
    allowed = _allowed.get()
    return allowed is None or any(module == name or module.startswith(f"{name}.") for name in allowed)


def check_allowed(argument: str, received: str, module: str) -> None:
    """Check that code of this module may be used here.

    Args:
        argument: What names the code, for the error message.
        received: The name itself.
        module: The module that would be imported, or whose code would be called.

    Raises:
        InputError: The module was not allowed.
    """
    if not is_allowed(module):
        raise InputError(
            argument,
            received=f"{received}, which is code of the module {module}",
            expected="a part of recaudit itself, or code of a module that you allow",
            remedy=f"If you trust the module, allow it: --allow-code {module}, or in Python allow_code=({module!r},).",
        )


@final
class Registry(Mapping[str, type[Any]]):
    """The classes of one family by name; each is imported when it is first asked for."""

    def __init__(self, group: str, what: str, *more: str) -> None:
        self.groups = (group, *more)
        """Of entry points."""
        self.what = what
        """What a member is, in error messages: "a policy"."""

    @cached_property
    def _points(self) -> dict[str, EntryPoint]:
        found = (point for group in self.groups for point in entry_points(group=group))
        points = sorted(found, key=lambda point: point.value.startswith("recaudit."))
        named = {point.name: point for point in points}  # a built-in part is never replaced by another package's
        own_first = sorted(named.values(), key=lambda point: not point.value.startswith("recaudit."))
        return {point.name: point for point in own_first}

    def __getitem__(self, name: str) -> type[Any]:
        if name not in self._points:
            raise InputError("kind", received=name, expected=self.what, remedy=did_you_mean(name, self._points))
        if not self.is_own(name):
            check_allowed("kind", repr(name), self.module_of(name))
        found: type[Any] = self._points[name].load()
        return found

    def is_own(self, name: str) -> bool:
        """Return whether the part of this name comes with recaudit, rather than with another package."""
        package = self._points[name].dist
        return package is not None and (package.name or "").lower() == _OWN

    def module_of(self, name: str) -> str:
        """Return the module that holds the part of this name; nothing is imported."""
        return self._points[name].module

    def is_usable(self, name: str) -> bool:
        """Return whether there is a part of this name, and its code may be used: see `own_code_only`."""
        return name in self._points and (self.is_own(name) or is_allowed(self.module_of(name)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._points)

    def __len__(self) -> int:
        return len(self._points)

    def __contains__(self, name: object) -> bool:
        return name in self._points

    def kind_of(self, part: object) -> str:
        """The name of a part, or of its class; for one that is not registered, where its class is defined."""
        cls = part if isinstance(part, type) else type(part)
        where = f"{cls.__module__}:{cls.__qualname__}"
        for name, point in self._points.items():
            # An entry point may name the class by where it is exported, rather than by where it is defined.
            named = point.attr == cls.__qualname__ and self.is_usable(name)
            if point.value == where or (named and point.load() is cls):
                return name
        return where


AUDITS = Registry("recaudit.audits", "an audit")
MODELS = Registry("recaudit.models", "a recommender")
SIMULATED_MODELS = Registry("recaudit.models", "a recommender", "recaudit.simulated_models")
"""Those of MODELS, and those that only a simulation has: they know its people."""
ADAPTERS = Registry("recaudit.adapters", "a library")
"""By the name under which the library is imported: functions (model, data, settings) to a fitted model."""
POLICIES = Registry("recaudit.policies", "a policy")
LISTERS = Registry("recaudit.listers", "what makes the lists of a policy")
ACTIONS = Registry("recaudit.actions", "which ratings may change")
ENVIRONMENTS = Registry("recaudit.environments", "an environment")
CHOICES = Registry("recaudit.choices", "how people choose from a slate")
DATASETS = Registry("recaudit.datasets", "a data set")
ENGINES = Registry("recaudit.engines", "an engine")
SPLITS = Registry("recaudit.splits", "a split")
SECTIONS = Registry("recaudit.sections", "a section of the report")
COMMANDS = Registry("recaudit.commands", "a command")
"""Commands of other packages: functions with Typer's annotations."""
PUBLISHED = Registry("recaudit.published", "published numbers")
"""Functions from an offline-online study to the numbers published for it, by environment, recommender and metric."""
DISPLAYS = Registry("recaudit.displays", "a display")
"""By what is shown: functions from an object to the HTML that a notebook draws for it."""


class Displayed:
    """What draws itself in a notebook: rooms that know charts and pages register how."""

    display: ClassVar[str]
    """Its name among DISPLAYS."""

    def __init_subclass__(cls, **settings: Any) -> None:
        """Have the texts of every such class show control characters: labels in them may come from a stranger."""
        super().__init_subclass__(**settings)
        for name in ("summary", "__repr__"):
            if name in vars(cls):
                setattr(cls, name, _visible_result(vars(cls)[name]))

    def _repr_html_(self) -> str:
        html: str = DISPLAYS[self.display](self)
        return html


def _visible_result(describe: Callable[..., str]) -> Callable[..., str]:
    """The method that makes a text, with control characters in it replaced."""

    @wraps(describe)
    def described(*given: Any, **named: Any) -> str:
        return visible(describe(*given, **named))

    return described
