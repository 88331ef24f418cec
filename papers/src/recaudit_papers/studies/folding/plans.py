"""What the study of folding measures at each size; the ladder: Section 4.2 as it reads, and one change at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

from recaudit_papers.studies.folding import measures
from recaudit_papers.studies.folding.curves import KNEE
from recaudit_papers.studies.study import Experiment, Size

PER_USERS = round(69_878 / 6_040, 2)
"""The users of MovieLens 10M over those of 1M."""
AS_READ = "centred"
"""Section 4.2 as it reads: less the mean, unrated ones fitted to 0 (the mean), Equation 2's weights, lambda 10."""
NOT_CENTRED = "as-they-are"
LADDER: dict[str, tuple[str, dict[str, Any]]] = {
    AS_READ: ("as Section 4.2 reads", {}),
    NOT_CENTRED: ("ratings as they are (Section 4.1's way), unrated ones fitted to 0", {"center": "none"}),
    "as-they-are-to-mean": ("as they are, unrated ones fitted to the mean", {"center": "none", "target": "mean"}),
    "as-they-are-to-2": ("as they are, unrated ones fitted to 2 (Section 3.2)", {"center": "none", "target": 2.0}),
    "to-2": ("unrated ones fitted to 2 stars", {"target": 2.0}),
    "to-0": ("unrated ones fitted to 0 stars", {"target": 0.0}),
    "by-user-and-item": ("centred by user and item", {"center": "user and item"}),
    "observed-weight-1": ("rated pairs weigh 1, not 1 + alpha", {"weights": "1"}),
    "squared": ("W squared (Equation 1 as printed)", {"weights": "squared"}),
    "as-they-are-squared": ("ratings as they are, and W squared", {"center": "none", "weights": "squared"}),
    "per-users": ("alpha times 11.6, as 10M has users", {"times": PER_USERS}),
    "by-count": ("lambda in proportion to numbers of ratings, 10 on average", {"by_count": True}),
    "as-they-are-by-count": ("ratings as they are, and lambda in proportion", {"center": "none", "by_count": True}),
    "lambda-0.1": ("lambda 0.1", {"regularization": 0.1}),
    "lambda-100": ("lambda 100", {"regularization": 100.0}),
    "as-they-are-lambda-0.1": ("ratings as they are, and lambda 0.1", {"center": "none", "regularization": 0.1}),
}  # fmt: skip
"""By name: what was changed, in words, and the settings of its `Form`."""

WORLD = {"center": "none", "regularization": 0.1}
"""Section 4.1: nothing is said of centring, data are in {0, ..., 5}, lambda is 0.1."""
WORLD_CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "rounds": ("30 rounds, not 15", {**WORLD, "rounds": 30}),
    "squared": ("W squared (Equation 1 as printed)", {**WORLD, "weights": "squared"}),
    "centred": ("ratings less their mean (Section 4.2's way)", {**WORLD, "center": "mean"}),
}
TABLE_1: dict[str, tuple[str, dict[str, Any]]] = {
    "as-read": ("", {"center": "none", "target": 2.0}),
    "per-users": ("alpha times 11.6, as 10M has users", {"center": "none", "target": 2.0, "times": PER_USERS}),
    "centred": ("ratings less their mean", {"target": 2.0}),
    "centred-per-users": ("ratings less their mean, and alpha times 11.6", {"target": 2.0, "times": PER_USERS}),
}
"""Section 3.2 as it reads: stars, 2 for what is missing."""
WEIGHTS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
RANKS = (15, 35)


@final
@dataclass(frozen=True)
class Plan:
    """The sizes of a study's experiments."""

    world: Mapping[str, Any]
    worlds: int
    """How many; the first four are also fitted in changed forms, and their lists looked at."""
    factors: tuple[int, ...]
    """In block worlds; the second is what the paper finds best."""
    data: str
    film_factors: tuple[int, ...]
    """For the films; the ladder is climbed at the middle one."""
    weights: tuple[float, ...]
    splits: int
    rungs: tuple[str, ...] = tuple(LADDER)
    ladder_splits: int = 1
    ranks: tuple[int, ...] = RANKS
    category: str = "Children's"
    """The films of which neighbours are looked at..."""
    enough: int = 50
    """...if they have as many ratings."""
    toys: int = 100
    shares: int = 100
    """Worlds of which only the blocks are counted."""

    @property
    def middle(self) -> int:
        """The factors at which the ladder is climbed."""
        return self.film_factors[min(1, len(self.film_factors) - 1)]


