from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from recaudit.arrays import FloatArray
from recaudit.data import Interactions
from recaudit.engines.progress import Step, listening
from recaudit.errors import InputError
from recaudit.testing.models import EVERYBODY, ITEMS, USERS, ModelContract, some_ratings
from recaudit_papers.models.recurrent import RecurrentModel, RecurrentRecommender
from recaudit_papers.models.recurrent_network import HistoryNetwork, Reading

SMALL = RecurrentRecommender(hidden=5, epochs=3, window=4, batch=16)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Steps this small cost less than handing them to a second thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def model() -> RecurrentModel:
    return SMALL.fit(some_ratings(0), rng=3)


class TestRecurrent(ModelContract):
    recommender = SMALL
    rating_again_as_before_changes_nothing = True


class TestRecurrentWithMoreInput(ModelContract):
    recommender = RecurrentRecommender(hidden=4, embedding=3, epochs=2, window=3, batch=8)
    rating_again_as_before_changes_nothing = True


# ---- twins: the equations, one rating after the other ------------------------------------------------


def sigmoid(x: FloatArray) -> FloatArray:
    return 1 / (1 + np.exp(-x))


def read(network: HistoryNetwork, history: list[tuple[int, float]], model: RecurrentModel) -> FloatArray:
    """The last hidden state (hidden,) of an LSTM after (other, rating) pairs, in the textbook's equations."""
    weights = {name: weight.numpy() for name, weight in network.lstm.named_parameters()}
    h = c = np.zeros(network.hidden)
    for other, rating in history:
        x = np.append(network.numbers[other].numpy(), (rating - model.level.mean) / 2)
        gates = (
            weights["weight_ih_l0"] @ x + weights["bias_ih_l0"] + weights["weight_hh_l0"] @ h + weights["bias_hh_l0"]
        )
        write, keep, candidate, show = np.split(gates, 4)
        c = sigmoid(keep) * c + sigmoid(write) * np.tanh(candidate)
        h = sigmoid(show) * np.tanh(c)
    return h


def user_history(data: Interactions, user: int) -> list[tuple[int, float]]:
    return [(int(data.items[row]), float(data.ratings[row])) for row in data.in_time(user)]


def item_history(data: Interactions, item: int) -> list[tuple[int, float]]:
    rows = data.frame().with_columns(u=pl.Series(data.users)).filter(pl.col("item") == data.item_ids[item])
    return list(rows.sort("time", "u").select("u", "rating").iter_rows())


def edited(history: list[tuple[int, float]], edits: dict[int, float]) -> list[tuple[int, float]]:
    """Ratings replaced at their place; what is new comes at the end."""
    seen = {other for other, _ in history}
    return [(o, edits.get(o, r)) for o, r in history] + [(o, r) for o, r in edits.items() if o not in seen]


def test_scores_are_the_mean_and_the_product_of_what_the_equations_give(model: RecurrentModel) -> None:
    p = read(model.users.network, user_history(model.data, 7), model)
    q = [read(model.items.network, item_history(model.data, item), model) for item in range(ITEMS)]
    expected = model.data.ratings.mean() + np.array(q) @ p
    np.testing.assert_allclose(model.scores(np.array([7]))[0], expected, atol=1e-12)


def test_ratings_at_the_same_time_are_read_in_the_order_of_positions() -> None:
    frame = some_ratings(0).frame().with_columns(time=pl.lit(0))
    model = SMALL.fit(Interactions.from_frame(frame, time="time", scale=(1, 5)))
    for user in (0, 13):
        expected = read(model.users.network, user_history(model.data, user), model)
        np.testing.assert_allclose(model.users.vectors[user], expected, atol=1e-12)
    for item in (0, 13):
        expected = read(model.items.network, item_history(model.data, item), model)
        np.testing.assert_allclose(model.items.vectors[item], expected, atol=1e-12)


