from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest
import torch
from numba import get_num_threads, set_num_threads
from pydantic import ValidationError

from recaudit.arrays import FloatArray, IntArray
from recaudit.data import Interactions
from recaudit.engines.progress import Step, listening
from recaudit.errors import InputError
from recaudit.models.base import FittedModel
from recaudit.models.baseline.popularity import TopPop
from recaudit.testing.models import EVERYBODY, ITEMS, USERS, ModelContract, some_ratings
from recaudit_papers.models.bayes import BayesMF, BayesMFModel, draw_distributions, draw_noise_precision, draw_rows
from recaudit_papers.models.numerics import SparseRows

SMALL = BayesMF(factors=3, iterations=12, burn_in=4, thinning=2, update_iterations=6)


@pytest.fixture(scope="module", autouse=True)
def threads() -> Iterator[int]:
    """How many there are; one is used: sweeps this small cost less than handing them to a second thread."""
    threads = get_num_threads()
    set_num_threads(1)
    yield threads
    set_num_threads(threads)


@pytest.fixture(scope="module")
def model() -> BayesMFModel:
    return SMALL.fit(some_ratings(0), rng=3)


class TestBayesMF(ModelContract):
    recommender = SMALL


class TestBayesMFThatKeepsOneDraw(ModelContract):
    recommender = BayesMF(factors=1, iterations=3, burn_in=2)


# ---- the conditional distributions -------------------------------------------------------------------


