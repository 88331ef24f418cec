"""Where the names of points stand, so that none hides another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

Align = Literal["left", "right", "center"]
Box = tuple[float, float, float, float]
"""Left, top, right, bottom, in pixels."""

WIDTH, HEIGHT = 400, 300
"""The plot that places are reckoned for, with letters of 6.5 by 13 pixels: close enough on any screen."""
_LETTER = 6.5

PLACES: tuple[tuple[str, Align, int, int], ...] = (
    ("right", "left", 9, 0),
    ("left", "right", -9, 0),
    ("above", "center", 0, -12),
    ("below", "center", 0, 13),
    ("above right", "left", 6, -11),
    ("below right", "left", 6, 12),
    ("above left", "right", -6, -11),
    ("below left", "right", -6, 12),
)
"""For each side of a point how its label is aligned, and how far it is moved; the first is the best."""
_LEVELS = (0, -13, 13, -26, 26)
"""How far a note at the edge may be moved up or down."""


def label_sides(points: Mapping[str, tuple[float, float]], taken: Sequence[Box] = ()) -> dict[str, str]:
    """For each point, in the unit square, the first side on which its label hides nothing, else as little as may be."""
    centres = {name: (WIDTH * x, HEIGHT * (1 - y)) for name, (x, y) in points.items()}
    covered = [*taken, *((x - 6, y - 6, x + 6, y + 6) for x, y in centres.values())]
    sides: dict[str, str] = {}
    for name, (x, y) in centres.items():
        boxes = {side: _box(name, align, x + dx, y + dy) for side, align, dx, dy in PLACES}
        sides[name] = min(boxes, key=lambda side: _hidden(boxes[side], covered))
        covered.append(boxes[sides[name]])
    return sides


def edge_levels(notes: Mapping[str, float], taken: Sequence[Box]) -> dict[str, tuple[int, Box]]:
    """For each note at the right edge, at this height of 0 to 1, how far it is moved, and the box that it takes."""
    levels: dict[str, tuple[int, Box]] = {}
    for note, height in notes.items():
        covered = [*taken, *(box for _, box in levels.values())]
        boxes = {level: _box(note, "right", WIDTH, HEIGHT * (1 - height) + level) for level in _LEVELS}
        level = min(boxes, key=lambda level: _hidden(boxes[level], covered))
        levels[note] = level, boxes[level]
    return levels


def _box(text: str, align: Align, x: float, y: float) -> Box:
    width = _LETTER * len(text)
    left = x - {"left": 0.0, "center": width / 2, "right": width}[align]
    return left, y - 6, left + width, y + 6


def _hidden(box: Box, covered: Sequence[Box]) -> float:
    """How many square pixels of the box lie outside or on something else."""
    left, top, right, bottom = box
    inside = _overlap(box, (0, -HEIGHT, WIDTH, HEIGHT))
    return (right - left) * (bottom - top) - inside + sum(_overlap(box, other) for other in covered)


def _overlap(one: Box, two: Box) -> float:
    width = min(one[2], two[2]) - max(one[0], two[0])
    height = min(one[3], two[3]) - max(one[1], two[1])
    return max(0.0, width) * max(0.0, height)
