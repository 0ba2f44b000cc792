"""Writes the documents that are made from the code: `python -m infra.docs`, which is `make docs`."""
