"""Whether lists reflect what their users chose before, in the same proportions (paper 004)."""
