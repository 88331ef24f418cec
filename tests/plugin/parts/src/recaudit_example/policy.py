"""A policy that saturates: very good items are all as likely."""

import numpy as np
from pydantic import Field
from scipy.special import log_expit, logsumexp

from recaudit.arrays import BoolArray, FloatArray
from recaudit.policies import Policy


class Logistic(Policy):
    """P(i) proportional to 1 / (1 + exp(-steepness (s_i - middle)))."""

    steepness: float = Field(default=1.0, gt=0)
    """How fast an item becomes likely around the middle."""
    middle: float = 3.0
    """The score at which an item is half as likely as it can be."""

    def _log_probabilities(self, scores: FloatArray, allowed: BoolArray) -> FloatArray:
        logits = np.where(allowed, log_expit(self.steepness * (scores - self.middle)), -np.inf)
        total = logsumexp(logits, axis=1, keepdims=True)
        return logits - np.where(np.isfinite(total), total, 0.0)
