"""The only functions through which the frozen cases reach recaudit: an API that changes is followed here."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib.metadata import entry_points
from typing import Any, final

import numpy as np
import polars as pl
from frozen_names import Names
from pydantic import TypeAdapter

Tables = dict[str, pl.DataFrame]


class NotAvailableError(Exception):
    """A case cannot run here: a library or a dataset is missing."""


@final
class Package:
    """The installed recaudit, called by the names of the start commit."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.trained: set[str] = set()
        """Kinds of recommenders that were fitted since this set was last emptied."""
        self._models: dict[str, Any] = {}

    @property
    def version(self) -> str:
        """Version of the installed package."""
        return str(importlib.import_module("recaudit").__version__)

    def find(self, path: str) -> Any:
        """Return the object at a dotted path below `recaudit`, or of `recaudit_papers`."""
        parts = self.names.path(path).split(".")
        package = parts.pop(0) if parts[0] == "recaudit_papers" else "recaudit"
        value: Any = importlib.import_module(package)
        for at, part in enumerate(parts):
            if not hasattr(value, part):
                importlib.import_module(".".join([package, *parts[: at + 1]]))
            value = getattr(value, part)
        return value

    def call(self, path: str, *values: Any, **settings: Any) -> Any:
        """Call the function or class at a dotted path; its settings may be renamed."""
        return self.find(path)(*values, **self.names.renamed_settings(path.rpartition(".")[2], settings))

    def _named(self, owner: str, **settings: Any) -> dict[str, Any]:
        return self.names.renamed_settings(owner, settings)

    def part(self, group: str, kind: str, **settings: Any) -> Any:
        """Make a registered part from plain settings, as a configuration file would."""
        points = entry_points(group=f"recaudit.{self.names.group(group)}")
        part = points[self.names.kind(kind, group)].load()
        return TypeAdapter(part).validate_python(self.names.renamed_settings(kind, settings))

    def policy(self, table: Mapping[str, Any]) -> Any:
        """Make a policy from a table with its kind and settings."""
        settings = dict(table)
        return self.part("policies", settings.pop("kind"), **settings)

    def fit(self, kind: str, data: Any, seed: int = 0, **settings: Any) -> Any:
        """Fit a registered recommender; the same call returns the same model."""
        self.trained.add(kind)
        key = json.dumps([kind, id(data), seed, settings])
        if key not in self._models:
            # The data are kept as well: another dataset must not get the same identity.
            self._models[key] = (self.part("models", kind, **settings).fit(data, **self._named("fit", rng=seed)), data)
        return self._models[key][0]

    def adapt(self, model: object, data: Any, **settings: Any) -> Any:
        """Adapt the fitted model of another library."""
        return self.call("models.adapt", model, data, **settings)

    def run_audit(
        self,
        kind: str,
        model: Any = None,
        *,
        recommender: Any = None,
        data: Any = None,
        test: Any = None,
        lists: Any = None,
        history: Any = None,
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
    ) -> Tables:
        """Run a registered audit and return all its tables."""
        audit = self.part("audits", kind, **(settings or {}))
        inputs = {"model": model, "recommender": recommender, "data": data, "test": test}
        subject = self.call("Subject", **inputs, lists=lists, history=history)
        return dict(audit.run(subject, **self._named("run", rng=seed)).tables)

    def recommend(self, model: Any, length: int, policy: Mapping[str, Any] | None = None, seed: int = 0) -> Tables:
        """Return the recommendations of every user."""
        chosen = self.policy(policy or {"kind": "top-1"})
        return {"lists": self.call("recommend", model, n=length, policy=chosen, rng=seed)}

    def scores(self, model: Any, data: Any, users: int = 5) -> Tables:
        """Return the scores of the first users for every item."""
        count = min(users, data.n_users)
        scores = np.asarray(model.scores(np.arange(count)))
        table = pl.DataFrame(
            {
                "user": np.repeat(data.user_ids.head(count).to_numpy(), data.n_items),
                "item": np.tile(data.item_ids.to_numpy(), count),
                "score": scores.ravel(),
            }
        )
        return {"scores": table}

    def solve(self, name: str, *values: Any, **settings: Any) -> Tables:
        """Call a public solver and return the fields of its solution."""
        return solution_tables(self.call(f"solvers.{name}", *values, **settings))

    def simulate(
        self, scenario: str, recommender: Any, policy: Mapping[str, Any] | None, settings: Mapping[str, Any], **run: Any
    ) -> Tables:
        """Run a named scenario, with changed settings, and return its tables."""
        world = self.call("simulate.paper", scenario, **settings)
        return self.simulate_in(world, recommender, policy, **run)

    def simulate_in(self, world: Any, recommender: Any, policy: Mapping[str, Any] | None, **run: Any) -> Tables:
        """Run a simulation in an environment or scenario and return its tables."""
        chosen = None if policy is None else self.policy(policy)
        simulation = self.call("simulate.run", world, recommender, chosen, **run)
        tables = {"steps": simulation.steps, "overall": simulation.overall(), "audits": simulation.audits}
        return {name: table for name, table in tables.items() if table.width}


def solution_tables(solution: Any) -> Tables:
    """Return one-dimensional fields of a solution as a table, and every other field as a table of its own."""
    columns: dict[str, Any] = {}
    tables: Tables = {}
    for entry in fields(solution):
        value = getattr(solution, entry.name)
        if value is None:
            continue
        if is_dataclass(value):
            nested = solution_tables(value)
            tables |= {f"{entry.name}-{name}": table for name, table in nested.items()}
            continue
        array = np.asarray(value)
        if array.ndim == 1:
            columns[entry.name] = array.tolist()
        else:
            matrix = {f"column-{at}": array[:, at].tolist() for at in range(array.shape[1])}
            tables[entry.name] = pl.DataFrame(matrix)
    return {"solution": pl.DataFrame(columns), **tables}
