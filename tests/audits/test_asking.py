"""Systems that can only be asked, crafted so that the right answer is known: counting, random, failing ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import recaudit as ra
from recaudit.audits.asking import expected_log
from recaudit.audits.instability.result import InstabilityResult
from recaudit.audits.instability.solvers import surely_moved
from recaudit.data import Interactions
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Future, NextK, Past, Stars
from recaudit.models import BlackBox, History, from_system
from recaudit.models.given.black_box import seeing_others
from recaudit.policies import Softmax, Top1
from recaudit.solvers.distance.distances import Distance, distance_between

ITEMS = ["a", "b", "c", "d", "z"]


@pytest.fixture(scope="module")
def log() -> Interactions:
    """u and w have rated z and then a, v everything else."""
    users, items = ["u", "u", "v", "v", "v", "w", "w"], ["z", "a", "b", "c", "d", "z", "a"]
    frame = pl.DataFrame({"user": users, "item": items, "rating": [3.0] * 7, "time": list(range(7))})
    return Interactions.from_frame(frame, time="time", scale=(1, 5))


def likes(history: History) -> list[float]:
    """Scores of a, b, c, d, z: b grows with the rating of a, d is highest where a is rated 3."""
    a = dict(zip(history.items, history.ratings, strict=True)).get("a", 3.0)
    return [0.5, a - 3, 0.0, -((a - 3) ** 2), 0.0]


class Counter:
    """Says what another system says, and counts."""

    def __init__(self, system: Callable[[History], Sequence[object]] = likes) -> None:
        self.system = system
        self.asked: list[History] = []

    def __call__(self, history: History) -> Sequence[Any]:
        self.asked.append(history)
        return self.system(history)


def noisy(draw: np.random.Generator, sd: float) -> Callable[[History], Sequence[float]]:
    return lambda history: (np.array(likes(history)) + sd * draw.standard_normal(5)).tolist()


def luck(draw: np.random.Generator) -> Callable[[History], Sequence[float]]:
    return lambda _: [float(score) for score in draw.standard_normal(5)]


def reach(system: BlackBox, users: Sequence[str] = ("u",), **rest: Any) -> ra.ReachabilityResult:
    return ra.reachability(
        system, users=users, **{"actions": Past(1), "budget": 40, "policy": Softmax(beta=1.0), **rest}
    )


def instability(system: BlackBox, **settings: Any) -> InstabilityResult:
    """Instability of a system that is also queried about one user after another user's ratings changed."""
    sees_others = system if system.system.sees_others else seeing_others(system)
    return ra.instability(sees_others, **{"policy": Softmax(beta=2.0), **settings})


