"""What an environment is: a frozen description of people, items and choices, and the people that it makes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from recaudit.arrays import BoolArray, FloatArray, IntArray
from recaudit.data.growth import blank, grown
from recaudit.data.interactions import Interactions
from recaudit.errors import InputError
from recaudit.registry import CHOICES
from recaudit.seeding import generator
from recaudit.simulate.worlds.pairs import drawn_pairs
from recaudit.specification import OneOf, Specification

Repeats = Literal["never", "unrated", "always"]

MOST = 2**31 - 1
"""Most users, items and steps: positions are numbers of 32 bits."""
Size = Annotated[int, Field(ge=1, le=MOST)]
"""How many users, items or steps."""
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A finite number of 0 or more."""
_BLOCK = 8192
"""How many pairs are rated at once."""
_ROWS = 2**26
"""How many pairs of whole rows are valued at once, where single pairs cannot be."""


class Choice(Specification, ABC):
    """How users choose from what is shown to them."""

    @property
    def uses_scores(self) -> bool:
        """Whether users see the recommender's scores, which then belong to an action."""
        return False

    @abstractmethod
    def chosen(self, perceived: FloatArray, scores: FloatArray, shown: BoolArray, draws: FloatArray) -> BoolArray:
        """(users, slate): True where the item is taken.

        `perceived` (users, slate) is what users believe the items to be worth, `scores` what the recommender says,
        `shown` where there is an item at all; `draws` are uniform numbers in (0, 1).
        """


AnyChoice = Annotated[Choice, OneOf(CHOICES)]


@final
class TakesAll(Choice):
    """Everything that is shown is taken and rated, from the first place on."""

    def chosen(self, perceived: FloatArray, scores: FloatArray, shown: BoolArray, draws: FloatArray) -> BoolArray:
        """All that is shown."""
        return shown


class _ByAppeal(Choice):
    """One item of a slate, by its appeal: `(perceived + trust x score) x rank^-position`."""

    trust: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """How much of the recommender's score adds to what users believe themselves (paper 003, latent-score: 1)."""
    position: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """How fast attention falls with the place in the slate (Chaney et al., beta-rank: 0.8)."""

    @property
    def uses_scores(self) -> bool:
        """With trust, they do."""
        return self.trust > 0

    def _appeal(self, perceived: FloatArray, scores: FloatArray) -> FloatArray:
        values = perceived + self.trust * scores if self.trust else perceived
        places: FloatArray = np.arange(1, values.shape[1] + 1, dtype=np.float64)
        return values * places**-self.position


@final
class PicksBest(_ByAppeal):
    """The item that appeals most; equal appeal: the one that comes first."""

    def chosen(self, perceived: FloatArray, scores: FloatArray, shown: BoolArray, draws: FloatArray) -> BoolArray:
        """One item of each slate that is not empty."""
        return _one(np.where(shown, self._appeal(perceived, scores), -np.inf)) & shown


