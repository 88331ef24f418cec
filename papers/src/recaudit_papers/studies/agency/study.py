"""Agency over time: past and future reachability and stability, of matrix factorisation and of a recurrent model."""

from __future__ import annotations

from typing import Any, NamedTuple, final

from recaudit_papers.studies.agency import claims, measures
from recaudit_papers.studies.agency.published import BETAS, CURVE, HORIZONS, PAPER
from recaudit_papers.studies.reading import StudyTable
from recaudit_papers.studies.study import Experiment, Measure, Results, Size, Study

_SEED = 0
_FREE = 1e-6
"""A penalty so small that the solve is Equations 7 and 8 as printed, with the shortest vector where many fit."""


class _Scale(NamedTuple):
    """How much is measured."""

    data: str
    factors: int
    asked: dict[str, int]
    """Users, targets and editors of matrix factorisation."""
    ahead: int
    """How many users are followed into the future by the exact solver, over the longest horizon."""
    blocks: int
    """Into how many experiments those are divided."""
    followed: tuple[int, int]
    """Users on whom Table II's changes are tried, and those for whom Algorithm 2 is run, which takes the longest."""
    horizons: tuple[int, ...]
    pairs: tuple[int, int]
    """Users, and items or editors for each, on which the searches are compared."""
    second: _Second


class _Second(NamedTuple):
    """The recurrent model beside matrix factorisation: the log, and whom they are asked about."""

    data: str
    factors: int
    epochs: int
    past: dict[str, int]
    future: dict[str, Any]
    editors: int


_SCALES: dict[Size, _Scale] = {
    "tiny": _Scale(
        "demo",
        8,
        {"users": 40, "targets": 30, "editors": 20},
        40,
        1,
        (6, 0),
        (1, 2),
        (2, 3),
        _Second("demo", 8, 2, {"users": 6, "targets": 8}, {"users": 2, "targets": 3, "betas": BETAS}, 10),
    ),
    "quick": _Scale(
        "ml-1m",
        100,
        {"users": 100, "targets": 60, "editors": 100},
        40,
        1,
        (20, 5),
        (1, 5),
        (6, 5),
        _Second("ml-100k", 100, 10, {"users": 40, "targets": 30}, {"users": 10, "targets": 4, "betas": BETAS[:1]}, 60),
    ),
    "paper": _Scale(
        "ml-1m",
        100,
        {"users": 604, "targets": 370, "editors": 604},
        604,
        12,
        (100, 30),
        HORIZONS,
        (20, 15),
        _Second("ml-1m", 100, 15, {"users": 100, "targets": 100}, {"users": 30, "targets": 10, "betas": BETAS}, 300),
    ),
}


@final
class AgencyStudy(Study):
    """Tables I to III and Figures 2 to 5."""

    name = "agency"
    title = "Agency over time"
    paper = PAPER

    def experiments(self, size: Size) -> list[Experiment]:
        """By model and horizon: each fits its model once, and the recurrent one takes the longest."""
        plan = _AgencyPlan(_SCALES[size])
        return [*plan.two_models(), *plan.future(), *plan.past(), *plan.searches()]

    def tables(self, results: Results) -> list[StudyTable]:
        """Every table and figure, with the claims of the text about them."""
        return claims.read(results)

    def notes(self, results: Results) -> list[str]:
        """What was chosen where the paper leaves it open."""
        return claims.notes(results)


