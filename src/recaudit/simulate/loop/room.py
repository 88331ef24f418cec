"""What a trial takes of the machine's memory, before it is asked for."""

from __future__ import annotations

from recaudit.machine import check_memory, memory_words
from recaudit.simulate.worlds.scenarios import Scenario

SCORED = 2**23
"""How many pairs are scored at once for those who are online."""
_DRAWN, _KEPT = 150, 80
"""Bytes a rating: while the first log is drawn; and in the loop, of the log, as it was, is, and becomes."""
_USER = 100
"""Bytes a user: ids, keys, counts, and chance at a step."""
_SCORE, _MASK = 48, 6
"""Bytes a pair that is scored: scores, and what policies make of them; and a pair that may be shown."""


def trial_memory(scenario: Scenario) -> int:
    """Bytes that a trial takes at its peak, roughly, without what its recommender takes for itself."""
    environment = scenario.environment
    online = environment.users_per_step * environment.items
    shown = scenario.steps * environment.users_per_step * environment.slate
    log = max(_DRAWN * scenario.ratings, _KEPT * (scenario.ratings + shown))
    people = environment.people_memory() + _USER * environment.users
    return people + log + _SCORE * min(online, SCORED) + _MASK * online


def check_room(scenario: Scenario) -> None:
    """That a trial's people, log and slates fit into memory."""
    environment = scenario.environment
    check_memory(
        trial_memory(scenario),
        f"A trial of {environment.users:,} users, {environment.items:,} items and {scenario.ratings:,} ratings",
        environment.smaller,
    )


def announced(scenario: Scenario, recommenders: int, trials: int, at_once: int = 1) -> str:
    """What is to be run in an environment, in words, and the memory of the trials that run at once."""
    loops = f"{recommenders:,} recommenders x {trials:,} trials x {scenario.steps:,} steps"
    side_by_side = min(at_once, recommenders * trials)
    needed = side_by_side * trial_memory(scenario)
    together = f" for {side_by_side} trials at once" if side_by_side > 1 else ""
    return f"{scenario.name}: {loops}; about {memory_words(needed)} of memory{together}, beside what recommenders take."
