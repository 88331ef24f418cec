"""What is measured: a trial of a recommender, its error and order on the log, and what a trial leaves of tastes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import numpy as np
import polars as pl

from recaudit.data import Interactions
from recaudit.data.splits import folds
from recaudit.models import FittedModel, Recommender
from recaudit.plugins import (
    FloatArray,
    IntArray,
    Loop,
    add_ratings,
    as_scenario,
    choose_slates,
    clip_predictions,
    derive,
    empty_interactions,
    rated_ndcg,
    run_trial,
    uniforms,
)
from recaudit.policies import EpsilonGreedy, ListPolicy, Power, Top1
from recaudit.simulate import LibFM, Oracle, Population, Scenario, paper
from recaudit_papers.recommenders import paper_recommenders
from recaudit_papers.studies.reclab.autorec import ReclabAutoRec
from recaudit_papers.studies.reclab.world import authors

Changes = Mapping[str, Any]
FOLDS = 5


def online(
    scenario: str,
    recommender: str,
    trials: Sequence[int],
    *,
    world: str = "authors",
    retrain: int = 1,
    settings: Changes | None = None,
    changes: Changes | None = None,
    explore: Changes | None = None,
) -> pl.DataFrame:
    """One row a trial and step, as `Simulation.steps`; in the authors' world or, trial by trial, in one of our own.

    Where theirs cannot be drawn, "authors" is our first world, in all trials.

    `settings` change the recommender, `changes` the scenario; `explore` names a policy.
    """
    loop = Loop(
        scenario=prepared(scenario, world, changes),
        recommender=made(recommender, scenario, settings),
        policy=_policy(explore),
        retrain=retrain,
        same_people=world == "authors",
    )
    return pl.concat([run_trial({"": loop}, {"": None}, ("", trial))[0] for trial in trials])


def offline(
    scenario: str,
    recommender: str,
    tested: Sequence[int],
    *,
    world: str = "authors",
    initial: int = 0,
    settings: Changes | None = None,
    changes: Changes | None = None,
) -> pl.DataFrame:
    """One row a fold of those `tested`, of five: RMSE with predictions inside the scale and as they are, nDCG@20."""
    log, people = _begun(prepared(scenario, world, changes), initial)
    splits = folds(log, FOLDS, initial)
    rows = []
    for fold in tested:
        train, test = splits[fold]
        model = _fitted(made(recommender, scenario, settings), train, people, derive(initial, "fold", fold))
        rows.append({"fold": fold, **_errors(model, test)})
    return pl.DataFrame(rows)


def trained_on_all(scenario: str, recommender: str, seed: int, *, ratings: int) -> pl.DataFrame:
    """The same for a model of the whole log: on `ratings` pairs that are not in it, and on the folds that are."""
    log, people = _begun(prepared(scenario, "authors", None), 0)
    draw = np.random.default_rng(seed)
    pairs = np.setdiff1d(np.arange(log.n_users * log.n_items), log.users.astype(np.int64) * log.n_items + log.items)
    users, items = np.divmod(draw.choice(pairs, ratings, replace=False), log.n_items)
    values = people.rate(users, items, draw.standard_normal(ratings))
    nothing = empty_interactions(log.n_users, log.n_items, log.scale)
    test = add_ratings(nothing, users, items, values, np.zeros(ratings, dtype=np.int64))
    model = _fitted(made(recommender, scenario, None), log, people, seed)
    inside = folds(log, FOLDS, 0)[seed % FOLDS][1]
    return pl.DataFrame([{"tested": "others", **_errors(model, test)}, {"tested": "known", **_errors(model, inside)}])


def affinities(
    scenario: str, recommender: str, trial: int, *, retrain: int = 1, changes: Changes | None = None
) -> pl.DataFrame:
    """One row a topic: what people think of it on average before and after a trial in the authors' world."""
    run = prepared(scenario, "authors", changes)
    loop = Loop(scenario=run, recommender=made(recommender, scenario, None), retrain=retrain)
    env = run.make(0)
    observed = env.reset(seed=loop.seeds(trial)[1])[0]
    people: Any = env.population  # of topics
    before, log = people.preferences.mean(axis=0), env.log
    model = loop.recommender.fit(log, 0)
    for step in range(run.steps):
        users = observed["users"]
        shown = choose_slates(model, Top1(), users, env.allowed, 1, step)[0]
        observed = env.step(shown)[0]
        log = add_ratings(log, users, shown[:, 0], observed["ratings"][:, 0], np.full(len(users), step + 1))
        if (step + 1) % retrain == 0:
            model = loop.recommender.fit(log, 0)
    after = people.preferences.mean(axis=0)
    return pl.DataFrame({"topic": np.arange(len(after)), "before": before, "after": after})


@cache
def _world(scenario: str, world: str, changes: tuple[tuple[str, Any], ...]) -> Scenario:
    known = paper(scenario, **dict(changes))
    drawable = scenario.startswith(("topics", "latent-static"))
    return as_scenario(authors(known) if world == "authors" and drawable else known)


def prepared(scenario: str, world: str, changes: Changes | None) -> Scenario:
    """The scenario, in the authors' world where it can be drawn."""
    return _world(scenario, world, tuple((changes or {}).items()))


@cache
def _begun(scenario: Scenario, initial: int) -> tuple[Interactions, Population]:
    return scenario.beginning(initial)


def made(name: str, scenario: str, settings: Changes | None) -> Recommender:
    """A recommender of the paper by its name there, or the authors' version of one."""
    known = paper_recommenders(scenario) | {
        "Random in (0, 5)": ReclabRandom(),
        "SGD MF by LibFM": LibFM(factors=20, epochs=200, learning_rate=0.01, regularization=0.07, init_std=1.0),
        "AutoRec by RecLab": ReclabAutoRec(),
    }
    chosen = known[name]
    return type(chosen)(**dict(chosen) | dict(settings or {})) if settings else chosen


def _policy(explore: Changes | None) -> ListPolicy:
    if not explore:
        return Top1()
    return EpsilonGreedy(**explore) if "epsilon" in explore else Power(**explore)


def _fitted(recommender: Recommender, data: Interactions, people: Population, rng: int) -> FittedModel:
    return recommender.of(people, data) if isinstance(recommender, Oracle) else recommender.fit(data, rng)


def _errors(model: FittedModel, test: Interactions) -> dict[str, float]:
    scores = model.pair_scores(test.users.astype(np.int64), test.items.astype(np.int64))
    inside, plain = clip_predictions(model, scores) - test.ratings, scores - test.ratings
    rmse, uncut = (float(np.sqrt((error**2).mean())) for error in (inside, plain))
    return {"rmse": rmse, "uncut": uncut, "ndcg": float(np.nanmean(rated_ndcg(scores, test, 20)))}


@final
class ReclabRandom(Recommender):
    """Uniform in (0, 5), though no rating is below 1: RecLab's random predictions."""

    def fit(self, data: Interactions, rng: int = 0) -> ReclabRandomModel:
        """Nothing is learned."""
        return ReclabRandomModel(data, derive(rng, "reclab.random"))


@final
@dataclass(frozen=True, eq=False, repr=False)
class ReclabRandomModel(FittedModel):
    """Draws, a pure function of the seed and of the ids of the pair."""

    data: Interactions
    seed: int
    predicts_ratings: bool = False

    def scores(self, users: IntArray) -> FloatArray:
        """(len(users), items): draws."""
        keys = self.data.user_keys[users][:, None], self.data.item_keys[None, :]
        return self.data.scale[1] * uniforms(self.seed, *keys)
