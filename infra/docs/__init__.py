"""Generates documentation from the code: `python -m infra.docs`, which is `make docs`."""
