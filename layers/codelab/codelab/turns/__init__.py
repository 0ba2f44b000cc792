"""What each event does to a session: pure decisions, (draft of the register, event) → transition."""