class TestBudget:
    @pytest.mark.parametrize("actions", [Past(1), NextK(1), Future(1), Future(2), Past(1, ratings=Stars(1, 5))])
    @pytest.mark.parametrize("budget", [10, 11, 37])
    def test_a_pair_is_never_asked_for_more(self, log: Interactions, actions: Any, budget: int) -> None:
        for item in ITEMS:
            system = Counter()
            found = reach(from_system(log, scores=system), actions=actions, budget=budget, targets=[item]).pairs
            assert found["queries"].to_list() == [len(system.asked)]
            assert len(system.asked) <= budget

    def test_all_pairs_together_are_asked_for_no_more_than_their_sum(self, log: Interactions) -> None:
        system = Counter()
        box = from_system(log, scores=system)
        found = reach(box, ["u", "v", "w"]).pairs
        assert box.queries.asked == len(system.asked) <= found["queries"].sum()
        assert (found["queries"] <= 40).all()
        assert found["fresh"].drop_nulls().unique().to_list() == [0]
        assert (found["lower"] == found["value"]).all()
        assert found["failure"].null_count() == len(found)

    @pytest.mark.parametrize("tries", [1, 2])
    def test_what_fails_and_is_asked_again_counts(self, log: Interactions, tries: int) -> None:
        """Every question is answered at the second or third try only."""
        failures: dict[History, int] = {}

        def stumbling(history: History) -> Sequence[float]:
            failures[history] = (failures.get(history, -1) + 1) % (tries + 1)
            if failures[history] < tries:
                raise TimeoutError("try again")
            return likes(history)

        system = Counter(stumbling)
        found = reach(from_system(log, scores=system), targets=["b"]).pairs
        assert found["queries"].to_list() == [len(system.asked)]
        assert len(system.asked) <= 40
        assert found["status"].to_list() == ["bounded"]
        assert found["value"][0] == pytest.approx(np.exp(2) / (np.exp(2) + 1 + np.exp(-4)), rel=1e-9)

    def test_a_budget_too_small_for_any_answer_is_refused_with_what_it_takes(self, log: Interactions) -> None:
        reach(from_system(log, scores=likes), budget=4)
        with pytest.raises(InputError, match="budget: received 3; expected 4 queries a pair at least"):
            reach(from_system(log, scores=likes), budget=3)
        with pytest.raises(InputError, match="expected 60 queries a pair"):
            reach(from_system(log, lists=lambda _: "b", repeats=20), budget=59)
        with pytest.raises(InputError, match="expected 7 queries a pair"):
            reach(from_system(log, scores=likes), actions=Future(2), budget=6)

    def test_instability_counts_too(self, log: Interactions) -> None:
        for edits in (Past(1), NextK(1)):
            system = Counter()
            box = from_system(log, scores=system)
            found = instability(box, edits=edits, viewers=["w"], editors=["u"], budget=20).pairs
            assert found["queries"].to_list() == [len(system.asked)]
            assert len(system.asked) <= 20
        together = Counter()
        found = instability(from_system(log, scores=together), edits=NextK(1), budget=20).pairs
        assert len(together.asked) <= found["queries"].sum()
        assert (found["queries"] <= 20).all()

    def test_the_settings_say_the_budget(self, log: Interactions) -> None:
        assert reach(from_system(log, scores=likes)).settings["budget"] == 40
        assert instability(from_system(log, scores=likes), edits=Past(1), budget=9).settings["budget"] == 9


