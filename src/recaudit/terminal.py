"""Text that a terminal shows as it is: with no character that could control the terminal or reorder what it shows.

Names, titles, labels and error messages can come from a stranger's files. A terminal obeys control characters in them:
it clears the screen, writes the clipboard or changes the order of the letters.
"""

from __future__ import annotations

import re

_CONTROLS = re.compile(
    "["
    "\x00-\x08\x0b-\x1f"  # C0 without tab and line feed; ESC is one of them
    "\x7f-\x9f"  # DEL and C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # controls of the direction of text
    "\u2028\u2029"  # separators that some programs take for the end of a line
    "\ud800-\udfff"  # halves of a character, which no encoding can write
    "]"
)


def find_controls(text: str) -> list[tuple[int, int]]:
    """Find the characters that `visible` replaces: where each run of them starts and ends."""
    return [found.span() for found in re.finditer(f"{_CONTROLS.pattern}+", text)]


def visible(text: str) -> str:
    r"""Replace control characters and controls of text direction by their escaped form, such as `\u001b`.

    Line feeds and tabs stay. The escaped form means the same character in a string of JSON or TOML.
    """
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
