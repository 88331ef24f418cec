"""Folding: are people and things that have nothing to do with each other neighbours in the model's space?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, final
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl
from pydantic import BeforeValidator, Field, InstanceOf, PlainSerializer

from recaudit.arguments import check_count
from recaudit.arrays import FloatArray, IntArray
from recaudit.audits.audit import Context, ListAudit, Subject, Verb
from recaudit.audits.folding.definitions import FOLDING, VECTORS
from recaudit.audits.folding.explanations import About, cases, clearest
from recaudit.audits.folding.metric import SIMILAR, UNRELATED, FoldingSpace, JudgedLists, Overshoot, overshoot
from recaudit.audits.folding.relatedness import MIN_RATINGS, HasVectors, Relatedness, unit_rows, vectors_of
from recaudit.audits.lists.accuracy import Accuracy
from recaudit.audits.lists.recommend import lists_of, model_of
from recaudit.audits.recipe import Measured, Nothing, Recipe, Similarity
from recaudit.audits.result import Result, Table
from recaudit.audits.samples import Effort, draw_facts, resolve_users
from recaudit.data.interactions import Interactions
from recaudit.engines import Engine, Serial
from recaudit.errors import InputError, NotSupportedError, did_you_mean
from recaudit.metrics.groupings import Grouping, groupings
from recaudit.metrics.inference import Bounds
from recaudit.metrics.intervals import Ratio, mean
from recaudit.metrics.metric import Metric
from recaudit.metrics.tables import SERIES_SCHEMA, item_table, user_table
from recaudit.models.base import FittedModel
from recaudit.models.factor.wals import WALS
from recaudit.policies import Top1
from recaudit.seeding import derive, uniforms
from recaudit.specification import Count, Number, as_data, mistake
from recaudit.status import Status

LOG = "log"
"""The relatedness that every log has: from who rated what."""
_NO_VECTORS = "has no user and item vectors, so that nothing can fold in its space"
_MOST_PAIRS = 10**9
"""Pairs that are looked at where nothing is said: a quarter of a minute."""
_CASES = 10
"""How many spurious recommendations are kept, with the evidence."""


@final
class FoldingResult(Result):
    """Folding of one model, and what is behind it."""

    of_model: tuple[FoldingSpace, JudgedLists] | None = None
    """What it was measured on; None where it was read from a folder."""

    @property
    def relatedness(self) -> Relatedness:
        """What similarity is compared with."""
        return self._measured[0].relatedness

    @property
    def _measured(self) -> tuple[FoldingSpace, JudgedLists]:
        if self.of_model is None:
            raise NotSupportedError("This result was read from a folder, without its model. Ask the model again.")
        return self.of_model

    def spurious(
        self, user: object, n: int = 3, *, system: str | None = None, min_ratings: int = MIN_RATINGS
    ) -> pl.DataFrame:
        """The n items of this user's list that are least related to the user, with the evidence: see `CASE_SCHEMA`.

        `system` names the categories to show, else the log's first; only items with `min_ratings` are evidence.
        """
        check_count("n", n)
        space, lists = self._measured
        position = space.model.data.users_at([user])
        items, _ = lists_of(space.model, Top1(), lists.items.shape[1], self.rng, Serial(), "lists", position)
        found = JudgedLists(space, position, items, lists.unrelated, lists.similar)
        row, place = np.nonzero(items >= 0)
        order = np.lexsort((place, -found.similarity[row, place], found.relatedness[row, place]))[:n]
        return cases(space, found, (row[order], place[order]), About(space.model.data, system), min_ratings)

    def worst(self, n: int = _CASES, *, system: str | None = None, min_ratings: int = MIN_RATINGS) -> pl.DataFrame:
        """The n clearest spurious recommendations over all users who were asked about, with the evidence.

        By overshoot times the share of the user's ratings that have no category in common with the item; each
        user and item once, and only items with at least `min_ratings`. Fewer rows where fewer are spurious.
        """
        check_count("n", n)
        space, lists = self._measured
        about = About(space.model.data, system)
        return cases(space, lists, clearest(lists, about, n, min_ratings), about, min_ratings)


def _several(value: object) -> object:
    """A single one stands for a list of one."""
    if isinstance(value, np.ndarray):
        remedy = "Wrap a matrix (users, items) as Relatedness.given(matrix)."
        raise mistake((), "an array", "the name of one, or a Relatedness", remedy)
    return (value,) if isinstance(value, str | Relatedness) else value


AnyRelatedness = Annotated[
    tuple[str | InstanceOf[Relatedness], ...],
    BeforeValidator(_several),
    PlainSerializer(lambda each: [related if isinstance(related, str) else related.label for related in each]),
]


@final
class Folding(ListAudit):
    """How far the model's similarity of users and items overshoots their relatedness (paper 002, Definition 3.1).

    `F_R(S) = mean over all pairs of max(0, s_ij - r_ij)`: s_ij is the similarity of the model's user vector i and
    item vector j (biases have no part in it), r_ij in [0, 1] the relatedness. Values of cosines and of dot
    products, or of two relatednesses, do not compare.

    Beside it, on what would be shown: the mean overshoot over each user's k unseen items with the highest scores, the
    share of those that are spurious, and how related they are at all. The last needs no vectors: models without them,
    and systems that give lists, have it alone, and the others are "not_applicable".

    `pairs` has each shown item, "spurious" the clearest cases with the evidence. Of several relatednesses, `groups` has
    the overall numbers by "relatedness".
    """

    metrics = FOLDING
    drawn = ("sample",)
    takes_lists = True
    not_in_loop = ("unobserved_weights",)
    result = FoldingResult

    relatedness: Annotated[AnyRelatedness, Field(min_length=1)] = (LOG,)
    """From who rated what ("log"), from what items are about (the name of a category system), or one of your own (a
    `Relatedness`); of several the first is what the numbers stand on, the others are set beside it."""
    similarity: Literal["cosine", "dot"] = "cosine"
    """Of the model's user and item vectors."""
    unrelated: Annotated[Number, Field(ge=0, le=1)] = UNRELATED
    """A shown item is spurious if its relatedness to the user is below this..."""
    similar: Number = SIMILAR
    """...although its similarity is above this."""
    sample: Annotated[Count, Field(ge=2)] | None = None
    """How many users to take, each as likely as any other, against every item. Where nothing is said all, or of those
    whose pairs would be more than a billion so many, drawn by history; as many as there are is all."""
    unobserved_weights: tuple[Annotated[Number, Field(ge=0)], ...] = ()
    """For a WALS recommender, the trade-off: it is fitted again with each of these weights of unrated pairs."""

    @property
    def recipe(self) -> Recipe:
        """What is, without any intervention."""
        return Recipe(Nothing(), Similarity(), Measured(FOLDING[0]))

    def check(self, data: Interactions) -> None:
        """Groupings and category systems."""
        super().check(data)
        for name in self.relatedness:
            if isinstance(name, str) and name != LOG and name not in data.categories:
                expected = f"'{LOG}' or a category system of the data"
                remedy = did_you_mean(name, [LOG, *data.categories])
                raise InputError("relatedness", received=name, expected=expected, remedy=remedy)

    def bounds_of(self, metric: Metric) -> Bounds:
        """See `Audit`: a cosine exceeds the relatedness by at most 1, a dot product by any amount.

        Folding over all pairs has no upper bound here, because an average over the whole catalogue never comes near 1.
        """
        return (0.0, 1.0) if metric.name == "shown_folding" and self.similarity == "cosine" else metric.bounds

    def measure(self, subject: Subject, context: Context) -> FoldingResult:
        """Look at all pairs and everybody's list; held-out ratings only count for the trade-off."""
        model, rng, engine = model_of(subject), context.rng, context.engine
        vectors = vectors_of(model) if isinstance(model, HasVectors) else None
        if vectors is not None and self.similarity == "cosine":
            vectors = unit_rows(vectors[0]), unit_rows(vectors[1])
        data = model.data
        self.check(data)
        users, slices = self._users(data, rng), groupings(data, self.by)
        spaces = [FoldingSpace(model, vectors, self._related(each, data)) for each in self.relatedness]
        items, asked = lists_of(model, Top1(), self.k, rng, engine, "lists", users)
        lists, *others = (JudgedLists(space, users, items, self.unrelated, self.similar) for space in spaces)
        weights = [grouping.weights for grouping in slices if grouping.over == "items"]
        sums = _sums(spaces[0], users, engine, np.hstack(weights) if weights else None)
        ratios = _ratios(sums, lists, slices)
        if others:
            each_sums = [sums, *(_sums(space, users, engine) for space in spaces[1:])]
            names = as_data(self)["relatedness"]
            for name, its_sums, its_lists in zip(names, each_sums, (lists, *others), strict=True):
                own = _ratios(its_sums, its_lists, [])
                ratios += [replace(ratio, by="relatedness", group=name) for ratio in own]
        system = next((each for each in self.relatedness if isinstance(each, str) and each != LOG), None)
        tables: dict[str, Table] = {
            **self.aggregated(ratios, data, users),
            "users": user_table(data.user_ids.gather(users), _own(sums, lists)),
            "items": _items(data, sums, lists),
            "pairs": lambda: _pairs(data, lists),
            "series": lambda: self._tradeoff(subject, spaces[0].relatedness, context),
        }
        facts = {"related_by": [space.relatedness.label for space in spaces], **asked}
        facts |= draw_facts(self.sample, len(users), data)
        if vectors is None:
            facts["left_out"] = {f"{model.called} {_NO_VECTORS}": [*VECTORS]}
        else:
            tables["spurious"] = lambda: found.worst(system=system)
        found = FoldingResult(self, tables, rng=rng, facts=facts)
        found.of_model = spaces[0], lists
        return found

    def asking_effort(self, data: Interactions) -> Effort:
        """See `Audit`: a user is looked at beside all items."""
        return Effort(data.n_items, _MOST_PAIRS, _MOST_PAIRS)

    def _users(self, data: Interactions, rng: int) -> IntArray:
        """All users, or a sample; whether one is drawn follows from the ids alone."""
        if self.sample is None:
            return resolve_users(None, data, rng, "folding", self.asking_effort(data))
        if self.sample > data.n_users:
            raise InputError("sample", received=self.sample, expected=f"a number of users from 2 to {data.n_users:,}")
        draws = uniforms(derive(rng, "folding"), data.user_keys, np.zeros(1, dtype=np.uint64))
        return np.sort(np.argsort(draws, kind="stable")[: self.sample])

    @staticmethod
    def _related(each: str | Relatedness, data: Interactions) -> Relatedness:
        if isinstance(each, str):
            return _of_log(data) if each == LOG else Relatedness.from_categories(data, each)
        if each.shape != (data.n_users, data.n_items):
            expected = f"the {data.n_users:,} users and {data.n_items:,} items of the model's log"
            remedy = "Build it from the log that the model was fitted to, model.data."
            raise InputError("relatedness", received=f"{each!r}", expected=expected, remedy=remedy)
        return each

    def _tradeoff(self, subject: Subject, related: Relatedness, context: Context) -> pl.DataFrame:
        """A curve: RMSE and folding of the same recommender with other weights of unrated pairs."""
        recommender, model, test = subject.recommender, subject.model, subject.test
        rows: list[dict[str, object]] = []
        if isinstance(recommender, WALS) and model is not None and test is not None:
            asked = self.model_copy(update={"relatedness": (related,), "sample": None})
            for weight in sorted(self.unobserved_weights):
                other = recommender.with_settings(unobserved_weight=weight).fit(model.data, rng=context.rng)
                (measured,) = accuracy_and_folding(other, test, {"": related}, asked, context.rng, context.engine)
                point = {"over": "unobserved_weight", "at": weight, "users": test.n_users, "excluded": 0}
                for metric in ("rmse", "folding", "shown_folding", "spurious_share"):
                    status = Status.NOT_APPLICABLE if measured[metric] is None else Status.SOLVED
                    rows.append(point | {"metric": metric, "value": measured[metric], "status": status.value})
        return pl.DataFrame(rows, SERIES_SCHEMA)


