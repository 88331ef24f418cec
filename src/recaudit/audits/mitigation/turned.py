"""A lever that was turned: its numbers at every setting, how they change, and which setting is picked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from recaudit.arrays import FloatArray
from recaudit.audits.folding.tradeoff import scaled
from recaudit.audits.mitigation.definitions import EVERYBODYS, METRICS
from recaudit.audits.mitigation.levers import Lever, Setting
from recaudit.audits.mitigation.measures import Numbers, Yardstick
from recaudit.metrics.groupings import groupings
from recaudit.metrics.inference import estimate_difference
from recaudit.metrics.intervals import row
from recaudit.metrics.tables import GROUP_SCHEMA, SERIES_SCHEMA
from recaudit.policies import Top1

QUALITY = "ndcg"
"""What a lever may cost."""


@final
@dataclass(frozen=True, eq=False)
class Turned:
    """One lever, the numbers of its setting as it is, and those of the others in their order."""

    lever: Lever
    before: Numbers
    after: tuple[Numbers, ...]
    changes: pl.DataFrame
    """After less before, as SERIES_SCHEMA."""

    @classmethod
    def of(cls, lever: Lever, yardstick: Yardstick, plain: Numbers) -> Turned:
        """Measure every setting; `plain` are the numbers of the model's own lists by score."""
        after = tuple(yardstick.measure(setting) for setting in lever.after)
        own = plain if lever.before.lists == Top1() else yardstick.measure(lever.before)
        before = own.only(name for numbers in after for name in numbers.frame["metric"])
        changes = [
            _placed(yardstick.change(before, numbers), lever.name, setting.at)
            for setting, numbers in zip(lever.after, after, strict=True)
        ]
        return cls(lever, before, after, pl.concat(changes))

    @property
    def picked(self) -> int:
        """Which of the settings has the largest sum of nDCG and what the lever aims at, each scaled to 0..1."""
        points = [dict(own.frame.select("metric", "value").iter_rows()) for own in (self.before, *self.after)]
        sign = {metric.name: -1 if metric.better == "lower" else 1 for metric in METRICS}
        total = np.zeros(len(points))
        for name in (QUALITY, self.lever.aim):
            values = [point.get(name) for point in points]
            if None not in values:
                total += scaled(sign[name] * np.array(values, dtype=np.float64))
        return int(np.argmax(total[1:]))

    @property
    def series(self) -> pl.DataFrame:
        """Every number at every setting, the one before as its baseline."""
        before = self.before.frame.select("metric", baseline="value")
        rows = [
            _placed(
                numbers.frame.drop("baseline").join(before, on="metric", how="left", maintain_order="left"),
                self.lever.name,
                setting.at,
            )
            for setting, numbers in self._settings
        ]
        return pl.concat(rows)

    @property
    def group(self) -> pl.DataFrame:
        """The numbers at the picked setting, as GROUP_SCHEMA."""
        picked = self.series.filter(pl.col("at") == self.lever.after[self.picked].at)
        named = picked.with_columns(by=pl.lit("lever"), group=pl.lit(self.lever.name))
        return named.select(GROUP_SCHEMA.keys())

    @property
    def users(self) -> pl.DataFrame:
        """A row a user: their own numbers at the picked setting, under `<metric>_<lever>`."""
        found = self.after[self.picked].users
        return found.rename({name: f"{name}_{self.lever.name}" for name in found.columns if name != "user"})

    def group_changes(self, yardstick: Yardstick) -> pl.DataFrame:
        """What the picked setting changes for groups of users, of what everybody has; as SERIES_SCHEMA, by group."""
        before, after = self.before.users, self.after[self.picked].users
        names = [name for name in EVERYBODYS if name in before.columns and name in after.columns]
        own, gained = (
            {name: people[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in names}
            for people in (before, after)
        )
        confidence = yardstick.audit.confidence
        rows = [
            {
                "by": grouping.by,
                "group": group,
                "metric": name,
                **row(
                    estimate_difference(gained[name][members], own[name][members], confidence=confidence),
                    int(members.sum()),
                    _mean(own[name][members]),
                ),
            }
            for grouping in groupings(yardstick.data, yardstick.audit.by, yardstick.audit.split_by)
            for group, members in zip(grouping.names, (grouping.weights > 0).T, strict=True)
            for name in names
        ]
        lever, at = pl.lit(self.lever.name), pl.lit(self.lever.after[self.picked].at)
        return pl.DataFrame(rows, GROUP_SCHEMA).select(lever.alias("over"), at.alias("at"), pl.all())

    @property
    def pairs(self) -> list[pl.DataFrame]:
        """The places that were searched for, at every setting that has some."""
        over = pl.lit(self.lever.name).alias("over")
        return [
            numbers.pairs.select(over, pl.lit(setting.at).alias("at"), pl.all())
            for setting, numbers in self._settings
            if numbers.pairs.width
        ]

    @property
    def left_out(self) -> list[tuple[str, list[str]]]:
        """By reason, the metrics that its settings lack, with the lever's name."""
        lacking = (own for _, numbers in self._settings for own in numbers.left_out.items())
        return [(why, [f"{name} ({self.lever.name})" for name in names]) for why, names in lacking]

    @property
    def _settings(self) -> list[tuple[Setting, Numbers]]:
        return list(zip((self.lever.before, *self.lever.after), (self.before, *self.after), strict=True))


def _mean(values: FloatArray) -> float | None:
    """Mean of the values that are not NaN, None without any."""
    return None if np.isnan(values).all() else float(np.nanmean(values))


def _placed(rows: pl.DataFrame, over: str, at: float) -> pl.DataFrame:
    return rows.with_columns(over=pl.lit(over), at=pl.lit(at)).select(SERIES_SCHEMA.keys())