@final
class Logit(_ByAppeal):
    """An item drawn with probability proportional to `exp(appeal / temperature)`; perhaps none."""

    temperature: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Towards 0 the most appealing item, towards infinity any."""
    nothing: float | None = Field(default=None, allow_inf_nan=False)
    """What taking nothing is worth, on the scale of appeal; without it something is always taken."""

    def chosen(self, perceived: FloatArray, scores: FloatArray, shown: BoolArray, draws: FloatArray) -> BoolArray:
        """At most one item of each slate."""
        # The largest of log-weight + Gumbel noise is a draw from the softmax; the last column of draws is for nothing.
        gumbel = -np.log(-np.log(draws))
        noisy = np.where(shown, self._appeal(perceived, scores) / self.temperature + gumbel[:, :-1], -np.inf)
        taken = _one(noisy) & shown
        if self.nothing is not None:
            taken &= (noisy.max(axis=1) > self.nothing / self.temperature + gumbel[:, -1])[:, None]
        return taken


def _one(values: FloatArray) -> BoolArray:
    """True at the first largest entry of each row."""
    out = np.zeros(values.shape, dtype=bool)
    out[np.arange(len(values)), values.argmax(axis=1)] = True
    return out


class Population(ABC):
    """What items are worth to users, and what becomes of users who take them; users and items are positions.

    Everything random in it comes from the initial seed, when it is made; what happens later follows from what is
    taken, and `rate` is handed its noise: two populations that were shown the same things are equal.
    """

    n_users: int
    n_items: int
    scale: tuple[float, float]
    noise: float
    """The standard deviation of what no model explains in a rating."""
    clock: int = 0
    """The step that is going on, from 0."""
    activity: FloatArray | None = None
    """(users,): how often each of them comes, relative to the others, above 0. None: all alike."""
    changing: tuple[str, ...] = ()
    """The arrays that `take` changes, by name. A simulation that is kept in a folder needs them to resume."""
    popularity: FloatArray | None = None
    """(items,): how often each comes into people's hands before anything is recommended, above 0. None: all alike."""

    @abstractmethod
    def utilities(self, users: IntArray) -> FloatArray:
        """(len(users), items): the rating that each item would get now, without noise and not cut to the scale."""

    def utility(self, users: IntArray, items: IntArray) -> FloatArray:
        """(n,): the same for single pairs."""
        rows, row = np.unique(users, return_inverse=True)
        out, block = np.empty(len(users)), max(1, _ROWS // self.n_items)
        for start in range(0, len(rows), block):
            here = np.flatnonzero(row // block == start // block)
            out[here] = self.utilities(rows[start : start + block])[row[here] - start, items[here]]
        return out

    def tastes(self, users: IntArray) -> FloatArray:
        """(len(users), items): utilities without passing moods, such as boredom. Drift is how these change."""
        return self.utilities(users)

    def perceived(self, users: IntArray, items: IntArray) -> FloatArray:
        """(n,): what users believe these items to be worth before they take one: all of it, where nothing is said."""
        return self.utility(users, items)

    def rate(self, users: IntArray, items: IntArray, noise: FloatArray) -> FloatArray:
        """(n,): the ratings given, with standard normal `noise` (n,)."""
        return np.clip(self.utility(users, items) + self.noise * noise, *self.scale)

    def expected_of(self, users: IntArray, items: IntArray) -> FloatArray:
        """(n,): the ratings that would be given now without noise, inside the scale."""
        return np.clip(self.utility(users, items), *self.scale)

    def expected(self, users: IntArray) -> FloatArray:
        """(len(users), items): the rating that each item would get now, without noise, inside the scale."""
        return np.clip(self.utilities(users), *self.scale)

    def take(self, users: IntArray, items: IntArray) -> None:  # noqa: B027  people who stay as they are need none
        """What becomes of distinct `users` (n,) who take one item (n,) each."""

    def forget(self) -> None:  # noqa: B027  people without a memory have nothing to forget
        """Remember nothing of what was taken; tastes stay as they have become."""

    def drift(self) -> float | None:
        """Root mean square change of tastes since the beginning, over all pairs, in rating points.

        0 if `take` changes nothing. None, not known, if `take` is overridden and `drift` is not.
        """
        return None if self.is_changed_by_taking else 0.0

    @property
    def is_changed_by_taking(self) -> bool:
        """If True, `take` is overridden: what users take can change them."""
        return type(self).take is not Population.take

    @property
    def can_resume(self) -> bool:
        """If True, `state` and `restore` are said to have everything that changes."""
        has_own_state = type(self).state is not Population.state and type(self).restore is not Population.restore
        return bool(self.changing) or has_own_state or not self.is_changed_by_taking

    def about(self, data: Interactions) -> Interactions:
        """The log with what a recommender may know about the items, such as their topics; here nothing."""
        return data

    def state(self) -> dict[str, NDArray[Any]]:
        """A picture of everything that changes, so that a run can resume where it stopped."""
        takers = self.takers()
        if takers is None:
            rows = {name: getattr(self, name).copy() for name in self.changing}
        else:
            rows = {"takers": takers, **{name: getattr(self, name)[takers] for name in self.changing}}
        return {"clock": np.array(self.clock), **rows}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """People who are as they were at the beginning become as `state` says."""
        self.clock = int(state["clock"])
        for name in self.changing:
            if "takers" in state:
                getattr(self, name)[state["takers"]] = state[name]
            else:
                setattr(self, name, state[name].copy())

    def takers(self) -> IntArray | None:
        """(n,): who has taken something since the beginning, where `changing` has a row for each user and only theirs
        change; None where all of it may have changed."""
        return None


class Environment(Specification, ABC):
    """A frozen, validated description: `population` makes the people, `PopulationEnv` lets them live."""

    smaller: ClassVar[str] = "Ask for fewer users, items, users_per_step or ratings, or run fewer trials at a time."
    """What to do where there is not memory enough."""
    dynamics: ClassVar[Mapping[str, str]] = {}
    """How people may change, by name: the setting that is 0 where they do not."""

    users: Size = 1000
    """How many people there are, those who come later included."""
    items: Size = 1700
    """How many items there are, those that come later included."""
    users_per_step: Size = 200
    """How many of those present are online at a step, drawn uniformly or by how active they are."""
    slate: Size = 1
    """How many items are shown to each of them."""
    choice: AnyChoice = TakesAll()
    """What they do with a slate."""
    noise: Amount = 0.5
    """Standard deviation of what no model explains in a rating."""
    repeats: Repeats = "never"
    """What may be shown again: nothing, what was not rated, or everything."""
    late_users: int = Field(default=0, ge=0)
    """So many of the users, the last ones, arrive one after the other until `arrival_steps`."""
    late_items: int = Field(default=0, ge=0)
    """So many of the items, the last ones, arrive one after the other until `arrival_steps`."""
    arrival_steps: Size = 100
    """At which step everybody and everything has arrived."""

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        users, items = self.users - self.late_users, self.items - self.late_items
        if users <= 0 or items <= 0:
            received = f"{self.late_users} of {self.users} users and {self.late_items} of {self.items} items"
            expected = "fewer than all: somebody and something must be there from the start"
            raise InputError("late_users, late_items", received=received, expected=expected)
        for name, most, whole in (("users_per_step", users, "users"), ("slate", items, "items")):
            if getattr(self, name) > most:
                expected = f"at most {most}, the {whole} that are there from the start"
                remedy = f"Lower it, or raise {whole}."
                raise InputError(name, received=getattr(self, name), expected=expected, remedy=remedy)
        return self

    @property
    def scale(self) -> tuple[float, float]:
        """The lowest and highest rating that can be given."""
        return (1.0, 5.0)

    @abstractmethod
    def population(self, seed: int = 0) -> Population:
        """The people and items at the beginning: a function of this description and the initial seed alone."""

    def people_memory(self) -> int:
        """Bytes that the people take while they are made, roughly; 0 where nothing is known."""
        return 0

    def prepare(self) -> None:
        """Do once what all trials share, such as fitting people to a log; tells what is wrong with it."""

    def changed(self, **changes: Any) -> Self:
        """The same with other settings, all of them checked."""
        return type(self)(**{name: getattr(self, name) for name in type(self).model_fields} | changes)

    def without(self, *dynamics: str) -> Self:
        """The same environment with these dynamics switched off, and everything else as it is."""
        known = self.dynamics
        for name in dynamics:
            if name not in known:
                expected = f"one of {', '.join(known)}" if known else "nothing: this environment has no dynamics"
                raise InputError("dynamics", received=name, expected=expected)
        return self.model_copy(update={known[name]: 0.0 for name in dynamics})

    @property
    def changes_people(self) -> bool:
        """Whether people are moved by what they take, or tire of it."""
        return any(getattr(self, setting) > 0 for setting in self.dynamics.values())

    def present_users(self, step: int) -> int:
        """How many users, the first ones, are there at this step."""
        return self._present(self.users, self.late_users, step)

    def present_items(self, step: int) -> int:
        """How many items, the first ones, are there at this step."""
        return self._present(self.items, self.late_items, step)

    def _present(self, whole: int, late: int, step: int) -> int:
        return whole - late + late * min(step, self.arrival_steps) // self.arrival_steps

    def offline(self, ratings: int, seed: int = 0, *, population: Population | None = None) -> Interactions:
        """The log that a recommender begins with: so many pairs, drawn without replacement, and rated.

        Drawn uniformly, or by people's activity and items' popularity where the population has them. Nobody changes
        while they rate, unless a `population` (made with the same seed) is given, which lives through the log in the
        order of the draw: what they take changes their tastes, and so their ratings, but is not remembered.
        """
        users, items = self.present_users(0), self.present_items(0)
        if not 1 <= ratings <= users * items:
            expected = f"a whole number from 1 to {users * items:,}, the pairs of users and items"
            raise InputError("ratings", received=ratings, expected=expected)
        people = population or self.population(seed)
        who, what, noise = self.drawn_log(ratings, seed, people)
        values = np.empty(ratings)
        blocks = np.split(np.arange(ratings), range(_BLOCK, ratings, _BLOCK))
        for rows in _rounds(who) if population is not None else blocks:
            values[rows] = people.rate(who[rows], what[rows], noise[rows])
            if population is not None:
                people.take(who[rows], what[rows])
                people.forget()
        data = people.about(blank(self.users, self.items, self.scale))
        return grown(data, who, what, values, np.zeros(ratings, dtype=np.int64))

    def drawn_log(self, ratings: int, seed: int, people: Population) -> tuple[IntArray, IntArray, FloatArray]:
        """(ratings,) each: users and items of the log, in the order of the draw, and what scatters their ratings."""
        draw = generator(seed, "offline")
        shape = self.present_users(0), self.present_items(0)
        who, what = drawn_pairs(draw, shape, ratings, people.activity, people.popularity)
        return who, what, draw.standard_normal(ratings)


def _rounds(users: IntArray) -> list[IntArray]:
    """Rows in which every user comes at most once, in order: first everybody's first row, then their second, ..."""
    order = np.argsort(users, kind="stable")
    counts = np.bincount(users)
    nth: NDArray[np.int64] = np.arange(len(users)) - np.repeat(np.cumsum(counts) - counts, counts)
    by_round = np.argsort(nth, kind="stable")
    ends = np.cumsum(np.bincount(nth))
    return np.split(order[by_round], ends[:-1])
