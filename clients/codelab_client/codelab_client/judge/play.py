"""What scenarios are made of: a turn, a call, a broken connection, and what is observed of them."""

import asyncio
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codelab_client.judge.drivers import Driver
from codelab_client.judge.frames import example
from codelab_client.judge.server import Arrival, Connection, NotPlayed, Session

#: Seconds in which a client that does what it must not do has done it.
SHORTLY_S = 0.5


@dataclass
class Play:
    """One scenario on the way. workspace: the folder in which the client executes calls. url: where it connects to."""

    session: Session
    driver: Driver
    workspace: Path
    url: str
    turn_id: str = ""
    _begin: int = 0
    _accepted_ids: set[str] = field(default_factory=set)

    # -- the client --------------------------------------------------------------------------------------------------

    async def connected(self) -> Connection:
        """The connection that gets frames; starts the client if there is none. Raises NotPlayed."""
        session = self.session
        await session.until(lambda: session.live() or not session.attempts or self.driver.has_ended(), 3.0)
        if session.live() is None:
            await self.driver.start(self.url)
        connection = await session.until(session.live, self.driver.patience)
        if connection is None:
            raise NotPlayed("the client does not connect")
        return connection

    async def reconnected(self, seconds: float = 8.0) -> Connection:
        """The next connection after one has broken. Raises NotPlayed."""
        connection = await self.session.until(self.session.live, seconds)
        if connection is None:
            raise NotPlayed("the client does not reconnect")
        return connection

    async def has_extensions(self) -> bool:
        """Whether the client has asked for extensions."""
        return (await self.connected()).has_extensions

    async def arrival(
        self, frame_type: str, patience: float, begin: int | None = None, **fields: Any
    ) -> Arrival | None:
        """The first frame like this since `begin` of the arrivals, or since the turn's begin; None if none comes."""
        start = self._begin if begin is None else begin

        def look() -> Arrival | None:
            for arrival in self.session.arrivals[start:]:
                if arrival.type == frame_type and fields.items() <= arrival.frame.items():
                    return arrival
            return None

        return await self.session.until(look, patience)

    def results(self, call_id: str) -> list[Arrival]:
        """The whole results of a call so far, without pieces of output."""
        return [
            arrival
            for arrival in self.session.arrivals
            if arrival.type == "tool_result"
            and arrival.frame.get("call_id") == call_id
            and not arrival.frame.get("partial")
            and not _is_piece(arrival.frame)
        ]

    # -- the turn ----------------------------------------------------------------------------------------------------

    async def ask(self, text: str = "go") -> Arrival:
        """The user sends a message. Raises NotPlayed if it does not come."""
        await self.connected()
        self._begin = len(self.session.arrivals)
        await self.driver.say(text)
        begin = self._begin

        def look() -> Arrival | None:
            messages = (arrival for arrival in self.session.arrivals[begin:] if arrival.type == "user_message")
            return next(
                (message for message in messages if message.frame.get("client_msg_id") not in self._accepted_ids), None
            )

        arrival = await self.session.until(look, self.driver.patience)
        if arrival is None:
            raise NotPlayed("the client does not send the message")
        return arrival

    async def begin(self, text: str = "go") -> Arrival:
        """The user sends a message, and a turn begins. Raises NotPlayed."""
        arrival = await self.ask(text)
        await self.accept(arrival)
        return arrival

    async def accept(self, message: Arrival) -> None:
        """Begin a turn with a message that has come."""
        self.turn_id = f"turn_{uuid.uuid4().hex[:8]}"
        message_id = str(message.frame.get("client_msg_id") or uuid.uuid4().hex)
        self._accepted_ids.add(message_id)
        echo: dict[str, Any] = {"client_msg_id": message_id, "turn_id": self.turn_id}
        content = str(message.frame.get("content", ""))
        await self.session.post("user_message", extension=True, **echo, role="user", content=content)
        await self.status("thinking")

    async def status(self, status: str) -> None:
        """The agent's status changes."""
        await self.session.post("agent_status", status=status, message=status)

    async def say(self, text: str, *, is_final: bool = True) -> dict[str, Any]:
        """The agent writes one piece of a message."""
        ids: dict[str, Any] = {"message_id": f"msg_{self.turn_id}", "turn_id": self.turn_id}
        return await self.session.post("assistant_message", token=text, content=text, is_final=is_final, **ids)

    async def end(self, text: str = "Done.") -> None:
        """The agent answers, and the turn ends."""
        await self.say(text)
        ending = {**example("TurnEndFrame"), "turn_id": self.turn_id, "title": "judge"}
        del ending["type"], ending["seq"], ending["final_text_sha256"]
        await self.session.post("turn_end", extension=True, **ending)
        await self.status("idle")

    async def call(self, tool: str, arguments: Mapping[str, Any], *, approval: bool = False, **fields: Any) -> str:
        """The agent calls a tool. Returns the `call_id`."""
        call_id = f"call_{uuid.uuid4().hex[:8]}"
        await self.status("waiting_approval" if approval else "executing_tool")
        await self._post_call(call_id, tool, arguments, approval=approval, **fields)
        return call_id

    async def release(self, call_id: str, arguments: Mapping[str, Any]) -> None:
        """The call comes again, to be executed."""
        await self.status("executing_tool")
        tool = self.session.open_calls[call_id]["tool_name"]
        await self._post_call(call_id, tool, arguments, approval=False)

    async def _post_call(
        self, call_id: str, tool: str, arguments: Mapping[str, Any], *, approval: bool, **fields: Any
    ) -> None:
        call: dict[str, Any] = {
            "call_id": call_id,
            "tool_name": tool,
            "arguments": dict(arguments),
            "requires_approval": approval,
        }
        deadline = int((time.time() + 600) * 1000)
        await self.session.post("tool_call", **call, turn_id=self.turn_id, deadline=deadline, **fields)

    async def settle(self, call_id: str, state: str = "completed") -> None:
        """The call needs no answer any more."""
        self.session.open_calls.pop(call_id, None)
        await self.session.post("call_update", extension=True, call_id=call_id, state=state)
        await self.status("thinking")

    async def abandon(self) -> None:
        """Leave nothing of this scenario to the next one."""
        self.session.intercept = lambda _: False
        self.session.refusal, self.session.repeats, self.session.needs_resync = None, 0, False
        for call_id in list(self.session.open_calls):
            await self.settle(call_id, "cancelled")
        if self.session.log and self.session.log[-1].get("status") != "idle":
            await self.end("Cancelled.")

    async def lose(self) -> None:
        """Every connection breaks, after what was sent on it has arrived."""
        for connection in list(self.session.connections):
            connection.is_live = False
            await connection.socket.close(1001)

    # -- files -------------------------------------------------------------------------------------------------------

    def write_word(self, name: str) -> str:
        """A new word in a file of the workspace, which tells when the file was read."""
        word = f"word-{uuid.uuid4().hex[:12]}"
        (self.workspace / name).write_text(f"{word}\n", encoding="utf-8")
        return word

    async def pause(self) -> None:
        """The time in which the client would do what it must not."""
        await asyncio.sleep(SHORTLY_S)


def _is_piece(frame: Mapping[str, Any]) -> bool:
    result = frame.get("result")
    return isinstance(result, Mapping) and "exit_code" in result and result["exit_code"] is None


def has(frame: Mapping[str, Any], word: str) -> bool:
    """Whether a word is anywhere in a frame."""
    return word in json.dumps(frame, ensure_ascii=False)
