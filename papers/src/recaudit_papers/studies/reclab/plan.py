"""Which experiments are made at which size: recommenders, trials, how often they are fitted anew, what is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

from recaudit_papers.studies.reclab import measures
from recaudit_papers.studies.study import Experiment, Size

DYNAMIC, STATIC, LATENT = "topics-dynamic-as-run", "topics-static", "latent-static"
SMALL_WORLDS = ("latent-score", "beta-rank")
MOVIES = "ml-100k"
LOW_DATA = ("topics-static-lowdata", "latent-static-lowdata")

ELEVEN: Final = (
    "Oracle",
    "Bayes MF",
    "SGD MF",
    "LLORMA",
    "CF-NADE",
    "AutoRec",
    "UserKNN",
    "ItemKNN",
    "TopPop",
    "EASE",
    "Random",
)
"""In the order of the published table."""
CHEAP: Final = ("Oracle", "UserKNN", "ItemKNN", "TopPop", "EASE", "Random")
"""Those that are fitted in a tenth of a second: for them a world more costs little."""
LADDER: Final = ("TopPop", "UserKNN", "ItemKNN", "EASE", "SGD MF")
"""Those with which it is shown what fitting anew less often does."""
CADENCES: Final = (1, 5, 25, 50)
AUTHORS_OWN: Final = {"SGD MF": "SGD MF by LibFM", "AutoRec": "AutoRec by RecLab", "Random": "Random in (0, 5)"}
"""Recommenders as the authors' code has them, where it is known how theirs differs."""

RULES: Final[Mapping[str, Mapping[str, Any]]] = {
    "bored by 2 of the last 5 items, as in the formula": {"boredom_threshold": 2},
    "preferences stay inside the scale, as in the formula": {"bounded": True},
    "the log moves no tastes, as in Section 5.2": {"lived": False},
    "memory counts steps, as in the formula": {"memory_counts": "steps"},
    "all of the paper's formulas": {
        "boredom_threshold": 2,
        "bounded": True,
        "lived": False,
        "memory_counts": "steps",
    },
}
"""Where the code that was run does not do what the paper says."""
RULED: Final = ("TopPop", "Oracle")

STRATEGIES: Final[Mapping[str, Mapping[str, float]]] = {
    "greedy": {},
    "epsilon 0.1": {"epsilon": 0.1},
    "epsilon 0.2": {"epsilon": 0.2},
    "power 20": {"power": 20.0},
    "power 8": {"power": 8.0},
}
EXPLORERS: Final = ("SGD MF", "Bayes MF")

ALL_DRAWS: Final = {"burn_in": 0, "thinning": 1}
"""Bayes MF averages all draws, those of its first turns too, as LibFM does."""
TEN_EPOCHS: Final = {"epochs": 10}
"""CF-NADE as the published script of topics-dynamic trains it."""


@final
@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    cadence: Mapping[str, int]
    """Every how many steps a recommender is fitted anew in the topics; 1 for those that are not named."""
    trials: Mapping[str, int]
    """Of each in the topics."""
    folds: Mapping[str, int]
    """Of five, that are tested."""
    others: Mapping[str, int]
    """Every how many steps in latent-static and MovieLens 100K, one trial each."""
    small_trials: int
    """Of each in latent-score and beta-rank."""
    worlds: int
    """Of our own, one trial each."""
    rule_trials: int
    ladder_trials: int
    explored: Mapping[str, int]
    """Trials by environment."""
    explore_cadence: int
    topics: Mapping[str, Any] = field(default_factory=dict)
    """How the topics differ from the paper's."""
    elsewhere: Mapping[str, Any] = field(default_factory=dict)
    """How latent-static differs, with few data too."""
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """How recommenders differ from the paper's."""
    movies: bool = True
    few: tuple[str, ...] = ()
    """The recommenders of rules, worlds and cadences, where not all are."""

    def of(self, *names: str) -> dict[str, Any]:
        """Trials and cadence in the topics, by the first of the names that has its own."""
        trials, every = (
            next((known[name] for name in names if name in known), default)
            for known, default in ((self.trials, 1), (self.cadence, 1))
        )
        return {"trials": trials, "retrain": every, "changes": self.topics}

    def some(self, names: Sequence[str]) -> list[str]:
        """Those of the names that are measured."""
        return [name for name in names if not self.few or name in self.few]


_FAST = dict.fromkeys(("Oracle", "TopPop", "Random"), 1)

