"""Every audit of the five papers, as one recipe each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from recaudit.audits.recipe.functionals import (
    Distance,
    Error,
    Exposure,
    Lift,
    Mean,
    Miscalibration,
    Overshoot,
    RankGain,
    Ranking,
    Value,
)
from recaudit.audits.recipe.outcomes import (
    Distribution,
    PredictedRating,
    Probability,
    RatingsReceived,
    RecommendedList,
    Similarity,
)
from recaudit.audits.recipe.quantifiers import Max
from recaudit.audits.recipe.specification import Audit
from recaudit.errors import InputError, did_you_mean
from recaudit.interventions import Future, FutureEdits, HistoryEdits, NextK, Past
from recaudit.interventions.who import Deployed, Nothing, Others, Own

PAPERS = {
    "000": "Curmei, Dean, Recht 2021, Quantifying Availability and Discovery in Recommender Systems via Stochastic "
    "Reachability",
    "001": "A Unified Causal Framework for Auditing Recommender Systems for Ethical Concerns",
    "002": "Xin et al. 2017, Folding: Why Good Models Sometimes Make Spurious Recommendations",
    "003": "Krauth et al. 2020, Do Offline Metrics Predict Online Performance in Recommender Systems?",
    "004": "Steck 2018, Calibrated Recommendations",
}


@final
@dataclass(frozen=True)
class Source:
    """Where a paper has it."""

    paper: str
    """A key of PAPERS."""
    where: str

    def __str__(self) -> str:
        return f"{self.paper} {self.where}"


@final
@dataclass(frozen=True)
class Aggregation:
    """What is made of an audit's rows, without asking anything new: averages over users, items and groups."""

    name: str
    number: str
    """What is taken of the rows, in a few words."""
    source: Source
    call: str


@final
@dataclass(frozen=True)
class Entry:
    """One audit of the papers, at the sizes that are used there."""

    name: str
    audit: Audit
    sources: tuple[Source, ...]
    call: str
    """What runs it, with `ra` for recaudit and actions from `ra.interventions`."""
    aggregations: tuple[Aggregation, ...] = ()


_REACH = "ra.reachability(model, actions=NextK(10))"
_MOVED = "ra.instability(model, data, edits=Past(5))"
_REACH_AGGREGATED = (
    Aggregation(
        "discovery", "share likelier than chance", Source("000", "Eq. 3"), f'{_REACH}.aggregate()["discovery"]'
    ),
    Aggregation("availability", "mean over users", Source("000", "Eq. 3"), f'{_REACH}.aggregate()["availability"]'),
    Aggregation("gaps between groups", "means by group", Source("000", "Sec. 5.3"), f"{_REACH}.aggregate().groups"),
    Aggregation("popularity bias", "Spearman over items", Source("000", "Table 4"), f"{_REACH}.correlations()"),
    Aggregation("experience bias", "Spearman over users", Source("000", "Table 5"), f"{_REACH}.correlations()"),
)


def _entry(name: str, audit: Audit, *sources: tuple[str, str], call: str) -> Entry:
    return Entry(name, audit, tuple(Source(*source) for source in sources), call)