class _AgencyPlan:
    """The experiments of one size, by when, model and horizon: `future/svd-free/5/0`."""

    def __init__(self, scale: _Scale) -> None:
        self.scale = scale
        als = {"kind": "als", "factors": scale.factors}
        # The defaults of Surprise's SVD.
        svd = {"kind": "biased-mf", "factors": scale.factors, "epochs": 20, "learning_rate": 0.005}
        svd |= {"final_rate": 1.0, "regularization": 0.02}
        self.als, self.svd = als, svd | {"solve": {"regularization": 0.02, "per_rating": True}}
        self.als_free, self.svd_free = (model | {"solve": {"regularization": _FREE}} for model in (als, svd))
        asked = scale.asked
        self.own: dict[str, Any] = {"users": asked["users"], "targets": asked["targets"], "betas": BETAS}
        self.others: dict[str, Any] = {"users": asked["users"], "editors": asked["editors"], "betas": CURVE}
        self.long = max(scale.horizons)

    def past(self) -> list[Experiment]:
        """Hindsight: every horizon by ours, the longest with each change."""
        tiers = {"tiers": True}
        own, others = self.own | tiers, self.others | tiers
        made: list[Experiment] = []
        for k in self.scale.horizons:
            more = {} if k == self.long else {"betas": BETAS, "tiers": False}
            parts: dict[str, Any] = {"own": own | more, "others": others | more, "error": True}
            made.append(self._ratings("past", "als", self.als, k, **parts))
        made.append(self._ratings("past", "svd", self.svd, self.long, error=True))
        for name, model in (("als-free", self.als_free), ("svd-free", self.svd_free)):
            made.append(self._ratings("past", name, model, self.long, own=own, others=others))
        for name, model in (("als-scores", self.als), ("svd-free-scores", self.svd_free)):
            made.append(self._ratings("past", name, model, self.long, others=others | {"baseline": "scores"}))
        return made

    def future(self) -> list[Experiment]:
        """From now on: the same."""
        blocks = self.scale.blocks
        made: list[Experiment] = []
        others = self.others | {"betas": BETAS}
        ahead = self.scale.ahead
        for k in self.scale.horizons:
            tiers = {"tiers": k == self.long}
            of, users = (blocks, ahead) if k == self.long else (1, min(ahead, max(40, ahead // 4)))
            for block in range(of):
                own = self.own | tiers | {"users": users, "block": [block, of]}
                parts: dict[str, Any] = {"own": own} | ({"others": others | tiers} if block == 0 else {})
                made.append(self._ratings("future", "als", self.als, k, block=block, **parts))
        some, fewest = self.scale.followed
        few = {**self.own, "tiers": True, "users": some, "targets": 10}
        search = {"solver": "gradient", "users": fewest, "targets": 1}
        changes: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
            "als-search": (self.als, search | {"betas": BETAS[:1]}),
            "als-all": (self.als, {"candidates": "all"}),
            "als-free": (self.als_free, {}),
            "svd": (self.svd, {}),
            "svd-free": (self.svd_free, {}),
            "svd-free-search": (self.svd_free, search),
        }
        for name, (model, change) in changes.items():
            if change.get("users") == 0:
                continue
            moved: dict[str, Any] = {"others": others | {"tiers": True}} if name in ("als-free", "svd-free") else {}
            made.append(self._ratings("future", name, model, self.long, own=few | change, **moved))
        return made

    def searches(self) -> list[Experiment]:
        """What the paper's searches find, and how large the log is."""
        users, others = self.scale.pairs
        shared = {"users": users, "others": others, "betas": BETAS, "budget": 100}
        made = [self._of("shape", measures.shape_of, self.scale.data)]
        for when in ("past", "future"):
            made.append(
                self._of(
                    f"access/{when}",
                    measures.access,
                    self.scale.data,
                    model=self.als,
                    when=when,
                    k=self.long,
                    seed=_SEED,
                    **shared,
                )
            )
        for name, model in (("als", self.als), ("svd-free", self.svd_free)):
            made += [
                self._of(
                    f"algorithm-3/{name}-{baseline}",
                    measures.algorithm_3,
                    self.scale.data,
                    model=model,
                    k=self.long,
                    users=users,
                    editors=others,
                    betas=(0.2, *BETAS, 6.0),
                    baseline=baseline,
                    seed=_SEED,
                )
                for baseline in ("factual", "scores")
            ]
        return made

    def two_models(self) -> list[Experiment]:
        """The recurrent model beside matrix factorisation, on the same users, items and editors."""
        second, ends = self.scale.second, (min(self.scale.horizons), self.long)
        recurrent = {"kind": "recurrent", "epochs": second.epochs, "hidden": second.factors}
        others = {"users": second.past["users"], "editors": second.editors, "betas": BETAS}
        past, future = second.past | {"betas": BETAS}, second.future
        made: list[Experiment] = []
        mf = {"kind": "als", "factors": second.factors}
        free = self.svd_free | {"factors": second.factors}
        for name, model in (("rrn", recurrent), ("mf", mf), ("mf-free", free)):
            for k in ends[::-1]:
                made.append(
                    self._ratings("past", name, model, k, data=second.data, own=past, others=others, error=True)
                )
            made.append(self._ratings("future", name, model, *ends, data=second.data, own=future, others=others))
        return made

    def _ratings(
        self, when: str, name: str, model: dict[str, Any], *ks: int, data: str = "", block: int = 0, **parts: Any
    ) -> Experiment:
        data = data or self.scale.data
        told = f"{when}/{name}/{'-'.join(map(str, ks))}/{block}"
        return self._of(told, measures.ratings, data, model=model, when=when, ks=ks, seed=_SEED, **parts)

    @staticmethod
    def _of(name: str, measure: Measure, data: str, **settings: Any) -> Experiment:
        return Experiment(name, measure, {"data": data, **settings}, data=() if data == "demo" else (data,))
