"""The tools that an agent calls in an IDE (docs/tools.md), for one workspace."""
