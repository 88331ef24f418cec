"""Where a model is trained, or an audit solved."""

from __future__ import annotations

import torch

from recaudit.errors import InputError


def check_device(device: str) -> None:
    """That this machine has it."""
    gpus = [f"cuda:{n}" for n in range(torch.cuda.device_count())]
    here = ["cpu", "cuda", *gpus] if gpus else ["cpu"]
    if device not in here:
        raise InputError(
            "device",
            received=device,
            expected=f"a device of this machine: {', '.join(here)}",
            remedy="Without a GPU that torch can use, stay on the CPU.",
        )
