"""Optuna, imported here and nowhere else: a search that is a function of its seed and says nothing on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from recaudit.errors import NotSupportedError
from recaudit.seeding import derive

if TYPE_CHECKING:
    import optuna


@contextmanager
def quiet_study(rng: int, *, objectives: int, instead: str) -> Iterator[optuna.Study]:
    """A study of so many objectives, all to be low; Optuna's own verbosity is put back afterwards.

    `instead` says what can be done without Optuna.
    """
    try:
        import optuna  # noqa: PLC0415  optional: the extra `tune`
    except ImportError:
        raise NotSupportedError(
            f"Optuna is not installed. Install it with pip install 'recaudit[tune]'; {instead}"
        ) from None
    loudness = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        # Optuna takes seeds of 32 bits.
        sampler = optuna.samplers.TPESampler(seed=derive(rng, "tuning") % 2**32)
        yield optuna.create_study(directions=["minimize"] * objectives, sampler=sampler)
    finally:
        optuna.logging.set_verbosity(loudness)