folding = Verb(Folding, FoldingResult)


_LOGS = WeakKeyDictionary[Interactions, Relatedness]()


def _of_log(data: Interactions) -> Relatedness:
    """From who rated what; worked out once for all models of a log."""
    if data not in _LOGS:
        _LOGS[data] = Relatedness.from_log(data)
    return _LOGS[data]


def accuracy_and_folding(
    model: FittedModel, test: Interactions, related: Mapping[str, Relatedness], asked: Folding, rng: int, engine: Engine
) -> list[dict[str, Any]]:
    """A row for each relatedness: its name, RMSE (None if scores are no ratings), nDCG and the metrics of folding."""
    # Intervals over users are not asked for: two draws are the fewest that there are.
    quick = {"by": (), "unobserved_weights": ()}
    found = Accuracy(k=asked.k, by=()).run(Subject(model, test=test), rng=rng, engine=engine)
    whole = {"rmse": found["rmse"] if model.predicts_ratings else None, "ndcg": found["ndcg"]}
    rows = []
    for name, each in related.items():
        folded = asked.model_copy(update={**quick, "relatedness": (each,)}).run(model, rng=rng, engine=engine)
        rows.append({"relatedness": name, **whole, **{metric.name: folded[metric.name] for metric in FOLDING}})
    return rows


