"""What every way of maximising a softmax over a box must do, beside a slow and readable twin."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from recaudit.arrays import FloatArray
from recaudit.solvers import Solution


@dataclass(frozen=True, eq=False)
class Problem:
    """Scores, targets, beta and a box, as `maximize_softmax` takes them."""

    slope: FloatArray
    intercept: FloatArray
    targets: list[int]
    beta: float = 1.0
    lower: float | FloatArray = 1.0
    upper: float | FloatArray = 5.0

    def log_probability(self, target: int, action: FloatArray) -> float:
        scores = self.beta * (self.slope @ action + self.intercept)
        return float(scores[target] - logsumexp(scores))

    def ends(self) -> tuple[FloatArray, FloatArray]:
        size = self.slope.shape[1]
        return np.broadcast_to(self.lower, size), np.broadcast_to(self.upper, size)

    def largest(self, target: int) -> float:
        """The readable twin: the largest log-probability by L-BFGS-B from the middle of the box and a corner."""
        lower, upper = self.ends()

        def loss(action: FloatArray) -> tuple[float, FloatArray]:
            scores = self.beta * (self.slope @ action + self.intercept)
            chances = np.exp(scores - logsumexp(scores))
            return -self.log_probability(target, action), self.beta * (chances @ self.slope - self.slope[target])

        best = -np.inf
        for start in ((lower + upper) / 2, lower):
            answer = minimize(
                loss,
                start,
                jac=True,
                method="L-BFGS-B",
                bounds=list(zip(lower, upper, strict=True)),
                options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 500},
            )
            best = max(best, -float(answer.fun))
        return best


def random_problem(seed: int, items: int = 40, actions: int = 4, targets: int = 5, beta: float = 1.5) -> Problem:
    rng = np.random.default_rng(seed)
    slope = rng.normal(0, 0.4, (items, actions))
    return Problem(slope, rng.normal(3, 1, items), [int(i) for i in rng.permutation(items)[:targets]], beta)


def trained_like(actions: int, step: float, beta: float, items: int = 150, targets: int = 10) -> Problem:
    """What a factor model gives for Next-K: s = Q p', p' = p moved by `step` along the errors of K rated items."""
    rng = np.random.default_rng(7)
    factors = rng.normal(0, 0.9 / 4, (items, 16))
    user, bias = rng.normal(0, 0.4, 16), rng.normal(3.3, 0.5, items)
    acted = np.argsort(-(factors @ user + bias))[:actions]
    slope = step * factors @ factors[acted].T
    intercept = factors @ (user - step * factors[acted].T @ (factors[acted] @ user + bias[acted])) + bias
    others = np.setdiff1d(np.arange(items), acted)
    return Problem(slope, intercept, [int(i) for i in rng.permutation(others)[:targets]], beta)


class SoftmaxContract(ABC):
    """Inherit and say how to solve."""

    tol = 1e-6
    betas: tuple[float, ...] = (0.1, 1.0, 2.0, 4.0, 10.0, 100.0)

    @abstractmethod
    def solve(self, problem: Problem) -> Solution:
        """The answer for all targets, actions included."""

    def test_two_items_and_one_action_are_a_sigmoid(self) -> None:
        problem = Problem(np.array([[1.0], [0.0]]), np.array([0.0, 0.5]), [0, 1], beta=2.0)

        solution = self.solve(problem)

        highest, lowest = 1 / (1 + np.exp(-2 * (5 - 0.5))), 1 / (1 + np.exp(-2 * (0.5 - 1)))
        np.testing.assert_allclose(np.exp(solution.value), [highest, lowest], rtol=2e-6)
        np.testing.assert_allclose(solution.actions, [[5.0], [1.0]])

    def test_an_optimum_inside_the_box(self) -> None:
        # exp(1) / (exp(1) + exp(a) + exp(-a)) is largest at a = 0.
        problem = Problem(np.array([[-1.0], [0.0], [1.0]]), np.array([0.0, 1.0, 0.0]), [1], 1.0, -2.0, 3.0)

        solution = self.solve(problem)

        np.testing.assert_allclose(np.exp(solution.value), np.e / (np.e + 2), rtol=1e-6)
        assert abs(solution.actions[0, 0]) < 1e-2

    @pytest.mark.parametrize("seed", [0, 1])
    @pytest.mark.parametrize("beta", [0.3, 3.0, 30.0])
    def test_agrees_with_the_twin(self, seed: int, beta: float) -> None:
        problem = random_problem(seed, targets=3, beta=beta)

        solution = self.solve(problem)

        twin = np.array([problem.largest(target) for target in problem.targets])
        assert solution.solved.all()
        np.testing.assert_allclose(solution.value, twin, rtol=0, atol=2 * self.tol)
        assert (twin <= solution.upper).all()

    @pytest.mark.parametrize("actions", [1, 5, 10, 20, 50])
    @pytest.mark.parametrize("step", [0.1, 1.0])
    def test_every_target_is_solved_for_every_beta(self, actions: int, step: float) -> None:
        for beta in self.betas:
            solution = self.solve(trained_like(actions, step, beta))

            assert (solution.status == "solved").all()
            assert (solution.upper - solution.value).max() <= self.tol + 1e-8

    def test_the_value_is_the_probability_at_the_action(self) -> None:
        problem = random_problem(5, beta=4.0)

        solution = self.solve(problem)

        reached = [problem.log_probability(t, a) for t, a in zip(problem.targets, solution.actions, strict=True)]
        np.testing.assert_allclose(solution.value, reached, atol=1e-10)
        assert ((solution.actions >= 1) & (solution.actions <= 5)).all()

    def test_a_box_with_a_single_point_is_the_softmax_there(self) -> None:
        problem = replace(random_problem(6), lower=2.5, upper=2.5)

        solution = self.solve(problem)

        there = [problem.log_probability(target, np.full(4, 2.5)) for target in problem.targets]
        np.testing.assert_allclose(solution.value, there, atol=1e-12)
        assert (solution.actions == 2.5).all()

    def test_a_box_that_is_flat_in_one_direction(self) -> None:
        ends = np.array([1.0, 2.0, 1.0, 1.0]), np.array([5.0, 2.0, 5.0, 3.0])
        problem = replace(random_problem(8), lower=ends[0], upper=ends[1])

        solution = self.solve(problem)

        twin = [problem.largest(target) for target in problem.targets]
        np.testing.assert_allclose(solution.value, twin, atol=2 * self.tol)
        assert (solution.actions[:, 1] == 2.0).all()

    def test_a_single_item_is_certain(self) -> None:
        solution = self.solve(Problem(np.array([[0.3, -2.0]]), np.array([1.0]), [0], beta=3.0))

        assert np.exp(solution.value).tolist() == [1.0]
        assert solution.lower[0] <= 0 <= solution.upper[0]

    def test_actions_without_effect_leave_the_softmax(self) -> None:
        intercept = np.array([0.0, 1.0, -2.0])

        solution = self.solve(Problem(np.zeros((3, 2)), intercept, [0, 1, 2], beta=2.0))

        np.testing.assert_allclose(
            np.exp(solution.value), np.exp(2 * intercept) / np.exp(2 * intercept).sum(), rtol=1e-12
        )

    def test_equal_items_share_what_one_of_them_would_get(self) -> None:
        alone = random_problem(9, items=12, targets=1)
        twice = replace(
            alone, slope=np.repeat(alone.slope, 2, axis=0), intercept=np.repeat(alone.intercept, 2), targets=[0, 1]
        )

        solution = self.solve(twice)

        expected = [self.solve(replace(alone, targets=[0])).value[0] - np.log(2)] * 2
        np.testing.assert_allclose(solution.value, expected, atol=2 * self.tol)

    def test_scores_far_apart_neither_overflow_nor_vanish(self) -> None:
        problem = replace(random_problem(10, targets=2, beta=1000.0), upper=100.0)

        solution = self.solve(problem)

        twin = np.array([problem.largest(target) for target in problem.targets])
        assert solution.solved.all()
        assert (solution.value >= twin - 1e-5).all()
        assert (twin <= solution.upper + 1e-9).all()
