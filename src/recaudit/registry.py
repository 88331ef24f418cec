"""What can be named in a configuration: built-in parts and those of other packages, found alike by entry points.

A part is registered by one line in its package's metadata, for recaudit's own in pyproject.toml:

    [project.entry-points."recaudit.models"]
    als = "recaudit.models.factor.als:ALS"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, final

from recaudit.errors import InputError, did_you_mean


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
        found: type[Any] = self._points[name].load()
        return found

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
            if point.value == where or (point.attr == cls.__qualname__ and point.load() is cls):
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
STUDIES = Registry("recaudit.studies", "a study")
DISPLAYS = Registry("recaudit.displays", "a display")
"""By what is shown: functions from an object to the HTML that a notebook draws for it."""


class Displayed:
    """What draws itself in a notebook: rooms that know charts and pages register how."""

    display: ClassVar[str]
    """Its name among DISPLAYS."""

    def _repr_html_(self) -> str:
        html: str = DISPLAYS[self.display](self)
        return html