_FEWER = (
    *(AS_READ, NOT_CENTRED, "as-they-are-to-mean", "as-they-are-to-2"),
    *("to-2", "by-user-and-item", "squared", "lambda-0.1", "lambda-100"),
)
BEST_OF_10M = 50
"""The factors that the paper finds best."""
PLANS: dict[Size, Plan] = {
    "tiny": Plan(
        {"users": 250, "items": 300}, 4, (3, 6), "demo", (6,), (0.0, 0.003, 0.03, 1.0), 2,
        (AS_READ, NOT_CENTRED, "to-2", "as-they-are-to-mean"), 2, (8,), "Family", 15, 4, 4,
    ),
    "quick": Plan({}, 4, (5, 10, 15), "ml-1m", (10, 20), WEIGHTS, 3, _FEWER, shares=20),
    "paper": Plan({}, 100, (5, 10, 15), "ml-1m", (10, 20, BEST_OF_10M), WEIGHTS, 3, ladder_splits=3),
}  # fmt: skip
WORLD_WEIGHTS = (0.0, 0.001, 0.01, 0.1, 1.0)


def experiments(size: Size) -> Iterator[Experiment]:
    """What is measured at this size; pieces of at most a few minutes."""
    plan = PLANS[size]
    yield Experiment("toy", measures.toy_worlds, {"seeds": [*range(plan.toys)], "weights": [0.0, 0.1]})
    for on_blocks, share, seeds in ((12, 0.25, range(plan.shares)), (13, 0.26, range(1, plan.shares, 2))):
        settings = {"seeds": [*seeds], "world": {**plan.world, "on_share": share}}
        yield Experiment(f"off-blocks/{on_blocks}", measures.off_shares, settings)
    for first in range(0, plan.worlds, 2):
        common = {"seeds": [first, first + 1], "world": dict(plan.world), "weights": [*WORLD_WEIGHTS]}
        grid = {"form": WORLD, "factors": [*plan.factors], "lists": first < 4}
        yield Experiment(f"blocks/{first}", measures.block_worlds, {**common, **grid})
        if first < 4:
            for name, (_, form) in WORLD_CHANGES.items():
                changed = {"form": form, "factors": [plan.factors[1]]}
                yield Experiment(f"changed-blocks/{name}/{first}", measures.block_worlds, {**common, **changed})
    yield from _films(plan)
    if size != "tiny":
        yield from _films_of_10m()


def _films(plan: Plan) -> Iterator[Experiment]:
    needed = () if plan.data == "demo" else (plan.data,)
    for name in plan.rungs:
        whole = name in (AS_READ, NOT_CENTRED)
        for seed in range(plan.splits if whole else plan.ladder_splits):
            for k in plan.film_factors if whole else (plan.middle,):
                weights = [alpha for alpha in plan.weights if name != "observed-weight-1" or alpha < 1]
                common = {"data": plan.data, "seed": seed, "form": LADDER[name][1], "factors": [k], "weights": weights}
                more = {"ranks": [*plan.ranks], "lists": True} if whole else {}
                yield Experiment(f"films/{name}/{k}/{seed}", measures.ratings, {**common, **more}, needed)
    for seed in range(plan.ladder_splits):
        alone = {"data": plan.data, "seed": seed, "factors": plan.middle, "weights": [KNEE, plan.weights[-1]]}
        yield Experiment(f"relieved/{seed}", measures.relieved, alone, needed)
        asked = {"category": plan.category, "query": "Cinderella", "enough": plan.enough, "weight": 0.001}
        for name, (_, form) in TABLE_1.items():
            settings = {"data": plan.data, "seed": seed, "form": form, "factors": plan.middle, **asked}
            yield Experiment(f"table-1/{name}/{seed}", measures.film_neighbours, settings, needed)


def _films_of_10m() -> Iterator[Experiment]:
    """The paper's own data, where they are to be had: two weights at a time."""
    for name in (AS_READ, NOT_CENTRED):
        for k in (10, BEST_OF_10M):
            for part in range(0, len(WEIGHTS), 2):
                weights = [*WEIGHTS[part : part + 2]]
                settings = {"data": "ml-10m", "seed": 0, "form": LADDER[name][1], "factors": [k], "weights": weights}
                yield Experiment(f"10m/{name}/{k}/{part}", measures.ratings, settings, ("ml-10m",), optional=True)
