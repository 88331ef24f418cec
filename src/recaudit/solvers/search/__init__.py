"""Search where there is no exact solver: gradients, or queries alone."""
