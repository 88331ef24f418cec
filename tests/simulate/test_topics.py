from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from recaudit.seeding import generator
from recaudit.simulate.worlds.environment import TakesAll
from recaudit.simulate.worlds.topics import Topics, TopicsPopulation
from recaudit.testing.environments import EnvironmentContract

ONE = np.array([0])


class TestStaticTopics(EnvironmentContract):
    environment = Topics(users=20, items=30, users_per_step=8)


class TestDynamicTopics(EnvironmentContract):
    environment = Topics(
        users=20, items=30, users_per_step=8, topics=5, affinity=0.1, boredom_penalty=1, boredom_threshold=2
    )
    dynamics = ("affinity", "boredom")


class TestTopicsAsRecLabRanThem(EnvironmentContract):
    environment = Topics(
        users=20,
        items=30,
        users_per_step=8,
        slate=2,
        topics=3,
        affinity=0.3,
        boredom_penalty=1,
        memory_counts="steps",
        bounded=False,
    )
    dynamics = ("affinity", "boredom")


def somebody(preferences: list[float], topic_of: list[int] | None = None, **settings: object) -> TopicsPopulation:
    """One user, and an item for each topic unless they are given."""
    topics = list(range(len(preferences))) if topic_of is None else topic_of
    kind = Topics.model_validate(
        {"users": 1, "items": len(topics), "users_per_step": 1, "topics": len(preferences), **settings}
    )
    return TopicsPopulation(kind, np.array([preferences]), np.array(topics))


def take(people: TopicsPopulation, *items: int) -> None:
    for item in items:
        people.take(ONE, np.array([item]))


def worth(people: TopicsPopulation) -> list[float]:
    values: list[float] = people.utilities(ONE)[0].tolist()
    return values


def test_at_the_beginning_preferences_are_uniform_and_topics_are_spread() -> None:
    people = Topics(users=2000, items=5000, topics=4).population(0)
    assert people.preferences.min() > 0.5
    assert people.preferences.max() < 5.5
    assert np.quantile(people.preferences, [0.25, 0.5, 0.75]) == pytest.approx([1.75, 3, 4.25], abs=0.1)
    assert np.bincount(people.topic_of) / 5000 == pytest.approx([0.25] * 4, abs=0.03)


def test_a_rating_is_the_preference_for_the_topic_with_noise_cut_to_the_scale() -> None:
    people = somebody([4.8, 2.0], topic_of=[1, 0, 1], noise=0.5)
    users = np.array([0, 0, 0])
    items = np.array([0, 1, 2])
    assert people.rate(users, items, np.array([1.0, 1.0, -3.0])).tolist() == [2.5, 5.0, 1.0]


def test_what_is_taken_is_liked_more_and_the_rest_less() -> None:
    people = somebody([2.0, 3.0, 4.0], affinity=0.5)
    take(people, 0)
    assert people.preferences[0] == pytest.approx([2.5, 2.75, 3.75])
    take(people, 2)
    assert people.preferences[0] == pytest.approx([2.25, 2.5, 4.25])


def test_preferences_are_cut_to_the_scale_at_both_ends() -> None:
    people = somebody([1.1, 3.0, 4.8], affinity=0.5)
    take(people, 2)
    assert people.preferences[0] == pytest.approx([1.0, 2.75, 5.0])


def test_unbounded_preferences_grow_past_the_scale_and_then_stop() -> None:
    people = somebody([1.1, 3.0, 4.8], affinity=0.5, bounded=False)
    take(people, 2)
    assert people.preferences[0] == pytest.approx([0.85, 2.75, 5.3])
    take(people, 2, 2)
    assert people.preferences[0] == pytest.approx([0.85, 2.75, 5.3])
    take(people, 1)
    assert people.preferences[0] == pytest.approx([0.6, 3.25, 5.05])


def test_only_those_who_take_something_change() -> None:
    kind = Topics(users=3, items=2, users_per_step=1, topics=2, affinity=0.5)
    people = TopicsPopulation(kind, np.full((3, 2), 3.0), np.array([0, 1]))
    people.take(np.array([2, 0]), np.array([0, 1]))
    assert people.preferences.tolist() == [[2.5, 3.5], [3, 3], [3.5, 2.5]]