@pytest.mark.parametrize("window", [1, 3, 8])
def test_histories_are_read_alike_in_windows_of_any_length(model: RecurrentModel, window: int) -> None:
    for side in (model.users, model.items):
        whole = Reading(side.network, side.histories, window=100)
        cut = Reading(side.network, side.histories, window=window)
        np.testing.assert_allclose(cut.final()[0], side.vectors, atol=1e-12)
        np.testing.assert_allclose(cut.final()[1], side.cells, atol=1e-12)
        np.testing.assert_allclose(cut.before_each(), whole.before_each(), atol=1e-12)


def test_who_has_no_history_is_predicted_the_mean(model: RecurrentModel) -> None:
    data = some_ratings(0)
    model = SMALL.fit(data.subset((data.users != 4) & (data.items != 6)))
    assert (model.scores(np.array([4])) == model.level.mean).all()
    assert (model.scores(EVERYBODY)[:, 6] == model.level.mean).all()


# ---- responses ---------------------------------------------------------------------------------------


def mixed_items(data: Interactions, user: int) -> list[int]:
    """A new item, a late one of the history, another new one, an early one."""
    seen = [item for item, _ in user_history(data, user)]
    new = [item for item in range(ITEMS) if item not in seen]
    return [new[1], seen[-2], new[0], seen[2]]


def test_own_edits_are_read_at_their_place_in_time_and_new_ones_last(model: RecurrentModel) -> None:
    items = mixed_items(model.data, 9)
    ratings = [1.0, 4.5, 2.0, 5.0]
    history = edited(user_history(model.data, 9), dict(zip(items, ratings, strict=True)))
    expected = model.level.mean + model.items.vectors @ read(model.users.network, history, model)
    response = model.respond(9, 9, np.array(items))
    np.testing.assert_allclose(response.scores(np.array(ratings)), expected, atol=1e-12)


def test_the_order_of_new_ratings_matters(model: RecurrentModel) -> None:
    new = mixed_items(model.data, 9)[::2]
    one_way = model.respond(9, 9, np.array(new)).scores(np.array([1.0, 5.0]))
    other_way = model.respond(9, 9, np.array(new[::-1])).scores(np.array([5.0, 1.0]))
    assert np.abs(one_way - other_way).max() > 1e-6


def test_anothers_edits_move_the_edited_items_and_nothing_else(model: RecurrentModel) -> None:
    items, ratings = mixed_items(model.data, 9), [1.0, 4.5, 2.0, 5.0]
    expected = model.scores(np.array([2]))[0]
    for item, rating in zip(items, ratings, strict=True):
        history = edited(item_history(model.data, item), {9: rating})
        expected[item] = model.level.mean + model.users.vectors[2] @ read(model.items.network, history, model)
    response = model.respond(2, 9, np.array(items))
    assert model.others_move == "rated items"
    np.testing.assert_allclose(response.scores(np.array(ratings)), expected, atol=1e-12)


