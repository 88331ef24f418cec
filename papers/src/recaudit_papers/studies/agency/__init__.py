"""A causal framework for auditing agency (paper 001): Tables II and III, and the figures."""
