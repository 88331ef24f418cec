"""The recommenders of paper 003 (RecLab), with the settings of its authors."""

from __future__ import annotations

from typing import Any

from recaudit import models
from recaudit.models import Recommender
from recaudit.simulate import Oracle, paper
from recaudit_papers.models import CFNADE, LLORMA, AutoRec, BayesMF

_NEIGHBOURS: dict[str, Any] = {"neighbours": 250, "shrinkage": 0.0, "damping": 0.0, "compared": "ratings"}

_LATENT: dict[str, dict[str, Any]] = {
    "EASE": {"regularization": 5889.0},
    "SGD MF": {"learning_rate": 0.00325, "regularization": 0.1},
    "CF-NADE": {"batch": 128},
    "LLORMA": {"pre_learning_rate": 2e-4, "pre_steps": 50, "learning_rate": 0.01, "regularization": 5e-4, "epochs": 70},
}
_MOVIELENS: dict[str, dict[str, Any]] = {
    "EASE": {"regularization": 5222.0},
    "CF-NADE": {"hidden": 250},
    "LLORMA": {"pre_rank": 5, "rank": 10},
}


def paper_recommenders(name: str = "topics-static", *, device: str = "cpu") -> dict[str, Recommender]:
    """Return all eleven recommenders by the paper's names, as tuned for a scenario, the oracle first.

    Settings that were not published for a scenario are those of `topics-static`. Bayes MF draws 100 times instead of
    200, but whole vectors at a time (see `BayesMF`).

    Args:
        name: Name of the scenario.
        device: Where AutoRec, CF-NADE and LLORMA train.
    """
    paper(name)  # refuses an unknown name
    own = _MOVIELENS if name == "ml-100k" else _LATENT if name.startswith("latent-static") else {}
    found: dict[str, Recommender] = {
        "Oracle": Oracle(),
        "Bayes MF": BayesMF(factors=20, iterations=100),
        "SGD MF": models.BiasedMF(
            factors=20, epochs=200, learning_rate=0.01, final_rate=1.0, regularization=0.07, init_std=1.0
        ),
        "LLORMA": LLORMA(device=device),
        "CF-NADE": CFNADE(device=device),
        "AutoRec": AutoRec(
            hidden=500,
            epochs=500,
            batch=1000,
            learning_rate=0.001,
            regularization=1.0,
            dropout=0.05,
            center="none",
            device=device,
        ),
        "UserKNN": models.UserKNN(center="user", **_NEIGHBOURS),
        "ItemKNN": models.ItemKNN(center="item", **_NEIGHBOURS),
        "TopPop": models.TopPop(by="mean"),
        "EASE": models.EASE(regularization=5000.0),
        "Random": models.Random(),
    }
    return {label: each.model_copy(update=own.get(label, {})) for label, each in found.items()}
