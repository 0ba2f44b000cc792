"""Why a task of a set is not made."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LeftOut:
    """A task that cannot be graded here."""

    name: str
    why: str
