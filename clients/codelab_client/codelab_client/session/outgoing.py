"""Frames on their way to the server: as they are, or, if they are large, by reference to an upload."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from codelab_client.session import payloads
from codelab_client.session.events import Error, Event, Ignored, UploadTicket
from codelab_client.session.payload_hosts import PayloadHosts


class Outgoing:
    """Sends the frames of a session.

    write: writes a message to the current connection, and drops it if there is none. takes: whether frames of a type
    may be sent now. show: shows an event to the user. hosts: where uploads may go. ticket_s: how long to wait for a
    ticket.
    """

    def __init__(
        self,
        write: Callable[[bytes], Awaitable[None]],
        takes: Callable[[str], bool],
        show: Callable[[Event], None],
        *,
        hosts: PayloadHosts,
        ticket_s: float,
    ) -> None:
        self._write, self._takes, self._show = write, takes, show
        self._hosts, self._ticket_s = hosts, ticket_s
        self._uploading = asyncio.Lock()
        self._ticket: asyncio.Future[UploadTicket] | None = None

    async def send(self, frame: Mapping[str, Any]) -> None:
        """Send a frame on the current connection, a large one by reference; drop it if it may not be sent now."""
        if not self._takes(str(frame["type"])):
            return
        body = json.dumps(frame, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")
        if len(body) > payloads.INLINE_BYTES:
            reference = await self._upload(body)
            if reference is None:
                return
            envelope = {name: frame[name] for name in ("type", "call_id") if name in frame}
            body = json.dumps({**envelope, "payload_ref": reference}).encode()
        await self._write(body)

    def take_ticket(self, ticket: UploadTicket) -> None:
        """The server allows an upload."""
        if self._ticket is not None and not self._ticket.done():
            self._ticket.set_result(ticket)

    def refused(self, error: Error) -> bool:
        """The server refused a frame. Returns whether that was the request for a ticket."""
        if self._ticket is None or self._ticket.done() or not _is_about_upload(error):
            return False
        self.give_up(payloads.TransferError(error.message))
        return True

    def give_up(self, error: BaseException) -> None:
        """No ticket will come."""
        if self._ticket is not None and not self._ticket.done():
            self._ticket.set_exception(error)

    async def _upload(self, body: bytes) -> str | None:
        """Upload a frame. Returns its reference; None if that failed; who waits for a reply sends again."""
        async with self._uploading:
            ticket = self._ticket = asyncio.get_running_loop().create_future()
            try:
                await self.send({"type": "upload_request", "bytes": len(body)})
                async with asyncio.timeout(self._ticket_s):
                    upload_ticket = await ticket
                await payloads.put(upload_ticket.url, body, upload_ticket.headers, self._hosts)
            except (payloads.TransferError, TimeoutError) as error:
                self._show(Ignored(why=f"A large frame could not be uploaded: {error or 'no ticket came'}"))
                return None
            finally:
                self._ticket = None
            return str(upload_ticket.payload_ref)


def _is_about_upload(error: Error) -> bool:
    return (
        error.details.get("field") == "bytes"
        or error.error_code == "PAYLOAD_TOO_LARGE"
        or (error.details.get("quota") == "stored_bytes_per_day")
    )
