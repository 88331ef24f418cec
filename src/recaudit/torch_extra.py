"""The optional dependency torch, which the extra `torch` installs."""

from __future__ import annotations

from typing import Any

from recaudit.errors import NotSupportedError


def require_torch(purpose: str) -> Any:
    """Return the module torch.

    Args:
        purpose: What needs torch, in the plural, for the message.

    Raises:
        NotSupportedError: If torch is not installed.
    """
    try:
        import torch  # noqa: PLC0415  optional: the extra `torch`
    except ImportError:
        raise NotSupportedError(
            f"torch is not installed, and {purpose} need it. Install it with pip install 'recaudit[torch]'."
        ) from None
    return torch
