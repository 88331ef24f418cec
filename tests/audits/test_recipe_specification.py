"""What an audit says, where it stands, and which combinations make no sense."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from recaudit.audits.calibration.definitions import CALIBRATION
from recaudit.audits.folding.definitions import FOLDING
from recaudit.audits.lists.definitions import ACCURACY, EXPOSURE
from recaudit.audits.recipe import (
    At,
    Change,
    Distribution,
    Functional,
    Lift,
    Max,
    Measured,
    Moved,
    PredictedRating,
    Probability,
    RankGain,
    RatingsReceived,
    Recipe,
    RecommendedList,
    Replaced,
    Rung,
    Similarity,
    Value,
)
from recaudit.errors import InputError
from recaudit.interventions import Future, FutureEdits, GivenItems, HistoryEdits, Interval, NextK, Past, Stars
from recaudit.interventions.who import Deployed, Intervention, Nothing, Others, Own
from recaudit.policies import Softmax


class TestRung:
    @pytest.mark.parametrize("who", [Own, Others])
    @pytest.mark.parametrize(
        ("actions", "rung"),
        [
            (Past(5), Rung.COUNTERFACTUAL),
            (HistoryEdits(5), Rung.COUNTERFACTUAL),
            (NextK(5), Rung.INTERVENTIONAL),
            (FutureEdits(5), Rung.INTERVENTIONAL),
            (GivenItems(("a",)), Rung.INTERVENTIONAL),
            (Future(5), Rung.INTERVENTIONAL),
        ],
    )
    def test_changing_what_did_happen_is_counterfactual(
        self, who: type[Own | Others], actions: Any, rung: Rung
    ) -> None:
        assert Recipe(who(actions), Probability(), Value(), Max()).rung == rung
        assert Recipe(who(actions), Probability(), Value(), At(5)).rung == rung

    def test_changing_nothing_is_associational(self) -> None:
        assert Recipe(Nothing(), RecommendedList(10), Measured(CALIBRATION[0])).rung == "associational"

    def test_deploying_a_recommender_is_interventional(self) -> None:
        assert Recipe(Deployed(), RatingsReceived(), Measured(ACCURACY[1])).rung == "interventional"

    def test_it_cannot_be_declared(self) -> None:
        audit = Recipe(Nothing(), Similarity(), Measured(FOLDING[0]))
        with pytest.raises(AttributeError):
            audit.rung = Rung.COUNTERFACTUAL  # type: ignore[misc]  # the assignment is the test
        with pytest.raises(TypeError):
            Recipe(Nothing(), Similarity(), Measured(FOLDING[0]), rung="counterfactual")  # type: ignore[call-arg]  # as above


class TestSentence:
    @pytest.mark.parametrize(
        ("audit", "sentence"),
        [
            (
                Recipe(Own(Past(5)), Probability(), Value(), Max()),
                "The largest probability of an item over a user's own last 5 ratings (counterfactual)",
            ),
            (
                Recipe(Others(Future(5)), Distribution(), Moved("hellinger"), Max()),
                "The largest Hellinger distance by which a user's recommendations move over another user's next 5 "
                "ratings (interventional)",
            ),
            (
                Recipe(Own(NextK(10)), Probability(), RankGain(), Max(of=Value())),
                "The rank gain of an item where the probability of an item is largest over a user's own ratings of the "
                "next 10 items (interventional)",
            ),
            (
                Recipe(Others(HistoryEdits(3)), PredictedRating(), Change(), At(5)),
                "The change of the predicted rating with another user's ratings of 3 seen items set to 5 "
                "(counterfactual)",
            ),
            (
                Recipe(Own(FutureEdits(2)), RecommendedList(10), Replaced(), At((1, 4.5))),
                "The share of a list of 10 that is replaced with a user's own ratings of 2 unseen items set to 1, 4.5 "
                "(interventional)",
            ),
            (
                Recipe(Nothing(), PredictedRating(), Measured(ACCURACY[0])),
                "The RMSE of the predicted rating, with nothing changed (associational)",
            ),
            (
                Recipe(Nothing(), RecommendedList(20), Measured(EXPOSURE[2])),
                "The popularity correlation of the list of 20, with nothing changed (associational)",
            ),
            (
                Recipe(Deployed(), RatingsReceived(), Measured(ACCURACY[1])),
                "The MAE of the ratings received, with the recommender deployed over time (interventional)",
            ),
        ],
    )
    def test_an_audit_prints_as_one(self, audit: Recipe, sentence: str) -> None:
        assert str(audit) == sentence

    @pytest.mark.parametrize(
        ("actions", "words"),
        [
            (Past(5, ratings=Stars(1, 5, 0.5)), "own last 5 ratings in steps of 0.5 from 1 to 5"),
            (NextK(2, ratings=Interval(2, 4)), "own ratings of the next 2 items within 2 to 4"),
            (
                HistoryEdits(4, ratings=Stars(), changes=2),
                "own ratings of 4 seen items in steps of 1 from 1 to 5, at most 2 of them changed",
            ),
            (GivenItems(("a", "b")), "own ratings of 2 given items"),
            (Future(3, follows=Softmax(beta=2)), "own next 3 ratings of items drawn by Softmax(beta=2.0)"),
        ],
    )
    def test_bounds_are_part_of_what_is_changed(self, actions: Any, words: str) -> None:
        assert str(Own(actions)) == words


class TestValue:
    def test_equal_parts_make_equal_audits_with_equal_hashes(self) -> None:
        one, other = (Recipe(Others(Past(5)), PredictedRating(), Change(), At([5, 4, 3, 2, 1])) for _ in range(2))
        assert one == other
        assert len({one, other}) == 1

    @pytest.mark.parametrize(
        "other",
        [
            Recipe(Own(Past(5)), Distribution(), Moved("tv"), Max()),
            Recipe(Others(Past(4)), Distribution(), Moved("tv"), Max()),
            Recipe(Others(Past(5)), Distribution(), Moved("kl"), Max()),
            Recipe(Others(Past(5)), Distribution(), Moved("tv"), At(1)),
        ],
    )
    def test_other_parts_make_another_audit_and_another_sentence(self, other: Recipe) -> None:
        audit = Recipe(Others(Past(5)), Distribution(), Moved("tv"), Max())
        assert audit != other
        assert str(audit) != str(other)

    def test_it_is_frozen(self) -> None:
        audit = Recipe(Nothing(), Similarity(), Measured(FOLDING[0]))
        with pytest.raises(FrozenInstanceError):
            audit.outcome = Probability()  # type: ignore[misc]  # the assignment is the test


class TestWrongTypes:
    @pytest.mark.parametrize(
        ("parts", "message"),
        [
            ((Past(5), Probability(), Value(), Max()), r"intervention: received Past.*Own\(Past\(k=5.*or Others"),
            ((Own(Past(5)), Value(), Value(), Max()), r"outcome: received Value\(\); expected an outcome"),
            ((Own(Past(5)), Probability(), Probability(), Max()), "functional: received Probability"),
            ((Own(Past(5)), Probability, Value(), Max()), r"outcome: .*Make one of it: Probability\(\)"),
            ((Own(Past(5)), Probability(), Value(), "max"), r"over: received max; expected Max\(\) or At"),
        ],
    )
    def test_the_error_names_the_field_and_what_fits(self, parts: tuple[Any, ...], message: str) -> None:
        with pytest.raises(InputError, match=message):
            Recipe(*parts)

    @pytest.mark.parametrize("who", [Own, Others])
    def test_somebody_must_be_able_to_do_something(self, who: Any) -> None:
        with pytest.raises(InputError, match=r"actions: received 5; expected Past"):
            who(5)

    @pytest.mark.parametrize("ratings", ["5", True, (), (5, None), float("nan"), float("inf")])
    def test_given_ratings_are_finite_numbers(self, ratings: Any) -> None:
        with pytest.raises(InputError, match=r"At\.ratings"):
            At(ratings)

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: Moved("helinger"), "Did you mean 'hellinger'"),  # type: ignore[arg-type]
            (lambda: RecommendedList(0), r"RecommendedList\.k"),
            (lambda: Max(of=Probability()), r"Max\.of"),  # type: ignore[arg-type]
        ],
    )
    def test_a_part_refuses_what_it_does_not_know(self, make: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            make()


class TestNoSense:
    @pytest.mark.parametrize(
        ("outcome", "functional"),
        [
            (Distribution(), Value()),
            (PredictedRating(), Lift()),
            (Probability(), Moved()),
            (Distribution(), Replaced()),
            (RecommendedList(5), Change()),
        ],
    )
    def test_a_functional_that_the_outcome_does_not_have(self, outcome: Any, functional: Functional) -> None:
        with pytest.raises(InputError, match=r"functional: .* expected an outcome that has"):
            Recipe(Own(Past(5)), outcome, functional, Max())

    @pytest.mark.parametrize("intervention", [Nothing(), Deployed()])
    @pytest.mark.parametrize(
        ("outcome", "functional"),
        [
            (Probability(), Lift()),
            (Probability(), RankGain()),
            (PredictedRating(), Change()),
            (Distribution(), Moved()),
            (RecommendedList(5), Replaced()),
        ],
    )
    def test_a_comparison_without_a_change(
        self, intervention: Intervention, outcome: Any, functional: Functional
    ) -> None:
        with pytest.raises(InputError, match="since no ratings are changed"):
            Recipe(intervention, outcome, functional)

    @pytest.mark.parametrize("intervention", [Nothing(), Deployed()])
    @pytest.mark.parametrize("over", [Max(), At(5)])
    def test_ratings_to_choose_where_nobody_chooses(self, intervention: Intervention, over: Any) -> None:
        with pytest.raises(InputError, match="there are no ratings to choose"):
            Recipe(intervention, RecommendedList(5), Measured(CALIBRATION[0]), over)

    @pytest.mark.parametrize("intervention", [Own(Past(5)), Others(Past(5))])
    def test_free_ratings_without_a_word_on_which(self, intervention: Intervention) -> None:
        with pytest.raises(InputError, match=r"over: received nothing.*Max\(\) or At"):
            Recipe(intervention, Probability(), Value())

    def test_looking_at_the_ratings_that_are_set(self) -> None:
        with pytest.raises(InputError, match="these are the ratings"):
            Recipe(Own(Past(5)), RatingsReceived(), Measured(ACCURACY[1]), Max())
        assert Recipe(Others(Past(5)), RatingsReceived(), Measured(ACCURACY[1]), Max()).rung == "counterfactual"

    @pytest.mark.parametrize("best", [Lift(), Moved()])
    def test_maximising_itself_or_something_else_altogether(self, best: Functional) -> None:
        with pytest.raises(InputError, match="another functional of the same outcome"):
            Recipe(Own(Past(5)), Probability(), Lift(), Max(of=best))

    def test_given_ratings_with_a_limit_on_changes(self) -> None:
        with pytest.raises(InputError, match="limit on changes"):
            Recipe(Own(Past(5, ratings=Stars(), changes=2)), Probability(), Value(), At(5))