class TestRandomAnswers:
    def test_the_lower_limit_is_below_the_truth(self, log: Interactions) -> None:
        """b is shown with the probability of being the highest, softly; the best rating of a is 5."""
        sd, runs = 0.5, 60
        nodes, weights = np.polynomial.hermite_e.hermegauss(9)
        grid = np.stack(np.meshgrid(nodes, nodes, nodes), axis=-1).reshape(-1, 3) * sd + [2.0, 0.0, -4.0]
        mass = np.prod(np.stack(np.meshgrid(weights, weights, weights), axis=-1).reshape(-1, 3), axis=1)
        truth = float((np.exp(grid[:, 0]) / np.exp(grid).sum(axis=1)) @ mass / mass.sum())
        frames = [
            reach(from_system(log, scores=noisy(np.random.default_rng(run), sd)), targets=["b"], rng=run).pairs
            for run in range(runs)
        ]
        found = pl.concat(frames)
        assert (found["fresh"] >= 3).all()
        assert (found["queries"] <= 40).all()
        assert set(found["status"]) == {"bounded"}
        assert (found["lower"] < found["value"]).all()
        error = float(found["value"].to_numpy().std(ddof=1)) / np.sqrt(runs)
        assert found["value"].to_numpy().mean() < truth + 3 * error
        assert found["value"].to_numpy().mean() > 0.9 * truth
        assert found["lower"].to_numpy().mean() < truth
        # 97.5% confidence: so many above the truth have a probability below one in a thousand.
        assert int((found["lower"] > truth).sum()) <= stats.binom.ppf(0.999, runs, 0.025)

    def test_the_best_of_many_is_not_the_answer(self, log: Interactions) -> None:
        """Ratings change nothing: whatever is above the average was luck."""
        system = luck(np.random.default_rng(5))
        found = pl.concat([reach(from_system(log, scores=system), targets=["b"], rng=n).pairs for n in range(40)])
        assert found["value"].to_numpy().mean() == pytest.approx(1 / 3, abs=0.06)
        assert found["lower"].to_numpy().mean() < 1 / 3

    def test_chance_that_shows_itself_only_at_the_best_point(self, log: Interactions) -> None:
        """Edited histories are answered at random, the log as it is always the same."""
        draw = np.random.default_rng(0)

        def system(history: History) -> Sequence[float]:
            return likes(history) if history.ratings[-1] == 3.0 else noisy(draw, 1.0)(history)

        found = reach(from_system(log, scores=system), targets=["b"]).pairs
        assert found["fresh"][0] >= 1
        assert found["queries"][0] <= 40
        assert found["lower"][0] < found["value"][0]

    def test_a_top_item_that_is_sometimes_another(self, log: Interactions) -> None:
        draw = np.random.default_rng(3)
        system = from_system(log, scores=noisy(draw, 1.0))
        found = reach(system, policy=Top1(), targets=["b"], budget=80).pairs
        wins = round(found["value"][0] * found["fresh"][0])
        assert found["lower"][0] == pytest.approx(stats.beta.ppf(0.025, wins, found["fresh"][0] - wins + 1), rel=1e-9)

    def test_roll_outs_are_followed_afresh(self, log: Interactions) -> None:
        draw = np.random.default_rng(8)
        found = reach(from_system(log, scores=noisy(draw, 0.3)), actions=Future(1), budget=60).pairs
        assert (found["queries"] <= 60).all()
        assert (found["fresh"] >= 3).all()
        assert (found["lower"] <= found["value"]).all()
        assert set(found["status"]) == {"bounded"}

    def test_rounding_is_no_chance(self, log: Interactions) -> None:
        draw = np.random.default_rng(2)
        found = reach(from_system(log, scores=noisy(draw, 1e-14))).pairs
        assert set(found["fresh"]) == {0}

    @pytest.mark.parametrize("distance", ["hellinger", "tv", "l2", "kl"])
    def test_instability_is_what_edits_do_and_not_chance(self, log: Interactions, distance: Any) -> None:
        def run(system: Any, seed: int) -> pl.DataFrame:
            settings: dict[str, Any] = {"edits": Past(1), "viewers": ["w"], "editors": ["u"], "distance": distance}
            return instability(from_system(log, scores=system), **settings, budget=60, rng=seed).pairs

        truth = run(likes, 0)
        found = pl.concat([run(noisy(np.random.default_rng(n), 0.1), n) for n in range(12)])
        assert (found["queries"] <= 60).all()
        assert (found["fresh"] >= 3).all()
        assert (found["lower"] == found["value"]).all()
        # The expectation over the noise is a little nearer to uniform than without it.
        assert (found["value"] <= truth["value"][0]).all()
        assert found["value"].to_numpy().mean() > 0.3 * truth["value"][0]
        still = pl.concat([run(luck(np.random.default_rng(n)), n) for n in range(12)])
        assert (still["value"] == 0).sum() >= 10

    def test_the_event_is_no_more_than_the_whole(self) -> None:
        """Known distributions with hardly any noise: never above their distance, and near it for two items."""
        draw = np.random.default_rng(0)
        distances: tuple[Distance, ...] = ("hellinger", "tv", "l2", "kl")
        for distance, items in product(distances, (2, 6)):
            before, after = draw.dirichlet(np.ones(items), size=2)
            noise = 1e-6 * draw.normal(size=(20, 2, items))
            shares = np.stack([before, after]) + noise
            low = surely_moved(distance, after > before, shares)
            logs = np.log([before, after])
            whole = float(distance_between(distance, logs[0], logs[1]))
            assert 0 < low < whole
            if items == 2:
                assert low == pytest.approx(whole, rel=1e-3)

    @pytest.mark.parametrize("repeats", [None, 20])
    def test_lists_are_refused(self, log: Interactions, repeats: int | None) -> None:
        system = from_system(log, lists=lambda _: "b", repeats=repeats)
        with pytest.raises(NotSupportedError, match="a distance of probabilities"):
            instability(system, edits=Past(1), viewers=["w"], editors=["u"])

    def test_limits_of_an_average(self) -> None:
        draws = np.log([0.2, 0.25, 0.3, 0.22])
        value, lower = expected_log(draws)
        assert np.exp(value) == pytest.approx(0.2425)
        assert lower == pytest.approx(draws.mean() - stats.t.ppf(0.975, 3) * stats.sem(draws))
        # The same five times over: what else there may be comes at most so often.
        value, lower = expected_log(np.log(np.full(5, 0.4)))
        assert np.exp([value, lower]) == pytest.approx([0.4, 0.4 * 0.025 ** (1 / 5)])
        assert expected_log(np.full(3, -np.inf)) == (-np.inf, -np.inf)
        assert expected_log(np.array([-np.inf, -1.0, -2.0]))[1] == -np.inf


