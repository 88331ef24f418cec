"""A run to touch: one page in which a person changes ratings and sees what becomes of the list."""

from recaudit.explore.gather import Exploration, explore
from recaudit.explore.page import render_explorer, write_explorer

__all__ = ["Exploration", "explore", "render_explorer", "write_explorer"]
