"""How answers draw themselves in a notebook: without a script, offline, in the notebook's own colours."""
