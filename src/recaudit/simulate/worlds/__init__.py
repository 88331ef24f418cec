"""Environments: people who rate what they are shown."""
