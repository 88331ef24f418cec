"""A divided world: what one half of the people likes the other dislikes."""

import numpy as np
from pydantic import Field

from recaudit.seeding import generator
from recaudit.simulate import Environment, Population


class TwoCamps(Environment):
    """Items have a side and a quality, people have a side."""

    divide: float = Field(default=1.0, ge=0)
    """How many rating points an item of one's own side gains, and one of the other side loses."""

    def population(self, seed: int = 0) -> Population:
        """Sides and qualities, drawn from the initial seed."""
        return Divided(self, seed)


class Divided(Population):
    """The people of two camps."""

    def __init__(self, environment: TwoCamps, seed: int) -> None:
        draw = generator(seed, "two camps")
        self.n_users, self.n_items = environment.users, environment.items
        self.scale, self.noise = environment.scale, environment.noise
        self.people, self.things = (draw.choice([-1.0, 1.0], n) for n in (self.n_users, self.n_items))
        self.quality, self.divide = draw.normal(3.0, 0.5, self.n_items), environment.divide

    def utilities(self, users: np.ndarray) -> np.ndarray:
        """(len(users), items)"""
        return self.quality + self.divide * np.outer(self.people[users], self.things)
