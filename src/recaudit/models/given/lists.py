"""Models of what a system has shown: ranked lists from a frame or a file, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from recaudit.arguments import checked
from recaudit.arrays import FloatArray, IntArray
from recaudit.data.checks import found
from recaudit.data.interactions import Interactions, Unknown
from recaudit.data.lists import GivenLists, ListColumns, given_lists
from recaudit.errors import NotSupportedError, reading_from
from recaudit.models.base import NO_LIST, FittedModel
from recaudit.models.given.files import GivenFile


@final
@dataclass(frozen=True, eq=False, repr=False)
class ShownLists(FittedModel):
    """What a system has shown to some of a log's users: lists, in their order, and no scores."""

    data: Interactions
    given: GivenLists
    """The lists as they came, those of users whom the log does not know too."""
    predicts_ratings: bool = False

    foreign = True
    no_rule: ClassVar[str] = (
        "lists that were shown do not say what they would be after other ratings; ask the system itself, with "
        "models.from_system or models.from_http"
    )

    def scores(self, users: IntArray) -> FloatArray:
        """Refused: lists have none."""
        raise NotSupportedError(
            f"{type(self).__name__}: lists that were shown have no scores. Accuracy of lists, exposure, calibration "
            "and folding of what is shown can be asked, predicted ratings and another policy or order cannot; and "
            f"{self.no_rule}."
        )

    def own_lists(self, users: IntArray) -> IntArray:
        """See `FittedModel`: items that the log does not know leave their places empty."""
        return self._table[users]

    @cached_property
    def _table(self) -> IntArray:
        """(users of the log, longest)"""
        given, lists = self.given, self.given.dense()
        table = np.full((self.data.n_users, max(1, lists.shape[1])), NO_LIST, dtype=np.int64)
        # A list of which nothing is left was a list all the same.
        emptied = found(self.data.user_ids, given.emptied_ids, "users")
        table[emptied[emptied >= 0]] = -1
        known = given.at >= 0
        table[given.at[known], : lists.shape[1]] = lists[known]
        return table

    def __repr__(self) -> str:
        users, places = len(self.given.user_ids), len(self.given.items)
        return f"{type(self).__name__}({places:,} places in the lists of {users:,} users)"


@checked
def from_lists(
    lists: object,
    data: Interactions,
    *,
    user: str = "user",
    item: str = "item",
    rank: str = "rank",
    score: str = "score",
    unknown: Unknown = "error",
) -> ShownLists:
    """A model of lists that a system has shown: a frame (pandas, polars, pyarrow) or a .parquet, .csv or .tsv file.

    A row for each user and item, and which comes first: by `rank`, else by `score`. `data` is the log that the system
    knew. An item that the log does not know is an error; with `unknown="ignore"` its row is left out and counted, and
    its place stays empty.

    Lists are audited as they were shown: seen items stay, and are counted; a short list stays short. A user without
    any row is left out of every average, as "excluded": what was not shown is no empty list.
    """
    return ShownLists(data, given_lists(lists, data, ListColumns(user, item, rank, score), unknown))


@final
class Lists(GivenFile):
    """Lists that a system has shown, from a .parquet, .csv or .tsv file: nothing is fitted.

    A row for each user and item, and which comes first: by rank, else by score.
    """

    user: str = "user"
    """The column of user ids, as in the data."""
    item: str = "item"
    """The column of item ids, as in the data."""
    rank: str = "rank"
    """The column that says which item comes first: the lowest. It may be missing where there are scores."""
    score: str = "score"
    """The column of scores, the highest first, where there are no ranks."""
    unknown: Unknown = "error"
    """What becomes of items that the data do not know: an error, or left out ("ignore") and counted."""

    def fit(self, data: Interactions, rng: int = 0) -> ShownLists:
        """The lists, by the data's ids."""
        columns = {"user": self.user, "item": self.item, "rank": self.rank, "score": self.score}
        with reading_from(self.path.name):
            return from_lists(self.path, data, **columns, unknown=self.unknown)
