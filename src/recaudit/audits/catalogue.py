"""Every audit of the five papers, as the value that runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from recaudit.audits.agency.audit import Agency
from recaudit.audits.audit import Audit
from recaudit.audits.calibration.audit import Calibration
from recaudit.audits.calibration.reranking import Reranking
from recaudit.audits.folding.audit import Folding
from recaudit.audits.instability.audit import Instability
from recaudit.audits.lists.accuracy import Accuracy
from recaudit.audits.lists.exposure import Exposure
from recaudit.audits.reachability.audit import Reachability
from recaudit.errors import InputError, did_you_mean
from recaudit.interventions import Future, FutureEdits, HistoryEdits, NextK, Past

PAPERS = {
    "000": "Curmei, Dean, Recht 2021, Quantifying Availability and Discovery in Recommender Systems via Stochastic "
    "Reachability",
    "001": "Sharma, Gupta, Akpinar, Lipton, Leqi 2024, A Unified Causal Framework for Auditing Recommender Systems for "
    "Ethical Concerns",
    "002": "Xin et al. 2017, Folding: Why Good Models Sometimes Make Spurious Recommendations",
    "003": "Krauth et al. 2020, Do Offline Metrics Predict Online Performance in Recommender Systems?",
    "004": "Steck 2018, Calibrated Recommendations",
}


@final
@dataclass(frozen=True)
class PublishedAudit:
    """One audit of the papers, at the sizes that are used there."""

    name: str
    paper: str
    """A key of PAPERS."""
    where: str
    audit: Audit
    """What runs it."""
    number: str
    """A metric of the audit, or a column of its pairs."""


_ALL = (
    PublishedAudit("reachability", "000", "Eq. 1", Reachability(actions=NextK(10)), "value"),
    PublishedAudit("reachability (seen)", "000", "Eq. 1", Reachability(actions=HistoryEdits(10)), "value"),
    PublishedAudit("reachability (unseen)", "000", "Eq. 1", Reachability(actions=FutureEdits(10)), "value"),
    PublishedAudit("lift", "000", "Eq. 2", Reachability(actions=NextK(10)), "lift"),
    PublishedAudit("rank gain", "000", "Sec. 2.2", Reachability(actions=NextK(10)), "rank_gain"),
    PublishedAudit("discovery", "000", "Eq. 3", Reachability(actions=NextK(10)), "discovery"),
    PublishedAudit("availability", "000", "Eq. 3", Reachability(actions=NextK(10)), "availability"),
    PublishedAudit("future-5 reachability", "001", "Def. 4.1", Reachability(actions=Future(5)), "value"),
    PublishedAudit("past-5 reachability", "001", "Def. 4.2", Reachability(actions=Past(5)), "value"),
    PublishedAudit("future-5 instability", "001", "Def. 4.3", Instability(edits=Future(5)), "instability"),
    PublishedAudit("past-5 instability", "001", "Def. 4.4", Instability(edits=Past(5)), "instability"),
    PublishedAudit("agency", "001", "Sec. 5", Agency(k=5), "past_mean_lift"),
    PublishedAudit("popularity", "001", "Sec. 3.2", Exposure(k=10), "popularity_correlation"),
    PublishedAudit("folding", "002", "Def. 3.1", Folding(), "folding"),
    PublishedAudit("rating error", "003", "Sec. 5", Accuracy(), "rmse"),
    PublishedAudit("ranking quality", "003", "Sec. 5", Accuracy(k=20), "ndcg"),
    PublishedAudit("coverage", "003", "Sec. 7.3", Exposure(k=10), "coverage"),
    PublishedAudit("concentration", "003", "Sec. 7.3", Exposure(k=10), "gini"),
    PublishedAudit("calibration", "004", "Eq. 4, 5", Calibration(k=50), "calibration_kl"),
    PublishedAudit("calibration (C_H)", "004", "Sec. 3", Calibration(k=50), "calibration_hellinger"),
    PublishedAudit("recall", "004", "Table 2", Accuracy(k=50), "recall"),
    PublishedAudit("recall and calibration", "004", "Table 2", Reranking(k=50), "calibration_kl"),
)


def catalog(paper: str | None = None) -> tuple[PublishedAudit, ...]:
    """Every audit of the five papers, or of one of them ("000" to "004", see `PAPERS`)."""
    if paper is not None and paper not in PAPERS:
        raise InputError("paper", received=paper, expected=f"one of {list(PAPERS)}", remedy=did_you_mean(paper, PAPERS))
    return tuple(entry for entry in _ALL if paper in (None, entry.paper))
