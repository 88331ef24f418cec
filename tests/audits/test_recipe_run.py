"""Recipes that are run: by hand, against brute force, and beside the verbs."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from recaudit.audits.audit import Subject
from recaudit.audits.calibration.definitions import CALIBRATION
from recaudit.audits.composed.audit import Composed
from recaudit.audits.instability.audit import instability
from recaudit.audits.lists.definitions import ACCURACY
from recaudit.audits.recipe import (
    At,
    Change,
    Distribution,
    Functional,
    Lift,
    Max,
    Measured,
    Moved,
    Outcome,
    PredictedRating,
    Probability,
    RankGain,
    RatingsReceived,
    RecommendedList,
    Replaced,
    Similarity,
    Value,
)
from recaudit.data import Interactions
from recaudit.data.splits import Split
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import Future, GivenItems, HistoryEdits, Interval, NextK, Past, Stars
from recaudit.interventions.who import Deployed, Nothing, Others, Own
from recaudit.models import ALS, EASE, BiasedMF, SgdStep, TopPop, from_factors
from recaudit.policies import EpsilonGreedy, Policy, Power, Softmax, Top1


class Audit:
    """A composed audit, of which the rows matter here."""

    def __init__(self, intervention: Any, outcome: Outcome, functional: Functional, over: Any = None) -> None:
        self.parts: dict[str, Any] = {
            "intervention": intervention,
            "outcome": outcome,
            "functional": functional,
            "over": over,
        }

    def run(self, model: Any, data: Interactions | None = None, *, rng: int = 0, **settings: Any) -> pl.DataFrame:
        asked: dict[str, Any] = {"policy": Softmax(beta=1.0), **settings}
        audit = Composed(**self.parts, **asked)
        return audit.run(Subject(model, data=data), rng=rng).pairs


COLUMNS = ["value", "lower", "upper", "status", "baseline"]


def sigmoid(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))


@pytest.fixture(scope="module")
def by_hand() -> Any:
    """A friend, a foe and an editor of one factor; items a, b, c.

    The mean is 3, every item's vector is 0, and a step of 1 follows: once the editor (vector 1) rates c with r, its
    vector is r - 3. The friend (vector 1) is predicted 3 + (r - 3) = r, the foe (vector -1) 3 - (r - 3) = 6 - r.
    """
    rows = [("editor", "b", 3.0, 1), ("editor", "c", 4.0, 2), ("foe", "a", 3.0, 1), ("friend", "a", 3.0, 1)]
    frame = pl.DataFrame(rows, schema=["user", "item", "rating", "time"], orient="row")
    data = Interactions.from_frame(frame, scale=(1, 5), time="time")
    vectors = np.array([[1.0], [-1.0], [1.0]])
    return from_factors(vectors, np.zeros((3, 1)), data, mean=3.0, update=SgdStep(step=1.0), predicts_ratings=True)


@pytest.fixture(scope="module")
def model(split: Split) -> Any:
    return ALS(factors=4, iterations=5).fit(split.train)


VIEWERS = ["user-003", "user-050"]
EDITORS = ["user-050", "user-007", "user-090"]


class TestByHand:
    def test_the_largest_change_of_a_predicted_rating_has_a_sign(self, by_hand: Any) -> None:
        audit = Audit(Others(Past(1)), PredictedRating(), Change(), Max())
        found = audit.run(by_hand, viewers=["friend", "foe"], editors=["editor"])
        assert found.columns == ["viewer", "editor", "item", *COLUMNS]
        # The editor gave c four stars, so before the friend is predicted 4 and the foe 2: both can be moved by 3 at
        # most, the friend down to 1 and the foe up to 5.
        assert found.rows() == [
            ("foe", "editor", "c", 3.0, 3.0, 3.0, "solved", 2.0),
            ("friend", "editor", "c", -3.0, -3.0, -3.0, "solved", 4.0),
        ]

    def test_half_stars_and_narrow_scales_are_respected(self, by_hand: Any) -> None:
        for ratings in (Interval(3.5, 4.5), Stars(3.5, 4.5, 0.5)):
            audit = Audit(Others(Past(1, ratings=ratings)), PredictedRating(), Value(), Max())
            found = audit.run(by_hand, viewers=["friend", "foe"], editors=["editor"])
            assert found["value"].to_list() == [2.5, 4.5]

    def test_what_another_can_do_to_the_probability_of_an_item(self, by_hand: Any) -> None:
        # The friend has not seen b, predicted 3, nor c, predicted r: P(c) is a sigmoid of r - 3.
        who = Others(Past(1))
        asked: dict[str, Any] = {"viewers": ["friend"], "editors": ["editor"]}
        best = Audit(who, Probability(), Value(), Max()).run(by_hand, **asked)
        assert best["item"].to_list() == ["b", "c"]
        np.testing.assert_allclose(best["value"], [sigmoid(2), sigmoid(2)])
        np.testing.assert_allclose(best["baseline"], [sigmoid(-1), sigmoid(1)])
        change = Audit(who, Probability(), Change(), Max()).run(by_hand, **asked)
        np.testing.assert_allclose(change["value"], [sigmoid(2) - sigmoid(-1), sigmoid(-2) - sigmoid(1)])
        lift = Audit(who, Probability(), Lift(), Max()).run(by_hand, **asked)
        np.testing.assert_allclose(lift["value"], [sigmoid(2) / sigmoid(-1), sigmoid(2) / sigmoid(1)])

    def test_at_given_ratings(self, by_hand: Any) -> None:
        asked: dict[str, Any] = {"viewers": ["friend"], "editors": ["editor"]}

        def at(outcome: Outcome, functional: Functional, ratings: float) -> list[float]:
            found = Audit(Others(Past(1)), outcome, functional, At(ratings)).run(by_hand, **asked)
            return found["value"].to_list()

        assert at(PredictedRating(), Value(), 2) == [2.0]
        assert at(PredictedRating(), Change(), 2) == [-2.0]
        assert at(Probability(), Value(), 2) == pytest.approx([sigmoid(1), sigmoid(-1)])
        assert at(Probability(), RankGain(), 2) == [1.0, -1.0]
        assert at(Distribution(), Moved("tv"), 2) == pytest.approx([sigmoid(1) - sigmoid(-1)])
        assert at(Distribution(), Moved("tv"), 4) == [0.0]

    def test_a_list_is_replaced_where_another_item_takes_the_top(self, by_hand: Any) -> None:
        for ratings, share in ((2, 1.0), (5, 0.0)):
            audit = Audit(Others(Past(1)), RecommendedList(1), Replaced(), At(ratings))
            found = audit.run(by_hand, viewers=["friend"], editors=["editor"], policy=Top1())
            assert found.columns == ["viewer", "editor", *COLUMNS]
            assert found["value"].to_list() == [share]
        whole = Audit(Others(Past(1)), RecommendedList(2), Replaced(), At(2))
        found = whole.run(by_hand, viewers=["friend"], editors=["editor"], policy=Top1())
        assert found["value"].to_list() == [0.0]  # in another order, but the same two

    def test_a_lift_from_nothing_is_no_number(self, by_hand: Any) -> None:
        audit = Audit(Others(Past(1)), Probability(), Lift(), At(4))
        found = audit.run(by_hand, viewers=["friend"], editors=["editor"], policy=Top1())
        assert found["value"].to_list() == [None, 1.0]
        assert found["status"].to_list() == ["not_applicable", "solved"]

    def test_predictions_stay_within_the_scale(self, by_hand: Any) -> None:
        # With a step of 3 the score would be 3 + 3 (5 - 3) = 9.
        steep = by_hand.with_update(SgdStep(step=3.0))
        audit = Audit(Others(Past(1)), PredictedRating(), Value(), Max())
        found = audit.run(steep, viewers=["friend"], editors=["editor"])
        assert found["value"].to_list() == [5.0]


@pytest.mark.parametrize("policy", [Softmax(beta=3), Top1(), EpsilonGreedy(epsilon=0.2), Power(power=2)])
def test_the_most_that_another_can_do_is_no_less_than_any_ratings_do(model: Any, policy: Policy) -> None:
    check_against_every_star(model, Others, Probability(), Value(), policy)


@pytest.mark.parametrize("functional", [Value(), Change(), Lift()])
def test_the_most_that_another_can_do_to_a_probability(model: Any, functional: Functional) -> None:
    check_against_every_star(model, Others, Probability(), functional, Softmax(beta=1.0))


@pytest.mark.parametrize("who", [Own, Others])
@pytest.mark.parametrize("functional", [Value(), Change()])
def test_the_most_that_can_be_done_to_a_prediction(model: Any, who: type[Own | Others], functional: Functional) -> None:
    check_against_every_star(model, who, PredictedRating(), functional, Softmax(beta=1.0))


def check_against_every_star(
    model: Any, who: type[Own | Others], outcome: Outcome, functional: Functional, policy: Policy
) -> None:
    """The closed form beside its slow twin: every pair of stars, plugged in one after the other."""
    asked: dict[str, Any] = {"viewers": VIEWERS, "policy": policy}
    if who is Others:
        asked["editors"] = EDITORS
    actions = Past(2, ratings=Stars(1, 5, 2))
    best = Audit(who(actions), outcome, functional, Max()).run(model, **asked)
    every = [
        Audit(who(actions), outcome, functional, At(stars)).run(model, **asked)
        for stars in product([1.0, 3.0, 5.0], repeat=2)
    ]
    keys = best.drop(COLUMNS)
    assert len(best) >= 6
    assert all(one.drop(COLUMNS).equals(keys) for one in every)
    np.testing.assert_allclose(every[0]["baseline"], best["baseline"], rtol=1e-10)
    values = np.stack([one["value"].to_numpy() for one in every])
    if isinstance(functional, Change):
        twin = values[np.abs(values).argmax(axis=0), np.arange(len(best))]
        np.testing.assert_allclose(np.abs(best["value"]), np.abs(twin), atol=1e-10)
        decided = np.abs(values.max(axis=0) + values.min(axis=0)) > 1e-9
        np.testing.assert_allclose(best["value"].filter(decided), twin[decided], atol=1e-10)
    else:
        np.testing.assert_allclose(best["value"], values.max(axis=0), rtol=1e-10)
    assert best["lower"].equals(best["value"])
    assert set(best["status"]) == {"solved"}


class TestBesideTheVerbs:
    @pytest.mark.parametrize("actions", [NextK(3), HistoryEdits(3), Past(3)])
    @pytest.mark.parametrize(
        ("functional", "column"), [(Value(), "value"), (Lift(), "lift"), (RankGain(), "rank_gain")]
    )
    def test_reachability(self, model: Any, actions: Any, functional: Functional, column: str) -> None:
        verb = ra.reachability(model, actions=actions, policy=Softmax(beta=2), users=VIEWERS, rng=3).pairs
        over = Max(of=Value()) if isinstance(functional, RankGain) else Max()
        audit = Audit(Own(actions), Probability(), functional, over)
        found = audit.run(model, viewers=VIEWERS, policy=Softmax(beta=2), rng=3)
        assert found.columns == ["viewer", "item", *COLUMNS]
        assert found["viewer"].to_list() == verb["user"].to_list()
        assert found["item"].equals(verb["item"])
        assert found["value"].to_list() == verb[column].to_list()
        assert found["baseline"].equals(verb["baseline"])
        assert found["status"].equals(verb["status"])

    def test_bounds_of_a_lift_are_the_bounds_of_the_probability_over_the_baseline(self, model: Any) -> None:
        value, lift = (
            Audit(Own(NextK(3)), Probability(), functional, Max()).run(model, viewers=VIEWERS[:1])
            for functional in (Value(), Lift())
        )
        np.testing.assert_allclose(lift["upper"] * lift["baseline"], value["upper"])
        assert (lift["lower"] <= lift["value"]).all()
        assert (lift["value"] <= lift["upper"]).all()

    def test_the_rank_gain_at_the_best_ratings_has_no_bounds(self, model: Any) -> None:
        audit = Audit(Own(NextK(3)), Probability(), RankGain(), Max(of=Value()))
        found = audit.run(model, viewers=VIEWERS[:1])
        assert found["lower"].null_count() == found["upper"].null_count() == len(found)

    def test_past_reachability_of_a_model_that_has_not_seen_the_past(self, split: Split) -> None:
        model = BiasedMF(factors=3, epochs=5).fit(Past(2).before(split.train))
        verb = ra.reachability(model, split.train, actions=Past(2), users=VIEWERS, policy=Softmax(beta=1.0)).pairs
        audit = Audit(Own(Past(2)), Probability(), Value(), Max())
        assert audit.run(model, split.train, viewers=VIEWERS)["value"].equals(verb["value"])

    @pytest.mark.parametrize("distance", ["hellinger", "kl"])
    def test_instability(self, model: Any, distance: Any) -> None:
        asked: dict[str, Any] = {"viewers": VIEWERS, "editors": EDITORS, "policy": Softmax(beta=2)}
        verb = instability(model, edits=Past(2), distance=distance, pairs=True, **asked).pairs
        found = Audit(Others(Past(2)), Distribution(), Moved(distance), Max()).run(model, **asked)
        assert found.columns == ["viewer", "editor", *COLUMNS]
        assert found.equals(verb.select(found.columns))

    def test_no_ratings_move_recommendations_further_than_instability_says(self, model: Any) -> None:
        asked: dict[str, Any] = {"viewers": VIEWERS, "editors": EDITORS}
        best = Audit(Others(Past(2)), Distribution(), Moved("tv"), Max()).run(model, **asked)
        ends = [
            Audit(Others(Past(2)), Distribution(), Moved("tv"), At(stars)).run(model, **asked)
            for stars in product([1.0, 5.0], repeat=2)
        ]
        for one in ends:
            assert one.select("viewer", "editor").equals(best.select("viewer", "editor"))
        np.testing.assert_allclose(np.max([one["value"] for one in ends], axis=0), best["value"], rtol=1e-9)


class TestWhoIsAsked:
    def test_everybody_but_oneself_is_another(self, by_hand: Any) -> None:
        audit = Audit(Others(Past(1)), Distribution(), Moved(), At(5))
        pairs = audit.run(by_hand).select("viewer", "editor").rows()
        people = ["editor", "foe", "friend"]
        assert pairs == [(viewer, editor) for viewer in people for editor in people if viewer != editor]

    def test_who_has_nothing_to_change_is_not_applicable(self, by_hand: Any) -> None:
        # The foe has a single rating, and the first is never free.
        for over in (At(5), Max()):
            audit = Audit(Others(Past(1)), PredictedRating(), Change(), over)
            found = audit.run(by_hand, viewers=["friend"], editors=["foe", "editor"], items=["c"])
            assert found["value"].is_null().to_list() == [False, True]
            assert found["status"].to_list() == ["solved", "not_applicable"]

    def test_items_that_are_named_are_asked_about_and_others_are_not(self, by_hand: Any) -> None:
        for over in (At(5), Max()):
            audit = Audit(Others(Past(1)), PredictedRating(), Change(), over)
            found = audit.run(by_hand, viewers=["friend"], editors=["editor"], items=["a", "b"])
            # The friend has seen a; b can be asked about, and nobody moves it.
            assert found.select("item", "value", "status").rows() == [
                ("a", None, "not_applicable"),
                ("b", 0.0, "solved"),
            ]

    def test_with_all_items_as_candidates_the_seen_ones_count(self, by_hand: Any) -> None:
        audit = Audit(Others(GivenItems(("a",))), PredictedRating(), Value(), Max())
        assert audit.run(by_hand, viewers=["friend"], editors=["editor"]).is_empty()
        found = audit.run(by_hand, viewers=["friend"], editors=["editor"], candidates="all")
        assert found["item"].to_list() == ["a"]

    def test_an_editor_of_items_that_the_viewer_has_seen_changes_nothing(self, by_hand: Any) -> None:
        audit = Audit(Others(GivenItems(("a",))), Distribution(), Moved(), At(1))
        assert audit.run(by_hand, viewers=["friend"], editors=["editor"])["value"].to_list() == [0.0]

    def test_drawn_lists_change_because_of_scores_alone(self, model: Any) -> None:
        log = model.data
        viewer = int(log.users_at(VIEWERS[:1])[0])
        last = log.in_time(viewer)[1:][-1:]
        # Rating as before: scores stay to rounding, and so does what is drawn.
        same = At(float(log.ratings[last[0]]))
        audit = Audit(Own(Past(1)), RecommendedList(5), Replaced(), same)
        assert audit.run(model, viewers=VIEWERS[:1], policy=Softmax(beta=0.5))["value"].to_list() == [0.0]

    def test_opaque_responses_can_be_asked_at_given_ratings(self, model: Any) -> None:
        asked = Opaque(model)
        audit = Audit(Own(NextK(2)), PredictedRating(), Change(), At((5, 1)))
        assert audit.run(asked, viewers=VIEWERS).equals(audit.run(model, viewers=VIEWERS))
        with pytest.raises(NotSupportedError, match="no affine function"):
            Audit(Own(NextK(2)), PredictedRating(), Change(), Max()).run(asked, viewers=VIEWERS)


class Opaque(ra.models.FittedModel):
    """A model that can only be asked."""

    response = ra.models.OpaqueResponse

    def __init__(self, inner: Any) -> None:
        self.inner, self.data = inner, inner.data

    def scores(self, users: Any) -> Any:
        return self.inner.scores(users)

    def respond(self, viewer: int, editor: int, items: Any) -> ra.models.OpaqueResponse:
        return ra.models.OpaqueResponse(items, self.inner.respond(viewer, editor, items).scores)


class TestRefusals:
    @pytest.mark.parametrize(
        "audit",
        [
            Audit(Nothing(), RecommendedList(10), Measured(CALIBRATION[0])),
            Audit(Deployed(), RatingsReceived(), Measured(ACCURACY[0])),
        ],
    )
    def test_what_changes_no_ratings_has_verbs_of_its_own(self, model: Any, audit: Audit) -> None:
        with pytest.raises(NotSupportedError, match="accuracy and exposure"):
            audit.run(model)

    @pytest.mark.parametrize(
        "audit",
        [
            Audit(Own(Past(2)), Probability(), Change(), Max()),
            Audit(Own(Past(2)), Probability(), RankGain(), Max()),
            Audit(Own(Past(2)), Distribution(), Moved(), Max()),
            Audit(Others(Past(2)), RecommendedList(5), Replaced(), Max()),
            Audit(Others(Past(2)), RecommendedList(5), Measured(CALIBRATION[0]), At(5)),
            Audit(Own(Past(2)), Similarity(), Value(), At(5)),
        ],
    )
    def test_what_has_no_exact_answer_is_refused_with_what_has(self, model: Any, audit: Audit) -> None:
        with pytest.raises(NotSupportedError, match=r"nothing here computes that\. With Max\(\)"):
            audit.run(model, viewers=VIEWERS)

    def test_items_that_depend_on_the_ratings(self, model: Any) -> None:
        with pytest.raises(NotSupportedError, match="depends on the ratings"):
            Audit(Own(Future(2)), PredictedRating(), Change(), At(5)).run(model)

    @pytest.mark.parametrize("over", [Max(), At(5)])
    def test_a_model_that_predicts_no_ratings(self, split: Split, over: Any) -> None:
        model = EASE().fit(split.train)
        with pytest.raises(NotSupportedError, match="it predicts no ratings"):
            Audit(Own(Past(2)), PredictedRating(), Change(), over).run(model)

    def test_a_model_that_responds_to_nobody(self, split: Split) -> None:
        model = TopPop(by="mean").fit(split.train)
        with pytest.raises(NotSupportedError, match="PopularityModel"):
            Audit(Others(Past(2)), PredictedRating(), Change(), Max()).run(model)

    def test_a_limit_on_changes_in_a_closed_form(self, model: Any) -> None:
        limited = Past(3, ratings=Stars(), changes=1)
        with pytest.raises(NotSupportedError, match="limit on changes"):
            Audit(Others(limited), PredictedRating(), Change(), Max()).run(model)

    @pytest.mark.parametrize(
        ("audit", "asked", "message"),
        [
            (Audit(Own(Past(2)), Probability(), Value(), Max()), {"editors": EDITORS}, "editors: .*themselves"),
            (Audit(Own(Past(2)), Distribution(), Moved(), At(5)), {"items": ["x"]}, "items: .*single items"),
            (Audit(Own(Past(2)), Probability(), Value(), At((5, 5, 5))), {}, r"At\.ratings: received 3 ratings"),
            (Audit(Own(Past(2)), Probability(), Value(), At(6)), {}, r"At\.ratings: received \[6\.0, 6\.0\]"),
            (
                Audit(Own(Past(2, ratings=Stars())), Probability(), Value(), At((2.5, 3))),
                {},
                r"At\.ratings: received \[2\.5\]",
            ),
        ],
    )
    def test_arguments_that_do_not_fit_the_recipe(self, model: Any, audit: Audit, asked: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            audit.run(model, **{"viewers": VIEWERS, **asked})