EXTENTS: Mapping[Size, Extent] = {
    "paper": Extent(
        cadence={"EASE": 5, "SGD MF": 5, "Bayes MF": 10, "LLORMA": 10, "AutoRec": 50, "CF-NADE": 25},
        trials=dict.fromkeys(ELEVEN, 10) | {"SGD MF": 5, "Bayes MF": 3, "LLORMA": 3, "AutoRec": 2, "CF-NADE": 2},
        folds=dict.fromkeys(ELEVEN, 5),
        others=_FAST
        | {"UserKNN": 5, "ItemKNN": 5, "EASE": 5, "SGD MF": 25, "Bayes MF": 25, "LLORMA": 50}
        | {"AutoRec": 177, "CF-NADE": 266},
        small_trials=10,
        worlds=8,
        rule_trials=5,
        ladder_trials=3,
        explored=dict(zip(LOW_DATA, (6, 3), strict=True)),
        explore_cadence=10,
    ),
    "quick": Extent(
        cadence={"UserKNN": 5, "ItemKNN": 10, "EASE": 25, "SGD MF": 25, "Bayes MF": 100, "LLORMA": 125}
        | {"AutoRec": 250, "CF-NADE": 500},
        trials=dict.fromkeys(ELEVEN, 1) | {"TopPop": 3},
        folds=dict.fromkeys(ELEVEN, 5) | {"LLORMA": 2, "AutoRec": 1, "CF-NADE": 1},
        others=_FAST
        | dict.fromkeys(("UserKNN", "ItemKNN", "EASE", "SGD MF", "Bayes MF", "LLORMA"), 25)
        | dict.fromkeys(("AutoRec", "CF-NADE"), 75),
        small_trials=2,
        worlds=3,
        rule_trials=1,
        ladder_trials=1,
        explored={LOW_DATA[0]: 1},
        explore_cadence=50,
        elsewhere={"users": 300, "items": 500, "users_per_step": 60, "steps": 150},
        movies=False,
        few=("TopPop", "Random"),
    ),
    "tiny": Extent(
        cadence=dict.fromkeys(set(ELEVEN) - set(_FAST), 10),
        trials=dict.fromkeys(ELEVEN, 2),
        folds=dict.fromkeys(ELEVEN, 2),
        others=dict.fromkeys(ELEVEN, 10),
        small_trials=1,
        worlds=2,
        rule_trials=1,
        ladder_trials=1,
        explored=dict.fromkeys(LOW_DATA, 1),
        explore_cadence=10,
        topics={"users": 60, "items": 90, "users_per_step": 20, "topics": 5, "ratings": 800, "steps": 12},
        elsewhere={"users": 60, "items": 90, "users_per_step": 20, "steps": 12},
        models={
            "Bayes MF": {"factors": 4, "iterations": 20, "burn_in": 5},
            "SGD MF": {"factors": 4, "epochs": 20},
            "SGD MF by LibFM": {"factors": 4, "epochs": 20},
            "LLORMA": {"pre_rank": 2, "rank": 2, "pre_steps": 3, "epochs": 3},
            "CF-NADE": {"hidden": 8, "epochs": 2},
            "AutoRec": {"hidden": 8, "epochs": 5},
            "AutoRec by RecLab": {"hidden": 8, "batches": 10},
        },
        movies=False,
    ),
}
_TOGETHER = 5
"""Trials of one experiment, of those that are fitted quickly."""
_OTHER_RATINGS = {"quick": 9000, "tiny": 800}
"""As dense as in the paper."""


def slug(name: str) -> str:
    """A name as a part of an experiment's."""
    return "".join(sign for sign in name.lower().replace(" ", "-") if sign.isalnum() or sign in "-.")


def planned(size: Size) -> list[Experiment]:
    """All experiments of a size, in order."""
    return list(_experiments(EXTENTS[size], size))


def _experiments(extent: Extent, size: Size) -> Iterator[Experiment]:
    yield from _topics(extent)
    yield from _offline(extent)
    yield from _worlds(extent)
    yield from _others(extent, _OTHER_RATINGS.get(size))
    yield from _exploration(extent)


def _runs(
    extent: Extent,
    scenario: str,
    name: str,
    how: str,
    trials: int,
    *,
    data: tuple[str, ...] = (),
    settings: Mapping[str, Any] | None = None,
    **rest: Any,
) -> Iterator[Experiment]:
    """The trials of one recommender under `how`, a few in each experiment."""
    together = _TOGETHER if name in (*CHEAP, AUTHORS_OWN["Random"]) else 1
    own = {**extent.models.get(name, {}), **(settings or {})}
    for first in range(0, trials, together):
        numbers = list(range(first, min(first + together, trials)))
        wanted = {"scenario": scenario, "recommender": name, "trials": numbers, "settings": own, **rest}
        where = f"{scenario}/{slug(name)}/{slug(how)}/{first}"
        yield Experiment(where, measures.online, wanted, data, optional=bool(data))


def _topics(extent: Extent) -> Iterator[Experiment]:
    """Figures 1 to 3: the eleven in the authors' world, with the authors' versions and what the paper says instead."""
    for scenario in (DYNAMIC, STATIC):
        for name in ELEVEN:
            yield from _runs(extent, scenario, name, "plain", **extent.of(name))
            if name in AUTHORS_OWN and name != "Random":
                yield from _runs(extent, scenario, AUTHORS_OWN[name], "plain", **extent.of(AUTHORS_OWN[name], name))
    yield from _runs(extent, DYNAMIC, "CF-NADE", "10 epochs", settings=TEN_EPOCHS, **extent.of("CF-NADE"))
    for name in extent.some(RULED):
        for rule, changes in RULES.items():
            yield from _runs(extent, DYNAMIC, name, rule, extent.rule_trials, changes={**extent.topics, **changes})
    for name in extent.some(LADDER):
        trials = 1 if name == "SGD MF" else extent.ladder_trials
        for every in CADENCES:
            yield from _runs(
                extent, DYNAMIC, name, f"every {every}", trials, retrain=every, changes=dict(extent.topics)
            )
    moved = {"scenario": DYNAMIC, "recommender": "TopPop", "trial": 0, "changes": extent.topics}
    yield Experiment("affinities/toppop", measures.affinities, moved)


