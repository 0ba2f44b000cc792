"""Other servers for the same job, measured side by side with ours: `make bench-peers`."""
