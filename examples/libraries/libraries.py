"""A model of each library, trained on the log that it is given. `libraries.toml` names these functions.

Each trains as the library's own documentation does, and returns its model: recaudit knows the rest.
"""

from __future__ import annotations

from typing import Any

import recaudit as ra


def implicit_als(data: Any) -> Any:
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(factors=32, alpha=2.0, random_state=0, num_threads=1)
    model.fit(data.matrix(), show_progress=False)
    return model


def implicit_bpr(data: Any) -> Any:
    from implicit.bpr import BayesianPersonalizedRanking

    model = BayesianPersonalizedRanking(factors=32, random_state=0, num_threads=1)
    model.fit(data.matrix(), show_progress=False)
    return model


def implicit_neighbours(data: Any) -> Any:
    from implicit.nearest_neighbours import CosineRecommender

    model = CosineRecommender(K=50)
    model.fit(data.matrix(), show_progress=False)
    return model


def surprise_svd(data: Any) -> Any:
    return _surprise(data, "SVD", random_state=0)


def surprise_knn(data: Any) -> Any:
    return _surprise(data, "KNNBaseline", sim_options={"user_based": False}, verbose=False)


def _surprise(data: Any, algorithm: str, **settings: Any) -> Any:
    import surprise

    rows = data.frame().select("user", "item", "rating").to_pandas()
    ratings = surprise.Dataset.load_from_df(rows, surprise.Reader(rating_scale=data.scale))
    return getattr(surprise, algorithm)(**settings).fit(ratings.build_full_trainset())


def cornac_mf(data: Any) -> Any:
    return _cornac(data, "MF", k=32, seed=0, verbose=False)


def cornac_ease(data: Any) -> Any:
    return _cornac(data, "EASE", seed=0, verbose=False)


def _cornac(data: Any, algorithm: str, **settings: Any) -> Any:
    import cornac

    rows = data.frame().select("user", "item", "rating").rows()
    return getattr(cornac.models, algorithm)(**settings).fit(cornac.data.Dataset.from_uir(rows, seed=0))


def lightfm(data: Any) -> Any:
    from lightfm import LightFM

    model = LightFM(no_components=32, loss="warp", random_state=0)
    model.fit(data.matrix(), epochs=20)
    return model


def torch_autoencoder(data: Any) -> Any:
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(data.n_items, 64), torch.nn.Tanh(), torch.nn.Linear(64, data.n_items))
    ratings = torch.tensor(data.csr.toarray(), dtype=torch.float32) / data.scale[1]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-5)
    for _ in range(100):
        loss = ((model(ratings) - ratings) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return ra.models.adapt(model, data, predicts_ratings=False)  # what it predicts, a module does not say


def lenskit_mf(data: Any) -> Any:
    from lenskit.als import BiasedMFScorer

    return _lenskit(data, BiasedMFScorer(embedding_size=32))


def lenskit_implicit(data: Any) -> Any:
    from lenskit.als import ImplicitMFScorer

    return _lenskit(data, ImplicitMFScorer(embedding_size=32))


def lenskit_knn(data: Any) -> Any:
    from lenskit.knn import ItemKNNScorer

    return _lenskit(data, ItemKNNScorer())


def _lenskit(data: Any, scorer: Any) -> Any:
    from lenskit.data import from_interactions_df
    from lenskit.training import TrainingOptions

    rows = data.frame().select(user_id="user", item_id="item", rating="rating").to_pandas()
    scorer.train(from_interactions_df(rows), TrainingOptions(rng=0))
    return scorer
