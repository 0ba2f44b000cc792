"""The turn engine: reads, commits, posts, invokes and repairs around the pure decisions of `turns`."""
