"""On whom an audit is run: its arguments turned into positions, and its answers turned into rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
import polars as pl

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.logs import observed_log
from recaudit.audits.reachability.result import STATUS
from recaudit.audits.recipe.parts import Outcome, PredictedRating
from recaudit.audits.samples import candidate_items, resolve_users
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
    def of(cls, audit: Composed, model: FittedModel, data: Interactions | None, rng: int) -> ResolvedPairs:
        """Look everybody up; in the order of the log, and each once."""
        intervention = audit.intervention
        assert isinstance(intervention, Own | Others)
        actions = intervention.actions
        if not isinstance(actions, Actions):
            raise NotSupportedError(
                f"Which items {actions!r} is about depends on the ratings, so that recipes cannot be run with it here; "
                "ra.reachability takes it. Past, NextK, HistoryEdits, FutureEdits and GivenItems have fixed items."
            )
        log = observed_log(model, data, actions)
        viewers = resolve_users(audit.viewers, log, rng)
        editors = resolve_users(audit.editors, log, rng) if isinstance(intervention, Others) else None
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
        """(actors, items): what is asked about, for a row of `viewers` and rows of `actors`: the items named, or all
        candidates.

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


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """Answers: a row for each viewer and actor, and item where the outcome is about one."""

    viewer: IntArray
    """(rows,): rows of `ResolvedPairs.viewers`."""
    actor: IntArray
    """(rows,): rows of `ResolvedPairs.actors`."""
    item: IntArray | None
    """(rows,): positions; None where the outcome is not about an item."""
    value: FloatArray
    """(rows,): NaN where there is no answer."""
    baseline: FloatArray
    """(rows,)"""

    @classmethod
    def joined(cls, parts: Iterable[Rows], *, about_an_item: bool) -> Rows:
        """One after the other; there may be none."""
        none, nan = np.zeros(0, dtype=np.int64), np.zeros(0)
        every = [cls(none, none, none if about_an_item else None, nan, nan), *parts]
        return cls(
            np.concatenate([part.viewer for part in every]),
            np.concatenate([part.actor for part in every]),
            np.concatenate([part.item for part in every if part.item is not None]) if about_an_item else None,
            np.concatenate([part.value for part in every]),
            np.concatenate([part.baseline for part in every]),
        )

    def frame(self, pairs: ResolvedPairs) -> pl.DataFrame:
        """Under ids, with a status. Every value here is exact: its bounds are the value itself."""
        columns: dict[str, pl.Series | FloatArray] = {"viewer": pairs.log.user_ids.gather(pairs.viewers[self.viewer])}
        if pairs.editors is not None:
            columns["editor"] = pairs.log.user_ids.gather(pairs.editors[self.actor])
        if self.item is not None:
            columns["item"] = pairs.log.item_ids.gather(self.item)
        value = pl.Series(self.value).fill_nan(None)
        status = np.where(np.isnan(self.value), Status.NOT_APPLICABLE.value, Status.SOLVED.value)
        return pl.DataFrame(
            {
                **columns,
                "value": value,
                "lower": value,
                "upper": value,
                "status": pl.Series(status).cast(STATUS),
                "baseline": pl.Series(self.baseline).fill_nan(None),
            }
        )
