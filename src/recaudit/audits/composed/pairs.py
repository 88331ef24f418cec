"""On whom an audit is run: its arguments turned into positions, and its answers turned into rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
import polars as pl

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.reachability.result import STATUS
from recaudit.audits.recipe.parts import Outcome, PredictedRating
from recaudit.audits.samples import DRAWN_SCORES, MOST_SCORES, Effort, candidate_items, resolve_users
from recaudit.data.interactions import Interactions
from recaudit.errors import NotSupportedError
from recaudit.interventions import Actions, Interval, Past, Stars
from recaudit.interventions.ratings import free_ratings
from recaudit.interventions.who import Others, Own
from recaudit.models.base import FittedModel
from recaudit.policies import Policy
from recaudit.status import Status

if TYPE_CHECKING:
    from recaudit.audits.composed.audit import Composed

Rows = tuple[IntArray, IntArray, IntArray, FloatArray, FloatArray]
"""Answers, (rows,) each: the viewer and the actor, as rows of `ResolvedPairs`; the item, without meaning where the
outcome is not about one; the value, NaN where there is no answer; and the baseline."""


@final
@dataclass(frozen=True, eq=False)
class ResolvedPairs:
    """Who looks, who acts on which items, and what is asked about; all by position."""

    model: FittedModel
    log: Interactions
    policy: Policy
    rng: int
    viewers: IntArray
    editors: IntArray | None
    """None where everybody acts for themselves."""
    acted: IntArray
    """(actors, actions): the items whose ratings are free, -1 for none. Actors are the editors, or the viewers."""
    given: FloatArray | None
    """(actors, actions): the ratings that were given, where the baseline is taken at them."""
    allowed: BoolArray
    """(viewers, items): what may be recommended."""
    named: IntArray | None
    """The items asked about; None for every candidate."""
    ratings: Interval | Stars

    @classmethod
    def of(cls, audit: Composed, model: FittedModel, log: Interactions, rng: int) -> ResolvedPairs:
        """Look everybody up; in the order of the log, and each once."""
        intervention = audit.intervention
        assert isinstance(intervention, Own | Others)
        actions = intervention.actions
        if not isinstance(actions, Actions):
            raise NotSupportedError(
                f"Which items {actions!r} is about depends on the ratings, so that recipes cannot be run with it here; "
                "ra.reachability takes it. Past, NextK, HistoryEdits, FutureEdits and GivenItems have fixed items."
            )
        editors = resolve_users(audit.editors, log, rng) if isinstance(intervention, Others) else None
        others = (log.n_items if audit.items is None else len(audit.items)) if editors is None else len(editors)
        viewers = resolve_users(audit.viewers, log, rng, effort=Effort(others * log.n_items, MOST_SCORES, DRAWN_SCORES))
        actors = viewers if editors is None else editors
        acted = actions.items(model, actors, rng, log)
        hidden = acted if editors is None else np.full((len(viewers), 0), -1)
        return cls(
            model=model,
            log=log,
            policy=audit.policy,
            rng=rng,
            viewers=viewers,
            editors=editors,
            acted=acted,
            given=actions.unchanged(model, actors, acted, log) if isinstance(actions, Past) else None,
            allowed=candidate_items(log, viewers, hidden, audit.candidates),
            named=None if audit.items is None else log.items_at(audit.items),
            ratings=free_ratings(actions.ratings, log.scale),
        )

    @property
    def actors(self) -> IntArray:
        """(actors,): who acts."""
        return self.viewers if self.editors is None else self.editors

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest rating that may be given."""
        if isinstance(self.ratings, Stars):
            return float(self.ratings.values[0]), float(self.ratings.values[-1])
        return self.ratings.low, self.ratings.high

    def each(self) -> Iterator[tuple[int, int]]:
        """Each viewer with each actor, as rows of `viewers` and `actors`; nobody is another to themselves."""
        for row, viewer in enumerate(self.viewers):
            if self.editors is None:
                yield row, row
            else:
                yield from ((row, int(actor)) for actor in np.flatnonzero(self.editors != viewer))

    def asked(self, viewer: int, actors: IntArray, outcome: Outcome) -> BoolArray:
        """(actors, items): the items named, or all candidates, for a row of `viewers` and rows of `actors`.

        Another user's ratings bear on what is predicted of the items that they rate: those alone are asked about then.
        """
        asked = np.zeros((len(actors), self.log.n_items), dtype=bool)
        if self.named is not None:
            asked[:, self.named] = True
        elif self.editors is not None and isinstance(outcome, PredictedRating):
            row, action = np.nonzero(self.acted[actors] >= 0)
            asked[row, self.acted[actors][row, action]] = True
            asked &= self.allowed[viewer]
        else:
            asked |= self.allowed[viewer]
        return asked

    def frame(self, parts: Iterable[Rows], *, about_an_item: bool) -> pl.DataFrame:
        """The answers under ids, with a status. Every value here is exact: its bounds are the value itself."""
        none, nan = np.zeros(0, dtype=np.int64), np.zeros(0)
        columns = zip((none, none, none, nan, nan), *parts, strict=True)
        viewer, actor, item, value, baseline = (np.concatenate(column) for column in columns)
        ids = {"viewer": self.log.user_ids.gather(self.viewers[viewer])}
        if self.editors is not None:
            ids["editor"] = self.log.user_ids.gather(self.editors[actor])
        if about_an_item:
            ids["item"] = self.log.item_ids.gather(item)
        exact = pl.Series(value).fill_nan(None)
        status = pl.Series(np.where(np.isnan(value), Status.NOT_APPLICABLE.value, Status.SOLVED.value)).cast(STATUS)
        numbers = {"value": exact, "lower": exact, "upper": exact, "status": status}
        return pl.DataFrame({**ids, **numbers, "baseline": pl.Series(baseline).fill_nan(None)})
