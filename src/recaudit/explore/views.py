"""What one user sees of one model, and how that follows ratings: arrays for the page to compute with."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.reachability.audit import Reachability
from recaudit.audits.recourse.audit import Recourse
from recaudit.audits.recourse.goals import AmongFirst
from recaudit.audits.samples import Candidates, candidate_items
from recaudit.data.interactions import Interactions
from recaudit.interventions import Actions, Stars
from recaudit.models.base import FittedModel
from recaudit.models.response import AffineResponse, DifferentiableResponse
from recaudit.policies import Softmax
from recaudit.ranking import top_items
from recaudit.status import Status

ASKED = 500
"""Of so many items of a user the least effort is worked out: those that can be made most likely."""
SEARCHED = 12
"""Of so many, where scores are no affine function of the ratings: those next to the list."""
BUDGET = 5_000
"""Nodes that a pair may take, for the page to be there in seconds."""
STAYS = 255
"""In place of a star: the rating is not changed."""
STANDINGS = ("not asked", "least", "some", "open", "impossible")
"""How an answer stands: not looked for, found and proved, found, neither found nor ruled out, ruled out."""


@final
@dataclass(frozen=True, eq=False)
class ModelQuestion:
    """The question that the views of a model answer."""

    label: str
    model: FittedModel
    log: Interactions
    actions: Actions  # with stars
    stars: Stars
    candidates: Candidates
    n: int  # how long lists are
    beta: float
    rng: int


@final
@dataclass(frozen=True, eq=False)
class View:
    """One user and one model."""

    asked: ModelQuestion
    user: int
    acted: IntArray  # (ratings,): positions of the items whose ratings are free
    now: FloatArray  # (ratings,): what they are if nothing is done
    rows: IntArray  # (rows,): positions of the items that may be shown, those that are acted on among them
    base: FloatArray  # (rows,): the model's scores as they are; of a searched model, with the ratings as they are
    response: AffineResponse | None

    @classmethod
    def of(cls, asked: ModelQuestion, user: int) -> View:
        """With the response, if it is affine."""
        model, log, one = asked.model, asked.log, np.array([user])
        rows = np.flatnonzero(candidate_items(log, one, None, asked.candidates)[0])
        base = model.scores(one)[0][rows]
        if model.response is None:
            return cls(asked, user, rows[:0], base[:0], rows, base, None)
        items = asked.actions.items(model, one, asked.rng, log)
        now = asked.actions.unchanged(model, one, items, log)[0]
        acted = items[0] >= 0
        items, now = items[0, acted], now[acted]
        if model.response is DifferentiableResponse:
            base = model.respond(user, user, items).scores(now)[rows]
        response = model.respond(user, user, items) if model.response is AffineResponse else None
        return cls(asked, user, items, now, rows, base, response if isinstance(response, AffineResponse) else None)

    def size(self, others: int) -> int:
        """So many bytes it takes in the page at most, beside the views of so many other users."""
        k = len(self.acted)
        floats = len(self.rows) * (2 + (0 if self.response is None else k))
        own = (8 * floats + len(self.rows) * (8 + 2 * k)) * 4 // 3 + 2_000
        return own + 2 * others * self.follows_others * (k * (8 * (k + 1) * 4 // 3 + 6) + 100)

    @property
    def follows_others(self) -> bool:
        """Whether another user's ratings move the scores, in a way that the page computes."""
        return self.response is not None and self.asked.model.others_move == "rated items"

    def data(self) -> dict[str, Any]:
        """For the page: arrays in base64, (rows, ratings) row after row."""
        found: dict[str, Any] = {
            "acted": self.acted.tolist(),
            "now": self.now.tolist(),
            "rows": encoded(self.rows, np.uint32),
            "base": encoded(self.base, np.float64),
        }
        if self.response is not None:
            found["slope"] = encoded(self.response.slope[self.rows], np.float64)
            found["intercept"] = encoded(self.response.intercept[self.rows], np.float64)
        if len(self.acted) and self.response is not None:
            found |= self._solved()
        elif len(self.acted) and self.asked.model.response is DifferentiableResponse:
            found["answers"] = self._searched()
        return found

    def edited_by(self, editor: View) -> dict[str, Any]:
        """How the scores of this viewer follow another user's ratings: for the items that they move, and no others."""
        response = self.asked.model.respond(self.user, editor.user, editor.acted)
        assert isinstance(response, AffineResponse)
        slope = response.slope[self.rows]
        moved = np.flatnonzero(slope.any(axis=1))
        return {
            "moved": moved.tolist(),
            "slope": encoded(slope[moved], np.float64),
            "intercept": encoded(response.intercept[self.rows][moved], np.float64),
        }

    def _solved(self) -> dict[str, Any]:
        """The ratings that make each item most likely, and the least that brings it into the list."""
        asked, size = self.asked, (len(self.rows), len(self.acted))
        who = (asked.log.user_ids[self.user],)
        best, least = np.full(size, STAYS, dtype=np.uint8), np.full(size, STAYS, dtype=np.uint8)
        standing, lower, sure = (np.zeros(len(self.rows), dtype=np.uint8) for _ in range(3))
        shared: dict[str, Any] = {"actions": asked.actions, "users": who, "candidates": asked.candidates, "refits": 0}
        likely = Reachability(**shared, policy=Softmax(beta=asked.beta), best_actions=True).run(
            asked.model, rng=asked.rng
        )
        pairs = likely.pairs.filter(pl.col("status").is_in([Status.SOLVED, Status.BOUNDED]))
        for row, pair in self._by_row(pairs):
            best[row] = self._stars(pair["action_items"], pair["action_ratings"])
            sure[row] = pair["status"] == Status.SOLVED
        items = tuple(pairs.sort("value", descending=True, maintain_order=True).head(ASKED)["item"].to_list())
        if items:
            goal = AmongFirst(asked.n)
            effort = Recourse(**shared, goal=goal, items=items, budget=BUDGET).run(asked.model, rng=asked.rng)
            for row, pair in self._by_row(effort.pairs):
                standing[row] = _standing(pair)
                lower[row] = int(np.ceil((pair["lower"] or 0.0) - 1e-9))
                if pair["action_items"] is not None:
                    least[row] = self._stars(pair["action_items"], pair["action_ratings"])
        return {
            "best": encoded(best, np.uint8),
            "sure": encoded(sure, np.uint8),
            "least": encoded(least, np.uint8),
            "standing": encoded(standing, np.uint8),
            "lower": encoded(lower, np.uint8),
        }

    def _searched(self) -> list[dict[str, Any]]:
        """What a search found for the items next to the list, and the list that each answer leads to."""
        asked, model = self.asked, self.asked.model
        free = ~np.isin(self.rows, self.acted)
        response = model.respond(self.user, self.user, self.acted)
        places = self._ranked(self.base, free)
        near = asked.log.item_ids.gather(self.rows[places[asked.n : asked.n + SEARCHED]]).to_list()
        if not near:
            return []
        who = (asked.log.user_ids[self.user],)
        search = Recourse(
            actions=asked.actions,
            users=who,
            items=tuple(near),
            goal=AmongFirst(asked.n),
            candidates=asked.candidates,
            refits=0,
        )
        found = []
        for row, pair in self._by_row(search.run(model, rng=asked.rng).pairs):
            answer: dict[str, Any] = {"row": row, "standing": _standing(pair), "stars": None, "list": None}
            if pair["action_items"] is not None:
                stars = self._stars(pair["action_items"], pair["action_ratings"])
                ratings = np.where(
                    stars == STAYS, self.now, asked.stars.values[np.minimum(stars, len(asked.stars.values) - 1)]
                )
                after = self._ranked(response.scores(ratings)[self.rows], free)
                answer |= {"stars": stars.tolist(), "list": after[: asked.n].tolist()}
            found.append(answer)
        return found

    def _ranked(self, scores: FloatArray, free: NDArray[np.bool_]) -> IntArray:
        ties = self.asked.log.tie_keys(np.array([self.user])).columns(self.rows)
        order = top_items(scores[None], free[None], int(free.sum()), ties)
        return np.asarray(order[0])

    def _by_row(self, pairs: pl.DataFrame) -> list[tuple[int, dict[str, Any]]]:
        """Each pair, and where its item stands among the rows."""
        at = np.searchsorted(self.rows, self.asked.log.items_at(pairs["item"].to_list()))
        return list(zip(at.tolist(), pairs.iter_rows(named=True), strict=True))

    def _stars(self, items: list[object], ratings: list[float]) -> NDArray[np.uint8]:
        """(ratings,): which star each rating takes; `STAYS` where it is as it was."""
        values = self.asked.stars.values
        chosen = np.full(len(self.acted), STAYS, dtype=np.uint8)
        for item, rating in zip(items, ratings, strict=True):
            place = self._place[item]
            if abs(rating - self.now[place]) > 1e-9:
                chosen[place] = np.abs(values - rating).argmin()
        return chosen

    @cached_property
    def _place(self) -> dict[object, int]:
        """Where each acted-on item stands, by id."""
        return {item: at for at, item in enumerate(self.asked.log.item_ids.gather(self.acted).to_list())}


def _standing(pair: dict[str, Any]) -> int:
    if pair["status"] == Status.IMPOSSIBLE:
        return STANDINGS.index("impossible")
    if pair["status"] == Status.NOT_APPLICABLE or pair["status"] == Status.FAILED:
        return 0
    if pair["value"] is None:
        return STANDINGS.index("open")
    return STANDINGS.index("least" if pair["status"] == Status.SOLVED else "some")


def encoded(array: NDArray[Any], dtype: Any) -> str:
    """The array's bytes, lowest first, in base64."""
    return base64.b64encode(np.ascontiguousarray(array, dtype=np.dtype(dtype).newbyteorder("<")).tobytes()).decode()