def test_boredom_begins_at_the_threshold_and_ends_when_the_items_are_forgotten() -> None:
    people = somebody([4.0, 4.0, 4.0], boredom_penalty=1, boredom_threshold=2, memory=3)
    take(people, 0)
    assert worth(people) == [4, 4, 4]
    take(people, 0)
    assert worth(people) == [3, 4, 4]
    take(people, 1)
    assert worth(people) == [3, 4, 4]
    take(people, 1)
    assert worth(people) == [4, 3, 4]
    assert people.tastes(ONE)[0].tolist() == [4, 4, 4]


def test_memory_in_steps_forgets_what_is_too_long_ago_whoever_was_away() -> None:
    people = somebody([4.0, 4.0], boredom_penalty=1, boredom_threshold=2, memory=2, memory_counts="steps")
    for _ in range(2):
        take(people, 0)
        people.clock += 1
    assert worth(people) == [3, 4]
    people.clock += 1
    assert worth(people) == [4, 4]
    # Counted in items, both would still be remembered.
    counted = somebody([4.0, 4.0], boredom_penalty=1, boredom_threshold=2, memory=2)
    take(counted, 0, 0)
    counted.clock = 3
    assert worth(counted) == [3, 4]


def test_memory_in_steps_holds_whole_slates_and_the_step_that_is_going_on() -> None:
    people = somebody(
        [4.0, 4.0], boredom_penalty=1, boredom_threshold=3, memory=1, memory_counts="steps", slate=2, choice=TakesAll()
    )
    take(people, 0, 0)
    people.clock += 1
    assert worth(people) == [4, 4]
    take(people, 0)
    assert worth(people) == [3, 4]


def test_drift_counts_topics_by_their_items_and_all_users() -> None:
    kind = Topics(users=2, items=3, users_per_step=1, topics=2, affinity=0.5)
    people = TopicsPopulation(kind, np.array([[4.8, 3.0], [3.0, 3.0]]), np.array([0, 0, 1]))
    people.take(ONE, ONE)
    # The first user's two items go from 4.8 to 5.0, the other from 3.0 to 2.5; the second user stays.
    assert people.drift() == pytest.approx(np.sqrt((0.04 + 0.04 + 0.25) / 6))


def test_boredom_is_no_drift() -> None:
    people = somebody([4.0, 4.0], boredom_penalty=1, boredom_threshold=1)
    take(people, 0)
    assert worth(people) == [3, 4]
    assert people.drift() == 0


def test_dynamics_are_switched_off_one_by_one() -> None:
    kind = Topics(affinity=0.1, boredom_penalty=1.0)
    assert kind.without("boredom") == Topics(affinity=0.1)
    assert kind.without("affinity") == Topics(boredom_penalty=1.0)
    assert kind.without("affinity", "boredom") == Topics()


def test_living_through_the_log_is_living_it_one_by_one() -> None:
    kind = Topics(users=6, items=40, users_per_step=2, topics=4, affinity=0.3, boredom_penalty=1.0, bounded=False)
    lived = kind.population(5)
    log = kind.offline(120, seed=5, population=lived)

    twin = kind.population(5)
    draw = generator(5, "offline")
    pairs = draw.choice(6 * 40, 120, replace=False)
    noise = draw.standard_normal(120)
    ratings = {}
    for pair, chance in zip(pairs, noise, strict=True):
        user, item = np.array([pair // 40]), np.array([pair % 40])
        ratings[int(pair)] = twin.rate(user, item, np.array([chance]))[0]
        twin.take(user, item)
        twin.forget()

    assert [ratings[int(pair)] for pair in log.users * 40 + log.items] == log.ratings.tolist()
    np.testing.assert_array_equal(lived.preferences, twin.preferences)
    assert lived.drift() == twin.drift() > 0
    # Tastes have moved, but nobody is bored yet: memory holds what is shown, and nothing was.
    np.testing.assert_array_equal(lived.utilities(np.arange(6)), lived.tastes(np.arange(6)))
    assert not np.array_equal(log.ratings, kind.offline(120, seed=5).ratings)


def test_the_log_knows_the_topics() -> None:
    kind = Topics(users=5, items=30, users_per_step=2, topics=3)
    topics = kind.offline(20).categories["topic"]
    assert topics.names == ("topic 00", "topic 01", "topic 02")
    np.testing.assert_array_equal(topics.weights.toarray(), np.eye(3)[kind.population(0).topic_of])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("users", 0),
        ("items", -3),
        ("topics", 1),
        ("affinity", -0.1),
        ("boredom_penalty", -1),
        ("boredom_threshold", 0),
        ("memory", 0),
        ("memory_counts", "days"),
    ],
)
def test_settings_are_checked(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        Topics.model_validate({field: value})
