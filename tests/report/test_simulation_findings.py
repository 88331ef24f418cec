"""What is said of a simulation: differences that are more than chance, and others only with that said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest

from recaudit.metrics.inference import compute_refits_p_value
from recaudit.registry import MODELS
from recaudit.report.kit.claims import Finding
from recaudit.report.simulation.evidence import Arena, SimulationStudy
from recaudit.report.simulation.findings import (
    explored,
    foreseen,
    headlines_of,
    liked_best,
    misjudged,
    most_misjudged,
    moved,
    unmoved,
)
from recaudit.simulate.offline.comparison import OfflineOnline
from recaudit.simulate.worlds.scenarios import Oracle
from report.crafted_simulations import Told, graded, study_of

POWER = {"kind": "power", "power": 2.0}
Question = Callable[[SimulationStudy, Arena], Iterator[Finding]]


def answered(question: Question, result: OfflineOnline) -> tuple[str, str]:
    """The code of the finding about the first environment, and the numbers."""
    study = SimulationStudy.of(result)
    (finding,) = question(study, study.main)
    return finding.code, finding.detail.replace("\N{MINUS SIGN}", "-")


def about(middle: float) -> list[float]:
    """Eight trials, or folds."""
    return [middle + 0.01 * place for place in range(-4, 4)]


class TestWhoIsLikedBest:
    def test_a_lead_over_all_trials(self) -> None:
        code, detail = answered(liked_best, study_of({"A": Told(about(3.5)), "B": Told(about(3.0))}))
        assert code == "simulation.best"
        assert "0.500 [0.500, 0.500] less, trial by trial" in detail

    def test_no_lead_is_claimed_where_it_is_not_shown(self) -> None:
        told = {"A": Told(about(3.5)), "B": Told(about(3.5)[::-1]), "C": Told(about(1.0))}
        study = SimulationStudy.of(study_of(told))
        (finding,) = liked_best(study, study.main)
        assert finding.code == "simulation.best-not-shown"
        (number,) = finding.numbers
        assert (number.model, number.baseline, number.trials) == ("A", "B", 8)
        assert number.p is not None
        assert number.p > 0.05

    @pytest.mark.parametrize("trials", [1, 3])
    def test_fewer_than_four_trials_are_not_tested(self, trials: int) -> None:
        result = study_of({"A": Told([3.5] * trials), "B": Told([3.0] * trials)})
        study = SimulationStudy.of(result)
        (finding,) = liked_best(study, study.main)
        assert (finding.code, finding.numbers[0].reason) == ("simulation.best-not-tested", "too_few_refits")

    def test_all_pairs_and_measures_are_one_family(self) -> None:
        two = {"A": Told(about(3.5)), "B": Told(about(3.47))}
        many = two | {f"M{place}": Told(about(1.0)) for place in range(6)}
        one, other = (SimulationStudy.of(study_of(told)).main for told in (two, many))
        assert one.shows_above("A", "B", "mean_rating")
        assert not other.shows_above("A", "B", "mean_rating")
        raw = compute_refits_p_value(*(one.values[name, "mean_rating"] for name in "AB"))
        assert one.p_value("B", "A", "mean_rating") == raw

    def test_the_oracle_is_no_contender_and_is_told_beside(self) -> None:
        result = study_of(
            {
                "Truth": Told(about(4.8), settings={"kind": MODELS.kind_of(Oracle)}),
                "A": Told(about(4.0)),
                "Hits": Told(about(3.0), settings={"kind": "top-pop", "by": "count"}),
            }
        )
        code, detail = answered(liked_best, result)
        assert code == "simulation.best"
        assert "Truth, which knows what everybody would rate everything, reaches 4.795" in detail
        assert "Without personalising: Hits 2.995" in detail


class TestWhatWasForeseen:
    @pytest.mark.parametrize(
        ("opposite", "way"), [(False, "almost exactly as people do"), (True, "the wrong way round")]
    )
    def test_the_order(self, opposite: bool, way: str) -> None:
        study = SimulationStudy.of(study_of(graded(opposite=opposite)))
        (finding,) = foreseen(study, study.main)
        assert finding.code == "simulation.prediction"
        assert way in finding.claim
        assert [number.metric for number in finding.numbers] == ["ndcg", "rmse"]
        assert all(abs(number.value or 0.0) == pytest.approx(1) for number in finding.numbers)

    def test_an_order_that_may_be_chance(self) -> None:
        told = graded()
        mixed = {
            f"M{place}": Told(about(3 + 0.2 * place), told[f"M{other}"].ndcg, told[f"M{other}"].rmse)
            for place, other in enumerate((3, 0, 5, 1, 6, 2, 4))
        }
        study = SimulationStudy.of(study_of(mixed))
        (finding,) = foreseen(study, study.main)
        assert "with no likeness to people's order beyond chance" in finding.claim

    def test_few_recommenders_cannot_tell(self) -> None:
        few = {name: own for name, own in graded().items() if name in ("M0", "M1", "M2", "M3")}
        assert answered(foreseen, study_of(few))[0] == "simulation.prediction-not-tested"

    def test_a_recommender_counts_once_however_it_explores(self) -> None:
        told, wild = graded(), {}
        for name, own in told.items():
            settings = {**own.simulation.settings, "recommender": {"kind": name}}
            own.simulation = replace(own.simulation, settings=settings)
            wild[f"{name} wild"] = Told([1.0, 1.1, 1.0, 1.0], own.ndcg, own.rmse, settings={"kind": name}, policy=POWER)
        alone, both = (SimulationStudy.of(study_of(each)).main for each in (told, told | wild))
        assert both.correlations["ndcg"].recommenders == 7
        assert both.correlations["ndcg"].estimate.value == alone.correlations["ndcg"].estimate.value
        assert most_misjudged(both) is None
        # Where nobody shows the highest scores, the first policy stands for its recommender.
        assert SimulationStudy.of(study_of(wild)).main.correlations["ndcg"].recommenders == 7

    def test_a_recommender_without_numbers_is_left_out_of_the_order(self) -> None:
        told = graded() | {"Silent": Told([None] * 4), "Unmeasured": Told([3.0] * 4, [], [])}
        own = SimulationStudy.of(study_of(told)).main.correlations["ndcg"]
        assert own.recommenders == 7
        assert own.estimate.value == pytest.approx(1)


class TestWhoIsMisjudged:
    told: Mapping[str, Told] = {
        "Liked": Told(about(4.0), about(0.7), about(1.0)),
        "Middle": Told(about(3.5), about(0.8), about(1.1)),
        "Measured": Told(about(3.0), about(0.9), about(1.2)),
    }

    def test_by_places_and_by_a_pair_that_turns_round(self) -> None:
        result = study_of(self.told)
        most = most_misjudged(SimulationStudy.of(result).main)
        assert most is not None
        assert (most.name, most.metric, most.offline, most.online, most.other) == ("Liked", "ndcg", 3, 1, "Measured")
        code, detail = answered(misjudged, result)
        assert code == "simulation.order-differs"
        assert "Against Measured: nDCG@20 -0.200 [-0.200, -0.200], mean rating +1.000" in detail

    def test_what_may_be_chance_is_said_to_be(self) -> None:
        noisy = {name: Told([3.5] * 4, own.ndcg, own.rmse) for name, own in self.told.items()}
        noisy["Liked"] = Told([2.0, 5.2, 2.0, 5.2], self.told["Liked"].ndcg, self.told["Liked"].rmse)
        assert answered(misjudged, study_of(noisy))[0] == "simulation.order-not-shown-to-differ"

    def test_nobody(self) -> None:
        assert most_misjudged(SimulationStudy.of(study_of(graded())).main) is None


class TestTastes:
    def test_where_nobody_changed(self) -> None:
        still = {"A": Told([3.0, 3.1]), "B": Told([2.0, 2.1])}
        (finding,) = unmoved(SimulationStudy.of(study_of(still, still)))
        assert finding.code == "simulation.tastes-did-not-move"

    def test_with_whom_they_moved_most(self) -> None:
        result = study_of({"A": Told(about(3.0), drift=0.5), "B": Told(about(2.0), drift=0.1)})
        assert answered(moved, result)[0] == "simulation.tastes-moved-differently"
        assert list(unmoved(SimulationStudy.of(result))) == []

    def test_a_difference_that_may_be_chance(self) -> None:
        result = study_of({"A": Told([3.0, 3.1], drift=0.5), "B": Told([2.0, 2.1], drift=0.5)})
        assert answered(moved, result)[0] == "simulation.tastes-moved"


class TestExploring:
    @pytest.mark.parametrize(
        ("final", "code"),
        [
            (about(3.6), "simulation.exploring-better"),
            (about(2.6), "simulation.exploring-worse"),
            (about(3.0)[::-1], "simulation.exploring-not-shown"),
            ([3.6, 3.7], "simulation.exploring-not-tested"),
        ],
    )
    def test_against_the_same_recommender_without(self, final: list[float], code: str) -> None:
        told = {
            "MF": Told(about(3.0)[: len(final)], population=1.5),
            "MF wild": Told(final, population=1.0, policy={"kind": "epsilon-greedy", "epsilon": 0.1}),
            "Other wild": Told([1.0] * len(final), settings={"kind": "als", "factors": 9}, policy=POWER),
        }
        said, detail = answered(explored, study_of(told))
        assert said == code
        assert "population RMSE -0.500" in detail

    def test_the_last_ratings_count(self) -> None:
        # 20 ratings a trial: the last 10 are those of the last two of four steps, half a point above the mean.
        study = SimulationStudy.of(study_of({"A": Told([3.0, 3.2], climb=0.5), "B": Told([3.0, 3.0])}))
        assert study.main.last == 10
        assert study.main.estimates["A", "final_mean_rating"].value == pytest.approx(3.6)


class TestHeadlines:
    def test_each_says_where_it_is_from(self) -> None:
        numbers = ([0.7, 0.71], [1.2, 1.21])
        other = {"A": Told([3.0, 3.1], drift=0.5), "B": Told([2.0, 2.1], *numbers, drift=0.1)}
        first, ndcg, rmse, standing, tastes = headlines_of(SimulationStudy.of(study_of(graded(), other)))
        assert (first.value, ndcg.value, rmse.value) == ("4.195", "1.000", "\N{MINUS SIGN}1.000")
        codes = [own.code for own in (first, ndcg, rmse, standing, tastes)]
        assert codes == [
            f"headline.{name}" for name in ("mean-rating", "prediction-ndcg", "prediction-rmse", "order", "drift")
        ]
        assert first.meaning == (
            "What M6 showed in place 1: 0.200 [0.200, 0.200] more than M5, the next. The best elsewhere: A."
        )
        assert ndcg.meaning == (
            "Spearman with the mean rating in place 1, over 7 recommenders; 1: the same order. "
            "More than chance (p < 0.001). Elsewhere: 1.000."
        )
        assert standing.value == "none"
        assert standing.meaning.endswith("in place 1.")
        assert tastes.value == "0.502"
        assert "until the end of place 2 with A" in tastes.meaning
        still = headlines_of(SimulationStudy.of(study_of(graded(), graded())))[4]
        assert (still.value, still.meaning) == ("not at all", "Nobody's tastes changed in place 1 and place 2.")

    def test_what_may_be_chance(self) -> None:
        noisy = study_of({"A": Told([3.0, 4.0], [0.8, 0.9]), "B": Told([3.9, 3.0], [0.9, 0.8]), "C": Told([3.0, 3.1])})
        first, ndcg, *_ = headlines_of(SimulationStudy.of(noisy))
        assert first.meaning.endswith("the next, which is not shown to differ.")
        assert "Not shown to be more than chance" in ndcg.meaning
