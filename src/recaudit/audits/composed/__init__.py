"""An audit composed of the four parts of a recipe, and how it is answered."""
