"""A simulation's configuration is understood whole, or every mistake in it is told at once."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import recaudit as ra
from recaudit import simulate
from recaudit.errors import ConfigError
from recaudit.models import ALS, ItemKNN
from recaudit.policies import EpsilonGreedy, Top1
from recaudit.registry import AUDITS, ENVIRONMENTS, SIMULATED_MODELS
from recaudit.runs.simulation import (
    SimulationConfiguration,
    parse_simulation,
    read_simulation,
)
from recaudit.simulate.offline.cross_validation import GridSearch
from recaudit.specification import as_data
from simulate.own_audits import LogSize

SIZES = "users = 60\nitems = 80\nusers_per_step = 12\nratings = 500\nsteps = 4\n"
ENVIRONMENT = f'[[environment]]\nname = "topics-static"\n{SIZES}'
RECOMMENDER = '[[recommender]]\nkind = "als"\n'
SMALLEST = ENVIRONMENT + RECOMMENDER
OWN = '[[environment]]\ndata = {file = "ratings.csv"}\nratings = 300\nsteps = 2\n'
EXAMPLES = Path(__file__).parents[2] / "examples"


def parsed(text: str, folder: Path = Path()) -> SimulationConfiguration:
    return parse_simulation(text, source="my.toml", folder=folder)


def mistake(text: str, folder: Path = Path()) -> str:
    with pytest.raises(ConfigError) as caught:
        parsed(text, folder)
    return str(caught.value)


def environments(config: SimulationConfiguration) -> dict[str, simulate.Environment]:
    return {scenario.name: scenario.environment for scenario in config.environments}


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    """The folder of ratings.csv: 40 users, 30 items."""
    draw = np.random.default_rng(0)
    pairs = draw.choice(40 * 30, 700, replace=False)
    frame = pl.DataFrame({"user": pairs // 30, "item": pairs % 30, "rating": draw.integers(1, 6, 700)})
    frame.write_csv(tmp_path / "ratings.csv")
    return tmp_path


class Resting(simulate.Environment):
    """Of another package: people rest before they rate."""

    rest: int = 1

    def population(self, seed: int = 0) -> simulate.Population:
        return simulate.Topics(users=self.users, items=self.items).population(seed)


class TestWhatItMeans:
    def test_the_smallest_configuration_has_the_papers_settings(self) -> None:
        config = parsed('[[environment]]\nname = "topics-dynamic"\n' + RECOMMENDER)
        assert (config.seed, config.trials, config.folds, config.k) == (0, 10, 5, 20)
        assert (config.retrain, config.warm, config.population_every, config.policy) == (1, False, 0, Top1())
        assert config.environments == (simulate.paper("topics-dynamic"),)
        assert [(one.model.label, one.model.recommender) for one in config.recommenders] == [("ALS", ALS())]
        assert config.audits.audits == {}

    def test_an_environment_takes_its_own_settings(self) -> None:
        [scenario] = parsed(f"{ENVIRONMENT}affinity = 0.3\nlived = true\n{RECOMMENDER}").environments
        assert scenario == simulate.paper(
            "topics-static", users=60, items=80, users_per_step=12, ratings=500, steps=4, affinity=0.3, lived=True
        )

    @pytest.mark.parametrize(
        ("text", "choice"),
        [
            ('{kind = "takes-all"}', simulate.TakesAll()),
            ('{kind = "picks-best", trust = 1}', simulate.PicksBest(trust=1)),
            ('{kind = "logit", temperature = 0.5}', simulate.Logit(temperature=0.5)),
        ],
    )
    def test_a_choice_is_by_kind(self, text: str, choice: simulate.Choice) -> None:
        [environment] = environments(parsed(f"{ENVIRONMENT}slate = 3\nchoice = {text}\n{RECOMMENDER}")).values()
        assert environment.choice == choice

    def test_steps_and_ratings_for_all_give_way_to_an_environments_own(self) -> None:
        text = "ratings = 700\nsteps = 9\n" + ENVIRONMENT + '[[environment]]\nname = "latent-score"\n' + RECOMMENDER
        assert [(one.ratings, one.steps) for one in parsed(text).environments] == [(500, 4), (700, 9)]

    def test_labels_that_are_not_given_are_made_unique(self) -> None:
        text = ENVIRONMENT + ENVIRONMENT + ENVIRONMENT + 'label = "mine"\n' + RECOMMENDER + RECOMMENDER
        config = parsed(text)
        assert list(environments(config)) == ["topics-static", "topics-static 2", "mine"]
        assert [one.model.label for one in config.recommenders] == ["ALS", "ALS 2"]

    def test_a_recommender_has_its_own_policy_and_tuning(self) -> None:
        policy = 'policy = {kind = "epsilon-greedy", epsilon = 0.2}\n'
        grid = "tune = {factors = [2, 4], regularization = [0.1]}\n"
        oracle = '[[recommender]]\nkind = "oracle"\n'
        one, two, three = parsed(SMALLEST + policy + grid + RECOMMENDER + oracle).recommenders
        assert (one.policy, two.policy) == (EpsilonGreedy(epsilon=0.2), None)
        assert one.tuning == GridSearch(values={"factors": (2, 4), "regularization": (0.1,)})
        assert two.tuning is None
        assert three.model.recommender == simulate.Oracle()

    def test_settings_that_only_go_together_may_be_tuned_together(self) -> None:
        text = ENVIRONMENT + '[[recommender]]\nkind = "bayes-mf"\ntune = {iterations = [10], burn_in = [2]}'
        [one] = parsed(text).recommenders
        assert one.tuning == GridSearch(values={"iterations": (10,), "burn_in": (2,)})

    def test_every_recommender_of_the_paper_has_a_kind(self) -> None:
        simple = {"oracle", "random", "top-pop", "item-knn", "user-knn", "ease"}
        assert simple | {"biased-mf", "bayes-mf", "autorec", "cf-nade", "llorma"} <= SIMULATED_MODELS.keys()

    def test_people_are_fitted_to_a_file_beside_the_configuration(self, ratings: Path) -> None:
        (ratings / "my.toml").write_text(f"{OWN}factors = 3\naffinity = 0.1\n{RECOMMENDER}")
        [scenario] = read_simulation(ratings / "my.toml").environments
        assert (scenario.name, scenario.ratings, scenario.steps) == ("ratings.csv", 300, 2)
        log = ra.data.read(ratings / "ratings.csv", user="user", item="item", rating="rating")
        assert scenario.environment == simulate.FromData(data=log, factors=3, affinity=0.1)

    def test_people_can_be_fitted_with_any_recommender(self, ratings: Path) -> None:
        text = OWN + 'recommender = {kind = "item-knn", neighbours = 5}\n' + RECOMMENDER
        [environment] = environments(parsed(text, ratings)).values()
        assert isinstance(environment, simulate.FromData)
        assert environment.recommender == ItemKNN(neighbours=5)

    @pytest.mark.parametrize("kind", [kind for kind in ENVIRONMENTS if kind != "from-data"])
    def test_every_environment_has_a_kind(self, kind: str) -> None:
        text = f'[[environment]]\nkind = "{kind}"\nusers_per_step = 7\nratings = 500\nsteps = 4\n{RECOMMENDER}'
        [scenario] = parsed(text).environments
        expected = ENVIRONMENTS[kind](users_per_step=7)
        assert scenario == simulate.Scenario(name=kind, environment=expected, ratings=500, steps=4)

    def test_another_packages_environment_is_found_by_its_entry_point(self, monkeypatch: pytest.MonkeyPatch) -> None:
        point = EntryPoint("resting", f"{__name__}:Resting", ENVIRONMENTS.groups[0])
        monkeypatch.setitem(ENVIRONMENTS._points, "resting", point)
        text = f'[[environment]]\nkind = "resting"\nrest = 3\nratings = 50\nsteps = 2\n{RECOMMENDER}'
        [scenario] = parsed(text).environments
        assert scenario.environment == Resting(rest=3)
        assert as_data(scenario)["environment"]["kind"] == "resting"

    def test_another_packages_audit_is_run_in_the_loop(self, monkeypatch: pytest.MonkeyPatch) -> None:
        point = EntryPoint("log-size", "simulate.own_audits:LogSize", AUDITS.groups[0])
        monkeypatch.setitem(AUDITS._points, "log-size", point)
        config = parsed(f"{SMALLEST}[audits]\nevery = 2\n[audits.log-size]\nscale = 0.5")
        assert config.audits.every == 2
        assert config.audits.audits == {"log-size": LogSize(scale=0.5)}

    def test_the_papers_people_of_movielens_are_known_by_name(self) -> None:
        config = parsed('[[environment]]\nname = "ml-100k"\nslate = 2\n' + RECOMMENDER)
        assert config.environments == (simulate.paper("ml-100k", slate=2),)


class TestMistakes:
    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("sed = 1\n" + SMALLEST, "sed: received a key that is not known here; expected a known key. Did you mean"),
            ("[[", "received invalid TOML"),
            (RECOMMENDER, "environment: received nothing; expected at least one [[environment]]"),
            (ENVIRONMENT, "recommender: received nothing; expected at least one [[recommender]]"),
            ('[environment]\nname = "x"\n' + RECOMMENDER, "a list, written with two brackets: [[environment]]"),
            ("trials = 0\n" + SMALLEST, "trials: received 0; expected greater than 0"),
            ("folds = 1\n" + SMALLEST, "folds: received 1; expected greater than or equal to 2"),
            ('policy = {kind = "top1"}\n' + SMALLEST, "policy.kind: received 'top1'"),
        ],
    )
    def test_of_the_whole(self, text: str, told: str) -> None:
        assert told in mistake(text)

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            (
                ENVIRONMENT.replace("topics-static", "topic-static"),
                "environment[0].name: received 'topic-static'; expected the name of a scenario. "
                "Did you mean 'topics-static'?",
            ),
            ("[[environment]]\nusers = 3\n", "environment[0]: received {'users': 3}; expected either name = '...'"),
            (
                ENVIRONMENT + "affinty = 1\n",
                "environment[0].affinty: received a key that is not known here; expected a",
            ),
            (ENVIRONMENT + "ratigs = 1\n", "environment[0].ratigs: received a key that is not known here; expected a"),
            (ENVIRONMENT + "ratigs = 1\n", "Did you mean 'ratings'?"),
            (ENVIRONMENT + "noise = -1\n", "environment[0].noise: received -1; expected greater than or equal to 0"),
            (
                ENVIRONMENT.replace("users_per_step = 12\n", ""),
                "environment[0].users_per_step: received 200; expected at most 60, the users that are there from the "
                "start. Lower it, or raise users.",
            ),
            (ENVIRONMENT + "slate = 81\n", "environment[0].slate: received 81; expected at most 80, the items"),
            (
                ENVIRONMENT.replace("500", "4801"),
                "environment[0].ratings: received 4,801; expected at most 4,800, the pairs of users and items",
            ),
            (
                ENVIRONMENT.replace("ratings = 500\n", ""),
                "environment[0].ratings: received 100,000; expected at most 4,800",
            ),
            (
                ENVIRONMENT.replace("steps = 4", "steps = 0"),
                "environment[0].steps: received 0; expected greater than or equal to 1",
            ),
            (ENVIRONMENT + "late_users = 60\n", "environment[0]: received 60 of 60 users and 0 of 80 items"),
            (ENVIRONMENT + 'choice = {kind = "logt"}\n', "environment[0].choice.kind: received 'logt'"),
            (ENVIRONMENT + "label = 3\n", "environment[0].label: received 3; expected a text of 1 to 60 characters"),
            (ENVIRONMENT + 'label = "a/b"\n', "environment[0].label: received 'a/b'; expected a text that can name a"),
            (
                (ENVIRONMENT + 'label = "a"\n') * 2,
                "environment[1].label: received 'a'; expected a label that no other environment has",
            ),
            (
                '[[environment]]\nname = "ml-100k"\nfactors = 3\n',
                "environment[0].factors: received 3; expected nothing",
            ),
        ],
    )
    def test_of_an_environment(self, text: str, told: str) -> None:
        message = mistake(text + RECOMMENDER)
        assert message.startswith("my.toml, environment[")
        assert told in message

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("data = 3\n", "environment[0].data: received 3; expected a log, or the name of a data set"),
            ('data = {name = "dmo"}\n', "environment[0].data.name: received 'dmo'; expected the name of a data set"),
            ('data = {file = "no.csv"}\n', "environment[0].data.file: "),
            ('data = {name = "demo"}\nnois = 1\n', "environment[0].nois: received a key that is not known here"),
            ('data = {name = "demo"}\n', "environment[0].ratings: received nothing; expected how many ratings"),
            ('data = {name = "demo"}\nname = "beta-rank"\n', "expected either name = '...'"),
        ],
    )
    def test_of_data(self, text: str, told: str) -> None:
        assert told in mistake(f"[[environment]]\n{text}{RECOMMENDER}")

    def test_what_only_the_data_shows_is_told_like_the_rest(self, ratings: Path) -> None:
        told = mistake(f"{OWN}users_per_step = 41\n{RECOMMENDER}", ratings)
        assert "my.toml, environment[0].users_per_step: received 41; expected at most 40" in told

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("kind = 'alss'", "recommender[0].kind: received 'alss'; expected one of als,"),
            ("kind = 'als'\nfactros = 3", "recommender[0].factros: received a key that is not known here"),
            ("kind = 'als'\npolicy = {kind = 'power', p = -1}", "recommender[0].policy."),
            ("kind = 'als'\ntune = {}", "recommender[0].tune: received {}; expected lists of values to try"),
            ("kind = 'als'\ntune = {factors = 3}", "recommender[0].tune.factors: received 3; expected a list of the"),
            (
                "kind = 'als'\ntune = {factros = [1, 2]}",
                "recommender[0].tune.factros: received [1, 2]; expected a setting of ALS. Did you mean 'factors'?",
            ),
            ("kind = 'als'\ntune = {factors = [1, -2]}", "recommender[0].tune.factors: received -2; expected greater"),
            (
                "kind = 'als'\ntune = {ranges = {factors = [1, 5]}}",
                "recommender[0].tune.ranges: received {'factors': [1, 5]}; expected a list of the values to try",
            ),
            ("kind = 'oracle'\ntune = {factors = [1]}", "expected nothing: Oracle has no settings"),
            (
                "kind = 'als'\nlabel = 'a'\n[[recommender]]\nkind = 'als'\nlabel = 'A'",
                "recommender[1].label: received 'A'; expected a label that no other recommender has",
            ),
            ("kind = 'als'\nlabel = 'a:b'", "recommender[0].label: received 'a:b'; expected a text that can name a"),
        ],
    )
    def test_of_a_recommender(self, text: str, told: str) -> None:
        assert told in mistake(f"{ENVIRONMENT}[[recommender]]\n{text}")

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            (
                "[audits.accuracy]\nk = 3",
                "audits.accuracy: received an audit inside a simulation; expected one of calibration, composed, ",
            ),
            ("[audits.agency]", "audits.agency: received an audit inside a simulation; expected one of calibration,"),
            ("[audits.exposur]", "audits.exposur: received {}; expected one of accuracy, agency,"),
            ("[audits]\nevery = -1", "audits.every: received -1"),
            ("[audits.exposure]\nby = ['history']", "audits.exposure.by: received ['history']; expected nothing"),
            ("[audits.reachability]\nactions = {kind = 'past', k = 2}", "audits.reachability.actions"),
            ("[audits.folding]\nunobserved_weights = [0.1]", "audits.folding.unobserved_weights: received (0.1,)"),
            ("[audits.calibration]\nweight = 0.5", "audits.calibration.weight: received"),
        ],
    )
    def test_of_audits(self, text: str, told: str) -> None:
        assert told in mistake(f"{SMALLEST}{text}")

    def test_several_are_told_together(self) -> None:
        message = mistake(f"trials = 0\n{ENVIRONMENT}noise = -1\nlabel = 3\n{RECOMMENDER}factors = 0\npolicy = 3\n")
        assert "received 5 mistakes" in message
        for key in (
            "trials",
            "environment[0].noise",
            "environment[0].label",
            "recommender[0].factors",
            "recommender[0].policy",
        ):
            assert f"\n  {key}: " in message

    def test_of_the_file(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="No such file"):
            read_simulation(tmp_path / "no.toml")
        (tmp_path / "latin.toml").write_bytes("# \xe9".encode("latin-1"))
        with pytest.raises(ConfigError, match="not UTF-8"):
            read_simulation(tmp_path / "latin.toml")


class TestExamples:
    def test_the_small_one_is_valid(self) -> None:
        config = read_simulation(EXAMPLES / "simulation.toml")
        assert list(environments(config)) == ["still", "moved"]
        assert config.audits.every > 0

    def test_reclab_is_the_paper(self) -> None:
        config = read_simulation(EXAMPLES / "reclab.toml")
        assert config.environments == (simulate.paper("topics-static"), simulate.paper("topics-dynamic"))
        assert config.trials == 10
        found = {each.model.label: each.model.recommender for each in config.recommenders}
        assert found == simulate.paper_recommenders("topics-static")


def test_a_perplexity_is_refused_before_anything_runs() -> None:
    policy = 'policy = {kind = "softmax", perplexity = 10}\n'
    for text in (policy + SMALLEST, SMALLEST + policy):
        assert "policy: received Softmax(perplexity=10.0); expected a number for beta" in mistake(text)
    with pytest.raises(ValueError, match="expected a number for beta"):
        simulate.run("topics-static", ra.models.TopPop(), policy=ra.policies.Softmax(perplexity=5), steps=1)
