"""The data of the demo, generated."""

from __future__ import annotations

from recaudit.data.datasets.dataset import Dataset
from recaudit.data.synthetic import demo

DEMO = Dataset(
    name="demo",
    title="Demo",
    about="generated: 23,000 ratings of 400 films by 600 users, with genres, regions and age groups",
    page="",
    read=lambda _: demo(),
)
