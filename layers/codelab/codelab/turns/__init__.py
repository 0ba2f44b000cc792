"""The turn engine: what each event does to a session.

Decisions are pure: (a draft of the register, event, now) → transition. `shell` reads, commits and runs the effects.
"""
