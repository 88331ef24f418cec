"""The explorer: how long a page takes to be made, how large it is, and how long from a slider to what is painted.

    python benchmarks/explore.py [RUN ...]

Without runs, a made-up log of 2,000 items. For each page, in the Chromium of this machine (RECAUDIT_BROWSER names
another): the median and the longest of 40 moves of each control, from the event to the frame after it is painted, and
what the page's thread worked for it. Under 50 ms a hand sees no delay.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.table import Table

import recaudit as ra
from recaudit.data import synthetic
from recaudit.explore import explore, write_explorer

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MOVES = 40
PAINTED = """([name, move]) => new Promise((done) => {
  const input = document.querySelector(name), start = performance.now();
  if (input.type === 'range') input.value = Number(input.min) + move / 40 * (input.max - input.min);
  else document.getElementsByName('rating-0')[move % 5].click();
  input.dispatchEvent(new Event('input'));
  requestAnimationFrame(() => { const frame = new MessageChannel();
    frame.port1.onmessage = () => done(performance.now() - start); frame.port2.postMessage(0); });
})"""


def main(runs: list[str]) -> None:
    table = Table("page", "items", "people", "MB", "seconds", "control", "median ms", "longest ms", "worked ms")
    browser = os.environ.get("RECAUDIT_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        started = driver.chromium.launch(executable_path=browser, args=["--headless", "--no-sandbox", "--disable-gpu"])
        for path in runs or [str(made_up(Path(folder)))]:
            run = ra.runs.Run.open(path)
            start = time.process_time()
            content = explore(run, folder=Path(folder) if not runs else None)
            page = write_explorer(run, content, Path(folder) / "page.html")
            seconds = time.process_time() - start
            items = len(content.payload["items"]["titles"])
            first = [run.path.name, f"{items:,}", str(len(content.kept)), f"{page.stat().st_size / 2**20:.1f}"]
            opened = started.new_page()
            opened.goto(page.as_uri())
            thread = opened.context.new_cdp_session(opened)
            thread.send("Performance.enable", {"timeDomain": "threadTicks"})
            for control in ("fieldset input", "#chance", "#weight"):
                times, worked = [], []
                for move in range(MOVES):
                    before = spent(thread)
                    times.append(opened.evaluate(PAINTED, [control, move]))
                    worked.append(spent(thread) - before)
                numbers = (np.median(times), max(times), np.median(worked))
                table.add_row(*first, f"{seconds:.1f}", control, *(f"{number:.1f}" for number in numbers))
            opened.close()
        started.close()
    Console(width=130).print(table)


def spent(thread: object) -> float:
    """Milliseconds that the page's thread has worked."""
    found = thread.send("Performance.getMetrics")["metrics"]  # type: ignore[attr-defined]  # a session of the browser
    return float(next(one["value"] for one in found if one["name"] == "TaskDuration")) * 1e3


def made_up(folder: Path) -> Path:
    """A run on a log of two thousand items."""
    data = synthetic.demo_world(rng=1, users=300, items=3_000).data
    data.frame().write_parquet(folder / "ratings.parquet")
    genres = data.categories["genre"]
    kinds = ["|".join(genres.names[genre] for genre in genres.weights[[item]].indices) for item in range(data.n_items)]
    pl.DataFrame({"item": data.item_ids, "genre": kinds}).write_parquet(folder / "items.parquet")
    files = 'file = "ratings.parquet"\nitems = "items.parquet"\ncategories = {genre = "genre"}\n'
    text = f'[data]\n{files}[[model]]\nkind = "als"\n[audits.accuracy]\n'
    return ra.runs.execute(ra.runs.parse(text, source="run.toml", folder=folder), folder / "made up").path


if __name__ == "__main__":
    main(sys.argv[1:])