def _offline(extent: Extent) -> Iterator[Experiment]:
    """RMSE and nDCG on the authors' log of topics-static, which stands for topics-dynamic too, and of latent-static."""
    versions: list[tuple[str, str, Mapping[str, Any]]] = [(name, "plain", {}) for name in ELEVEN]
    versions += [(name, "plain", {}) for name in AUTHORS_OWN.values()]
    versions.append(("Bayes MF", "all draws", ALL_DRAWS))
    for name, how, settings in versions:
        own = {**extent.models.get(name, {}), **settings}
        base = next((plain for plain, theirs in AUTHORS_OWN.items() if theirs == name), name)
        yield from _folds(STATIC, name, how, extent.folds[base], settings=own, changes=extent.topics)
    for seed in range(0 if extent.topics else min(3, extent.folds["LLORMA"])):
        wanted = {"scenario": STATIC, "recommender": "LLORMA", "seed": seed, "ratings": 20_000}
        yield Experiment(f"trained-on-all/llorma/{seed}", measures.trained_on_all, wanted)


def _folds(scenario: str, name: str, how: str, folds: int, **rest: Any) -> Iterator[Experiment]:
    """One fold an experiment for those that take long, all in one for others."""
    together = 1 if name in ("CF-NADE", "AutoRec", "AutoRec by RecLab") else folds
    data = (MOVIES,) if scenario == MOVIES else ()
    for first in range(0, folds, together):
        wanted = {"scenario": scenario, "recommender": name, "tested": list(range(first, first + together)), **rest}
        where = f"offline/{scenario}/{slug(name)}/{slug(how)}/{first}"
        yield Experiment(where, measures.offline, wanted, data, optional=bool(data))


def _worlds(extent: Extent) -> Iterator[Experiment]:
    """How far numbers move from world to world."""
    for scenario in (DYNAMIC, STATIC):
        for name in extent.some(CHEAP):
            every = 1 if name in _FAST else 5
            rest: dict[str, Any] = {"world": "own", "retrain": every, "changes": dict(extent.topics)}
            yield from _runs(extent, scenario, name, "worlds", extent.worlds, **rest)


def _others(extent: Extent, ratings: int | None) -> Iterator[Experiment]:
    """Figures 4 and 6, and the errors in latent-static."""
    places: list[tuple[str, Mapping[str, Any]]] = [
        (LATENT, {**extent.elsewhere, **({"ratings": ratings} if ratings else {})})
    ]
    if extent.movies:
        places.append((MOVIES, {}))
    for scenario, changes in places:
        data = (MOVIES,) if scenario == MOVIES else ()
        for name in ELEVEN:
            every = extent.others[name]
            yield from _runs(extent, scenario, name, "plain", 1, retrain=every, changes=changes, data=data)
            yield from _folds(
                scenario,
                name,
                "plain",
                min(extent.folds[name], 2) if name in ("CF-NADE", "AutoRec") else extent.folds[name],
                settings=dict(extent.models.get(name, {})),
                changes=changes,
            )
    theirs = {"settings": {}, "changes": places[0][1]}
    yield from _folds(LATENT, AUTHORS_OWN["Random"], "plain", extent.folds["Random"], **theirs)
    for scenario in SMALL_WORLDS:
        for name in ELEVEN:
            own = dict(extent.models.get(name, {}))
            yield from _small(scenario, name, extent.small_trials, own, 1 if name in CHEAP else 10)


def _small(scenario: str, name: str, trials: int, settings: Mapping[str, Any], every: int) -> Iterator[Experiment]:
    numbers: Sequence[int] = range(trials)
    wanted = {"scenario": scenario, "recommender": name, "settings": settings}
    online = {**wanted, "trials": list(numbers), "retrain": every}
    yield Experiment(f"{scenario}/{slug(name)}/plain/0", measures.online, online)
    yield Experiment(
        f"offline/{scenario}/{slug(name)}/plain/0", measures.offline, {**wanted, "tested": list(range(measures.FOLDS))}
    )


def _exploration(extent: Extent) -> Iterator[Experiment]:
    """Figures 5 and 9: from about one rating a user."""
    for scenario, trials in extent.explored.items():
        size = dict(extent.topics if scenario == LOW_DATA[0] else extent.elsewhere)
        if size:
            size["ratings"] = size["users"]
        for name in EXPLORERS:
            for strategy, explore in STRATEGIES.items():
                rest: dict[str, Any] = {"explore": explore, "retrain": extent.explore_cadence, "changes": size}
                yield from _runs(extent, scenario, name, strategy, trials, **rest)