class TestRankedLists:
    """Lists of b, c and d, the same each time for the same ratings."""

    @staticmethod
    def climbing(history: History) -> list[str]:
        """d rises by a place for every star of a above 3, and is not listed below it; c is never listed."""
        a = dict(zip(history.items, history.ratings, strict=True)).get("a", 3.0)
        return {3.0: ["z", "a", "b", "d"], 4.0: ["z", "a", "d", "b"], 5.0: ["d", "z", "a", "b"]}.get(a, ["b"])

    def found(self, log: Interactions, **rest: Any) -> dict[str, dict[str, Any]]:
        system = Counter(self.climbing)
        box = from_system(log, lists=system, places=rest.pop("places", 1))
        result = reach(box, **{"policy": Top1(), "actions": Past(1, ratings=Stars(1, 5)), "budget": 12, **rest})
        assert len(system.asked) == box.queries.asked <= 2 + result.pairs["queries"].sum()
        assert (result.pairs["queries"] <= 12).all()
        assert result.settings["repeats"] == 1
        assert result.settings["asked_twice"]
        return {row["item"]: row for row in result.pairs.iter_rows(named=True)}

    def test_what_a_rating_brings_to_the_top_is_found(self, log: Interactions) -> None:
        rows = self.found(log, best_actions=True)
        assert {item: row["value"] for item, row in rows.items()} == {"b": 1, "c": 0, "d": 1}
        assert {item: row["baseline"] for item, row in rows.items()} == {"b": 1, "c": 0, "d": 0}
        assert rows["d"]["action_ratings"][0] >= 4
        assert rows["d"]["rank_gain"] == 1
        assert rows["d"]["fresh"] == 0
        assert rows["b"]["queries"] < rows["c"]["queries"]  # at the top there is nothing more to ask

    def test_what_is_never_listed_is_never_shown_and_has_no_rank(self, log: Interactions) -> None:
        row = self.found(log)["c"]
        assert (row["value"], row["status"], row["rank_gain"]) == (0, "bounded", None)

    def test_the_first_places_count(self, log: Interactions) -> None:
        rows = self.found(log, places=2)
        assert {item: row["baseline"] for item, row in rows.items()} == {"b": 1, "c": 0, "d": 1}

    def test_a_search_climbs_by_places(self, log: Interactions) -> None:
        """Only a rating above 4.9 makes c the first of 60; on the way up it is ever nearer."""
        frame = pl.DataFrame({"user": ["u"] * 2 + ["v"] * 60, "rating": [3.0] * 62})
        data = Interactions.from_frame(
            frame.with_columns(item=pl.Series([0, 1, *range(2, 62)]), time=pl.Series(range(62))),
            time="time",
            scale=(1, 5),
        )

        def system(history: History) -> list[int]:
            place = int((4.95 - dict(zip(history.items, history.ratings, strict=True))[1]) * 15)
            others = list(range(3, 62))
            return [*others[: max(0, place)], 2, *others[max(0, place) :]]

        found = reach(from_system(data, lists=system), ["u"], policy=Top1(), targets=[2])
        assert found.pairs["value"].to_list() == [1]
        assert found.pairs["queries"][0] <= 40

    def test_what_it_shows_next_is_followed(self, log: Interactions) -> None:
        def system(history: History) -> list[str]:
            given = dict(zip(history.items, history.ratings, strict=True))
            return ["d", "c"] if given.get("b", 0.0) > 4 else ["b", "c", "d"]

        found = reach(from_system(log, lists=system), policy=Top1(), actions=Future(1)).pairs
        assert dict(found.select("item", "value").iter_rows()) == {"b": None, "c": 1, "d": 1}

    def test_places_are_no_amounts(self, log: Interactions) -> None:
        with pytest.raises(NotSupportedError, match=r"places and no probabilities.*Softmax.*Top1\(\)"):
            self.found(log, policy=Softmax(beta=1))

    def test_chance_that_shows_itself_later(self, log: Interactions) -> None:
        """Edited histories are answered at random: what is said is an average of fresh answers."""
        draw = np.random.default_rng(0)

        def system(history: History) -> list[str]:
            first = history.ratings[-1] != 3.0 and draw.random() < 0.5
            return ["d", "b"] if first else ["b", "d"]

        found = reach(from_system(log, lists=system), policy=Top1(), targets=["d"]).pairs
        assert found["fresh"][0] > 1
        assert 0 < found["value"][0] < 1
        assert found["lower"][0] < found["value"][0]


