"""A recommender behind an address, of Python's standard library: items that are rated together with what you like.

It answers for any history that it is sent, and forgets it again:

    POST /recommend   {"history": [{"film": "film-003", "stars": 4.5}, ...]}
    200               {"scores": {"film-001": 0.25, "film-002": -0.5, ...}}
"""

from __future__ import annotations

import csv
import json
import os
import runpy
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import combinations
from math import sqrt
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
TOKEN = os.environ.get("TOKEN", "open sesame")
"""What callers must know."""


class Recommender:
    """How often two items were rated by the same person, against how often each was."""

    def __init__(self, path: Path) -> None:
        users = defaultdict(list)
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                users[row["user"]].append(row["item"])
        self.rated = Counter(item for items in users.values() for item in items)
        together = Counter(pair for items in users.values() for pair in combinations(sorted(items), 2))
        self.near: dict[str, dict[str, float]] = defaultdict(dict)
        for (one, other), count in together.items():
            likeness = count / sqrt(self.rated[one] * self.rated[other])
            self.near[one][other] = self.near[other][one] = likeness

    def scores(self, history: list[dict[str, Any]]) -> dict[str, float]:
        """What speaks for each item: its likeness to what was rated, by how far the rating is from the middle."""
        scores = dict.fromkeys(sorted(self.rated), 0.0)
        for entry in history:
            for item, likeness in self.near[entry["film"]].items():
                scores[item] += likeness * (entry["stars"] - 2.5)
        return scores


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    recommender: Recommender

    def do_POST(self) -> None:
        """Answer a history with the scores of all items."""
        try:
            asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                self.reply(401, {"error": "who are you?"})
            elif self.path != "/recommend":
                self.reply(404, {"error": "POST /recommend"})
            else:
                self.reply(200, {"scores": self.recommender.scores(asked["history"])})
        except (KeyError, TypeError, ValueError) as error:
            self.reply(400, {"error": str(error)})

    def reply(self, status: int, content: dict[str, object]) -> None:
        """Send JSON."""
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  as the base class has it
        """Say nothing."""


def make_server(path: Path, port: int = 8765) -> ThreadingHTTPServer:
    """The service of these ratings, on this machine only."""
    Handler.recommender = Recommender(path)
    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    if not (FOLDER / "train.csv").exists():
        runpy.run_path(str(FOLDER / "ratings.py"))
    with make_server(FOLDER / "train.csv") as server:
        print(f"http://127.0.0.1:{server.server_port}/recommend (Ctrl-C to stop)", flush=True)
        server.serve_forever()
