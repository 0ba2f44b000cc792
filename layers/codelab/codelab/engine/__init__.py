"""The turn engine around the pure decisions of `turns`: reads, commits, posts, invokes, and repairs."""