_ENTRIES = (
    Entry(
        "reachability",
        Audit(Own(NextK(10)), Probability(), Value(), Max()),
        (Source("000", "Eq. 1"),),
        _REACH,
        _REACH_AGGREGATED,
    ),
    _entry(
        "reachability (seen)",
        Audit(Own(HistoryEdits(10)), Probability(), Value(), Max()),
        ("000", "Eq. 1"),
        call="ra.reachability(model, actions=HistoryEdits(10))",
    ),
    _entry(
        "reachability (unseen)",
        Audit(Own(FutureEdits(10)), Probability(), Value(), Max()),
        ("000", "Eq. 1"),
        call="ra.reachability(model, actions=FutureEdits(10))",
    ),
    _entry(
        "lift",
        Audit(Own(NextK(10)), Probability(), Lift(), Max()),
        ("000", "Eq. 2"),
        call=f'{_REACH}.frame["lift"]',
    ),
    _entry(
        "rank gain",
        Audit(Own(NextK(10)), Probability(), RankGain(), Max(of=Value())),
        ("000", "Sec. 2.2"),
        call=f'{_REACH}.frame["rank_gain"]',
    ),
    _entry(
        "past-5 reachability",
        Audit(Own(Past(5)), Probability(), Value(), Max()),
        ("001", "Def. 4.2"),
        call="ra.reachability(model, data, actions=Past(5))",
    ),
    _entry(
        "future-5 reachability",
        Audit(Own(Future(5)), Probability(), Value(), Max()),
        ("001", "Def. 4.1"),
        call="ra.reachability(model, actions=Future(5))",
    ),
    Entry(
        "past-5 instability",
        Audit(Others(Past(5)), Distribution(), Distance("hellinger"), Max()),
        (Source("001", "Def. 4.4"),),
        _MOVED,
        (
            Aggregation(
                "gaps between groups", "means by group", Source("001", "App. E"), f"{_MOVED}.aggregate().groups"
            ),
        ),
    ),
    _entry(
        "future-5 instability",
        Audit(Others(Future(5)), Distribution(), Distance("hellinger"), Max()),
        ("001", "Def. 4.3"),
        call="ra.instability(model, edits=Future(5))",
    ),
    _entry(
        "folding",
        Audit(Nothing(), Similarity(), Overshoot()),
        ("002", "Def. 3.1"),
        call='ra.folding(model)["folding"]',
    ),
    _entry(
        "calibration",
        Audit(Nothing(), RecommendedList(50), Miscalibration("kl")),
        ("004", "Eq. 4, 5"),
        call='ra.calibration(model)["calibration_kl"]',
    ),
    _entry(
        "calibration (C_H)",
        Audit(Nothing(), RecommendedList(50), Miscalibration("hellinger")),
        ("004", "Sec. 3"),
        call='ra.calibration(model)["calibration_hellinger"]',
    ),
    _entry(
        "rating error",
        Audit(Nothing(), PredictedRating(), Error("rmse")),
        ("000", "Table 1"),
        ("002", "Sec. 3.6"),
        ("003", "Sec. 5"),
        call='ra.accuracy(model, test)["rmse"]',
    ),
    _entry(
        "ranking quality",
        Audit(Nothing(), RecommendedList(20), Ranking("ndcg")),
        ("003", "Sec. 5"),
        call='ra.accuracy(model, test, k=20)["ndcg"]',
    ),
    _entry(
        "recall",
        Audit(Nothing(), RecommendedList(50), Ranking("recall")),
        ("004", "Table 2"),
        call='ra.accuracy(model, test, k=50)["recall"]',
    ),
    _entry(
        "coverage",
        Audit(Nothing(), RecommendedList(10), Exposure("coverage")),
        ("003", "Sec. 7.3"),
        call='ra.exposure(model, k=10)["coverage"]',
    ),
    _entry(
        "concentration",
        Audit(Nothing(), RecommendedList(10), Exposure("gini")),
        ("003", "Sec. 7.3"),
        call='ra.exposure(model, k=10)["gini"]',
    ),
    _entry(
        "popularity",
        Audit(Nothing(), RecommendedList(10), Exposure("popularity_correlation")),
        ("001", "Sec. 3.2"),
        call='ra.exposure(model, k=10)["popularity_correlation"]',
    ),
    _entry(
        "online performance",
        Audit(Deployed(), RatingsReceived(), Mean()),
        ("003", "Sec. 5"),
        call='ra.simulate.run("topics-static", recommender)["mean_rating"]',
    ),
    _entry(
        "online rating error",
        Audit(Deployed(), PredictedRating(), Error("rmse")),
        ("003", "Fig. 2"),
        call='ra.simulate.run("topics-static", recommender)["rmse"]',
    ),
)


def catalog(paper: str | None = None) -> tuple[Entry, ...]:
    """Every audit of the five papers, or of one of them ("000" to "004", see `PAPERS`)."""
    if paper is not None and paper not in PAPERS:
        raise InputError("paper", received=paper, expected=f"one of {list(PAPERS)}", remedy=did_you_mean(paper, PAPERS))
    return tuple(entry for entry in _ENTRIES if paper in (None, *(source.paper for source in entry.sources)))
