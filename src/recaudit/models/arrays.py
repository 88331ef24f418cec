"""The arrays that models deal in."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
Tensor = torch.Tensor