@pytest.mark.parametrize("viewer", [9, 2])
def test_gradients_agree_with_finite_differences(model: RecurrentModel, viewer: int) -> None:
    response = model.respond(viewer, 9, np.array(mixed_items(model.data, 9)))
    at = torch.tensor([[1.5, 4.5, 2.0, 5.0], [3.0, 3.0, 1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(response.batch_scores, (at,), atol=1e-8)


@pytest.mark.parametrize("viewer", [9, 2])
def test_a_batch_is_its_rows(model: RecurrentModel, viewer: int) -> None:
    response = model.respond(viewer, 9, np.array(mixed_items(model.data, 9)))
    ratings = np.random.default_rng(0).uniform(1, 5, (20, 4))
    together = response.batch_scores(torch.from_numpy(ratings))
    assert together.shape == (20, ITEMS)
    for row in (0, 11, 19):
        np.testing.assert_allclose(together[row], response.scores(ratings[row]), atol=1e-12)


@pytest.mark.parametrize("viewer", [9, 2])
def test_without_actions_nothing_changes(model: RecurrentModel, viewer: int) -> None:
    response = model.respond(viewer, 9, np.array([], dtype=np.int64))
    np.testing.assert_allclose(response.scores(np.array([])), model.scores(np.array([viewer]))[0], atol=1e-12)


def test_anothers_rating_given_again_changes_nothing(model: RecurrentModel) -> None:
    items, ratings = model.data.history(9)
    response = model.respond(2, 9, items.astype(np.int64))
    np.testing.assert_allclose(response.scores(ratings), model.scores(np.array([2]))[0], atol=1e-12)


def test_someone_without_a_history_can_rate() -> None:
    data = some_ratings(0)
    model = SMALL.fit(data.subset((data.users != 4) & (data.items != 6)))
    vector = read(model.users.network, [(6, 2.0), (3, 5.0)], model)
    expected = model.level.mean + model.items.vectors @ vector
    np.testing.assert_allclose(model.respond(4, 4, np.array([6, 3])).scores(np.array([2.0, 5.0])), expected, atol=1e-12)
    moved = read(model.items.network, [(4, 2.0)], model)
    seen = model.respond(1, 4, np.array([6])).scores(np.array([2.0]))[6]
    assert float(seen) == pytest.approx(model.level.mean + moved @ model.users.vectors[1], abs=1e-12)


def test_edited_items_are_the_responses_of_every_viewer_to_every_editor(model: RecurrentModel) -> None:
    editors = np.array([9, 0, 21])
    items = np.array([mixed_items(model.data, int(editor)) for editor in editors])
    items[1, 2:] = -1
    ratings = np.random.default_rng(1).uniform(1, 5, (*items.shape, 3))
    scores = model.edited_items(editors, items, ratings).scores(EVERYBODY)
    assert scores.shape == (USERS, 3, 4, 3)
    for row, editor in enumerate(editors):
        acted = np.flatnonzero(items[row] >= 0)
        for viewer in (1, 22):
            response = model.respond(viewer, int(editor), items[row][acted])
            for choice in range(3):
                expected = response.scores(ratings[row, acted, choice])[items[row][acted]]
                np.testing.assert_allclose(scores[viewer, row, acted, choice], expected, atol=1e-12)


# ---- what may be known when --------------------------------------------------------------------------


def with_rating(data: Interactions, row: int, rating: float) -> Interactions:
    users, items = data.users, data.items.astype(np.int64)
    return data.with_ratings(int(users[row]), items[[row]], np.array([rating]))


def test_the_last_rating_changes_no_prediction(model: RecurrentModel) -> None:
    assert model.data.times is not None
    changed = with_rating(model.data, int(np.argmax(model.data.times)), 1.5)
    np.testing.assert_array_equal(model.next_ratings(changed), model.next_ratings(model.data))


def test_a_rating_changes_predictions_of_later_ratings_only(model: RecurrentModel) -> None:
    times = model.data.times
    assert times is not None
    row = int(np.argsort(times)[len(times) // 2])
    changed = model.next_ratings(with_rating(model.data, row, 1.5)) != model.next_ratings(model.data)
    assert changed.any()
    assert times[changed].min() > times[row]


def test_the_next_rating_is_predicted_from_the_two_histories_before_it(model: RecurrentModel) -> None:
    data, times = model.data, model.data.times
    assert times is not None
    predicted = model.next_ratings(data)
    for row in np.argsort(times)[[0, len(times) // 3, -1]]:
        past = data.subset(times < times[row])
        p = read(model.users.network, user_history(past, int(data.users[row])), model)
        q = read(model.items.network, item_history(past, int(data.items[row])), model)
        assert predicted[row] == pytest.approx(model.level.mean + p @ q, abs=1e-12)


def test_ratings_that_alternate_are_learned() -> None:
    draw = np.random.default_rng(2)
    frame = pl.concat(
        pl.DataFrame(
            {
                "user": user,
                "item": draw.permutation(ITEMS),
                "rating": 3.0 + 2.0 * (-1.0) ** (np.arange(ITEMS) + user),
                "time": draw.choice(10_000, ITEMS, replace=False),
            }
        ).with_columns(pl.col("time").sort())
        for user in range(USERS)
    )
    data = Interactions.from_frame(frame, time="time", scale=(1, 5))
    model = RecurrentRecommender(hidden=8, epochs=40, window=20, batch=8).fit(data)
    later = np.concatenate([data.in_time(user)[5:] for user in range(USERS)])
    error = model.next_ratings(data)[later] - data.ratings[later]
    assert np.sqrt(np.mean(error**2)) < 0.5  # the mean is off by 2 each time


def test_another_log_must_have_the_same_people_and_things(model: RecurrentModel, tiny: Interactions) -> None:
    with pytest.raises(InputError, match="data: received 3 users and 4 items; expected the model's own 30 users"):
        model.next_ratings(tiny)


# ---- training ----------------------------------------------------------------------------------------


class PowerCutError(Exception):
    pass


def cut_after(epochs: int, recommender: RecurrentRecommender, data: Interactions) -> None:
    def listener(step: Step) -> None:
        if step.done == epochs:
            raise PowerCutError

    with pytest.raises(PowerCutError), listening(listener):
        recommender.fit(data, rng=3)


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_training_that_was_stopped_ends_as_if_it_was_not(model: RecurrentModel, tmp_path: Path, epochs: int) -> None:
    recommender = SMALL.model_copy(update={"checkpoint": tmp_path / "new" / "training.pt"})
    cut_after(epochs, recommender, model.data)
    trained: list[Step] = []
    with listening(trained.append):
        again = recommender.fit(model.data, rng=3)
    assert trained[-1].total == 3 - epochs
    assert np.array_equal(again.scores(EVERYBODY), model.scores(EVERYBODY))
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["training.pt"]


def test_a_checkpoint_of_other_training_is_refused(model: RecurrentModel, tmp_path: Path) -> None:
    path = tmp_path / "training.pt"
    SMALL.model_copy(update={"checkpoint": path}).fit(model.data, rng=3)
    for changes, data, rng in [
        ({"hidden": 6}, model.data, 3),
        ({"epochs": 4}, model.data, 3),
        ({}, model.data, 4),
        ({}, with_rating(model.data, 0, 1.5), 3),
    ]:
        with pytest.raises(InputError, match=r"checkpoint: received .*training\.pt, from training with another"):
            SMALL.model_copy(update={"checkpoint": path, **changes}).fit(data, rng=rng)


@pytest.mark.parametrize("content", [b"", b"not a checkpoint"])
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "training.pt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"checkpoint: received .*training\.pt, which cannot be read"):
        SMALL.model_copy(update={"checkpoint": path}).fit(some_ratings(0))
    assert path.read_bytes() == content


def test_another_seed_gives_another_model(model: RecurrentModel) -> None:
    assert not np.array_equal(SMALL.fit(model.data, rng=4).scores(EVERYBODY), model.scores(EVERYBODY))


def test_torchs_own_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    SMALL.fit(some_ratings(0))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_log_without_times_is_refused() -> None:
    frame = some_ratings(0).frame().drop("time")
    with pytest.raises(InputError, match="data: received a log without times"):
        SMALL.fit(Interactions.from_frame(frame, scale=(1, 5)))


def test_ratings_that_are_all_the_same_are_no_trouble() -> None:
    frame = some_ratings(0).frame().with_columns(rating=pl.lit(1.0))
    model = SMALL.fit(Interactions.from_frame(frame, time="time", scale=(1, 5)))
    np.testing.assert_allclose(model.predict(EVERYBODY, EVERYBODY % ITEMS), 1.0, atol=0.1)


def test_a_step_too_long_is_named() -> None:
    with pytest.raises(InputError, match=r"learning_rate: received 1e\+20"):
        RecurrentRecommender(hidden=4, learning_rate=1e20, epochs=8).fit(some_ratings(0))


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match="device: received cuda:99; expected a device of this machine: cpu"):
        RecurrentRecommender(device="cuda:99").fit(some_ratings(0))
    with pytest.raises(InputError, match="device"):
        RecurrentRecommender(device="abacus")