class TestFailures:
    def test_one_user_for_whom_it_never_works(self, log: Interactions) -> None:
        def system(history: History) -> Sequence[float]:
            if history.user == "u":
                raise ConnectionError("503 Service Unavailable")
            return likes(history)

        found = reach(from_system(log, scores=system), ["u", "w"])
        without = reach(from_system(log, scores=likes), ["u", "w"]).pairs
        mine, others = (found.pairs.filter(pl.col("user") == user) for user in ("u", "w"))
        assert set(mine["status"]) == {"failed"}
        assert set(mine["item"]) == set(without.filter(pl.col("user") == "u")["item"])
        assert mine["failure"].str.contains("3 times in a row, asked about 'u': ConnectionError: 503").all()
        assert set(mine["queries"]) == {3}
        for name in ("value", "lower", "upper", "lift", "baseline"):
            assert mine[name].null_count() == len(mine)
        assert others.equals(without.filter(pl.col("user") == "w"))
        assert found.counts()["failed"] == len(mine)
        assert f"{len(mine)} failed" in found.summary()
        assert found.settings["statuses"] == found.counts()

    @pytest.mark.parametrize("actions", [Past(1), NextK(1), Future(1)])
    def test_it_never_works(self, log: Interactions, actions: Any) -> None:
        for answer in ([1.0], [np.nan] * 5, "sorry"):
            system = Counter(lambda _, answer=answer: answer)  # type: ignore[misc]
            found = reach(from_system(log, scores=system, retries=1), ["u", "w"], actions=actions, targets=["b", "c"])
            assert found.counts()["failed"] == len(found.pairs) == 4
            assert found.pairs["failure"].str.contains("2 times in a row").all()
            assert "failed" in found.summary()

    @pytest.mark.parametrize("actions", [Past(1), Future(1)])
    def test_it_fails_one_time_in_ten(self, log: Interactions, actions: Any) -> None:
        draw = np.random.default_rng(0)

        def system(history: History) -> Sequence[float]:
            if draw.random() < 0.1:
                raise OSError("reset by peer")
            return likes(history)

        counter = Counter(system)
        found = reach(from_system(log, scores=counter), ["u", "w"], actions=actions).pairs
        without = reach(from_system(log, scores=likes), ["u", "w"], actions=actions).pairs
        assert len(counter.asked) <= found["queries"].sum()
        assert (found["queries"] <= 40).all()
        assert found["item"].to_list() == without["item"].to_list()
        known = found["value"].is_not_null()
        assert known.sum() >= len(found) - 2
        np.testing.assert_allclose(found["value"].filter(known), without["value"].filter(known), rtol=0.02)

    def test_a_failure_in_the_middle_of_a_search_is_that_pairs(self, log: Interactions) -> None:
        """Whoever rates a above 4.5 is not answered: the search for b goes there, the one for d does not."""

        def system(history: History) -> Sequence[float]:
            if history.ratings[-1] > 4.5:
                raise TimeoutError("took too long")
            return likes(history)

        found = reach(from_system(log, scores=system), targets=["b", "d"], actions=Past(1, ratings=Stars(1, 5))).pairs
        assert set(found["status"]) == {"failed"}  # every star is tried for either
        assert found["baseline"].null_count() == 0
        assert found["failure"].str.contains("TimeoutError: took too long").all()
        found = reach(from_system(log, scores=system), targets=["b", "c"], actions=Past(1, ratings=Stars(1, 4))).pairs
        assert set(found["status"]) == {"bounded"}

    def test_instability(self, log: Interactions) -> None:
        def system(history: History) -> Sequence[float]:
            if history.user == "u":
                raise ConnectionError("503")
            return likes(history)

        found = instability(from_system(log, scores=system), edits=NextK(1), budget=20)
        lost = found.pairs.filter(pl.col("status") == "failed")
        assert found.counts()["failed"] == len(lost) > 0
        assert "u" in set(lost["editor"]) | set(lost["viewer"])
        assert lost["failure"].str.contains("ConnectionError: 503").all()
        assert found.counts()["bounded"] == found.pairs["value"].is_not_null().sum() > 0
        assert sum(found.counts().values()) == len(found.pairs)
        assert found.settings["statuses"] == found.counts()

    def test_an_interrupt_passes(self, log: Interactions) -> None:
        def system(_: History) -> Sequence[float]:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            reach(from_system(log, scores=system))
        with pytest.raises(KeyboardInterrupt):
            instability(from_system(log, scores=system), edits=Past(1))


