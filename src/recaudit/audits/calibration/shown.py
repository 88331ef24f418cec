"""Whose lists are audited, and against which log: a model's under a policy, or lists that were made elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl
from scipy import sparse

from recaudit.arrays import IntArray
from recaudit.audits.calibration.lists import ListColumns, given_lists
from recaudit.audits.lists.recommend import Recommend, check_length
from recaudit.data.interactions import Interactions, Unknown
from recaudit.engines import Engine, Serial
from recaudit.engines.base import blocks
from recaudit.errors import InputError
from recaudit.models.base import FittedModel
from recaudit.policies import Policy, Top1

DEFAULT_K = 50
"""The paper's list length."""


@final
@dataclass(frozen=True, eq=False)
class Shown:
    """The lists that are audited."""

    user_ids: pl.Series
    at: IntArray
    """(users,): positions in the log, -1 for users that it does not know."""
    lists: IntArray
    """(users, k): item positions, -1 where there is none."""
    left_out: int = 0
    """Rows whose items the log does not know."""
    emptied: int = 0
    """Users without a list, because none of its rows was left."""
    against_rank: int = 0
    """Lists whose scores contradict their ranks: the ranks decide."""

    def incidence(self, n_items: int) -> sparse.csr_array:
        """(users, items): 1 where the item is in the user's list."""
        user, place = np.nonzero(self.lists >= 0)
        entries = (np.ones(len(user)), (user, self.lists[user, place]))
        return sparse.csr_array(entries, shape=(len(self.lists), n_items))


def shown_lists(
    lists: FittedModel | object,
    data: Interactions | None,
    k: int | None,
    policy: Policy | None,
    columns: ListColumns | None,
    unknown: Unknown,
    rng: int,
    engine: Engine | None,
) -> tuple[Shown, Interactions, str]:
    """The lists, the log that they are compared with, and the policy that made them."""
    if k is not None:
        check_length(k, "k")
    if isinstance(lists, FittedModel):
        log = lists.data if data is None else _same_ids(lists.data, data)
        policy = policy or Top1()
        everybody = np.arange(log.n_users)
        work = _ListItems(Recommend(lists, policy, k or DEFAULT_K, rng))
        made = np.concatenate(list((engine or Serial()).map(work, blocks(everybody), "calibration")))
        return Shown(log.user_ids, everybody, made), log, repr(policy)
    if data is None:
        raise InputError(
            "data",
            received=None,
            expected="the log with the users' histories: lists alone do not say what users like",
            remedy="ra.calibration(lists, data).",
        )
    if policy is not None:
        raise InputError("policy", received=repr(policy), expected="no policy: these lists are made already")
    given = given_lists(lists, data, columns, unknown)
    against_rank = int(given.against_rank.sum())
    found = Shown(given.user_ids, given.at, given.dense(k), given.left_out, given.emptied, against_rank)
    return found, data, "as given"


@final
@dataclass(frozen=True, eq=False)
class _ListItems:
    recommend: Recommend

    def __call__(self, users: IntArray) -> IntArray:
        return self.recommend(users).items


def _same_ids(fitted: Interactions, data: Interactions) -> Interactions:
    if not (fitted.user_ids.equals(data.user_ids) and fitted.item_ids.equals(data.item_ids)):
        raise InputError(
            "data",
            received=f"{data!r}",
            expected=f"the users and items of the model's log, {fitted!r}",
            remedy="Leave data out to compare with the log that the model was fitted to.",
        )
    return data
