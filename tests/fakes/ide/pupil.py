"""A small client that keeps the rules of docs/protocol.md, but for the faults that a test gives it."""

import asyncio
import contextlib
import json
import random
import uuid
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

Frame = dict[str, Any]


class Pupil:
    """Drives itself for the judge. faults: the names of what it does wrong."""

    patience = 3.0

    def __init__(self, workspace: Path, *faults: str) -> None:
        self._workspace, self._faults = workspace, set(faults)
        self._socket: ClientConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._output = ""
        self._forget()

    def _forget(self) -> None:
        self._last_seq, self._live, self._failures = 0, False, 0
        self._calls: dict[str, Frame] = {}
        self._results: dict[str, Frame] = {}
        self._message: Frame | None = None

    def has(self, fault: str) -> bool:
        return fault in self._faults

    # -- what a user does --------------------------------------------------------------------------------------------

    async def start(self, url: str) -> None:
        await self.stop()
        self._forget()
        self._task = asyncio.ensure_future(self._run(url))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def has_ended(self) -> bool:
        return self._task is None or self._task.done()

    async def say(self, text: str) -> None:
        self._message = {"type": "user_message", "content": text, "client_msg_id": uuid.uuid4().hex}
        if self.has("sends nonsense"):
            self._message["role"] = "robot"
        await self._send(self._message)

    async def decide(self, decision: str) -> None:
        (call,) = [call for call in self._calls.values() if call["requires_approval"]][-1:]
        frame: Frame = {"type": "hitl_decision", "call_id": call["call_id"], "decision": decision}
        if decision == "edit":
            frame["modified_arguments"] = {"path": "edited.txt", "content": "other\n"}
        await self._send(frame)
        if decision == "reject" and self.has("executes rejected calls"):
            await self._answer(call)

    def output(self) -> str:
        return self._output

    # -- its connection ----------------------------------------------------------------------------------------------

    async def _run(self, url: str) -> None:
        while True:
            pause = 0.0
            try:
                async with connect(url) as socket:
                    self._socket, self._live = socket, False
                    last_seq = 0 if self.has("resumes from 0") else self._last_seq
                    await self._send({"type": "resume", "last_seq": last_seq})
                    async for message in socket:
                        await self._take(json.loads(message))
                if socket.close_code == 1000 and not self.has("returns after 1000"):
                    return
            except InvalidStatus as refusal:
                if refusal.response.status_code == 401 and not self.has("returns after 401"):
                    return
                pause = float(refusal.response.headers.get("Retry-After", 0))
            except (ConnectionClosed, OSError):
                pass
            await asyncio.sleep(self._pause(pause))

    def _pause(self, least: float) -> float:
        self._failures += 1
        if self.has("storms"):
            return 0.01
        if self.has("waits evenly"):
            return 1.5  # so long that a busy machine does not change it much
        if self.has("ignores Retry-After"):
            least = 0.0
        return least + random.uniform(0.3, 1) * 0.2 * 2.0 ** min(self._failures, 3)

    async def _send(self, frame: Frame) -> None:
        text = json.dumps(frame)
        pieces = [text[start : start + 30_000] for start in range(0, len(text), 30_000)]
        with contextlib.suppress(ConnectionClosed):
            assert self._socket is not None
            await self._socket.send(text if self.has("sends large frames") else pieces)

    # -- what it gets ------------------------------------------------------------------------------------------------

    async def _take(self, frame: Frame) -> None:
        kind, seq = frame.get("type"), frame.get("seq", 0)
        if kind is None:
            await self._throttled()
        elif kind == "resync_required":
            self._last_seq = self._last_seq if self.has("forgets the resync") else frame["last_seq"]
            await self._send({"type": "resume", "last_seq": self._last_seq})
        elif kind == "resumed":
            await self._resumed(frame)
        elif kind == "error" and self.has("ignores expiry"):
            await self._send(self._message or {})
        elif kind == "judge_reply" and self.has("answers the unknown"):
            await self._send({"type": "cancel"})
        if not 0 < seq <= self._last_seq or kind == "tool_call":
            await self._act(frame)
        elif kind == "assistant_message" and self.has("shows repeats"):
            self._output += frame["token"]
        self._last_seq = max(self._last_seq, seq)

    async def _act(self, frame: Frame) -> None:
        kind = frame.get("type")
        if kind == "assistant_message":
            self._failures, self._output = 0, self._output + frame["token"]
        elif kind == "tool_call":
            is_others = not frame.get("execute", True) and not self.has("executes others' calls")
            if is_others and not self.has("executes settled calls"):
                return
            self._calls[frame["call_id"]] = {**self._calls.get(frame["call_id"], {}), **frame}
            if self.has("executes settled calls") and not self._live:
                self._results.clear()
                await self._answer(frame)
            elif self._live and not is_others and (not frame["requires_approval"] or self.has("does not wait")):
                await self._answer(frame)

    async def _throttled(self) -> None:
        if not self.has("answers throttling"):
            await asyncio.sleep(random.uniform(0.6, 0.8))
        if self.has("renames messages") and self._message is not None:
            self._message["client_msg_id"] = uuid.uuid4().hex
        if self.has("answers throttling") or self.has("skips resume"):
            await self._send(self._message or {})
        else:
            await self._send({"type": "resume", "last_seq": self._last_seq})

    async def _resumed(self, frame: Frame) -> None:
        self._live, self._last_seq = True, max(self._last_seq, frame["last_seq"])
        if self._message is not None:
            await self._send(self._message)
        for pending in frame["open_calls"]:
            call = self._calls.get(pending["call_id"])
            if call is not None and not call["requires_approval"] and not self.has("forgets results"):
                await self._answer(call)

    async def _answer(self, call: Frame) -> None:
        call_id = call["call_id"]
        if call_id not in self._results or self.has("executes again"):
            self._results[call_id] = self._execute(call)
        await self._send({"type": "tool_result", "call_id": call_id, "result": self._results[call_id]})
        if self.has("invents ids"):
            await self._send({"type": "tool_result", "call_id": "call_other", "result": {}})
        if self.has("pings often"):
            await self._send({"type": "ping"})

    def _execute(self, call: Frame) -> Frame:
        arguments = call["arguments"]
        if self.has("executes the original") and arguments["path"] == "edited.txt":
            arguments = {"path": "edit.txt", "content": "edit\n"}
        file = self._workspace / arguments["path"]
        if call["tool_name"] == "read_file":
            return {"content": file.read_text("utf-8")}
        return {"success": True, "bytes_written": file.write_text(arguments["content"], "utf-8")}
