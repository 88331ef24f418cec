"""One trial of a closed loop: recommend, observe, fit; again and again."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.audits.audit import Audit
from recaudit.audits.lists.exposure import gini
from recaudit.data.growth import grown
from recaudit.data.interactions import Interactions
from recaudit.engines import track
from recaudit.engines.base import blocks
from recaudit.errors import InputError, NotSupportedError
from recaudit.folders import damaged
from recaudit.metrics.tables import SUMMARY_SCHEMA
from recaudit.models.base import FittedModel, Recommender
from recaudit.policies import ListPolicy, ShowingPolicy, Top1
from recaudit.registry import AUDITS, SIMULATED_MODELS
from recaudit.seeding import derive, generator
from recaudit.simulate.loop.room import SCORED, check_room
from recaudit.simulate.loop.simulation import MEASURES, measured_users
from recaudit.simulate.loop.trial_folder import SLATE_SCHEMA, TrialFolder, trial_name
from recaudit.simulate.worlds.environment import Population
from recaudit.simulate.worlds.scenarios import Oracle, Scenario
from recaudit.specification import OneOf, Specification, as_data
from recaudit.status import Status

STEP_SCHEMA = {
    **dict.fromkeys(("trial", "step", "ratings"), pl.Int64),
    **dict.fromkeys(MEASURES, pl.Float64),
    "distinct_items": pl.Int64,
}
"""One row a step; what each column means is in `MEASURES`."""
_ANSWER = ("metric", "value", "lower", "upper", "status")
AUDIT_SCHEMA = {"trial": pl.Int64, "step": pl.Int64, "audit": pl.String, **{k: SUMMARY_SCHEMA[k] for k in _ANSWER}}
"""One row a step, audit and metric."""

_MAX_PROBED_USERS = 20
_PROBED_USERS, _PROBED_UTILITIES = "probed_users", "probed_utilities"
"""Names under which a checkpoint has the users, and the utilities, by which a resumed trial is checked."""

SAVE_SECONDS = 30.0
"""How much work a kill may cost."""
MOST_ROWS = 2_000_000
"""How many rows of what was shown wait in memory."""

Ratings = tuple[IntArray, IntArray, FloatArray, IntArray]
"""Users, items, ratings and times (n,) that a log grows by."""


def _in_loop(audit: Audit) -> Audit:
    audit.check_loop()
    return audit


LoopAudit = Annotated[Audit, OneOf(AUDITS), AfterValidator(_in_loop)]
"""An audit that a loop has all that it needs for."""
Every = Annotated[int, Field(ge=0)]
"""Every so many steps."""


@final
class Loop(Specification):
    """Everything that the numbers of a trial follow from."""

    scenario: Scenario
    recommender: Annotated[Recommender, OneOf(SIMULATED_MODELS)]
    policy: ShowingPolicy = Top1()
    retrain: Every = 1
    """Fit anew every so many steps; 0: never after the start."""
    warm: bool = False
    """Whether to start from the model before, rather than from scratch."""
    audits: dict[str, LoopAudit] = Field(default_factory=dict)
    audit_every: Every = 0
    """0: at the last step only."""
    population_every: Every = 0
    rng: int = 0
    same_people: bool = True
    """Whether every trial begins with the same people, items and log."""

    def seeds(self, trial: int) -> tuple[int, int]:
        """The initial seed and the seed of everything later; the same for every recommender that is compared."""
        return self.rng if self.same_people else derive(self.rng, "people", trial), derive(self.rng, "trial", trial)

    def is_due(self, step: int, every: int) -> bool:
        """Whether something that happens every so many steps, and at the last, happens at this one."""
        return step == self.scenario.steps - 1 or (every > 0 and step % every == 0)

    @property
    def continues(self) -> bool:
        """Whether a fit depends on the model before it."""
        own = type(self.recommender).warm_fit is not Recommender.warm_fit
        return self.warm and own and not isinstance(self.recommender, Oracle)


def run_trial(
    loops: Mapping[str, Loop], folders: Mapping[str, Path | None], piece: tuple[str, int]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The name of a loop and the number of a trial in; steps and audits out, as in STEP_SCHEMA and AUDIT_SCHEMA."""
    name, number = piece
    loop, out = loops[name], folders[name]
    plan = {"settings": as_data(loop), "trial": number}
    folder = None if out is None else TrialFolder.begin(out / trial_name(number), plan)
    return _Trial(loop, number, folder).run()


