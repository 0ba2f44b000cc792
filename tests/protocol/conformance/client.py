"""A client that speaks one of the dialects that the seed documents and their IDE know."""

import json
from collections.abc import Callable
from typing import Any

from tests.ide import Ide
from tests.protocol.conformance.seed_examples import Example

Dialect = Callable[[dict[str, Any]], dict[str, Any]]

#: What every frame of the public CodeLab IDE has, null where it says nothing.
FIFTEEN_KEYS = (
    *("type", "content", "role", "is_final", "call_id", "tool_name", "arguments", "requires_approval", "result"),
    *("error", "agent_type", "from_agent", "to_agent", "reason", "metadata"),
)


def plain(frame: dict[str, Any]) -> dict[str, Any]:
    """Only what is said."""
    return frame


def fifteen_keys(frame: dict[str, Any]) -> dict[str, Any]:
    """As the public CodeLab IDE writes it."""
    return {**dict.fromkeys(FIFTEEN_KEYS), **frame}


def later(frame: dict[str, Any]) -> dict[str, Any]:
    """As a client of a later version might, with fields that nobody knows yet."""
    return {**frame, "trace": {"id": [1, None]}, "priority": "high"}


DIALECTS: dict[str, Dialect] = {"plain": plain, "fifteen keys": fifteen_keys, "a later version": later}


class Client(Ide):
    """A connection that writes its frames in `dialect`."""

    def __init__(self, url: str, dialect: Dialect, **options: Any) -> None:
        super().__init__(url, **options)
        self._dialect = dialect

    def send_wrong(self, frame_type: str, **fields: Any) -> None:
        self.send_raw(json.dumps(self._dialect({"type": frame_type, **fields}), ensure_ascii=False))

    def send_example(self, example: Example, **changes: Any) -> None:
        """Send a frame of a document, with the ids that are real."""
        self.send(
            **{"frame_type" if name == "type" else name: value for name, value in example.value.items()} | changes
        )

    def grant(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Have a call approved if it asks for that. Returns the call that is to be executed."""
        if not asked["requires_approval"]:
            return asked
        self.decide(asked, "approve")
        return self.expect("tool_call", call_id=asked["call_id"], requires_approval=False)
