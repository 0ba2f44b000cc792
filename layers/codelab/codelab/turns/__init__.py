"""What each event does to a session, as pure decisions: (draft of the register, event) → transition."""
