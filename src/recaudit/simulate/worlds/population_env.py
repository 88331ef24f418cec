"""Gymnasium's side of an environment: a whole population at once, a slate for everybody who is online."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from recaudit.arguments import check_argument
from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.growth import blank
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.seeding import generator
from recaudit.simulate.worlds.environment import Environment, Population
from recaudit.simulate.worlds.pairs import PairSet, drawn_users

Observation = dict[str, Any]
Beginning = tuple[Interactions, Population]
Action = Any  # an array of items, or {"items": ..., "scores": ...} where users see scores

_LARGEST_SCORE = 1e9
"""Scores are numbers on the scale of ratings; Gymnasium wants to know an end."""


@final
class PopulationEnv(gymnasium.Env[Observation, Action]):
    """A step shows a slate to each user online and tells what they rated; the reward is the mean rating.

    An observation has `users` (n,), who is online now; `available` (items,), 1 for what is there; and what came of the
    step before: `shown` (n, slate), to whom, `shown_to` (n,), and `ratings` (n, slate), with 1 in `rated` (n, slate)
    where there is one. -1 is nothing and nobody. `info["allowed"]` (n, items) is True for what may be shown.

    An action is `items` (n, slate), positions in the order shown, -1 for nothing; where users see the recommender's
    scores it is `{"items": ..., "scores": ...}`. What is not allowed, or twice in a slate, is not shown.

    Chance at a step follows from the seed of `reset` and the step, never from what was shown.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  Gymnasium's own type

    def __init__(
        self, environment: Environment, initial: int = 0, *, begin: Callable[[int], Beginning] | None = None
    ) -> None:
        """`begin` makes log and people from the initial seed; else `environment` makes them, without any ratings."""
        self.environment = environment
        self.initial = initial
        self.log = blank(environment.users, environment.items, environment.scale)
        """The ratings that there are at the beginning; those of an environment that is not reset yet are none."""
        self._begin = begin or self._without_ratings
        self._population: Population | None = None
        self.seed = 0
        shape = (environment.users_per_step, environment.slate)
        low, high = environment.scale
        observed: dict[str, spaces.Space[Any]] = {
            "users": spaces.Box(0, environment.users - 1, shape[:1], np.int64),
            "available": spaces.MultiBinary(environment.items),
            "shown_to": spaces.Box(-1, environment.users - 1, shape[:1], np.int64),
            "shown": spaces.Box(-1, environment.items - 1, shape, np.int64),
            "ratings": spaces.Box(min(0.0, low), high, shape, np.float64),
            "rated": spaces.MultiBinary(shape),
        }
        self.observation_space = spaces.Dict(observed)
        items = spaces.Box(-1, environment.items - 1, shape, np.int64)
        scores = spaces.Box(-_LARGEST_SCORE, _LARGEST_SCORE, shape, np.float64)
        self.action_space = spaces.Dict({"items": items, "scores": scores}) if environment.choice.uses_scores else items
        self._online: IntArray = np.zeros(shape[0], dtype=np.int64)
        self._hidden = PairSet(environment.items)  # what may not be shown again, but for the log
        self.allowed: BoolArray = np.zeros((shape[0], environment.items), dtype=bool)
        """(n, items): what may be shown to those who are online."""
        self.expected: FloatArray = np.zeros(shape)
        """(n, slate): what the items of the last step would have got without noise, inside the scale: when they were
        rated, and for those that were not taken when the slate was shown. 0 where nothing was shown."""

    @property
    def population(self) -> Population:
        """The people and items as they are now: the truth, for auditors."""
        if self._population is None:
            expected = "an environment that has begun"
            remedy = "Call env.reset(seed=...) first."
            raise InputError("env", received="a call before the first reset", expected=expected, remedy=remedy)
        return self._population

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin again. `seed` drives what happens from here; `options={"initial": 1}` makes other people and items."""
        check_argument("options", options, dict[str, object] | None)
        if isinstance(seed, int) and seed >= 2**64:
            raise InputError("seed", received=seed, expected="a whole number of at most 64 bits")
        super().reset(seed=seed)
        self.seed = int(self.np_random.integers(2**63)) if seed is None else seed
        initial = (options or {}).get("initial", self.initial)
        check_argument("options['initial']", initial, int)
        self.initial = int(initial)
        self.log, self._population = self._begin(self.initial)
        self._hidden = PairSet(self.environment.items)
        self._go_online()
        log = {name: np.array(getattr(self.log, name)) for name in ("users", "items", "ratings")}
        return self._beginning(), {"allowed": self.allowed.copy(), "log": log}

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Show the slates of `action` to the users online."""
        people, step = self.population, self.population.clock
        items, scores = self._checked(action)
        environment, users = self.environment, self._online
        shown = (items >= 0) & np.take_along_axis(self.allowed, np.maximum(items, 0), axis=1) & ~_again(items)
        rows, places = np.nonzero(shown)
        perceived = np.zeros(items.shape)
        perceived[rows, places] = people.perceived(users[rows], items[rows, places])
        draws = generator(self.seed, "choice", step).random((environment.users, environment.slate + 1))[users]
        rated = environment.choice.chosen(perceived, scores, shown, np.clip(draws, 1e-16, 1 - 1e-16))
        noise = generator(self.seed, "noise", step).standard_normal((environment.users, environment.slate))[users]
        ratings, self.expected = np.zeros(items.shape), np.zeros(items.shape)
        self.expected[rows, places] = people.expected_of(users[rows], items[rows, places])
        for place in range(environment.slate):
            taken = np.flatnonzero(rated[:, place])
            who, what = users[taken], items[taken, place]
            self.expected[taken, place] = people.expected_of(who, what)
            ratings[taken, place] = people.rate(who, what, noise[taken, place])
            people.take(who, what)
        reward = float(ratings[rated].mean()) if rated.any() else 0.0
        if environment.repeats != "always":
            rows, places = np.nonzero(rated if environment.repeats == "unrated" else shown)
            self._hidden.add(users[rows], items[rows, places])
        people.clock += 1
        self._go_online()
        observation = self._observation(users, np.where(shown, items, -1), ratings, rated)
        return observation, reward, False, False, {"allowed": self.allowed.copy()}

    def state(self) -> dict[str, NDArray[Any]]:
        """Where things stand, for `restore`."""
        seeds = {"seed": np.array(self.seed, dtype=np.uint64), "initial": np.array(self.initial)}
        return seeds | {"hidden": self._hidden.keys()} | self.population.state()

    def restore(self, state: Mapping[str, NDArray[Any]]) -> Observation:
        """Go on from a state; the observation has nothing of the step before in it."""
        check_argument("state", state, Mapping[str, object])
        try:
            seed, initial = int(state["seed"]), int(state["initial"])
            log, people = self._begin(initial)
            people.restore(state)
            hidden = self._restored_pairs(state["hidden"])
        except (IndexError, KeyError, TypeError, ValueError) as error:
            received = f"a state that does not fit ({error})"
            raise InputError("state", received=received, expected="what state() of this environment gave") from None
        self.seed, self.initial, self.log, self._population, self._hidden = seed, initial, log, people, hidden
        self._go_online()
        return self._beginning()

    def _restored_pairs(self, keys: NDArray[Any]) -> PairSet:
        items, users = self.environment.items, self.environment.users
        if (
            keys.ndim != 1
            or keys.dtype != np.int64
            or (len(keys) and not 0 <= keys.min() <= keys.max() < users * items)
        ):
            raise ValueError(f"'hidden' holds other pairs than those of {users:,} users and {items:,} items")
        return PairSet(items, keys)

    def _without_ratings(self, initial: int) -> Beginning:
        people = self.environment.population(initial)
        return people.about(blank(self.environment.users, self.environment.items, self.environment.scale)), people

    def _go_online(self) -> None:
        step = self.population.clock
        present = self.environment.present_users(step)
        draw = generator(self.seed, "online", step)
        activity, count = self.population.activity, self.environment.users_per_step
        if activity is None:
            self._online = draw.choice(present, count, replace=False).astype(np.int64)
        else:
            self._online = drawn_users(draw, activity[:present], count)
        self.allowed = np.repeat(self._there()[None, :], count, axis=0)
        if self.environment.repeats != "always":
            self.allowed &= ~(self.log.seen(self._online) | self._hidden.rows(self._online))

    def _there(self) -> BoolArray:
        """(items,): True for what has arrived."""
        return np.arange(self.environment.items) < self.environment.present_items(self.population.clock)

    def _beginning(self) -> Observation:
        """When nothing was shown yet."""
        shape = (self.environment.users_per_step, self.environment.slate)
        nobody, nothing = np.full(shape[0], -1), np.full(shape, -1)
        return self._observation(nobody, nothing, np.zeros(shape), np.zeros(shape, dtype=bool))

    def _observation(self, shown_to: IntArray, shown: IntArray, ratings: FloatArray, rated: BoolArray) -> Observation:
        return {
            "users": self._online.copy(),
            "available": self._there().astype(np.int8),
            "shown_to": shown_to,
            "shown": shown,
            "ratings": ratings,
            "rated": rated.astype(np.int8),
        }

    def _checked(self, action: Action) -> tuple[IntArray, FloatArray]:
        shape = (self.environment.users_per_step, self.environment.slate)
        items, scores = action, np.zeros(shape)
        if self.environment.choice.uses_scores:
            if not isinstance(action, Mapping) or not {"items", "scores"} <= set(action):
                expected = '{"items": ..., "scores": ...}: these users see the recommender\'s scores'
                raise InputError("action", received=type(action).__name__, expected=expected)
            items, scores = action["items"], np.asarray(action["scores"], dtype=np.float64)
            if not (np.abs(scores) <= _LARGEST_SCORE).all():
                raise InputError(
                    "action",
                    received="scores that are NaN, infinite or enormous",
                    expected=f"scores on the scale of ratings, between -{_LARGEST_SCORE:.0e} and {_LARGEST_SCORE:.0e}",
                    remedy="Check the model: it may have diverged. Where nothing is shown, say 0.",
                )
        items = np.asarray(items)
        whole = np.issubdtype(items.dtype, np.integer) and items.shape == scores.shape == shape
        if not whole or items.min() < -1 or items.max() >= self.environment.items:
            expected = f"whole numbers of shape {shape}, from -1 (nothing) to {self.environment.items - 1}"
            raise InputError("action", received=f"{items.dtype} of shape {items.shape}", expected=expected)
        return items.astype(np.int64), scores


def _again(items: IntArray) -> BoolArray:
    """(users, slate): True where the item stands further up in the same slate."""
    out = np.zeros(items.shape, dtype=bool)
    for place in range(1, items.shape[1]):
        out[:, place] = (items[:, :place] == items[:, [place]]).any(axis=1)
    return out
