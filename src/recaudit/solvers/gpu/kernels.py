"""CUDA kernels for loops that numba has on a CPU: the `.cu` files beside this one.

Torch compiles them at first use (NVRTC comes with it), for the number of actions at hand. Where it cannot, or where
there are more actions than registers hold, there is no kernel, and callers take torch's own operations instead.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

Kernel = Callable[..., None]
"""Takes arrays on its device, results last and contiguous, then counts, of which the first is that of rows."""

MOST_ACTIONS = 12
"""Beyond, a thread's numbers no longer fit into its registers."""
_WARP = 32
_THREADS = {"box": 32, "traces": 128, "moments": 128, "ranks": 128}
_POINTS = 4
"""That a warp sums up together, where it has one set of sums for each; with second moments it has one point."""


def kernel(name: str, device: torch.device, actions: int, *, second: bool = False) -> Kernel | None:
    """`name`.cu for this device and number of actions, "moments" with the second ones or without; None where there is
    none."""
    if device.type != "cuda" or actions > MOST_ACTIONS:
        return None
    return _compiled(name, device, actions, second)


@cache
def _compiled(name: str, device: torch.device, actions: int, second: bool) -> Kernel | None:
    compile_kernel = getattr(torch.cuda, "_compile_kernel", None)
    if compile_kernel is None or torch.version.hip:
        return None
    threads, together = _THREADS[name], 1 if second else _POINTS
    code = source(name, K=actions, SECOND=int(second), TOGETHER=together, THREADS=threads, LANES=_WARP)
    try:
        with torch.cuda.device(device):
            compiled = compile_kernel(code, name)
    except (OSError, RuntimeError) as error:
        warnings.warn(f"Torch cannot compile for this GPU, solving takes many times as long: {error}", stacklevel=2)
        return None
    of_block = threads if name in ("box", "traces") else threads // _WARP * together

    def launch(*arguments: Tensor | int) -> None:
        given = [part.contiguous() if isinstance(part, Tensor) else part for part in arguments]
        rows = next(count for count in given if isinstance(count, int))
        if rows:
            with torch.cuda.device(device):
                compiled(grid=(math.ceil(rows / of_block), 1, 1), block=(threads, 1, 1), args=given)

    return launch


def source(name: str, **constants: int) -> str:
    """The code of a kernel, after its constants."""
    given = ", ".join(f"{constant} = {value}" for constant, value in constants.items())
    return f"constexpr int {given};\n{Path(__file__).with_name(f'{name}.cu').read_text()}"
