"""How often a gate errs, on runs: how often it fails where nothing has changed, and catches what has.

    python benchmarks/gate_error.py [PAIRS]

One model is fitted once on built-in data, and handed to every run as vectors in a file. The two runs of a pair differ
in nothing but chance: other ratings are held out, and other people are drawn for reachability. A gate of fourteen
questions at 95% may fail in 5% of PAIRS (default 200). Then the second run of each pair has the same model with noise
on the vectors of some users: how often the gate catches it, and each question as often as its power says. The true
change of a number is its mean over all pairs; the power is that of a single rule at the level which Holm's correction
asks of the first question, and so the least.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import polars as pl
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy import stats

import recaudit as ra
from recaudit.runs.gate import parse_gate

CONFIG = """
seed = {seed}
floors = false
[data]
name = "demo"
[split]
kind = "random"
fraction = 0.2
[[model]]
kind = "factors"
label = "model"
path = {path}
predicts_ratings = true
update = {{rule = "als", regularization = 5.0}}
[audits.accuracy]
samples = 2
by = ["region"]
[audits.exposure]
samples = 2
by = []
[audits.reachability]
actions = {{kind = "next-k", k = 5}}
users = 60
targets = {targets}
samples = 2
refits = 0
by = []
"""
GATE = """
confidence = 0.95
{rules}
"""
RULES: tuple[tuple[str, str, str], ...] = (
    *((metric, "", "0") for metric in ("ndcg", "recall", "rmse", "mrr")),
    ("ndcg", "region", '"2%"'),
    ("recall", "region", "0.001"),
    *((metric, "", "0") for metric in ("coverage", "gini", "discovery", "lift")),
)
"""Metric, grouping, margin. A margin of 0 is where a gate errs most often."""
NOISE = 0.7
"""Of the vectors of the worse model's users, in standard deviations of the vectors."""
WORSE = "South"
"""Whose vectors have it."""
TARGETS = ra.datasets.load("demo").item_ids.sort()[::10].to_list()
"""What people try to reach: the same in every run, since no draw of people shows what a draw of items does."""
PAIRS = 200


def written() -> ra.Gate:
    rules = "\n".join(
        f'[[rule]]\nmetric = "{metric}"\nnot_worse_by = {margin}\n' + f'by = "{by}"\n' * bool(by)
        for metric, by, margin in RULES
    )
    return parse_gate(GATE.format(rules=rules), source="gate.toml")


def write_models(folder: Path) -> tuple[Path, Path]:
    """The vectors of one model, and the same with noise on those of some users."""
    data = ra.datasets.load("demo")
    model = ra.models.ALS(factors=16).fit(data)
    some = (data.attributes["region"] == WORSE).to_numpy()
    noise = np.random.default_rng(0).normal(scale=NOISE * model.user_factors.std(), size=model.user_factors.shape)
    paths = folder / "model.npz", folder / "worse.npz"
    for path, users in zip(paths, (model.user_factors, model.user_factors + noise * some[:, None]), strict=True):
        # Rows follow the sorted ids of the data, as the model's do.
        np.savez(
            path,
            user_factors=users,
            item_factors=model.item_factors,
            user_bias=model.user_bias,
            item_bias=model.item_bias,
            mean=model.mean,
        )
    return paths


def run(folder: Path, name: str, model: Path, seed: int) -> ra.runs.Run:
    text = CONFIG.format(seed=seed, path=json.dumps(str(model)), targets=json.dumps(TARGETS))
    return ra.runs.execute(ra.runs.parse(text, source=name, folder=folder), folder / name)


def pair(models: tuple[Path, Path], number: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The answers of a gate about two runs of the same model, and about a run of the worse one."""
    model, worse = models
    warnings.filterwarnings("ignore", "The model ranks held-out items")  # it was fitted to them: it is the same always
    with tempfile.TemporaryDirectory() as folder:
        before = run(Path(folder), "before", model, 2 * number)
        same, changed = (
            run(Path(folder), name, each, 2 * number + 1) for name, each in (("same", model), ("changed", worse))
        )
        return ra.check(same, written(), before).frame, ra.check(changed, written(), before).frame


def pairs(models: tuple[Path, Path], count: int) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    # torch has started threads, which a forked process would wait for.
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as workers:
        yield from track(workers.map(partial(pair, models), range(count)), "pairs", total=count)


def with_interval(hits: int, count: int) -> str:
    low, high = stats.binomtest(hits, count).proportion_ci(method="wilson")
    return f"{hits / count:.1%} [{low:.1%}, {high:.1%}]"


def report(same: Sequence[pl.DataFrame], changed: Sequence[pl.DataFrame]) -> Iterator[Table | str]:
    count = len(same)
    for name, frames in (("nothing has changed", same), (f"noise for {WORSE}", changed)):
        outcomes = pl.Series(
            [next(o for o in ("failed", "undecided", "passed") if o in set(f["outcome"])) for f in frames]
        )
        told = ", ".join(
            f"{outcome} {with_interval((outcomes == outcome).sum(), count)}" for outcome in outcomes.unique()
        )
        yield f"The gate, where {name}: {told}"
    question = ["rule", "metric", "by", "group", "held_to"]
    table = Table("question", "breaks, nothing changed", "true change", "caught", "power says")
    both = [pl.concat(frames).with_columns(beyond=pl.col("change") - pl.col("allowed")) for frames in (same, changed)]
    for (key, null), (_, effect) in zip(
        *(frame.group_by(question, maintain_order=True) for frame in both), strict=True
    ):
        known = effect.drop_nulls("error")
        critical = stats.t.isf(0.05 / len(same[0]), known["users"].to_numpy() - 1)
        power = stats.norm.sf(critical - float(known["beyond"].mean()) / known["error"].to_numpy()).mean()
        table.add_row(
            ", ".join(str(part) for part in key[1:] if part),
            with_interval((null["p"] <= 0.05).sum(), len(null)),
            f"{effect['change'].mean():.4f}",
            with_interval((effect["outcome"] == "failed").sum(), len(effect)),
            f"{power:.1%}",
        )
    yield "Breaks: how often the rule alone, at 95%, is broken where nothing has changed; 5% where its margin is 0."
    yield table


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    with tempfile.TemporaryDirectory() as folder:
        found = list(pairs(write_models(Path(folder)), count))
    for part in report([same for same, _ in found], [changed for _, changed in found]):
        Console(width=140).print(part)


if __name__ == "__main__":
    main()
