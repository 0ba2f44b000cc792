"""What an executor asks the user."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Dialogue(Protocol):
    """Shows questions to the user. All methods may be cancelled; then the question goes away."""

    async def choose(self, message: str, actions: Sequence[str]) -> str | None:
        """One of the actions, or None if the user closes the question."""
        ...

    async def review(self, message: str, diff: str, chunks: int) -> Sequence[int] | None:
        """The chunks of the diff to apply, counted from 1, or None to apply nothing."""
        ...

    async def confirm(self, tool: str, arguments: Mapping[str, Any], reason: str) -> bool:
        """Whether an approved call that changes files is still wanted: show its changes. reason: what is new."""
        ...
