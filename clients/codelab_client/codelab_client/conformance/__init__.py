"""Judges servers: plays the documented dialogues to one, and reports which rules of the protocol it breaks."""
