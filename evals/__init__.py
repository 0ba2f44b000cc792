"""Measures the agent: tasks in Harbor's format, run without Docker, graded in sandboxes, reported with intervals."""
