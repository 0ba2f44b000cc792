"""The turn engine: what each event does to a session.

`core` is pure: (register, event, now) → transition. `shell` reads, commits and runs the effects.
"""
