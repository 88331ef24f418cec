"""The kernels of a GPU, compiled for the CPU as blocks of one thread: the same numbers as numba's loops."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from torch import Tensor

from recaudit.ranking import affine_rank_of
from recaudit.solvers.gpu.kernels import source
from recaudit.solvers.softmax.box_qp import minimize_box_quadratics
from recaudit.solvers.softmax.curvature import inverse_trace
from recaudit.solvers.softmax.logsumexp import LogSumExp, Scaled
from recaudit.ties import TieKeys

COMPILER = shutil.which("c++") or shutil.which("g++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
CUDA = """
#include <algorithm>
#include <cmath>
using namespace std;
#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(threads)
#define __syncthreads()
#define __shfl_xor_sync(mask, value, apart) (value)
static struct { int x; } blockIdx, threadIdx;
extern "C" void at(int block) { blockIdx.x = block; }
"""


def run(folder: Path, name: str, actions: int, together: int, *arguments: Tensor | int, second: bool = False) -> None:
    """Every block of a kernel, one after the other."""
    code = source(name, K=actions, SECOND=int(second), TOGETHER=together, THREADS=1, LANES=1)
    (folder / f"{name}.cpp").write_text(CUDA + code)
    assert COMPILER is not None
    command = [COMPILER, "-O1", "-w", "-shared", "-fPIC", f"{name}.cpp", "-o", f"{name}.so"]
    subprocess.run(command, cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / f"{name}.so"))
    given = [ctypes.c_void_p(one.data_ptr()) if isinstance(one, Tensor) else ctypes.c_int(one) for one in arguments]
    rows = next(one for one in arguments if isinstance(one, int))
    for block in range(math.ceil(rows / together)):
        library.at(block)
        library[name](*given)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


@pytest.mark.parametrize(("size", "rank"), [(1, 1), (4, 4), (10, 12), (12, 3)])
def test_box_quadratics(tmp_path: Path, size: int, rank: int) -> None:
    half, points = normal(200, size, rank), normal(200, size, seed=1).clamp(-1, 1)
    small = torch.full((200,), 1e-9, dtype=torch.double)
    arguments = (half @ half.mT, 2 * normal(200, size, seed=2), points, small, small)
    found = torch.full_like(points, torch.nan)

    run(tmp_path, "box", size, 1, *arguments, found, 200)

    torch.testing.assert_close(found, minimize_box_quadratics(*arguments), rtol=0, atol=1e-9 if rank >= size else 1e-5)
    assert (found.abs() <= 1).all()
    assert (found.abs() == 1).any()


def test_traces_of_inverses(tmp_path: Path) -> None:
    half = normal(50, 6, 9)
    matrices, found = half @ half.mT, torch.full((50,), torch.nan, dtype=torch.double)
    matrices[3] = -matrices[3]

    run(tmp_path, "traces", 6, 1, matrices, found, 50)

    torch.testing.assert_close(found, inverse_trace(matrices), rtol=1e-12, atol=0)
    assert found[3] == torch.inf


@pytest.mark.parametrize("second", [False, True])
def test_moments(tmp_path: Path, second: bool) -> None:
    slopes, offsets = normal(3, 40, 5), normal(3, 40, seed=1)
    offsets[1, 30:] = -torch.inf
    box = torch.full((3, 5), 3.0, dtype=torch.double), torch.full((3, 5), 2.0, dtype=torch.double)
    family = LogSumExp(Scaled.of(slopes, offsets, 0.5, *box), 1 << 26)
    owner = torch.tensor([0] * 5 + [1] * 9 + [2])
    points, count = normal(15, 5, seed=2).clamp(-1, 1), 15 if second else 0
    first, squares = torch.full((15, 6), torch.nan).double(), torch.full((count, 15), torch.nan).double()
    given = (family._first, family._finite_offsets, family._mean, points, owner)

    run(tmp_path, "moments", 5, 1 if second else 4, *given, first, squares, 15, 40, second=second)

    moments, others, peak = family._in_passes(points, owner, second)
    torch.testing.assert_close(first, moments * peak.exp()[:, None], rtol=1e-12, atol=1e-14)
    if second:
        torch.testing.assert_close(squares, others * peak.exp()[:, None], rtol=1e-12, atol=1e-12)


def test_ranks(tmp_path: Path) -> None:
    slope, intercept, points = normal(2, 30, 3), normal(2, 30, seed=1), normal(11, 3, seed=2)
    slope[1, 7], intercept[1, 7] = slope[1, 4], intercept[1, 4]  # a tie
    intercept[0, 20:] = -torch.inf
    owner, own = torch.tensor([0] * 5 + [1] * 6), torch.tensor([0, 3, 9, 12, 19, 4, 7, 5, 29, 0, 1])
    above, near = torch.full((11,), -1), torch.full((11,), -1)
    gaps = torch.full((2,), 1e-9, dtype=torch.double)

    run(tmp_path, "ranks", 3, 4, slope.mT.contiguous(), intercept, gaps, points, own, owner, above, near, 11, 30)

    truth = [
        affine_rank_of(
            slope[u][intercept[u].isfinite()],
            intercept[u][intercept[u].isfinite()],
            points[rows],
            own[rows],
            TieKeys.in_order(int(intercept[u].isfinite().sum())),
        )
        for u, rows in enumerate((slice(0, 5), slice(5, 11)))
    ]
    assert (above + 1)[[0, 1, 2, 3, 4, 5, 7, 8, 9, 10]].tolist() == [*truth[0], truth[1][0], *truth[1][2:]]
    assert (near - above).tolist() == [1, 1, 1, 1, 1, 2, 2, 1, 1, 1, 1]
