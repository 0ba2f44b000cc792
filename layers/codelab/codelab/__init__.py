"""The library that all functions share."""
