"""A client for each dialect of the seed documents and their IDE."""

import json
from collections.abc import Callable
from typing import Any

from tests.fakes.ide.ide import Ide
from tests.protocol.conformance.seed_examples import Example

Dialect = Callable[[dict[str, Any]], dict[str, Any]]

#: The fields of every frame of the public CodeLab IDE; unused ones are null.
FIFTEEN_KEYS = (
    *("type", "content", "role", "is_final", "call_id", "tool_name", "arguments", "requires_approval", "result"),
    *("error", "agent_type", "from_agent", "to_agent", "reason", "metadata"),
)


def plain(frame: dict[str, Any]) -> dict[str, Any]:
    """Only the given fields."""
    return frame


def fifteen_keys(frame: dict[str, Any]) -> dict[str, Any]:
    """In the form of the public CodeLab IDE."""
    return {**dict.fromkeys(FIFTEEN_KEYS), **frame}


def later(frame: dict[str, Any]) -> dict[str, Any]:
    """With unknown fields, as a client of a later version might send."""
    return {**frame, "trace": {"id": [1, None]}, "priority": "high"}


DIALECTS: dict[str, Dialect] = {"plain": plain, "fifteen keys": fifteen_keys, "a later version": later}


class Client(Ide):
    """A connection that sends its frames in `dialect`."""

    def __init__(self, url: str, dialect: Dialect, **options: Any) -> None:
        super().__init__(url, **options)
        self._dialect = dialect

    def send_wrong(self, frame_type: str, **fields: Any) -> None:
        self.send_raw(json.dumps(self._dialect({"type": frame_type, **fields}), ensure_ascii=False))

    def send_example(self, example: Example, **changes: Any) -> None:
        """Send a document's frame with real ids."""
        self.send(
            **{"frame_type" if name == "type" else name: value for name, value in example.value.items()} | changes
        )

    def grant(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Approve a call if needed. Returns the call to execute."""
        if not asked["requires_approval"]:
            return asked
        self.decide(asked, "approve")
        return self.expect("tool_call", call_id=asked["call_id"], requires_approval=False)
