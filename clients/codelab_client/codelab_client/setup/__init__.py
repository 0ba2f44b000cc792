"""`codelab setup`: chooses the model of the local cloud and of a stack, and keeps its key."""
