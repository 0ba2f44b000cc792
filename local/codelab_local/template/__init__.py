"""The SAM template: what it declares, and what is deployed of it."""
