"""The version: a file of its own, so that what is cached can name it without importing the package."""

__version__ = "0.3.0.dev0"
