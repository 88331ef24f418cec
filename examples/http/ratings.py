"""Write the ratings of recaudit's demo beside this file: all of them, and those that the service may know."""

from pathlib import Path

import recaudit as ra

FOLDER = Path(__file__).parent

data = ra.datasets.load("demo")
train, _ = ra.splits.leave_last(data, k=3)  # the split of audit.toml: the service must not know what is held out
data.frame().write_csv(FOLDER / "ratings.csv")
train.frame().write_csv(FOLDER / "train.csv")
