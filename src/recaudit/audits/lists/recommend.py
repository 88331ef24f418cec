"""What is recommended to whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl

from recaudit.arguments import checked
from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.asking import FAILURES
from recaudit.audits.audit import Subject
from recaudit.audits.failures import cause_of
from recaudit.engines import Engine, Serial
from recaudit.engines.base import blocks
from recaudit.errors import InputError, NotSupportedError
from recaudit.models.base import NO_LIST, FittedModel, users_together
from recaudit.models.given.black_box import BlackBox
from recaudit.models.given.lists import ShownLists, from_lists
from recaudit.models.products import TopProducts
from recaudit.policies import Lister, ListPolicy, Policy, Top1
from recaudit.policies.selection import check_finite
from recaudit.ranking import top_items_and_ties

_ASKED = 8
"""Users in a block of a system that is asked."""
LONGEST = 1_000_000
"""Most places of a list."""
_WORTH = 50
"""Places of the lists that are remembered, at least: as many as the longest that audits ask for by default."""
_LONG = 1000
"""Longer lists are made of all scores."""


class Listed(NamedTuple):
    """Lists of a block of users."""

    items: IntArray
    """Item positions, best first, -1 for none, shape (users, n); `NO_LIST` for users without a known list."""
    untied: IntArray
    """Number of the first items whose position does not depend on a tie of scores, shape (users,); n if none does."""

    def cut(self, n: int) -> Listed:
        """Return the lists of the first n items."""
        return Listed(self.items[:, :n], np.minimum(self.untied, n))


_KNOWN: WeakKeyDictionary[FittedModel, dict[ListPolicy, Listed]] = WeakKeyDictionary()
"""The longest lists of everybody by model and policy: audit after audit looks at the same ones. They go with the model.
"""


@final
@dataclass(frozen=True, eq=False)
class Recommend:
    """Block of users in, their lists out; picklable, and pure, so that any engine gives the same lists."""

    model: FittedModel
    policy: ListPolicy
    n: int
    rng: int

    def __call__(self, users: IntArray) -> tuple[Listed, FloatArray, dict[int, str]]:
        """The lists; every score (users, items), NaN where a system gave lists.

        What a system shows is taken as it is, seen items too; `NO_LIST` fills the rows of users without a known list.
        And why a system did not answer, by position of the user: one that fails leaves the others as they are.
        """
        if not isinstance(self.model, BlackBox):
            return *self._lists(users), {}
        lists = Listed(np.full((len(users), self.n), NO_LIST, dtype=np.int64), np.full(len(users), self.n))
        scores = np.full((len(users), self.model.data.n_items), np.nan)
        failed: dict[int, str] = {}
        one_answer = replace(self, model=self.model.with_earlier_answers)
        for row, user in enumerate(users):
            try:
                own, told = one_answer._lists(users[row : row + 1])
            except FAILURES as error:
                failed[int(user)] = cause_of(error)
            else:
                lists.items[row], lists.untied[row], scores[row] = own.items[0], own.untied[0], told[0]
        return lists, scores, failed

    def _lists(self, users: IntArray) -> tuple[Listed, FloatArray]:
        model, every = self.model, np.full(len(users), self.n)
        if gives_lists(model):
            return Listed(self._given(users), every), np.broadcast_to(np.nan, (len(users), model.data.n_items))
        scores = model.scores(users)
        allowed = ~model.data.seen(users) & model.may_show(scores)
        if self.ranks_by_score:
            check_finite(scores, allowed)
            return Listed(*top_items_and_ties(scores, allowed, self.n, model.data.tie_keys(users))), scores
        return Listed(self._lister(scores, allowed, users, self.n, self.rng), every), scores

    def listed(self, users: IntArray) -> tuple[Listed, FloatArray, dict[int, str]]:
        """As when called, but with the scores (users, n) of the lists alone, NaN where there is none."""
        if self.products is None:
            lists, scores, failed = self(users)
            return lists, _scores_of(lists.items, scores), failed
        found = self.products.lists(users, self.n)
        for rows in blocks(np.flatnonzero(~found.decided), users_together(self.model.data.n_items)):
            lists, scores = self._lists(users[rows])
            found.items[rows], found.untied[rows] = lists
            found.scores[rows] = _scores_of(lists.items, scores)
        return Listed(found.items, found.untied), found.scores, {}

    def items(self, users: IntArray) -> tuple[Listed, dict[int, str]]:
        """The lists without the scores, and for whom the system failed."""
        lists, _, failed = self.listed(users)
        return lists, failed

    def rows(self, users: IntArray) -> pl.DataFrame:
        """The lists under the original ids, a row for each place."""
        data, (lists, scores, _) = self.model.data, self.listed(users)
        row, rank = np.nonzero(lists.items >= 0)
        return pl.DataFrame(
            {
                "user": data.user_ids.gather(users[row]),
                "item": data.item_ids.gather(lists.items[row, rank]),
                "rank": rank + 1,
                "score": pl.Series(scores[row, rank]).fill_nan(None),
            }
        )

    def pieces(self, users: IntArray) -> list[IntArray]:
        """Blocks of users; small ones of a system that is asked, so that workers wait for several answers at a time."""
        if isinstance(self.model, BlackBox):
            return blocks(users, _ASKED)
        return blocks(users) if self.products else blocks(users, users_together(self.model.data.n_items))

    @property
    def ranks_by_score(self) -> bool:
        """Whether lists are the items with the highest scores, so that only ties are decided by anything else."""
        return isinstance(self.policy, Policy) and self.policy.certain and not gives_lists(self.model)

    @cached_property
    def products(self) -> TopProducts | None:
        """What finds the highest scores without holding them all, where they are products of vectors."""
        certain = isinstance(self.policy, Policy) and self.policy.certain
        vectors = self.model.score_vectors() if certain and self.n <= _LONG else None
        # Scores that are no numbers are refused where they are ranked.
        if vectors is None or not vectors.finite:
            return None
        data = self.model.data
        return TopProducts(vectors, data.indptr, data.items, data.tie_keys(np.arange(data.n_users)))

    def _given(self, users: IntArray) -> IntArray:
        """(users, n): the system's own lists, cut at n."""
        if self.policy != Top1():
            raise NotSupportedError(
                f"This system gives lists, which are taken as they are: {self.policy!r} has no scores to choose by. "
                "Leave out the policy, or ask a system for scores or probabilities, with models.from_system."
            )
        own = self.model.own_lists(users)
        assert own is not None
        items = np.full((len(users), self.n), -1, dtype=np.int64)
        items[:, : own.shape[1]] = own[:, : self.n]
        items[(own == NO_LIST).any(axis=1)] = NO_LIST
        return items

    @property
    def longer(self) -> Recommend:
        """The same with lists so long that the next audit finds its own among them, where the scores take the time."""
        longer = self._settled and self.products is None and self.n < _WORTH
        return replace(self, n=_WORTH) if longer else self

    @property
    def known(self) -> Listed | None:
        """The lists of everybody, where they were made before."""
        known = _KNOWN.get(self.model, {}).get(self.policy) if self._settled else None
        return known.cut(self.n) if known is not None and self.n <= known.items.shape[1] else None

    def remember(self, lists: Listed) -> None:
        """So that who asks for these lists of everybody next, or for their beginning, has them."""
        if self._settled and self.known is None:
            _KNOWN.setdefault(self.model, {})[self.policy] = Listed(lists.items.copy(), lists.untied.copy())

    def tie_facts(self, lists: Listed) -> dict[str, Any]:
        """Count the users whose list of n items depends on how ties are decided; nothing if scores do not rank."""
        if not self.ranks_by_score:
            return {}
        known = (lists.items != NO_LIST).all(axis=1)
        tied = known & (lists.untied < self.n)
        return {"ties": {"users": int(tied.sum()), "of": int(known.sum())}}

    @property
    def _settled(self) -> bool:
        """Whether the lists follow from the model alone, and it is ours: nobody else changes it."""
        return isinstance(self.policy, Policy) and self.policy.certain and not self.model.foreign

    @cached_property
    def _lister(self) -> Lister:
        return self.policy.lister(self.model.data)  # once for all blocks


