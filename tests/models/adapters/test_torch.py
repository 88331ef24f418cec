from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import recaudit as ra
from recaudit.data import Interactions
from recaudit.errors import InputError, NotSupportedError
from recaudit.interventions import NextK
from recaudit.models import DifferentiableResponse, adapt
from recaudit.policies import Softmax
from recaudit.testing.models import EVERYBODY, ITEMS, some_ratings


class Autoencoder(nn.Module):
    """A hidden layer and a dropout."""

    def __init__(self, items: int = ITEMS) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(items, 6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, items))

    def forward(self, histories: Tensor) -> Tensor:
        scores: Tensor = self.layers(histories / 5)
        return 3 + scores


def trained(data: Interactions, seed: int) -> Autoencoder:
    """A few steps towards the ratings that there are."""
    torch.manual_seed(seed)
    module, ratings = Autoencoder(), torch.from_numpy(data.csr.toarray()).float()
    rated, parts = torch.from_numpy(data.seen(EVERYBODY)), list(module.parameters())
    for _ in range(20):
        slopes = torch.autograd.grad((module(ratings) - ratings)[rated].square().mean(), parts)
        with torch.no_grad():
            for part, slope in zip(parts, slopes, strict=True):
                part.sub_(slope, alpha=0.5)
    return module


def clicks(ratings: Tensor, rated: Tensor) -> Tensor:
    return rated.to(ratings) + 0 * ratings


@pytest.fixture(scope="module")
def data() -> Interactions:
    return some_ratings(0)


@pytest.fixture(scope="module")
def module(data: Interactions) -> Autoencoder:
    return trained(data, 0)


def test_scores_are_the_modules_own_and_it_is_left_alone(data: Interactions, module: Autoencoder) -> None:
    made = adapt(module, data, predicts_ratings=True)
    assert module.training
    assert all(each.requires_grad and each.dtype == torch.float32 for each in module.parameters())
    with torch.no_grad():
        expected = module.eval()(torch.from_numpy(data.csr.toarray()).float())
    module.train()
    np.testing.assert_allclose(made.scores(EVERYBODY), expected.double(), rtol=0, atol=1e-5)  # single precision
    assert made.scores(EVERYBODY).dtype == np.float64
    assert made.predicts_ratings
    assert not adapt(module, data, predicts_ratings=False).predicts_ratings
    assert np.array_equal(pickle.loads(pickle.dumps(made)).scores(EVERYBODY), made.scores(EVERYBODY))


def test_columns_in_another_order_and_more_of_them(data: Interactions) -> None:
    torch.manual_seed(1)
    module, names = Autoencoder(ITEMS + 2), np.random.default_rng(0).permutation(ITEMS + 2)
    made = adapt(module, data, predicts_ratings=True, item_ids=names)
    wide = torch.zeros(1, ITEMS + 2, dtype=torch.float64)
    items, ratings = data.history(7)
    column = {name: place for place, name in enumerate(names.tolist())}
    wide[0, [column[data.item_ids[int(item)]] for item in items]] = torch.tensor(ratings)
    expected = module.double().eval()(wide)[0, [column[name] for name in data.item_ids]]
    np.testing.assert_allclose(made.scores(np.array([7]))[0], expected.detach(), rtol=0, atol=1e-12)


def test_the_response_is_what_the_module_says_of_the_edited_history(data: Interactions, module: Autoencoder) -> None:
    made = adapt(module, data, predicts_ratings=True)
    seen = data.history(4)[0]
    items = np.array([seen[0], *np.setdiff1d(np.arange(ITEMS), seen)[:2]])
    given = np.array([1.0, 5.0, 2.5])
    response = made.respond(4, 4, items)
    assert isinstance(response, DifferentiableResponse)
    after = adapt(module, data.with_ratings(4, items, given), predicts_ratings=True).scores(np.array([4]))[0]
    np.testing.assert_allclose(response.scores(given), after, rtol=0, atol=1e-12)
    point = torch.tensor(given)[None].requires_grad_()
    assert torch.autograd.gradcheck(response.batch_scores, point)
    with pytest.raises(NotSupportedError, match="move its parameters"):
        made.respond(4, 5, items)


def test_the_search_finds_what_brute_force_finds(data: Interactions, module: Autoencoder) -> None:
    made = adapt(module, data, predicts_ratings=True)
    policy = Softmax(beta=2.0)
    found = ra.reachability(made, actions=NextK(2), users=2, policy=policy, best_actions=True)
    for pair in found.pairs.rows(named=True)[::4]:
        user, target = int(data.users_at([pair["user"]])[0]), int(data.items_at([pair["item"]])[0])
        items = data.items_at(pair["action_items"])
        grid = torch.tensor(list(itertools.product(np.linspace(1, 5, 41), repeat=2)))
        allowed = ~data.seen(np.array([user]))
        allowed[0, items] = False
        response = made.respond(user, user, items)
        assert isinstance(response, DifferentiableResponse)
        scores = response.batch_scores(grid).numpy()
        best = np.exp(policy.log_probabilities(scores, np.broadcast_to(allowed, scores.shape))[:, target]).max()
        assert pair["value"] >= float(best) - 1e-9
        assert pair["value"] == pytest.approx(float(best), rel=1e-2)


