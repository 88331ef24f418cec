from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor

from recaudit.arrays import FloatArray
from recaudit.data import Interactions
from recaudit.engines.progress import Step as Report
from recaudit.engines.progress import listening
from recaudit.errors import InputError
from recaudit.models.baseline.popularity import TopPop
from recaudit.testing.models import EVERYBODY, ITEMS, USERS, ModelContract, some_ratings
from recaudit_papers.models.cfnade import (
    CFNADE,
    CFNADEModel,
    RatingNetwork,
    TensorLearner,
    TrainingStep,
    cost_of,
    costs,
    steps,
)
from recaudit_papers.models.cfnade_columns import ColumnLearner, cost_and_slopes
from recaudit_papers.models.rating_rows import RatingLevels, RatingTable, RowKind, RowSplit

SMALL = CFNADE(hidden=6, epochs=4, batch=8, learning_rate=0.01)
CPU = torch.device("cpu")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Steps this small cost less than handing them to a second thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module", params=["user", "item"])
def model(request: pytest.FixtureRequest) -> CFNADEModel:
    return SMALL.model_copy(update={"rows": request.param}).fit(some_ratings(0), rng=3)


class TestItemRows(ModelContract):
    recommender = SMALL


class TestUserRows(ModelContract):
    recommender = CFNADE(rows="user", hidden=5, epochs=2, batch=16)


class TestManyHiddenUnitsAndLevels(ModelContract):
    recommender = CFNADE(hidden=300, levels=9, ordinal=0.5, epochs=1)


# ---- the costs, by hand ------------------------------------------------------------------------------

# The probabilities of three levels are 1/6, 2/6 and 3/6.
SCORES = torch.log(torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64))


@pytest.mark.parametrize(
    ("at", "regular", "ordinal"),
    [
        # Level 0: below it nothing, 1/1; above it 1/6, then 2/5, then 3/3.
        (0, 6, 6 * 5 / 2),
        # Level 1: downwards 2/3, then 1/1; upwards 2/5, then 3/3.
        (1, 3, 3 / 2 * 5 / 2),
        # Level 2: downwards 3/6, then 2/3, then 1/1; upwards 3/3.
        (2, 2, 2 * 3 / 2),
    ],
)
def test_costs_of_three_levels(at: int, regular: float, ordinal: float) -> None:
    classes = torch.tensor([at])
    assert costs(SCORES, classes, 0.0).item() == pytest.approx(math.log(regular))
    assert costs(SCORES, classes, 1.0).item() == pytest.approx(math.log(ordinal))
    assert costs(SCORES, classes, 0.25).item() == pytest.approx(0.75 * math.log(regular) + 0.25 * math.log(ordinal))


