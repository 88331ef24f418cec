"""The version, in a file of its own: it can be read without importing the package."""

__version__ = "0.3.0.dev0"