def test_what_the_module_reads_can_be_said(data: Interactions, module: Autoencoder) -> None:
    made = adapt(module, data, predicts_ratings=False, encode=clicks)
    ones = torch.from_numpy(data.seen(np.array([3]))).float()
    with torch.no_grad():
        expected = module.eval()(ones)
    module.train()
    np.testing.assert_allclose(made.scores(np.array([3])), expected.double(), rtol=0, atol=1e-5)


def test_audits_and_refits(data: Interactions, module: Autoencoder) -> None:
    made = adapt(module, data, predicts_ratings=True, train=trained)
    assert len(ra.accuracy(made, some_ratings(1), k=3).frame)
    assert len(ra.exposure(made, k=3).frame)
    found = ra.reachability(made, actions=NextK(2), users=1, targets=(2,), refits=1)
    assert "the module reads" in found.facts["rule"]
    assert found.facts["fidelity"]["refit_difference"] == pytest.approx(0, abs=1e-6)
    with pytest.raises(NotSupportedError):
        ra.instability(made, viewers=2, editors=2)
    without = adapt(module, data, predicts_ratings=True)
    assert without.recommender is None


class Strange(nn.Module):
    """Modules that are no function of a history."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.weight = how, nn.Parameter(torch.ones(1))

    def forward(self, histories: Tensor) -> Tensor:
        return {
            "random": lambda: nn.functional.dropout(histories, training=True),
            "batch": lambda: histories - histories.mean(dim=0),
            "narrow": lambda: histories[:, :3],
            "no numbers": lambda: histories / 0,
            "cut off": lambda: histories.detach() * self.weight,
            "single": lambda: histories.float() @ self.weight.expand(ITEMS, 1),
        }[self.how]()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("random", "the same scores twice"),
        ("batch", "beside other users"),
        ("narrow", "that failed: .*expected a module that maps"),
        ("no numbers", "not finite"),
        ("cut off", "without a gradient"),
        ("single", "that failed: RuntimeError.*double precision"),
    ],
)
def test_refused(how: str, message: str, data: Interactions) -> None:
    with pytest.raises(InputError, match=message):
        adapt(Strange(how), data, predicts_ratings=True)


def test_a_module_that_reads_clicks_needs_no_gradient_by_the_ratings(data: Interactions, module: Autoencoder) -> None:
    made = adapt(module, data, predicts_ratings=False, encode=lambda ratings, rated: rated.to(ratings))
    np.testing.assert_allclose(
        made.scores(EVERYBODY), adapt(module, data, predicts_ratings=False, encode=clicks).scores(EVERYBODY)
    )
    response = made.respond(3, 3, np.array([0, 1]))
    assert np.array_equal(response.scores(np.array([1.0, 5.0])), response.scores(np.array([4.0, 2.0])))
    followed = adapt(module, data, predicts_ratings=False, encode=clicks)
    found, expected = (ra.reachability(each, actions=NextK(2), users=2, targets=2).pairs for each in (made, followed))
    np.testing.assert_allclose(found["value"].to_numpy(), expected["value"].to_numpy(), rtol=1e-12)


class Sequence(nn.Module):
    """Reads a history as a sequence of item numbers from 1, padded in front, that it makes of the matrix."""

    def __init__(self, how: str, length: int = ITEMS) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.how, self.length = how, length
        self.items = nn.Embedding(ITEMS + 1, 8, padding_idx=0)
        self.positions = nn.Embedding(length, 8)
        self.recurrent = nn.GRU(8, 8, batch_first=True)
        self.out = nn.Linear(8, ITEMS)

    def forward(self, histories: Tensor) -> Tensor:
        rows = [(1 + row.nonzero()[:, 0])[-self.length :] for row in histories]
        sequences = torch.stack([nn.functional.pad(row, (self.length - len(row), 0)) for row in rows])
        is_item = (sequences > 0)[..., None]
        hidden = self.items(sequences)
        if self.how == "recurrent":
            last: Tensor = self.out(self.recurrent(hidden)[0][:, -1])
            return last
        if self.how == "positions":
            hidden = torch.tanh(hidden + self.positions(torch.arange(self.length)))
        summed: Tensor = self.out((hidden * is_item).sum(dim=1))
        return summed


@pytest.mark.parametrize("how", ["recurrent", "positions"])
@pytest.mark.parametrize("length", [ITEMS, 6])
def test_a_module_that_depends_on_the_order_is_refused(how: str, length: int, data: Interactions) -> None:
    with pytest.raises(InputError, match="depend on the order of the history"):
        adapt(Sequence(how, length), data, predicts_ratings=False)


def test_a_sequence_whose_order_does_not_matter_is_accepted(data: Interactions) -> None:
    module = Sequence("sum")
    made = adapt(module, data, predicts_ratings=False)
    expected = module.double()(torch.from_numpy(data.csr.toarray()))
    np.testing.assert_allclose(made.scores(EVERYBODY), expected.detach(), rtol=1e-7)