class OneSide:
    """Five rows, of which one has no rating and one very many, beside 400 others with 20 factors and a bias."""

    def __init__(self) -> None:
        draw = np.random.default_rng(0)
        counts = [3, 0, 400, 25, 60]
        self.indptr = np.cumsum([0, *counts])
        self.others = np.concatenate([draw.permutation(400)[:count] for count in counts]).astype(np.int32)
        self.values = draw.normal(size=sum(counts))
        self.other_rows = np.column_stack([draw.normal(size=(400, 20)), np.ones(400), draw.normal(size=400)])
        self.means, self.precisions = draw.normal(size=21), draw.uniform(0.5, 2, 21)
        self.noise_precision = 2.5

    def draw(self, normals: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(rows, 21) vectors and biases, and (rows,) squared errors."""
        design = (SparseRows(self.indptr, self.others, self.values), self.other_rows)
        rows, squares = draw_rows(*design, self.means, self.precisions, self.noise_precision, normals)
        np.testing.assert_array_equal(rows[:, 20], 1.0)
        return np.delete(rows, 20, axis=1), squares

    def ratings_of(self, row: int) -> tuple[FloatArray, FloatArray]:
        """Y (ratings, 21) and t (ratings,) of the row."""
        own = slice(self.indptr[row], self.indptr[row + 1])
        others = self.other_rows[self.others[own]]
        return others[:, :21], self.values[own] - others[:, 21]

    def posterior(self, row: int) -> tuple[FloatArray, FloatArray]:
        """Mean (21,) and covariance (21, 21) of the row, by the textbook."""
        Y, t = self.ratings_of(row)
        precision = self.noise_precision * Y.T @ Y + np.diag(self.precisions)
        covariance = np.asarray(np.linalg.inv(precision), dtype=np.float64)
        return covariance @ (self.noise_precision * Y.T @ t + self.precisions * self.means), covariance


def test_rows_have_the_mean_and_the_covariance_of_their_conditional_distribution() -> None:
    """Every row is an affine function of its normals: the constant is the mean, slope slope^T the covariance."""
    side = OneSide()
    constant, _ = side.draw(np.zeros((5, 21)))
    slope = np.stack([side.draw(np.tile(unit, (5, 1)))[0] - constant for unit in np.eye(21)], axis=2)
    for row in range(5):
        mean, covariance = side.posterior(row)
        np.testing.assert_allclose(constant[row], mean, atol=1e-9)
        np.testing.assert_allclose(slope[row] @ slope[row].T, covariance, atol=1e-9)


def test_the_squared_error_is_that_of_the_rows_drawn() -> None:
    side = OneSide()
    x, squares = side.draw(np.random.default_rng(1).normal(size=(5, 21)))
    for row in range(5):
        Y, t = side.ratings_of(row)
        assert squares[row] == pytest.approx(np.sum((t - Y @ x[row]) ** 2), abs=1e-8)


def test_biases_alone_follow_their_exact_posterior() -> None:
    """With fixed distributions the biases of three users and four items are jointly normal, in closed form."""
    users, items = np.array([0, 0, 0, 1, 1, 2, 2, 2]), np.array([0, 1, 3, 1, 2, 0, 1, 3])
    ratings = np.array([1.2, -0.4, 0.3, 0.8, -1.5, 0.1, -0.9, 1.1])
    alpha, precision, means = 2.0, (np.array([1.5]), np.array([0.8])), (np.array([0.2]), np.array([-0.1]))
    design = np.zeros((8, 7))
    design[np.arange(8), users] = design[np.arange(8), 3 + items] = 1.0
    prior = np.array([1.5] * 3 + [0.8] * 4)
    covariance = np.linalg.inv(alpha * design.T @ design + np.diag(prior))
    mean = covariance @ (alpha * design.T @ ratings + prior * np.array([0.2] * 3 + [-0.1] * 4))

    def side(rows: IntArray, others: IntArray) -> SparseRows:
        order = np.argsort(rows, kind="stable")
        starts = np.searchsorted(rows[order], np.arange(rows.max() + 2))
        return SparseRows(starts, others[order].astype(np.int32), ratings[order])

    by_user, by_item = side(users, items), side(items, users)
    draw, sweeps = np.random.default_rng(0), 6000
    f, g, chain = np.zeros((3, 2)), np.array([[1.0, 0.0]] * 4), np.empty((sweeps, 7))
    for sweep in range(sweeps):
        f, _ = draw_rows(by_user, g, means[0], precision[0], alpha, draw.standard_normal((3, 1)))
        g, _ = draw_rows(by_item, f, means[1], precision[1], alpha, draw.standard_normal((4, 1)))
        chain[sweep] = np.concatenate([f[:, 1], g[:, 1]])
    np.testing.assert_allclose(chain.mean(axis=0), mean, atol=0.04)
    np.testing.assert_allclose(np.cov(chain.T), covariance, atol=0.04)


def test_distributions_follow_the_exact_posterior_of_a_normal_sample() -> None:
    """The normal-gamma posterior: precision ~ Gamma((1 + n) / 2, rate b), mean ~ t around sum / (n + 1)."""
    values = np.array([[1.0, -4.0], [2.0, 0.0], [6.0, 1.0], [3.0, -1.0]])
    n, sums = 4, values.sum(axis=0)
    rate = (1 + (values**2).sum(axis=0) - sums**2 / (n + 1)) / 2
    draw, means, chain = np.random.default_rng(0), np.zeros(2), np.empty((20000, 2, 2))
    for step in range(len(chain)):
        means, precisions = draw_distributions(values, means, draw)
        chain[step] = means, precisions
    np.testing.assert_allclose(chain[:, 0].mean(axis=0), sums / (n + 1), atol=0.05)
    np.testing.assert_allclose(chain[:, 0].var(axis=0), rate / (((1 + n) / 2 - 1) * (n + 1)), rtol=0.1)
    np.testing.assert_allclose(chain[:, 1].mean(axis=0), (1 + n) / 2 / rate, rtol=0.03)


def test_the_noise_precision_follows_its_gamma_distribution() -> None:
    """Shape (1 + 9) / 2, rate (1 + 3) / 2: mean 2.5, variance 1.25."""
    draw = np.random.default_rng(0)
    draws = [draw_noise_precision(3.0, 9, draw) for _ in range(20000)]
    assert np.mean(draws) == pytest.approx(2.5, abs=0.03)
    assert np.var(draws) == pytest.approx(1.25, abs=0.06)


# ---- what the posterior says -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def generated() -> tuple[Interactions, FloatArray]:
    """80 users, 60 items, a third rated with noise 0.3, and the ratings without noise; user 0 has rated nothing."""
    draw = np.random.default_rng(5)
    truth = (
        3
        + draw.normal(0, 0.5, (80, 1))
        + draw.normal(0, 0.5, 60)
        + draw.normal(size=(80, 2)) @ draw.normal(size=(2, 60))
    )
    rated = draw.random((80, 60)) < 1 / 3
    rated[0] = np.arange(60) == 0
    users, items = np.nonzero(rated)
    ratings = truth[users, items] + draw.normal(0, 0.3, len(users))
    data = Interactions.from_frame(pl.DataFrame({"user": users, "item": items, "rating": ratings}))
    return data.subset(data.users > 0), truth


@pytest.fixture(scope="module")
def recovered(generated: tuple[Interactions, FloatArray]) -> BayesMFModel:
    return BayesMF(factors=2, iterations=400, burn_in=100).fit(generated[0])


def test_the_noise_is_recovered(recovered: BayesMFModel) -> None:
    assert recovered.noise == pytest.approx(0.3, abs=0.02)


def test_intervals_hold_the_truth_as_often_as_they_say(
    generated: tuple[Interactions, FloatArray], recovered: BayesMFModel
) -> None:
    data, truth = generated
    users = np.arange(1, 80)
    unrated = ~data.seen(users)
    away = np.abs(recovered.scores(users) - truth[users]) / recovered.uncertainty(users)
    assert 0.9 < np.mean(away[unrated] < 1.96) < 0.99
    assert 0.6 < np.mean(away[unrated] < 1.0) < 0.76


def test_unrated_pairs_are_predicted_almost_as_well_as_the_noise_allows(
    generated: tuple[Interactions, FloatArray], recovered: BayesMFModel
) -> None:
    data, truth = generated
    users = np.arange(1, 80)
    error = (recovered.scores(users) - truth[users])[~data.seen(users)]
    assert np.sqrt(np.mean(error**2)) < 0.3


def test_who_has_rated_nothing_is_scored_as_the_average_user_and_is_uncertain(
    generated: tuple[Interactions, FloatArray], recovered: BayesMFModel
) -> None:
    everybody = np.arange(80)
    scores, spread = recovered.scores(everybody), recovered.uncertainty(everybody)
    np.testing.assert_allclose(scores[0], scores[1:].mean(axis=0), atol=0.6)
    assert spread[0].min() > 2 * np.median(spread[1:])


def test_scores_and_uncertainty_are_the_mean_and_spread_of_the_draws(model: BayesMFModel) -> None:
    users = np.array([4, 0, 29])
    draws = np.stack([model.draw_scores(users, draw) for draw in range(model.n_draws)])
    np.testing.assert_allclose(model.scores(users), draws.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(model.uncertainty(users), draws.std(axis=0, ddof=1), atol=1e-5)


def test_uncertainty_and_draws_do_not_depend_on_the_block(model: BayesMFModel) -> None:
    for answer in (model.uncertainty, lambda users: model.draw_scores(users, 1)):
        together = answer(EVERYBODY)
        for block in ([7], [3, 4], list(range(17)), [2, 9, 2]):
            np.testing.assert_allclose(answer(np.array(block)), together[block], rtol=1e-9, atol=1e-9)


def test_one_draw_alone_has_no_spread() -> None:
    single = BayesMF(factors=1, iterations=3, burn_in=2).fit(some_ratings(0))
    assert (single.uncertainty(EVERYBODY) == 0).all()


@pytest.mark.parametrize("draw", [-1, 4])
def test_a_draw_that_was_not_kept_is_refused(model: BayesMFModel, draw: int) -> None:
    with pytest.raises(InputError, match=r"draw: received .* from 0 to 3"):
        model.draw_scores(EVERYBODY, draw)


# ---- sampling ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("burn_in", "thinning", "kept"), [(0, 1, 6), (2, 1, 4), (2, 3, 2), (0, 4, 2), (5, 9, 1)])
def test_every_thinning_th_draw_after_the_burn_in_is_kept_and_the_last_one(
    burn_in: int, thinning: int, kept: int
) -> None:
    chain = BayesMF(factors=2, iterations=6, burn_in=0, thinning=1).fit(some_ratings(0))
    thinned = BayesMF(factors=2, iterations=6, burn_in=burn_in, thinning=thinning).fit(some_ratings(0))
    assert thinned.n_draws == kept
    for draw in range(kept):
        expected = chain.draw_scores(EVERYBODY, 5 - thinning * (kept - 1 - draw))
        assert np.array_equal(thinned.draw_scores(EVERYBODY, draw), expected)


def test_other_units_give_the_same_model_in_those_units() -> None:
    frame = some_ratings(0).frame()
    inflated = Interactions.from_frame(frame.with_columns(rating=1000 + 50 * frame["rating"]))
    model, other = (SMALL.fit(data) for data in (Interactions.from_frame(frame), inflated))
    np.testing.assert_allclose(other.scores(EVERYBODY), 1000 + 50 * model.scores(EVERYBODY), atol=1e-2)
    assert other.noise == pytest.approx(50 * model.noise)


def test_ratings_without_noise_or_variance_are_no_trouble() -> None:
    users, items = np.divmod(np.arange(600), 20)
    for ratings in (np.full(600, 4.0), np.where((users + items) % 2 == 0, 5.0, 1.0)):
        data = Interactions.from_frame(pl.DataFrame({"user": users, "item": items, "rating": ratings}), scale=(1, 5))
        model = BayesMF(factors=30, iterations=60, init_std=100).fit(data)
        np.testing.assert_allclose(model.predict(users, items), ratings, atol=0.3)


def test_the_numbers_are_the_same_on_any_number_of_threads(
    threads: int, generated: tuple[Interactions, FloatArray]
) -> None:
    before = torch.get_num_threads()

    def scores(threads: int) -> FloatArray:
        set_num_threads(threads)
        torch.set_num_threads(threads)
        try:
            return SMALL.fit(generated[0]).scores(np.arange(80))
        finally:
            set_num_threads(1)
            torch.set_num_threads(before)

    assert np.array_equal(scores(threads), scores(1))


def test_golden_numbers(model: BayesMFModel) -> None:
    """So that sampling never changes silently."""
    scores = model.scores(np.array([0, 17]))[:, [0, 9]]
    np.testing.assert_allclose(scores, [[4.1525, 2.1809], [3.4564, 2.1099]], atol=1e-3)
    assert model.noise == pytest.approx(0.8226, abs=1e-3)


def test_progress_is_reported(model: BayesMFModel) -> None:
    steps: list[Step] = []
    with listening(steps.append):
        SMALL.fit(model.data)
        SMALL.warm_fit(model, model.data)
    assert (steps[0].label, steps[0].total, steps[-1].done) == ("BayesMF", 12, 6)


# ---- going on ----------------------------------------------------------------------------------------


def test_going_on_needs_few_sweeps_where_a_fresh_start_needs_many(
    generated: tuple[Interactions, FloatArray],
) -> None:
    data, truth = generated
    old = data.subset(np.random.default_rng(0).random(len(data)) < 0.9)
    users = np.arange(1, 80)

    def error(model: FittedModel) -> float:
        return float(np.sqrt(np.mean((model.scores(users) - truth[users]) ** 2)))

    settled = BayesMF(factors=2, iterations=150, update_iterations=4, thinning=1)
    fresh = BayesMF(factors=2, iterations=4, burn_in=0, thinning=1)
    warm = settled.warm_fit(settled.fit(old), data)
    assert warm.data is data
    assert warm.n_draws == 4
    assert error(warm) < 0.3
    assert error(fresh.fit(data)) > 0.5


def test_going_on_is_reproducible_and_leaves_the_model_as_it_was(model: BayesMFModel) -> None:
    before = model.scores(EVERYBODY)
    first, second = (SMALL.warm_fit(model, model.data, rng=8) for _ in range(2))
    assert np.array_equal(first.scores(EVERYBODY), second.scores(EVERYBODY))
    assert not np.array_equal(SMALL.warm_fit(model, model.data, rng=9).scores(EVERYBODY), first.scores(EVERYBODY))
    assert np.array_equal(model.scores(EVERYBODY), before)


def test_going_on_from_something_else_is_refused(model: BayesMFModel) -> None:
    data = model.data
    with pytest.raises(
        InputError, match="model: received a PopularityModel; expected what a configuration with 3 factors"
    ):
        SMALL.warm_fit(TopPop().fit(data), data)
    with pytest.raises(
        InputError, match="model: received a model with 3 factors; expected what a configuration with 4 factors"
    ):
        BayesMF(factors=4).warm_fit(model, data)
    fewer = Interactions.from_frame(data.frame().filter(pl.col("item") != 0), scale=(1, 5), time="time")
    with pytest.raises(InputError, match="model: received a model of other users or items"):
        SMALL.warm_fit(model, fewer)
    with pytest.raises(InputError, match="a log without ratings"):
        SMALL.warm_fit(model, data.subset(np.zeros(len(data), dtype=bool)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"factors": 0}, "factors"),
        ({"iterations": 0}, "iterations"),
        ({"thinning": 0}, "thinning"),
        ({"init_std": 0}, "init_std"),
        ({"init_std": float("nan")}, "init_std"),
        ({"update_iterations": 0}, "update_iterations"),
        ({"iterations": 20, "burn_in": 20}, "burn_in: received 20, which leaves nothing of iterations = 20"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        BayesMF.model_validate(settings)


def test_shapes_follow_the_log(model: BayesMFModel) -> None:
    assert model.user_draws.shape == (USERS, 4, 5)
    assert model.item_draws.shape == (ITEMS, 4, 5)
