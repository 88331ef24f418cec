"""Manifests with other content, and the digest that belongs to it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recaudit.folders import MANIFEST


def forge(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest of a run folder, and put the digest that belongs to it at its end."""
    content = json.loads((path / MANIFEST).read_bytes())
    del content["sha256"]
    change(content)
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    (path / MANIFEST).write_text(json.dumps({**content, "sha256": digest}, indent=2) + "\n")
