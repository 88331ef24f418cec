"""The arrays that rooms hand each other, by what they hold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
StatusArray = NDArray[np.str_]
"""Values of `recaudit.status.Status`."""