def known_lists(model: FittedModel) -> dict[ListPolicy, Listed]:
    """The lists of everybody that were made of this model, by policy."""
    return dict(_KNOWN.get(model, {}))


def know_lists(model: FittedModel, lists: dict[ListPolicy, Listed]) -> None:
    """As if these, and no others, had been made."""
    _KNOWN[model] = dict(lists)


def _scores_of(lists: IntArray, scores: FloatArray) -> FloatArray:
    """(users, n): the scores (users, items) of each list (users, n); NaN where it has no item."""
    return np.where(lists >= 0, np.take_along_axis(scores, np.maximum(lists, 0), axis=1), np.nan)


def gives_lists(model: FittedModel) -> bool:
    """Whether what is shown is the system's own list, rather than made of scores; nobody is asked."""
    return model.own_lists(np.empty(0, dtype=np.int64)) is not None


def model_of(subject: Subject) -> FittedModel:
    """The model that is audited: lists that were handed in without one are a model of what was shown."""
    if subject.model is not None:
        return subject.model
    data = subject.data or subject.history
    if data is None:
        raise InputError(
            "data",
            received=None,
            expected="the log that the system knew: its users, its items and what they had rated",
            remedy="Make a model of the lists: ra.models.from_lists(lists, data).",
        )
    return from_lists(subject.lists, data)


