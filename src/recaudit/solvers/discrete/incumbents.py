"""The best action found so far for each target; an action tried for one target is tried for all of them."""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from torch import Tensor

from recaudit.arithmetic import aligned
from recaudit.arrays import FloatArray
from recaudit.solvers.discrete.grid import Choices, Grid, Rows
from recaudit.solvers.softmax.logsumexp import LogSumExp

# (target, action) pairs whose objectives are held at once: 2 MB on a CPU, which a core's cache keeps.
_CPU_BLOCK, _DEVICE_BLOCK = 1 << 18, 1 << 25


@final
class Incumbents:
    """For each target b of `slopes` (targets, K) the lowest g(u) - b.u over the actions tried.

    The costly part, g(u), is the same for all targets (mathematics, section 1).
    """

    def __init__(self, grid: Grid, family: LogSumExp, slopes: Tensor) -> None:
        targets = len(slopes)
        self.value: FloatArray = np.full(targets, np.inf)
        self.choice: Choices = np.zeros((targets, len(grid.options)), dtype=np.int16)
        self.slopes = slopes
        self._grid, self._family = grid, family
        block = _CPU_BLOCK if slopes.device.type == "cpu" else _DEVICE_BLOCK
        self._at_once = max(1, block // max(targets, family.items))
        # Kept, because the system takes longer to hand out new pages than to fill them.
        self._buffer = slopes.new_empty(targets * self._at_once)
        self._tried: set[bytes] = set()

    def try_new(self, choices: Choices, targets: Rows) -> None:
        """Try those of `choices` (n, K) that were not tried before, for the `targets` given."""
        new = []
        for choice in choices:
            key = choice.tobytes()
            if key not in self._tried:
                self._tried.add(key)
                new.append(choice)
        if new:
            self.try_all(np.stack(new), targets)

    def try_all(self, choices: Choices, targets: Rows) -> None:
        """Try `choices` (n, K) for the `targets` given."""
        slopes = self.slopes[torch.from_numpy(targets).to(self.slopes.device)]
        for first in range(0, len(choices), self._at_once):
            part = choices[first : first + self._at_once]
            points = aligned(self._grid.points(part)).to(slopes.device)
            owner = torch.zeros(len(points), dtype=torch.long, device=slopes.device)
            level = self._family.evaluate(points, owner, hessian=False).value
            objective = self._buffer[: len(targets) * len(part)].view(len(targets), len(part))
            torch.addmm(level[None], slopes, points.T, alpha=-1, out=objective)
            lowest, at = (found.cpu().numpy() for found in objective.min(dim=1))
            better = lowest < self.value[targets]
            self.value[targets[better]] = lowest[better]
            self.choice[targets[better]] = part[at[better]]