@pytest.mark.parametrize("ordinal", [0.0, 0.3, 1.0])
def test_costs_do_not_change_when_all_scores_move_together(ordinal: float) -> None:
    scores = torch.randn(8, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    classes = torch.arange(8) % 5
    moved = costs(scores + 700.0, classes, ordinal)
    np.testing.assert_allclose(moved, costs(scores, classes, ordinal), atol=1e-11)


def test_the_ordinal_cost_prefers_a_near_miss() -> None:
    near, far = torch.tensor([[0.0, 0.0, 0.0, 3.0, 0.0]]), torch.tensor([[3.0, 0.0, 0.0, 0.0, 0.0]])
    top = torch.tensor([4])
    assert costs(near, top, 1.0).item() < costs(far, top, 1.0).item()
    assert costs(near, top, 0.0).item() == pytest.approx(costs(far, top, 0.0).item())


def test_costs_of_scores_that_are_far_apart_have_finite_gradients() -> None:
    scores = torch.tensor([[-500.0, 0.0, 500.0]], requires_grad=True)
    cost = costs(scores, torch.tensor([1]), 0.5).sum()
    cost.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    assert math.isfinite(cost.item())
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()


# ---- the network, one rating after the other ---------------------------------------------------------


def by_column(network: RatingNetwork, weight: Tensor) -> FloatArray:
    """(levels, columns, n): a stack of weights, unstacked and not yet summed over levels."""
    return np.diff(network.by_level(weight.detach()).numpy(), axis=0, prepend=0.0)


def distribution(network: RatingNetwork, ratings: dict[int, int], column: int) -> FloatArray:
    """(levels,): the probabilities of one column after `ratings` (column to class), in the paper's equations."""
    W, V = by_column(network, network.W), by_column(network, network.V.transpose(1, 2))
    b = by_column(network, network.b.transpose(1, 2))
    h = network.c.detach().double().numpy().copy()
    for other, at in ratings.items():
        for level in range(at + 1):
            h += W[level, other]
    h = np.tanh(h)
    scores = np.array([sum(b[t, column, 0] + V[t, column] @ h for t in range(level + 1)) for level in range(len(b))])
    odds = np.exp(scores)
    return np.asarray(odds / odds.sum())


def rated(model: CFNADEModel, row: int) -> dict[int, int]:
    table = RatingTable.of(model.data, model.rows, model.levels)
    places = slice(table.starts[row], table.starts[row + 1])
    return dict(zip(table.columns[places].tolist(), table.classes[places].tolist(), strict=True))


def test_probabilities_are_those_of_the_equations(model: CFNADEModel) -> None:
    user, item = 7, 11
    row, column = (user, item) if model.rows == "user" else (item, user)
    expected = distribution(model.network, rated(model, row), column)
    found = model.probabilities(np.array([user]))[0, :, item]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_probabilities_sum_to_one_and_scores_are_their_means(model: CFNADEModel) -> None:
    probabilities = model.probabilities(EVERYBODY)
    assert probabilities.shape == (USERS, 5, ITEMS)
    assert (probabilities > 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-14)
    means = np.einsum("ukm,k->um", probabilities, [1.0, 2.0, 3.0, 4.0, 5.0])
    np.testing.assert_allclose(model.scores(EVERYBODY), means, rtol=1e-14)


@pytest.mark.parametrize("columns", [5, 301])  # one block of columns, and two of which one is filled up
def test_the_cost_of_a_step_is_that_of_the_equations(columns: int) -> None:
    network, table = some_network(columns)
    step = next(steps(table, RowSplit.draw(table, 3, np.random.default_rng(1)), CPU))
    read, told = listed(network, step)
    assert 0 < sum(map(len, read)) < len(table.columns)
    expected = 0.0
    for row in range(step.rows):
        row_cost = 0.0
        for column, at in told[row].items():
            scores = torch.from_numpy(np.log(distribution(network, read[row], column)))[None]
            row_cost += costs(scores, torch.tensor([at]), 0.7).item()
        count = len(read[row]) + len(told[row])
        expected += count / len(told[row]) * row_cost / step.rows
    assert cost_of(network, step, 0.7).item() == pytest.approx(expected, rel=1e-6)


def some_network(columns: int = 5) -> tuple[RatingNetwork, RatingTable]:
    """Double precision, three levels, and a table of 4 rows with 4 ratings each."""
    draw = np.random.default_rng(0)
    network = RatingNetwork(3, columns, 4)
    network.draw(0.5, draw)
    places = np.concatenate([np.sort(draw.choice(columns, 4, replace=False)) for _ in range(4)])
    return network.double(), RatingTable(np.arange(5) * 4, places, draw.integers(0, 3, 16), columns)


def listed(network: RatingNetwork, step: TrainingStep) -> tuple[list[dict[int, int]], list[dict[int, int]]]:
    """For each row of a step, which columns are read and which are to be predicted, with their classes."""
    sides = []
    for places, classes in (step.read, step.predict[:2]):
        side: list[dict[int, int]] = [{} for _ in range(step.rows)]
        for place, at in zip(places.tolist(), classes.tolist(), strict=True):
            block, rest = divmod(place, step.rows * network.size)
            row, within = divmod(rest, network.size)
            side[row][block * network.size + within] = at
        sides.append(side)
    return sides[0], sides[1]


@pytest.mark.parametrize("ordinal", [0.0, 0.4, 1.0])
def test_gradients_are_finite_differences(ordinal: float) -> None:
    network, table = some_network()
    step = next(steps(table, RowSplit.draw(table, 4, np.random.default_rng(1)), CPU))
    cost = cost_of(network, step, ordinal)
    cost.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    for weight in network.parameters():
        assert weight.grad is not None
        differences = torch.empty_like(weight)
        for place in np.ndindex(*weight.shape):
            with torch.no_grad():
                before = weight[place].item()
                weight[place] = before + 1e-5
                up = cost_of(network, step, ordinal).item()
                weight[place] = before - 1e-5
                differences[place] = (up - cost_of(network, step, ordinal).item()) / 2e-5
                weight[place] = before
        np.testing.assert_allclose(weight.grad, differences, atol=1e-7)


@pytest.mark.parametrize("ordinal", [0.0, 0.4, 1.0])
def test_slopes_of_the_costs_are_those_of_automatic_differentiation(ordinal: float) -> None:
    draw = torch.Generator().manual_seed(0)
    scores = (3 * torch.randn(12, 5, generator=draw, dtype=torch.float64)).requires_grad_()
    classes = torch.arange(12) % 5
    expected = costs(scores, classes, ordinal)
    expected.sum().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    assert scores.grad is not None
    slopes = np.empty(5)
    for row, at in enumerate(classes.tolist()):
        cost = cost_and_slopes(scores[row].detach().numpy(), at, ordinal, slopes)
        assert cost == pytest.approx(expected[row].item(), rel=1e-12)
        np.testing.assert_allclose(slopes, scores.grad[row], atol=1e-12)


def test_slopes_of_scores_that_are_far_apart_are_finite() -> None:
    slopes = np.empty(3)
    assert math.isfinite(cost_and_slopes(np.array([-500.0, 0.0, 500.0]), 1, 0.5, slopes))
    assert np.isfinite(slopes).all()
    assert math.isfinite(cost_and_slopes(np.array([-1e5, 0.0, 1e5]), 0, 0.5, slopes))
    assert np.isfinite(slopes).all()


@pytest.mark.parametrize("columns", [17, 301])
@pytest.mark.parametrize("ordinal", [0.3, 1.0])
def test_the_fast_steps_are_the_readable_ones(columns: int, ordinal: float) -> None:
    draw = np.random.default_rng(0)
    network = RatingNetwork(3, columns, 21)
    network.draw(0.5, draw)
    starts = np.append(0, np.cumsum(draw.integers(1, 12, 9)))
    places = np.concatenate([np.sort(draw.choice(columns, n, replace=False)) for n in np.diff(starts)])
    table = RatingTable(starts, places, draw.integers(0, 3, len(places)), columns)
    before = network.by_column()
    fast = ColumnLearner(before, table, ordinal, 0.01)
    slow = TensorLearner(network, table, ordinal, 0.01, CPU)
    for epoch in range(3):
        split = RowSplit.draw(table, 4, np.random.default_rng(epoch))
        assert fast.learn(split, 0.01) == pytest.approx(slow.learn(split, 0.01), rel=1e-4)
    for ours, theirs, first in zip(fast.weights(), slow.weights(), before, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-4)
        assert np.abs(ours - first).max() > 0.02


@pytest.mark.parametrize("columns", [5, 301])
def test_weights_by_column_are_taken_back(columns: int) -> None:
    network, other = some_network(columns)[0].float(), RatingNetwork(3, columns, 4)
    other.take(network.by_column())
    for weight, taken in zip(network.by_column(), other.by_column(), strict=True):
        np.testing.assert_array_equal(weight, taken)
    for level, weight in enumerate(by_column(network, network.V.transpose(1, 2))):
        np.testing.assert_allclose(other.by_column().V[:, level], weight, atol=1e-6)


# ---- how rows are split ------------------------------------------------------------------------------


def test_every_rating_is_read_or_predicted_once_an_epoch() -> None:
    network, table = some_network(301)
    expected = sorted((column, at) for column, at in zip(table.columns.tolist(), table.classes.tolist(), strict=True))
    found = []
    for step in steps(table, RowSplit.draw(table, 3, np.random.default_rng(4)), CPU):
        read, told = listed(network, step)
        assert all(told)
        found += [pair for side in (read, told) for row in side for pair in row.items()]
    assert sorted(found) == expected


def test_splits_are_even_and_weights_make_up_for_them() -> None:
    _, table = some_network()
    draw = np.random.default_rng(0)
    reads = np.zeros(4)
    for _ in range(400):
        for step in steps(table, RowSplit.draw(table, 1, draw), CPU):
            told = len(step.predict[0])
            reads[len(step.read[0])] += 1
            np.testing.assert_allclose(step.predict[2], 4 / told)
    # Four equally likely splits, 1,600 draws: 5 standard deviations are 87.
    assert np.abs(reads - 400).max() < 87


# ---- levels ------------------------------------------------------------------------------------------


def test_ratings_are_rounded_to_the_nearest_whole_number_of_the_scale() -> None:
    levels = RatingLevels.of((1.0, 5.0), None)
    assert levels.values.tolist() == [1, 2, 3, 4, 5]
    assert levels.classes(np.array([1.0, 1.49, 1.5, 2.5, 4.7, 5.0])).tolist() == [0, 0, 1, 2, 4, 4]


def test_halves_count_as_the_whole_number_above_unless_there_are_levels_for_them() -> None:
    halves = np.arange(0.5, 5.1, 0.5)
    whole = RatingLevels.of((0.5, 5.0), None)
    assert whole.values[whole.classes(halves)].tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    ten = RatingLevels.of((0.5, 5.0), 10)
    np.testing.assert_allclose(ten.values[ten.classes(halves)], halves)


@pytest.mark.parametrize("scale", [(0.2, 0.8), (0.5, 1.5), (0.0, 1e9)])
def test_a_scale_without_a_few_whole_numbers_needs_levels(scale: tuple[float, float]) -> None:
    with pytest.raises(InputError, match=r"levels: received None for ratings in \[.*levels=10"):
        RatingLevels.of(scale, None)
    assert len(RatingLevels.of(scale, 4).values) == 4


# ---- what is learned ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", ["user", "item"])
def test_two_tastes_are_learned(rows: RowKind) -> None:
    users, items = np.divmod(np.arange(USERS * ITEMS), ITEMS)
    ratings = np.where((users + items) % 2 == 0, 5.0, 1.0)
    frame = pl.DataFrame({"user": users, "item": items, "rating": ratings})
    known = np.random.default_rng(0).random(len(users)) < 0.6
    data = Interactions.from_frame(frame, scale=(1, 5)).subset(known)
    recommender = CFNADE(rows=rows, hidden=8, epochs=60, batch=8, learning_rate=0.01, regularization=0.001)
    predicted = recommender.fit(data).predict(users[~known], items[~known])
    assert np.abs(predicted - ratings[~known]).max() < 0.5


def test_columns_without_ratings_are_predicted_as_any_rating() -> None:
    data = some_ratings(0)
    model = SMALL.fit(data.subset(data.users != 4))
    rounded = np.mean(data.ratings[data.users != 4])
    np.testing.assert_allclose(model.scores(np.array([4])), rounded, rtol=1e-12)


def test_rows_without_ratings_are_predicted_from_nothing() -> None:
    data = some_ratings(0)
    model = SMALL.fit(data.subset(data.items != 6))
    expected = distribution(model.network, {}, 9) @ [1, 2, 3, 4, 5]
    assert model.scores(np.array([9]))[0, 6].item() == pytest.approx(expected)


def test_strong_regularization_knows_nothing() -> None:
    model = SMALL.model_copy(update={"regularization": 1e4, "epochs": 40}).fit(some_ratings(0))
    np.testing.assert_allclose(model.scores(EVERYBODY), 3.0, atol=0.15)


# ---- a log that has grown ----------------------------------------------------------------------------


def earlier(data: Interactions) -> Interactions:
    return data.subset(np.arange(len(data)) % 10 != 0)


def test_going_on_is_deterministic_and_leaves_the_old_model_alone(model: CFNADEModel) -> None:
    recommender = SMALL.model_copy(update={"rows": model.rows})
    old = recommender.fit(earlier(model.data))
    before = old.scores(EVERYBODY)
    grown = recommender.warm_fit(old, model.data, rng=5)
    assert grown.data is model.data
    assert np.array_equal(grown.scores(EVERYBODY), recommender.warm_fit(old, model.data, rng=5).scores(EVERYBODY))
    assert np.array_equal(old.scores(EVERYBODY), before)
    assert not np.array_equal(grown.scores(EVERYBODY), before)
    assert not np.array_equal(grown.scores(EVERYBODY), recommender.warm_fit(old, model.data, rng=6).scores(EVERYBODY))


def test_going_on_starts_from_what_was_learned() -> None:
    data = some_ratings(0)
    still = SMALL.model_copy(update={"learning_rate": 1e-12, "regularization": 0.0})
    trained = SMALL.fit(earlier(data))
    grown = still.warm_fit(trained, data)
    for old, new in zip(trained.network.parameters(), grown.network.parameters(), strict=True):
        np.testing.assert_allclose(new, old, atol=1e-9)
    # The ratings that came in since are read.
    assert not np.array_equal(trained.scores(EVERYBODY), grown.scores(EVERYBODY))


def test_going_on_takes_as_many_epochs_as_said() -> None:
    data = some_ratings(0)
    old = SMALL.fit(earlier(data))
    reports: list[Report] = []
    with listening(reports.append):
        SMALL.model_copy(update={"update_epochs": 3}).warm_fit(old, data)
    assert {report.total for report in reports} == {3}


def test_going_on_from_something_else_is_refused() -> None:
    data = some_ratings(0)
    old = SMALL.fit(data)
    with pytest.raises(InputError, match="model: received a PopularityModel; expected what a configuration with"):
        SMALL.warm_fit(TopPop().fit(data), data)
    for changes in ({"hidden": 7}, {"rows": "user"}, {"levels": 9}):
        with pytest.raises(InputError, match="model: received a model with item rows, 6 hidden units and levels"):
            SMALL.model_copy(update=changes).warm_fit(old, data)
    others = Interactions.from_frame(data.frame().with_columns(pl.col("item") + 1), scale=(1, 5))
    with pytest.raises(InputError, match="model: received a model of other users or items"):
        SMALL.warm_fit(old, others)


# ---- training ----------------------------------------------------------------------------------------


def test_another_seed_gives_another_model(model: CFNADEModel) -> None:
    again = SMALL.model_copy(update={"rows": model.rows}).fit(model.data, rng=4)
    assert not np.array_equal(again.scores(EVERYBODY), model.scores(EVERYBODY))


def test_torchs_own_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    SMALL.fit(some_ratings(0))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("rate", [1e3, 1e20, 1e38])
def test_a_step_too_long_is_named(rate: float) -> None:
    with pytest.raises(InputError, match=r"learning_rate: received .*diverged"):
        SMALL.model_copy(update={"learning_rate": rate}).fit(some_ratings(0))


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match="device: received cuda:99; expected a device of this machine: cpu"):
        CFNADE(device="cuda:99").fit(some_ratings(0))
    with pytest.raises(InputError, match="device"):
        CFNADE(device="abacus")
