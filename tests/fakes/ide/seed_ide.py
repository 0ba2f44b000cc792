"""A client that checks the server's frames against the documents."""

import json
from typing import Any

from tests.fakes.ide.ide import Ide
from tests.frames import check_sent

#: The statuses that the Agent Protocol lists.
STATUSES = {"idle", "thinking", "executing_tool", "waiting_approval", "error"}


class SeedIde(Ide):
    """Sends the documents' frames unchanged, and expects the documents' frames in their order.

    `agent_status` may come between any two frames, and `agent_switched` before the first answer, when the server has
    chosen who gives it; they are looked at and skipped.
    """

    def send_seed(self, frame: dict[str, Any], call_id: str | None = None) -> None:
        """Send a frame of a document, with the call's real id in place of the example's."""
        sent = {**frame, "call_id": call_id} if "call_id" in frame else frame
        check_sent(sent)
        self.send_raw(json.dumps(sent, ensure_ascii=False))

    def next_frame(self) -> dict[str, Any]:
        while True:
            frame = self.receive()
            if frame["type"] == "agent_status":
                assert frame["status"] in STATUSES
                assert isinstance(frame["message"], str)
            elif frame["type"] == "agent_switched":
                assert frame["from_agent"] == "orchestrator"
                assert not self.of_type("assistant_message")
            else:
                return frame

    def expect_seed(self, seed: dict[str, Any], *own: str) -> dict[str, Any]:
        """The next frame. It must have the fields and values of `seed`; for the fields `own`, only the type."""
        frame = self.next_frame()
        for name, value in seed.items():
            if name in own:
                assert type(frame[name]) is type(value), name
            else:
                assert frame[name] == value, name
        return frame

    def expect_message(self) -> str:
        """Read one streamed message, up to its one `is_final`. Returns its text."""
        tokens, messages = [], set()
        while True:
            frame = self.expect_seed({"type": "assistant_message", "token": "", "is_final": False}, "token", "is_final")
            tokens.append(frame["token"])
            messages.add(frame["message_id"])
            if frame["is_final"]:
                assert len(messages) == 1
                return "".join(tokens)

    def expect_end(self) -> None:
        """Expect only statuses until the agent is idle. Then every message must have had one `is_final`."""
        while (frame := self.receive())["type"] == "agent_status":
            if frame["status"] == "idle":
                break
        assert frame["type"] == "agent_status", f"{frame['type']} after the document's last frame"
        messages = self.of_type("assistant_message")
        finals = [message["message_id"] for message in messages if message["is_final"]]
        assert sorted(finals) == sorted({message["message_id"] for message in messages})

    def expect_statuses(self, statuses: list[str]) -> None:
        """Expect that these are all statuses in the order of the log, because two functions may post at the same time.

        One that was logged before the last one may come after it.
        """
        while len(self.of_type("agent_status")) < len(statuses):
            self.expect("agent_status")
        found = sorted(self.of_type("agent_status"), key=lambda frame: frame["seq"])
        assert [frame["status"] for frame in found] == statuses