class TestTheFuture:
    """u is shown b, c or d after z and a; what comes depends on the rating of what came before."""

    @staticmethod
    def stepping(history: History) -> list[float]:
        """First b; c follows a rating of b below 4.9 and d one above, however much else is rated."""
        given = dict(zip(history.items, history.ratings, strict=True))
        high = given.get("b", 1.0) > 4.9
        return [0.0, 3.0, 1.0 if high else 2.0, 2.0 if high else 1.0, 0.0]

    def frame(self, log: Interactions, budget: int, policy: Any = None, **rest: Any) -> dict[object, dict[str, Any]]:
        system = from_system(log, scores=self.stepping)
        found = reach(system, budget=budget, policy=policy or Softmax(beta=1.0), best_actions=True, **rest).pairs
        return {row["item"]: row for row in found.iter_rows(named=True)}

    def test_what_was_never_left_within_the_budget_is_bounded(self, log: Interactions) -> None:
        rows = self.frame(log, 9, actions=Future(2))
        # c comes on the way unless b is rated above 4.9, which one or two roll-outs do not find out.
        assert rows["c"]["status"] == "bounded"
        assert (rows["c"]["value"], rows["c"]["lower"], rows["c"]["upper"]) == (0, 0, 1)
        assert rows["c"]["rank_gain"] is None
        assert rows["c"]["action_items"] == []
        assert rows["d"]["value"] == pytest.approx(1)

    def test_what_the_first_step_shows_does_not_apply(self, log: Interactions) -> None:
        assert self.frame(log, 9, actions=Future(2))["b"]["status"] == "not_applicable"
        assert self.frame(log, 9, actions=Future(2))["b"]["value"] is None

    def test_every_roll_out_was_tried(self, log: Interactions) -> None:
        """Stars of 1 to 4 never make c miss its turn, and all sixteen roll-outs say so."""
        rows = self.frame(log, 60, actions=Future(2, ratings=Stars(1, 4)))
        assert rows["c"]["status"] == "not_applicable"
        rows = self.frame(log, 80, actions=Future(2, ratings=Stars(1, 5)))
        assert rows["c"]["status"] == "bounded"
        assert rows["c"]["value"] == pytest.approx(1)
        assert rows["c"]["action_ratings"][0] == 5
        assert rows["c"]["action_items"] == ["b", "d"]

    def test_the_least_of_probabilities_is_a_value(self, log: Interactions) -> None:
        """After b, d is 1,000 below c or above it: left in every roll-out, and as good as never shown in most."""
        rows = self.frame(log, 9, policy=Softmax(beta=1000), actions=Future(1, ratings=Stars(1, 4)))
        assert rows["d"]["status"] == "bounded"
        assert (rows["d"]["value"], rows["d"]["lower"]) == (0, 0)
        assert rows["d"]["rank_gain"] is not None
        assert rows["c"]["value"] == pytest.approx(1)

    def test_averages_keep_what_was_not_found(self, log: Interactions) -> None:
        system = from_system(log, scores=self.stepping)
        found = reach(system, budget=9, actions=Future(2))
        assert found.counts()["bounded"] == 2
        assert found["availability"] == pytest.approx(0.5)

    def test_nothing_left_to_show(self, log: Interactions) -> None:
        """A system that shows b and nothing else: after b it has nothing to recommend."""
        system = from_system(log, probabilities=lambda h: [0.0, float("b" not in h.items), 0.0, 0.0, 0.0])
        found = reach(system, actions=Future(2)).pairs
        assert {row["item"]: row["value"] for row in found.iter_rows(named=True)} == {"b": None, "c": 0, "d": 0}

    def test_future_instability_is_for_models_whose_editors_are_shown_the_same(self, log: Interactions) -> None:
        with pytest.raises(NotSupportedError, match="NextK"):
            instability(from_system(log, scores=likes), edits=Future(1))
