"""What is said of a simulation: differences that are more than chance, and others only with that said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest

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
    """What is claimed of the first environment, and the numbers."""
    study = SimulationStudy.of(result)
    (finding,) = question(study, study.main)
    return finding.claim, finding.detail.replace("\N{MINUS SIGN}", "-")


class TestWhoIsLikedBest:
    def test_a_lead_is_paired_trial_by_trial(self) -> None:
        # Differences 0.5, 0.5, 0.5: however much trials differ, the lead does not.
        result = study_of({"A": Told([3.0, 4.0, 3.5]), "B": Told([2.5, 3.5, 3.0])})
        claim, detail = answered(liked_best, result)
        assert claim == "People in place 1 liked what A showed best"
        assert "Mean rating 3.500 [2.258, 4.742]; B, the next, 3.000" in detail
        assert "0.500 [0.500, 0.500] less, trial by trial" in detail

    def test_no_lead_is_claimed_where_it_may_be_chance(self) -> None:
        result = study_of({"A": Told([3.0, 4.0, 3.5]), "B": Told([3.9, 3.0, 3.5]), "C": Told([1.0, 1.1, 1.0])})
        claim, detail = answered(liked_best, result)
        assert claim == "In place 1, A and B cannot be told apart at the top"
        assert "which may be chance" in detail

    def test_the_oracle_is_no_contender_and_is_told_beside(self) -> None:
        result = study_of(
            {
                "Truth": Told([4.8, 4.8], settings={"kind": MODELS.kind_of(Oracle)}),
                "A": Told([4.0, 4.1]),
                "Hits": Told([3.0, 3.1], settings={"kind": "top-pop", "by": "count"}),
            }
        )
        claim, detail = answered(liked_best, result)
        assert claim == "People in place 1 liked what A showed best"
        assert "Truth, which knows what everybody would rate everything, reaches 4.800" in detail
        assert "Without personalising: Hits 3.050" in detail


class TestWhatWasForeseen:
    def test_the_same_order(self) -> None:
        claim, detail = answered(foreseen, study_of(graded()))
        assert claim == "In place 1, nDCG@20 and RMSE ordered recommenders almost exactly as people do"
        assert "over 7 recommenders: nDCG@20 1.000 [0.819, 1.000] (p < 0.001), RMSE -1.000" in detail

    def test_the_opposite_order(self) -> None:
        claim, _ = answered(foreseen, study_of(graded(opposite=True)))
        assert claim == "In place 1, nDCG@20 and RMSE ordered recommenders the wrong way round"

    def test_an_order_that_may_be_chance(self) -> None:
        told = graded()
        mixed = {
            f"M{place}": Told([3 + 0.2 * place, 3.02 + 0.2 * place], told[f"M{other}"].ndcg, told[f"M{other}"].rmse)
            for place, other in enumerate((3, 0, 5, 1, 6, 2, 4))
        }
        assert "with no likeness to people's order beyond chance" in answered(foreseen, study_of(mixed))[0]

    def test_few_recommenders_cannot_tell(self) -> None:
        few = {name: own for name, own in graded().items() if name in ("M0", "M1", "M2", "M3")}
        assert answered(foreseen, study_of(few))[0].startswith("4 recommenders are too few to say")

    def test_a_recommender_counts_once_however_it_explores(self) -> None:
        told, wild = graded(), {}
        for name, own in told.items():
            settings = {**own.simulation.settings, "recommender": {"kind": name}}
            own.simulation = replace(own.simulation, settings=settings)
            wild[f"{name} wild"] = Told([1.0, 1.1, 1.0], own.ndcg, own.rmse, settings={"kind": name}, policy=POWER)
        alone, both = (SimulationStudy.of(study_of(each)).main for each in (told, told | wild))
        assert both.correlations["ndcg"].recommenders == 7
        assert both.correlations["ndcg"].estimate.value == alone.correlations["ndcg"].estimate.value
        assert most_misjudged(both) is None
        # Where nobody shows the highest scores, the first policy stands for its recommender.
        assert SimulationStudy.of(study_of(wild)).main.correlations["ndcg"].recommenders == 7

    def test_a_recommender_without_numbers_is_left_out_of_the_order(self) -> None:
        told = graded() | {"Silent": Told([None, None, None]), "Unmeasured": Told([3.0, 3.0, 3.0], [], [])}
        own = SimulationStudy.of(study_of(told)).main.correlations["ndcg"]
        assert own.recommenders == 7
        assert own.estimate.value == pytest.approx(1)


class TestWhoIsMisjudged:
    told: Mapping[str, Told] = {
        "Liked": Told([4.0, 4.1, 4.0], [0.70, 0.71], [1.0, 1.01]),
        "Middle": Told([3.5, 3.6, 3.5], [0.80, 0.81], [1.1, 1.11]),
        "Measured": Told([3.0, 3.1, 3.0], [0.90, 0.91], [1.2, 1.21]),
    }

    def test_by_places_and_by_a_pair_that_turns_round(self) -> None:
        result = study_of(self.told)
        most = most_misjudged(SimulationStudy.of(result).main)
        assert most is not None
        assert (most.name, most.metric, most.offline, most.online, most.other) == ("Liked", "ndcg", 3, 1, "Measured")
        claim, detail = answered(misjudged, result)
        assert claim == "nDCG@20 underrates Liked in place 1: 3rd by nDCG@20, 1st by mean rating"
        assert "Against Measured: nDCG@20 -0.200 [-0.200, -0.200], mean rating +1.000" in detail

    def test_what_may_be_chance_is_said_to_be(self) -> None:
        noisy = {name: Told([3.5, 3.5], own.ndcg, own.rmse) for name, own in self.told.items()}
        noisy["Liked"] = Told([2.0, 5.2], self.told["Liked"].ndcg, self.told["Liked"].rmse)
        claim, detail = answered(misjudged, study_of(noisy))
        assert claim.startswith("Liked stands furthest apart offline and with people in place 1: 3rd by nDCG@20")
        assert detail == "No two recommenders change their order beyond chance, though."

    def test_nobody(self) -> None:
        assert most_misjudged(SimulationStudy.of(study_of(graded())).main) is None


class TestTastes:
    def test_where_nobody_changed(self) -> None:
        still = {"A": Told([3.0, 3.1]), "B": Told([2.0, 2.1])}
        (finding,) = unmoved(SimulationStudy.of(study_of(still, still)))
        assert finding.claim == "Nobody's tastes moved in place 1 and place 2"

    def test_with_whom_they_moved_most(self) -> None:
        result = study_of({"A": Told([3.0, 3.1], drift=0.5), "B": Told([2.0, 2.1], drift=0.1)})
        assert answered(moved, result)[0] == "Tastes in place 1 moved most with A"
        assert list(unmoved(SimulationStudy.of(result))) == []

    def test_a_difference_that_may_be_chance(self) -> None:
        result = study_of({"A": Told([3.0, 3.1], drift=0.5), "B": Told([2.0, 2.1], drift=0.5)})
        claim, detail = answered(moved, result)
        assert claim == "Tastes in place 1 moved by up to 0.502 rating points"
        assert "which may be chance" in detail


class TestExploring:
    @pytest.mark.parametrize(
        ("final", "claim"),
        [
            ((3.6, 3.7), "Exploring paid for MF in place 1: MF wild ends higher"),
            ((2.6, 2.7), "Exploring did not pay for MF in place 1"),
            ((2.6, 3.7), "Whether exploring pays for MF in place 1 cannot be told from chance"),
        ],
    )
    def test_against_the_same_recommender_without(self, final: tuple[float, float], claim: str) -> None:
        told = {
            "MF": Told([3.0, 3.1], population=1.5),
            "MF wild": Told(final, population=1.0, policy={"kind": "epsilon-greedy", "epsilon": 0.1}),
            "Other wild": Told([1.0, 1.0], settings={"kind": "als", "factors": 9}, policy=POWER),
        }
        said, detail = answered(explored, study_of(told))
        assert said == claim
        assert "population RMSE -0.500 [-0.500, -0.500]" in detail

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
        assert (first.value, ndcg.value, rmse.value) == ("4.210", "1.000", "\N{MINUS SIGN}1.000")
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
        assert first.meaning.endswith("the next, which may be chance.")
        assert "It may be chance" in ndcg.meaning
