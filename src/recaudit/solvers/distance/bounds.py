"""How far q(a) can be from p, at most, over a box of actions.

Notation: z(a) the scores, affine; Z(a) = log sum_j exp z_j(a), convex; l_j = log(q_j / p_j) = z_j - Z - log p_j,
concave, so that its minimum over the box is at a vertex, and with it that of q_j. Along a line with direction v,
let x_j = v.(b_j - E_q b). Then q_j' = q_j x_j, x_j' = -Var and l_j' = x_j, where Var = sum_j q_j x_j^2 = Z''.

For three of the distances, an increasing transform F of the distance satisfies F'' >= -c L'' on the box, with c >= 0
and L a log-sum-exp, convex. So F + c L is convex, and F + c (L - T) too, with T <= L the tangent at the centre:

    F(a) <= F(a) + c (L - T)(a) <= max over the vertices v of F(v) + c (L - T)(v).

L - T is 0 at the centre and falls with the square of the size of the box; c falls too, and is 0 as soon as F itself
is convex on the box, as it is near q = p: then the bound is the value at a vertex, and nothing is left to search.

- KL, F = sum q l, L = Z. F' = sum q x l, F'' = sum q x^2 (1 + l - F), so c = max(0, F - l_j - 1).
- L2, F = |q - p|^2, L = Z. F'' = 2 sum q x^2 (2 q - p - s) with s = (q - p).q = (|q|^2 + F - |p|^2) / 2, so
  c = max(0, |q|^2 + F - |p|^2 + 2 p_j - 4 q_j). Each q_j is at most exp(z_j - T), so |q|^2 is at most a sum of
  exponentials of affine functions, largest at a vertex.
- Hellinger, F = -log sum sqrt(p q) = Z / 2 - L, L = log sum exp((z + log p) / 2), softmax m = sqrt(p q) / exp(-F).
  L'' = Var_m / 4 and Z'' = Var_q >= r Var_m where r = min q_j / m_j, so F'' >= (2 r - 1) L'': c = max(0, 1 - 2 r).
  log(q_j / m_j) = l_j / 2 - Z / 2 + L >= l_j / 2 - Z / 2 + T, concave: its minimum is at a vertex.

Each c is over all items and all of the box. Where it holds F itself, the maximum U of F over the box stands in for it:
U <= max over v of F(v) + (C + U)^+ (L - T)(v), so U <= max over v of max(F, (F + C (L - T)) / (1 - (L - T))) where
L - T < 1 at every vertex. Two of the distances have another bound, better for large boxes:

- KL is the mean of l under q, with min over v of q_j(v) <= q_j <= min(1, max over v of exp(z_j - T)) for each item,
  and l_j at most the logarithm of the latter over p_j.
- L2 is |q|^2 + |p|^2 - 2 p.q, and log p.q = log sum exp(z + log p) - Z is above a tangent less Z, which is concave.

Total variation has kinks where q_j = p_j. 1 - TV = sum_j exp(u_j), u_j = min(log p_j, log q_j), concave. A
log-sum-exp is above its tangent, log(1 - TV)(a) >= log(1 - TV)(centre) + sum_j pi_j (u_j(a) - u_j(centre)) with
pi = softmax(u(centre)); the right side is concave, so its minimum is at a vertex.

Rounding: what is multiplied or divided by another (gaps, constants, and F where it is divided) is taken as large as
rounding allows. What is left is a few roundings of F, which `maximize` adds to the largest bound.
"""

from __future__ import annotations

from typing import NamedTuple, final

import torch
from torch import Tensor

from recaudit.solvers.distance.distances import LARGEST, Family, corners

_TINY = torch.finfo(torch.float64).tiny


class BoxBounds(NamedTuple):
    """What is known of each box once its vertices and its centre are evaluated."""

    upper: Tensor  # (boxes,): no action of the box is farther, up to rounding
    best: Tensor  # (boxes,): the distance at the farthest vertex
    vertex: Tensor  # (boxes, K): that vertex
    spread: Tensor  # (boxes, K): how much each action, from end to end, tells the items apart: where to cut


def bound_boxes(family: Family, lower: Tensor, upper: Tensor) -> BoxBounds:
    """Bounds for the boxes from `lower` to `upper` (boxes, K)."""
    vertices, centre = corners(lower, upper), (lower + upper) / 2
    box = _EvaluatedBoxes(family, vertices, centre)
    distance, bound = {"kl": _kl, "l2": _l2, "hellinger": _hellinger, "tv": _total_variation}[family.distance](box)
    best, place = distance.max(dim=1)
    probabilities = box.centre.exp()
    variance = probabilities @ family.slope.square() - (probabilities @ family.slope).square()
    return BoxBounds(
        # A vertex is in the box: rounding must not put the bound below it.
        upper=torch.maximum(bound.clamp(max=LARGEST[family.distance]), best),
        best=best,
        vertex=vertices[torch.arange(len(vertices)), place],
        spread=(upper - lower) * variance.clamp(min=0).sqrt(),
    )


