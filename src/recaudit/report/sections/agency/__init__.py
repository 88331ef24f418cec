"""Agency over time: its curves, what is found, and the section."""