# ---- tables --------------------------------------------------------------------------------------------


def _sums(
    space: FoldingSpace, users: IntArray, engine: Engine, item_groups: FloatArray | None = None
) -> Overshoot | None:
    """See `overshoot`; None of a model without vectors."""
    return space.vectors and overshoot(*space.vectors, space.relatedness, users, engine, item_groups)


def _own(sums: Overshoot | None, lists: JudgedLists) -> dict[str, FloatArray]:
    """(asked users,) each: every user's own value."""
    unknown = np.full(len(lists.users), np.nan)
    return {
        "folding": unknown if sums is None else sums.user_sums / len(sums.item_sums),
        "overshoot_share": unknown if sums is None else sums.user_counts / len(sums.item_sums),
        "shown_folding": lists.folding,
        "spurious_share": lists.spurious_share,
        "unrelated_share": lists.unrelated_share,
        "shown_relatedness": lists.shown_relatedness,
    }


def _ratios(sums: Overshoot | None, lists: JudgedLists, slices: list[Grouping]) -> list[Ratio]:
    """Everything to report: overall, by group of users, by group of items."""
    own = _own(sums, lists)
    ratios = _averages(own, np.ones(len(lists.users)))
    column = 0
    for grouping in slices:
        if grouping.over == "users":
            for group, members in zip(grouping.names, grouping.weights[lists.users].T, strict=True):
                ratios += _averages(own, members, grouping.by, group)
        else:
            totals = None if sums is None else sums.group_sums[:, column : column + len(grouping.names)]
            column += len(grouping.names)
            ratios += _of_items(grouping, totals, lists)
    return ratios