@final
class _EvaluatedBoxes:
    """Boxes with the distributions at their vertices (boxes, vertices, K) and centres (boxes, K)."""

    def __init__(self, family: Family, vertices: Tensor, centre: Tensor) -> None:
        scores, middle = family.scores(vertices), family.scores(centre)
        self.slope, self.before = family.slope, family.before
        self.rounding, self.error = family.rounding, family.error
        self.steps = vertices - centre[:, None]
        self.after = scores.log_softmax(dim=-1)  # (boxes, vertices, items): log q
        self.level = scores[..., 0] - self.after[..., 0]  # (boxes, vertices): Z = z_j - log q_j, whichever the item
        self.centre = middle.log_softmax(dim=-1)  # (boxes, items): log q
        self.centre_level = middle[..., 0] - self.centre[..., 0]  # (boxes,): Z

    def tangent(self, value: Tensor, gradient: Tensor) -> Tensor:
        """(boxes, vertices): at the vertices, the tangent at the centre: `value` (boxes,), `gradient` (boxes, K)."""
        return value[:, None] + (self.steps @ gradient[:, :, None]).squeeze(2)

    def level_gap(self) -> Tensor:
        """(boxes, vertices): Z - T, rounded up."""
        return self.above(self.level, self.tangent(self.centre_level, self.centre.exp() @ self.slope))

    def above(self, level: Tensor, tangent: Tensor) -> Tensor:
        """(boxes, vertices): how far a convex `level` is above its `tangent`, rounded up."""
        return (level - tangent).clamp(min=0) + self.rounding


def _kl(box: _EvaluatedBoxes) -> tuple[Tensor, Tensor]:
    """The distance at the vertices (boxes, vertices), and no less than the largest in the box (boxes,)."""
    gap, ratio = box.level_gap(), box.after - box.before
    distance = (box.after.exp() * ratio).sum(dim=2).clamp(min=0)
    highest = (box.after + gap[:, :, None]).amax(dim=1).clamp(max=0)
    filled = _largest_mean(highest - box.before, box.after.amin(dim=1).exp(), highest.exp())
    constant = box.rounding - 1 - ratio.amin(dim=(1, 2))
    return distance, torch.minimum(_self_bounded(distance + box.error, constant, gap), filled)


def _l2(box: _EvaluatedBoxes) -> tuple[Tensor, Tensor]:
    """As `_kl`."""
    gap, p, q = box.level_gap(), box.before.exp(), box.after.exp()
    squared, p_squared = (q - p).square().sum(dim=2), p.square().sum()
    q_squared = (q.square().sum(dim=2) * (2 * gap).exp()).amax(dim=1).clamp(max=1)
    both = box.centre + box.before
    tangent = box.tangent(both.logsumexp(dim=1) + box.centre_level, both.softmax(dim=1) @ box.slope)
    shared = (tangent - box.level).amin(dim=1).exp()
    constant = q_squared - p_squared + 2 * (p - 2 * q).amax(dim=(1, 2)) + 8 * box.rounding
    bound = torch.minimum(_self_bounded(squared + 4 * box.error, constant, gap), q_squared + p_squared - 2 * shared)
    return squared.sqrt(), bound.clamp(min=0).sqrt()


def _hellinger(box: _EvaluatedBoxes) -> tuple[Tensor, Tensor]:
    """As `_kl`."""
    # Below the smallest number there is no difference between a distance and 1.
    affinity = ((box.after / 2).exp_() @ (box.before / 2).exp()).clamp(min=_TINY)
    F = -affinity.log().clamp(max=0)
    halfway = (box.centre + box.before) / 2
    tangent = box.tangent(halfway.logsumexp(dim=1) + box.centre_level / 2, halfway.softmax(dim=1) @ box.slope / 2)
    gap = box.above(box.level / 2 - F, tangent)
    log_r = ((box.after - box.before).amin(dim=2) / 2 - box.level / 2 + tangent).amin(dim=1) - box.rounding
    c = (1 - 2 * log_r.exp()).clamp(min=0)
    bound = (F + c[:, None] * gap).amax(dim=1)
    return (-torch.expm1(-F)).sqrt(), (-torch.expm1(-bound)).sqrt()


def _total_variation(box: _EvaluatedBoxes) -> tuple[Tensor, Tensor]:
    """As `_kl`."""
    lesser, centre = torch.minimum(box.after, box.before), torch.minimum(box.centre, box.before)
    level = centre.logsumexp(dim=1)
    change = (lesser - centre[:, None]) @ centre.softmax(dim=1)[:, :, None]
    distance = (1 - lesser.exp().sum(dim=2)).clamp(min=0)
    return distance, -torch.expm1((level + change.squeeze(2).amin(dim=1)).clamp(max=0))


def _self_bounded(F: Tensor, constant: Tensor, gap: Tensor) -> Tensor:
    """(boxes,): the largest U with U <= F(v) + (C + U)^+ gap(v) at some v; infinite where some gap is 1 or more."""
    raised = (F + constant[:, None] * gap) / (1 - gap)
    return torch.where(gap < 1, torch.maximum(F, raised), torch.inf).amax(dim=1)


def _largest_mean(y: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """(boxes,): the largest sum_j q_j y_j with low <= q <= high, sum_j q_j = 1; all (boxes, items)."""
    y, order = y.sort(dim=1, descending=True)
    low, room = low.gather(1, order), (high - low).gather(1, order)
    left = 1 - low.sum(dim=1, keepdim=True)
    given = torch.minimum(room.cumsum(dim=1), left).diff(dim=1, prepend=torch.zeros_like(left))
    return ((low + given) * y).sum(dim=1)