def list_facts(model: FittedModel, users: IntArray, lists: IntArray) -> dict[str, Any]:
    """What is to be said of a system's own `lists` (users, n) of these users (positions); else nothing."""
    if not gives_lists(model):
        return {}
    row, place = np.nonzero(lists >= 0)
    pairs = users[row] * model.data.n_items + lists[row, place]
    rated = np.append(model.data.users.astype(np.int64) * model.data.n_items + model.data.items, -1)
    known = (lists != NO_LIST).all(axis=1)
    facts = {
        "users": int(known.sum()),
        "without": int((~known).sum()),
        "shorter": int(((lists >= 0).sum(axis=1) < lists.shape[1])[known].sum()),
        "seen": int((rated[np.searchsorted(rated[:-1], pairs)] == pairs).sum()),  # a log is sorted
    }
    if isinstance(model, ShownLists):
        given = model.given
        facts |= {"left_out": given.left_out, "unknown_users": int((given.at < 0).sum())}
    return {"lists": facts}


def lists_of(
    model: FittedModel,
    policy: ListPolicy,
    n: int,
    rng: int,
    engine: Engine,
    label: str,
    users: IntArray | None = None,
) -> tuple[IntArray, dict[str, Any]]:
    """(users, n): item positions, best first, -1 for none, for everybody in the model's log or `users` (positions).

    `NO_LIST` throughout for users whose list is not known: they were not asked about, or the system failed. Then what a
    result says of that, and of a system's own lists.
    """
    check_length(n, "k")
    everybody = np.arange(model.data.n_users) if users is None else users
    asked = np.isin(everybody, asked_users(model, everybody))
    failed: dict[int, str] = {}
    wanted = Recommend(model, policy, n, rng)
    if (known := wanted.known) is not None:
        known = Listed(known.items[everybody], known.untied[everybody])
        return known.items, wanted.tie_facts(known)
    work = wanted.longer if users is None else wanted
    made = Listed(np.full((len(everybody), work.n), NO_LIST, dtype=np.int64), np.full(len(everybody), work.n))
    at, start = np.flatnonzero(asked), 0
    for some, without in engine.map(work.items, work.pieces(everybody[asked]), label):
        # Into what is there already: what is kept of each block would lie between the places of its scores, which
        # the next block could then not take.
        rows = at[start : start + len(some.items)]
        made.items[rows], made.untied[rows] = some
        start += len(some.items)
        failed |= without
    if users is None:
        work.remember(made)
    made = made.cut(n)
    facts = asking_facts(model, everybody, failed, int(asked.sum()))
    facts |= list_facts(model, everybody[asked], made.items[asked])
    return made.items, facts | wanted.tie_facts(made)


def asked_users(model: FittedModel, users: IntArray) -> IntArray:
    """Those of the users (positions) whom the model may be asked about."""
    return users if model.audited_users is None else users[np.isin(users, model.audited_users)]


def asking_facts(model: FittedModel, users: IntArray, failed: Mapping[int, str], queried: int) -> dict[str, Any]:
    """Facts about the users that a system was queried about, and about those that it failed for.

    `asked`: for how many of the `users` it may be queried, where not for all. `failed`: for how many it failed, by
    cause. `answered`: for how many of those that it was `queried` about it gave an answer, where not for all.
    """
    asked = asked_users(model, users)
    facts: dict[str, Any] = {} if len(asked) == len(users) else {"asked": {"users": len(asked), "of": len(users)}}
    if failed:
        facts["failed"] = dict(Counter(failed.values()).most_common())
        facts["answered"] = {"users": queried - len(failed), "of": queried}
    return facts


@checked
def recommend(
    model: FittedModel,
    *,
    n: int = 10,
    policy: ListPolicy | None = None,
    users: Iterable[object] | None = None,
    rng: int = 0,
    engine: Engine | None = None,
) -> pl.DataFrame:
    """Lists of n items that each user has not seen, under the original ids: user, item, rank, score.

    `users` are ids. A stochastic policy draws without replacement. A system that gives lists is asked for one each,
    which is cut at n and else as it is: in its own order, with what was seen, without scores, and short where it is.
    """
    check_length(n)
    everybody = np.arange(model.data.n_users)
    positions = asked_users(model, everybody) if users is None else model.data.users_at(users)
    if not len(positions):
        raise InputError("users", received="no ids", expected="at least one, or None for everybody")
    work = Recommend(model, policy or Top1(), n, rng)
    return pl.concat((engine or Serial()).map(work.rows, work.pieces(positions), "lists"))


def check_length(n: int, argument: str = "n") -> None:
    """A list has at least one place, and every user's is held in memory."""
    if not 1 <= n <= LONGEST:
        raise InputError(argument, received=n, expected=f"a list length of 1 or more, up to {LONGEST:,}")
