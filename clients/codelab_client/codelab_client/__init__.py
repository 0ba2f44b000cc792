"""The reference IDE client of the CodeLab protocol."""
