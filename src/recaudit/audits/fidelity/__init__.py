"""Whether an update rule says what a refit would."""