def timed(loop: Loop) -> tuple[float, float, float]:
    """Seconds of what a trial begins with, of a fit, and of a step without one, by doing each once or twice.

    What is compiled at the first use is in them; audits and the population's error are not.
    """
    clock = [time.perf_counter()]
    scenario = loop.scenario.changed(steps=max(3, loop.scenario.steps))  # nothing is due at its first two steps
    trial = _Trial(loop.model_copy(update={"scenario": scenario, "audits": {}, "population_every": 0}), 0, None)
    clock.append(time.perf_counter())
    model = trial._learned(0)
    clock.append(time.perf_counter())
    for step in range(2):
        trial._live(step, model)
        clock.append(time.perf_counter())
    begin, fit, _, step_time = (after - before for before, after in pairwise(clock))
    return begin, fit, step_time


@final
class _Trial:
    """The loop, with what it knows as it goes."""

    def __init__(self, loop: Loop, number: int, folder: TrialFolder | None) -> None:
        self.loop, self.number, self.folder = loop, number, folder
        environment = loop.scenario.environment
        check_room(loop.scenario)
        initial, self.seed = loop.seeds(number)
        self.env = loop.scenario.make(initial)
        self.observation: dict[str, Any] = self.env.reset(seed=self.seed)[0]
        self.log = self.env.log
        self.exposure = np.zeros(environment.items)
        self.model: FittedModel | None = None
        self.step = 0
        self.pending: list[Ratings] = []  # since the log last grew
        self.unsaved: list[pl.DataFrame] = []
        self.steps: list[dict[str, Any]] = []
        self.audits: list[dict[str, Any]] = []
        self.latest_users: IntArray = np.empty(0, dtype=np.int64)
        if folder is not None:
            _check_can_resume(self.env.population)

    def run(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """All steps that are left."""
        self._resume()
        since = time.monotonic()
        left = range(self.step, self.loop.scenario.steps)
        for step in track(left, f"trial {self.number}", len(left)):
            self.model = self._learned(step)
            self._live(step, self.model)
            self.step = step + 1
            waiting = sum(map(len, self.unsaved))
            done = self.step == self.loop.scenario.steps
            if self.folder and (done or waiting > MOST_ROWS or time.monotonic() - since > SAVE_SECONDS):
                model = self.model if self.loop.continues and not done else None
                tables = dict(zip(("steps", "audits"), self._tables(), strict=True))
                self.folder.save(self.step, pl.concat(self.unsaved), self._state(), tables, model, done=done)
                self.unsaved, since = [], time.monotonic()
        return self._tables()

    def _tables(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        return pl.DataFrame(self.steps, STEP_SCHEMA), pl.DataFrame(self.audits, AUDIT_SCHEMA)

    def _learned(self, step: int) -> FittedModel:
        """The model before this step: fitted now, if it is time to, or if nothing is fitted yet."""
        retrain = self.loop.retrain
        if step == 0 or (retrain > 0 and step % retrain == 0):
            self.log, self.pending = _with_ratings(self.log, self.pending), []
            return self._fitted(self.log, step)
        if self.model is not None:
            return self.model
        latest = step - step % retrain if retrain else 0  # resumed between two fits: the model is that of the last one
        return self._fitted(self._log_before(latest), latest)

    def _fitted(self, log: Interactions, step: int) -> FittedModel:
        recommender, seed = self.loop.recommender, derive(self.seed, "fit", step)
        if isinstance(recommender, Oracle):
            return recommender.of(self.env.population, log)
        if self.loop.warm and self.model is not None:
            return recommender.warm_fit(self.model, log, seed)
        return recommender.fit(log, seed)

    def _live(self, step: int, model: FittedModel) -> None:
        """Recommend, observe, and write down what happened."""
        loop, env = self.loop, self.env
        users = self.observation["users"]
        seed = derive(self.seed, "policy", step)
        slate = slates(model, loop.policy, users, env.allowed, loop.scenario.environment.slate, seed)
        measured = self._measure(step, model)
        scored = loop.scenario.environment.choice.uses_scores
        self.observation = env.step({"items": slate[0], "scores": slate[1]} if scored else slate[0])[0]
        row, place = np.nonzero(slate[0] >= 0)
        rated = self.observation["rated"].astype(bool)
        ratings = np.where(rated, self.observation["ratings"], np.nan)
        item, score, *others = (values[row, place] for values in (*slate, ratings, env.expected))
        columns = (np.full(len(row), step), users[row], item, place, score, *others)
        self.exposure += np.bincount(item, minlength=len(self.exposure))
        if self.folder:
            shown = pl.DataFrame(dict(zip(SLATE_SCHEMA, columns, strict=True)), SLATE_SCHEMA)
            self.unsaved.append(shown.with_columns(pl.col("rating").fill_nan(None)))
        taken = rated[row, place]
        self.latest_users = np.unique(users[row][taken])
        given = ratings[row, place][taken]
        if loop.retrain:
            self.pending.append((users[row][taken], item[taken], given, np.full(len(given), step + 1)))
        errors = predictions(model, score[taken]) - given
        self.steps.append(
            {
                "trial": self.number,
                "step": step,
                "ratings": len(given),
                "mean_rating": float(given.mean()) if len(given) else None,
                "rmse": float(np.sqrt((errors**2).mean())) if len(given) else None,
                "population_rmse": measured,
                "distinct_items": len(np.unique(item)),
                "gini": float(gini(self.exposure[None, :])[0]) if self.exposure.any() else None,
                "drift": env.population.drift(),
            }
        )

    def _measure(self, step: int, model: FittedModel) -> float | None:
        """The population's error and the audits, where it is time for them, of the model as it stands."""
        loop = self.loop
        if loop.audits and loop.is_due(step, loop.audit_every):
            for name, audit in loop.audits.items():
                rows = observe(audit, model, loop.rng)
                self.audits += [{"trial": self.number, "step": step, "audit": name, **row} for row in rows]
        if not loop.is_due(step, loop.population_every):
            return None
        environment = loop.scenario.environment
        users: IntArray = np.arange(environment.present_users(step))
        count = measured_users(len(users), environment.items)
        if count < len(users):
            users = np.sort(generator(self.seed, "measured", step).choice(users, count, replace=False))
        return population_rmse(model, self.env.population, users)

    def _resume(self) -> None:
        if self.folder is None or not self.folder.step:
            return
        self.step = self.folder.step
        self.steps, self.audits = self.folder.table("steps").to_dicts(), self.folder.table("audits").to_dicts()
        if self.step < self.loop.scenario.steps:
            state = self.folder.state()
            if _PROBED_UTILITIES not in state:
                raise damaged(self.folder.folder.path, "damaged")
            self.latest_users = state.pop(_PROBED_USERS)
            utilities = state.pop(_PROBED_UTILITIES)
            self.observation = self.env.restore(state)
            self._check_restored(utilities)
            for part in self.folder.slates():
                self.exposure += np.bincount(part["item"].to_numpy(), minlength=len(self.exposure))
                self.log = _with_ratings(self.log, [_ratings_in(part)])
            if self.loop.continues:
                self._restore_model(self.folder)

    def _state(self) -> dict[str, NDArray[Any]]:
        """The environment, and the utilities of some users by which a resumed trial is checked."""
        probe = {_PROBED_USERS: self.latest_users, _PROBED_UTILITIES: self._probed_utilities()}
        return {**self.env.state(), **probe}

    def _probed_utilities(self) -> FloatArray:
        """(users, items): utilities of the first users who took something at the latest step."""
        return self.env.population.utilities(self.latest_users[:_MAX_PROBED_USERS])

    def _check_restored(self, utilities: FloatArray) -> None:
        """Refuse a population that is not as it was when the checkpoint was written."""
        population = self.env.population
        if np.allclose(self._probed_utilities(), utilities, rtol=1e-9, atol=1e-9):
            return
        raise InputError(
            "environment",
            received=f"{type(population).__name__}, whose users have other utilities after `restore` than before",
            expected="a population whose `changing`, or `state` and `restore`, have everything that changes",
            remedy="Name all arrays that `take` changes in `changing`, and begin again in another folder: "
            "from this checkpoint the numbers would be others.",
        )

    def _restore_model(self, folder: TrialFolder) -> None:
        """The model that the next one is fitted from: as it was kept, else by going through all fits again."""
        fits = range(0, self.step, self.loop.retrain or self.step)
        self.model = folder.model(self._log_before(fits[-1]))
        if self.model is None:
            warnings.warn(
                f"{type(self.loop.recommender).__name__}: its model cannot be kept as arrays, so that trial "
                f"{self.number} begins with its {len(fits)} fits again.",
                stacklevel=2,
            )
            for step in fits:
                self.model = self._fitted(self._log_before(step), step)

    def _log_before(self, step: int) -> Interactions:
        """The log as it was when the model was last fitted."""
        log = self.env.log
        for part in self.folder.slates() if self.folder else ():
            log = _with_ratings(log, [_ratings_in(part.filter(pl.col("step") < step))])
        return log


def _check_can_resume(population: Population) -> None:
    """Refuse to keep a trial whose users change in ways that a checkpoint would not have."""
    if not population.can_resume:
        name = type(population).__name__
        raise InputError(
            "environment",
            received=f"{name}, whose `take` changes users in ways that nothing describes",
            expected="a population that says what changes, as a trial in a folder must be able to resume",
            remedy=f"Set {name}.changing to the names of the arrays that `take` changes, for example "
            "changing = ('taste',); or override `state` and `restore`; or leave out `out`.",
        )


def observe(audit: Audit, model: FittedModel, rng: int) -> list[dict[str, Any]]:
    """A row a metric: not applicable where the model cannot be asked, failed where a value is not finite."""
    nothing = dict.fromkeys(("value", "lower", "upper"))
    try:
        frame = audit.observe(model, rng).frame
    except NotSupportedError:
        return [{"metric": None, **nothing, "status": Status.NOT_APPLICABLE.value}]
    failed = {**nothing, "status": Status.FAILED.value}
    rows = frame.select(_ANSWER).to_dicts()
    return [row if row["value"] is None or isfinite(row["value"]) else row | failed for row in rows]


def _ratings_in(shown: pl.DataFrame) -> Ratings:
    taken = shown.drop_nulls("rating")
    users, items, ratings, steps = (taken[name].to_numpy() for name in ("user", "item", "rating", "step"))
    return users, items, ratings, steps + 1


def _with_ratings(log: Interactions, parts: list[Ratings]) -> Interactions:
    return grown(log, *map(np.concatenate, zip(*parts, strict=True))) if parts else log


def slates(
    model: FittedModel, policy: ListPolicy, users: IntArray, allowed: BoolArray, n: int, rng: int
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Slates of n allowed items (users, items) for these users; chance follows from `rng` and the ids.

    (users, n) each: items, -1 where nothing is left to show; scores; and the probability of each item at its place,
    given the places before it. Both are 0 where nothing is shown.
    """
    lists = policy.lister(model.data)

    def some(rows: slice) -> tuple[IntArray, FloatArray, FloatArray]:
        scores, mask = model.scores(users[rows]), allowed[rows]
        items = lists(scores, mask, users[rows], n, rng)
        propensities = policy.propensities(scores, mask, items, model.data.tie_keys(users[rows]))
        shown = items >= 0
        values = np.take_along_axis(scores, np.maximum(items, 0), axis=1)
        return items, np.where(shown, values, 0.0), np.where(shown, propensities, 0.0)

    block = max(1, SCORED // allowed.shape[1])
    found = [some(slice(start, start + block)) for start in range(0, len(users), block)]
    items, scores, propensities = map(np.concatenate, zip(*found, strict=True))
    return items, scores, propensities


def predictions(model: FittedModel, scores: FloatArray) -> FloatArray:
    """Scores as predicted ratings: cut to the scale where they are some."""
    return np.clip(scores, *model.data.scale) if model.predicts_ratings else scores


def population_rmse(model: FittedModel, population: Population, users: IntArray) -> float:
    """Over every pair of these users with all items."""
    total = 0.0
    for block in blocks(users):
        error = predictions(model, model.scores(block)) - population.expected(block)
        error *= error
        total += float(error.sum())
    return float(np.sqrt(total / (len(users) * population.n_items)))