def _averages(own: dict[str, FloatArray], members: FloatArray, by: str = "", group: str = "") -> list[Ratio]:
    """Averages over users; what is shown stands beside the value over all pairs."""
    folded = float(own["folding"] @ members / members.sum()) if members.any() else np.nan
    beside = {} if np.isnan(folded) else {"shown_folding": folded}
    return [mean(name, values, members, by, group, baseline=beside.get(name)) for name, values in own.items()]


def _of_items(grouping: Grouping, totals: FloatArray | None, lists: JudgedLists) -> list[Ratio]:
    """Of each group of items: folding over all pairs with them, and over the places that they take in lists.

    `totals` (users, groups): sums of the overshoot; None of a model without vectors.
    """
    asked, size = len(lists.users), grouping.weights.sum(axis=0)
    row, place = np.nonzero(lists.items >= 0)
    belongs = grouping.weights[lists.items[row, place]]
    shown = {"unrelated_share": lists.below, "shown_relatedness": lists.relatedness}
    if totals is not None:
        shown = {"shown_folding": lists.overshoot, "spurious_share": lists.spurious, **shown}

    def by_user(values: FloatArray) -> FloatArray:
        """(users,): the sum over each user's list."""
        return np.bincount(row, values, asked).astype(np.float64)

    ratios = []
    for g, group in enumerate(grouping.names):
        beside: dict[str, float] = {}
        if totals is not None:
            ratios.append(Ratio("folding", totals[:, g], np.full(asked, size[g]), asked, by=grouping.by, group=group))
            if size[g]:
                beside["shown_folding"] = float(totals[:, g].sum() / (asked * size[g]))
        places = by_user(belongs[:, g])
        for name, values in shown.items():
            sums = by_user(values[row, place] * belongs[:, g])
            ratios.append(Ratio(name, sums, places, asked, by=grouping.by, group=group, baseline=beside.get(name)))
    return ratios


def _items(data: Interactions, sums: Overshoot | None, lists: JudgedLists) -> pl.DataFrame:
    """One row an item: how far users overshoot towards it, null without vectors, and where it is shown."""
    asked, shown = len(lists.users), lists.items >= 0
    films, unknown = lists.items[shown], pl.lit(None, pl.Float64)
    spurious = pl.Series(np.bincount(films, np.nan_to_num(lists.spurious[shown]), data.n_items).astype(np.int64))
    return item_table(data).with_columns(
        folding=unknown if sums is None else pl.Series(sums.item_sums / asked),
        overshoot_share=unknown if sums is None else pl.Series(sums.item_counts / asked),
        recommended=np.bincount(films, minlength=data.n_items),
        spurious=pl.lit(None, pl.Int64) if sums is None else spurious,
        unrelated=np.bincount(films, lists.below[shown], data.n_items).astype(np.int64),
    )


def _pairs(data: Interactions, lists: JudgedLists) -> pl.DataFrame:
    """One row a shown item: user, item, rank, relatedness, similarity, overshoot, and whether it is spurious.

    The last three are null of a model without vectors.
    """
    row, place = np.nonzero(lists.items >= 0)
    return pl.DataFrame(
        {
            "user": data.user_ids.gather(lists.users[row]),
            "item": data.item_ids.gather(lists.items[row, place]),
            "rank": place + 1,
            "relatedness": lists.relatedness[row, place],
            "similarity": pl.Series(lists.similarity[row, place]).fill_nan(None),
            "overshoot": pl.Series(lists.overshoot[row, place]).fill_nan(None),
            "spurious": pl.Series(lists.spurious[row, place]).fill_nan(None) > 0,
        }
    )
