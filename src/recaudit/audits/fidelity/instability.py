"""Fidelity of instability: does one user's edit really move another's recommendations as far as the rule says?

The rule moves the vectors of the edited items and nothing else; a true refit moves everything. So the promised distance
is held against that between two refits: on the log with the promised ratings in it, and on the log as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl
import torch

from recaudit.arrays import BoolArray, FloatArray
from recaudit.audits.agency.fits import Fits
from recaudit.audits.candidates import Candidates, candidate_items
from recaudit.audits.fidelity.refits import Edit, Refit, causes, log_error
from recaudit.audits.fidelity.result import DISTANCE_SCHEMA, Fidelity
from recaudit.audits.instability.audit import instability
from recaudit.audits.logs import observed_log
from recaudit.audits.samples import SomeIds, resolve_users
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine, Serial
from recaudit.interventions import Actions, Future, Past
from recaudit.models.base import FittedModel, Recommender
from recaudit.policies import Softmax
from recaudit.solvers.distance.distances import Distance, distance_between
from recaudit.status import Status


def instability_fidelity(
    recommender: Recommender,
    model: FittedModel,
    data: Interactions | None = None,
    *,
    edits: Actions | Future | None = None,
    viewers: SomeIds = 3,
    editors: SomeIds = 3,
    distance: Distance = "hellinger",
    policy: Softmax | None = None,
    candidates: Candidates = "unseen",
    rng: int = 0,
    other_rng: int | None = None,
    engine: Engine | None = None,
) -> Fidelity:
    """Write the editors' best ratings into the log, fit the recommender again, and see how far viewers really move.

    `model` is what `recommender.fit` gave for the seed `rng`, and `data` the log with the ratings that are edited, as
    in `instability`; so are `edits` (default: the last 5), `distance`, `policy` (default: softmax with beta = 1) and
    `candidates`. `viewers` and `editors` are ids, or how many to draw at random; all their pairs are compared. Ratings
    that do not matter to the viewer under the rule stay as they are. Every distinct edit costs a refit, and two with
    `other_rng`: a recommender that draws random numbers draws others after an edit, which moves scores for no reason.
    """
    edits, policy, engine = edits or Past(5), policy or Softmax(), engine or Serial()
    log = observed_log(model, data, edits)
    promises = instability(
        model,
        data,
        edits=edits,
        viewers=log.user_ids.gather(resolve_users(viewers, log, rng, "viewers")),
        editors=log.user_ids.gather(resolve_users(editors, log, rng, "editors")),
        distance=distance,
        policy=policy,
        candidates=candidates,
        pairs=True,
        best_ratings=True,
        rng=rng,
        engine=engine,
    )
    people = promises.viewer_positions
    pairs = list(promises.frame.iter_rows(named=True))
    changed = [Edit.of(log, pair["editor"], pair) for pair in pairs]
    allowed = candidate_items(log, people, np.empty((len(people), 0), dtype=np.int64), candidates)
    fits = Fits(recommender, rng=rng)

    def refitted(as_it_is: FittedModel, seed: int) -> _Refitted:
        after = Refit(recommender, log, people, seed).all(changed, engine)
        return _Refitted(distance, policy.beta, allowed, as_it_is.scores(people).numpy(), after)

    same = refitted(fits.of(log), rng)
    other = None if other_rng is None else refitted(recommender.fit(log, other_rng), other_rng)
    rows = []
    for pair, edit in zip(pairs, changed, strict=True):
        row: dict[str, object] = {name: pair[name] for name in ("baseline", "status")}
        if edit is not None:
            at = int(np.searchsorted(people, log.users_at([pair["viewer"]])[0]))
            realised = same.moved(at, edit)
            row |= {"promised": pair["value"], "realised": realised}
            row["realised_other_rng"] = None if other is None else other.moved(at, edit)
            if realised is None:
                row["status"] = Status.FAILED.value
            else:
                row["error"] = log_error(realised, pair["value"])
        rows.append(row)
    return Fidelity(
        {
            "edits": repr(edits),
            "policy": repr(policy),
            "distance": distance,
            "candidates": candidates,
            "rng": rng,
            "other_rng": other_rng,
        },
        pl.concat([promises.frame.select("viewer", "editor"), pl.DataFrame(rows, DISTANCE_SCHEMA)], how="horizontal"),
        float((fits.of(model.data).scores(people) - model.scores(people)).abs().max()),
        causes(same.after, {} if other is None else other.after),
    )


@final
@dataclass(frozen=True, eq=False)
class _Refitted:
    """The refits of one seed, and how far they move viewers."""

    distance: Distance
    beta: float
    allowed: BoolArray
    """(viewers, items): True at each viewer's candidates."""
    before: FloatArray
    """(viewers, items): the scores of the log as it is."""
    after: Mapping[Edit, FloatArray | str]
    """(viewers, items) each: the scores of the edited log, or why there are none."""

    def moved(self, viewer: int, edit: Edit) -> float | None:
        """The distance between the viewer's recommendations; None where the refit failed."""
        scores = self.after[edit]
        if isinstance(scores, str):
            return None
        before, after = (
            torch.log_softmax(self.beta * torch.from_numpy(some[viewer, self.allowed[viewer]]), dim=0)
            for some in (self.before, scores)
        )
        return float(distance_between(self.distance, before, after))
