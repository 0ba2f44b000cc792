"""The reference IDE client of the CodeLab protocol."""

__version__ = "0.2.0"
