"""This machine: child processes, and what a user is told."""
