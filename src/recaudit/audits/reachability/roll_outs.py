"""Roll-outs of models without an exact solver: the top item is shown, rated, and the next one follows."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from recaudit.arrays import BoolArray
from recaudit.audits.reachability.inquiry import Inquiry
from recaudit.audits.reachability.search import check_policy
from recaudit.errors import NotSupportedError
from recaudit.interventions import Future
from recaudit.policies import Top1, top_items


def check_roll_outs(inquiry: Inquiry, future: Future) -> None:
    """Refuse what no search along roll-outs knows."""
    check_policy(inquiry)
    if inquiry.slate > 1 or inquiry.baseline != "scores" or not isinstance(future.follows, Top1):
        raise NotSupportedError(
            f"{type(inquiry.model).__name__} is audited by search, which follows the top item from the model's scores "
            f"to one recommendation: received slate={inquiry.slate}, baseline={inquiry.baseline!r}, "
            f"follows={future.follows!r}."
        )


def roll_out(
    scores: Callable[[tuple[int, ...], Tensor], Tensor],
    may_show: Callable[[Tensor], Tensor],
    shown: BoolArray,
    ratings: Tensor,
) -> tuple[tuple[int, ...], Tensor]:
    """The items that come when step t is rated `ratings[t]`, and the scores (items,) after all of them.

    `scores(items, ratings)`: after rating these items in this order; `shown` (items,): what may come on the way. Fewer
    items come where nothing is left that the system may show.
    """
    items: tuple[int, ...] = ()
    free = torch.from_numpy(shown.copy())
    for step in range(len(ratings)):
        with torch.no_grad():
            now = scores(items, ratings[:step].detach())
        top = int(top_items(now[None], (free & may_show(now))[None], 1)[0, 0])
        if top < 0:
            return items, now
        items, free[top] = (*items, top), False
    return items, scores(items, ratings)


def left_over(candidates: BoolArray, items: tuple[int, ...]) -> Tensor:
    """(items,): the candidates that did not come on the way."""
    allowed = torch.from_numpy(candidates.copy())
    allowed[list(items)] = False
    return allowed
