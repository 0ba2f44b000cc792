"""The connection of a session: opened, kept alive, replaced before its end, and opened again when it breaks.

A connection that breaks and a gateway that refuses frames share one back-off, so that no failure is answered at once.
"""

import asyncio
import contextlib
import json
import random
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as websocket
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidStatus

from codelab_client import __version__
from codelab_client.session import tokens
from codelab_client.session.address import Address, is_loopback
from codelab_client.session.backoff import BackOff
from codelab_client.session.errors import InvalidAddress, SessionClosed, SessionError, Unauthorized, Unreachable
from codelab_client.session.events import Busy, Connected, Disconnected, Event
from codelab_client.session.timing import Timing

#: Bytes of the largest message that is read; the server sends 128 KB at most.
_MESSAGE_BYTES = 1_000_000
#: The frames that bring a session up to date; `upload_request` is for a `hello` that is large.
_HANDSHAKE = ("hello", "resume", "refresh_token", "upload_request")


class Phase(Enum):
    """Where the connection is."""

    OFFLINE = auto()
    RESUMING = auto()  # it is open, but the server has not replayed everything missed
    ONLINE = auto()


class _Sending(Enum):
    """Which frames may be sent."""

    ALL = auto()
    HANDSHAKE = auto()  # the gateway refused a frame, and has not answered one since
    NOTHING = auto()  # it refused one just now


@dataclass(frozen=True)
class Owner:
    """What a link asks of its session.

    greet: begins the handshake of a new connection. resume: goes on with it when `session_info` has come.
    receive: takes a message. look: does what is due while it is online (the time, monotonic). on_loss: the connection
    is closed. is_idle: whether nothing goes on, so that it may be replaced now.
    show: shows an event to the user. start: runs a coroutine, whose error ends the session.
    """

    greet: Callable[[], Awaitable[None]]
    resume: Callable[[], Awaitable[None]]
    receive: Callable[[str | bytes], None]
    look: Callable[[float], Awaitable[None]]
    on_loss: Callable[[], None]
    is_idle: Callable[[], bool]
    show: Callable[[Event], None]
    start: Callable[[Coroutine[Any, Any, Any]], "asyncio.Task[Any]"]


@dataclass
class _Connection:
    """What is known about the open connection."""

    socket: ClientConnection
    token: str
    opened_at: float
    used_at: float
    lasts_s: float
    idle_ping_s: float
    greeting: bool = True  # `session_info` has not come, and `resume` follows it
    resuming: bool = True  # `resumed` has not come: which calls are open is not known
    announced: bool = False  # the user knows that it is online
    sending: _Sending = _Sending.ALL
    renewing: bool = False  # the answer to `refresh_token` has not come
    begun_again: bool = False  # the handshake, since the last `resumed`
    online_at: float = 0.0
    resume_sent_at: float = 0.0


class Link:
    """Keeps a connection open until it is stopped. viewer: it never executes calls."""

    def __init__(
        self, address: Address, session_id: str, token: tokens.Token, owner: Owner, timing: Timing, *, viewer: bool
    ) -> None:
        self._address, self._session_id, self._token = address, session_id, token
        self._owner, self._timing, self._viewer = owner, timing, viewer
        self._connection: _Connection | None = None
        self._stopped = False
        self._replacing = False
        self._was_online = False
        self._back_off = BackOff(timing.pause_s, timing.longest_pause_s)
        self.peer = ""  # the address that the newest connection is to, of the server or of a proxy
        self.clock_skew_ms = 0  # how far this machine's clock is ahead of the server's

    @property
    def phase(self) -> Phase:
        """Where the connection is."""
        if self._connection is None:
            return Phase.OFFLINE
        return Phase.RESUMING if self._connection.resuming else Phase.ONLINE

    @property
    def token(self) -> str:
        """The token of the open connection; empty if there is none."""
        return self._connection.token if self._connection is not None else ""

    @property
    def opened_at(self) -> float:
        """When the connection was opened (monotonic); 0 if there is none."""
        return self._connection.opened_at if self._connection is not None else 0.0

    async def run(self) -> None:
        """Keep a connection open until it is stopped. Raises SessionError if that is not possible."""
        refused_token = None
        while not self._stopped:
            token = await tokens.current(self._token)
            if token == refused_token:
                raise Unauthorized("The server does not accept the token" if token else "The server needs a token")
            is_renewed, refused_token, reason, min_pause = refused_token is not None, None, "", 0.0
            try:
                reason = await self._connect(token)
            except InvalidStatus as refusal:
                status = refusal.response.status_code
                reason = f"HTTP {status}"
                if status == 401:
                    refused_token = token
                elif status == 429:
                    reason = "the server is busy (HTTP 429)"
                    min_pause = _seconds(refusal.response.headers.get("Retry-After")) or 0.0
                elif status in (400, 403, 404) or (status not in (409, 500, 502, 503, 504) and not self._was_online):
                    raise _refused_upgrade(self._address, status) from None
            except (InvalidMessage, InvalidHandshake, EOFError, TimeoutError, OSError) as error:
                reason = _told(error)
                if not self._was_online:
                    raise Unreachable(f"No CodeLab server answers at {self._address.shown}: {reason}") from None
            if self._stopped:
                return
            if self._replacing or (refused_token is not None and not is_renewed):
                self._replacing = False
                continue
            pause = min_pause + self._back_off.pause(time.monotonic())
            self._owner.show(Disconnected(why=reason, retry_in=pause))
            await asyncio.sleep(pause)

    async def stop(self) -> None:
        """Close the connection, and open no other."""
        self._stopped = True
        if self._connection is not None:
            await self._connection.socket.close()

    async def restart(self) -> None:
        """Close the connection and open another."""
        if self._connection is not None:
            await self._connection.socket.close(1001)

    def takes(self, frame_type: str) -> bool:
        """Whether frames of a type may be sent now; others are dropped, and repeated after `resumed`."""
        connection = self._connection
        if connection is None or connection.sending is _Sending.NOTHING:
            return False
        return connection.sending is _Sending.ALL or frame_type in _HANDSHAKE

    async def write(self, message: bytes) -> None:
        """Send a message on the current connection; drop it if there is none, or if nothing may be sent."""
        if self._connection is not None and self._connection.sending is not _Sending.NOTHING:
            self._connection.used_at = time.monotonic()
            with contextlib.suppress(ConnectionClosed):
                await self._connection.socket.send(message.decode())

    # -- a gateway that refuses frames -----------------------------------------------------------------------------

    def busy(self, reason: str) -> None:
        """A frame was refused, and perhaps others with it: send nothing for a while, then only the handshake.

        Refusals during the pause are of frames that were on their way: they make it no longer.
        """
        connection = self._connection
        if connection is None or connection.sending is _Sending.NOTHING:
            return
        now = time.monotonic()
        pause = self._back_off.pause(now)
        connection.sending, connection.announced = _Sending.NOTHING, False
        connection.resuming, connection.resume_sent_at = True, now + pause
        self._owner.show(Busy(why=reason, retry_in=pause))
        self._owner.start(self._try_again(connection, pause))

    @property
    def is_pausing(self) -> bool:
        """Whether nothing may be sent."""
        return self._connection is not None and self._connection.sending is _Sending.NOTHING

    async def _try_again(self, connection: _Connection, pause: float) -> None:
        """Send the frame of the handshake whose answer has not come, once."""
        await asyncio.sleep(pause)
        if self._connection is not connection:
            return
        connection.sending = _Sending.HANDSHAKE
        if connection.renewing:
            await self._write_token(connection)
        elif connection.greeting:
            await self._owner.greet()
        else:
            await self._owner.resume()

    async def refresh(self) -> None:
        """Give the server a newer token, if there is one. Raises Unauthorized if there is none after the expiry."""
        token = await tokens.current(self._token)
        connection = self._connection
        if connection is None:
            return
        if token == connection.token:
            expires = tokens.expires_at(token)
            if expires is None or expires < time.time():
                raise Unauthorized("The token has expired")
            return
        self._address.headers(token, self._address.url)
        connection.token, connection.greeting, connection.resuming = token, True, True
        connection.renewing = True
        await self._write_token(connection)

    # -- the handshake: `session_info`, then `resume`, until `resumed` ---------------------------------------------

    def greet_again(self) -> bool:
        """The next `session_info` begins the handshake again. Returns whether to ask for it now.

        Only once: a server that answers each `resume` by `resync_required` is asked again after a pause.
        """
        connection = self._connection
        if connection is None:
            return False
        is_first, connection.begun_again, connection.greeting = not connection.begun_again, True, True
        if not is_first:
            self.busy("it has frames missing again and again")
        return is_first

    @property
    def is_greeting(self) -> bool:
        """Whether the `session_info` of the handshake has not come."""
        return self._connection is not None and self._connection.greeting

    def was_greeted(self) -> bool:
        """`session_info` came. Returns whether it is the one of the handshake."""
        connection = self._connection
        if connection is None or not connection.greeting:
            return False
        connection.greeting = connection.renewing = False
        return True

    def resuming(self, now: float) -> None:
        """A replay is being asked for."""
        if self._connection is not None:
            self._connection.resuming, self._connection.resume_sent_at = True, now

    def resumed(self) -> None:
        """Everything missed has been replayed."""
        connection = self._connection
        if connection is None:
            return
        connection.resuming = connection.begun_again = False
        connection.sending = _Sending.ALL
        connection.online_at = connection.online_at or time.monotonic()
        if not connection.announced:
            connection.announced = True
            self._owner.show(Connected(again=self._was_online))
        self._was_online = True

    # -- one connection --------------------------------------------------------------------------------------------

    async def _connect(self, token: str) -> str:
        """Keep one connection until it is closed. Returns why. Raises SessionClosed if that is final."""
        query: dict[str, object] = {"extensions": 1}
        if self._viewer:
            query["viewer"] = 1
        url = self._address.of(self._session_id, **query)
        async with _WebSocket(
            url,
            additional_headers=self._address.headers(token, url),
            proxy=None if is_loopback(urlsplit(url).hostname) else True,
            user_agent_header=f"codelab/{__version__}",
            open_timeout=self._timing.open_s,
            close_timeout=2,
            max_size=_MESSAGE_BYTES,
            max_queue=1_000,
        ) as socket:
            now = time.monotonic()
            early = random.uniform(0.9, 1.0)
            lasts_s, idle_ping_s = self._timing.lifetime_s * early, self._timing.idle_ping_s * early
            connection = _Connection(socket, token, now, now, lasts_s, idle_ping_s)
            self._connection = connection
            self.peer = str((socket.remote_address or ("",))[0])
            self._note_clock(socket)
            ticking = self._owner.start(self._tick(connection))
            try:
                await self._owner.greet()
                async for message in socket:
                    self._owner.receive(message)
            except ConnectionClosed:
                pass
            finally:
                ticking.cancel()
                self._connection = None
                self._owner.on_loss()
        code, reason = socket.close_code, socket.close_reason
        by_server = not (self._stopped or self._replacing)
        if by_server and code in (1000, 1003):
            raise SessionClosed(
                "The server closed the session: it was deleted, the tokens were revoked, "
                "or newer connections replaced this one"
                if code == 1000
                else "The server does not accept binary data"
            )
        return f"the connection was closed ({code}{', ' + reason[:100] if reason else ''})"

    def _note_clock(self, socket: ClientConnection) -> None:
        """Compare the clocks: deadlines are times of the server's."""
        date = socket.response.headers.get("Date") if socket.response is not None else None
        if date is not None:
            with contextlib.suppress(ValueError, TypeError):
                ahead_ms = int((time.time() - parsedate_to_datetime(date).timestamp()) * 1000)
                self.clock_skew_ms = ahead_ms if abs(ahead_ms) > 5_000 else 0

    async def _tick(self, connection: _Connection) -> None:
        """Do what becomes due while the connection is open."""
        timing = self._timing
        while True:
            await asyncio.sleep(timing.tick_s)
            now = time.monotonic()
            if connection.resuming:
                if now - max(connection.opened_at, connection.resume_sent_at) > timing.open_s:
                    await connection.socket.close(1001)
                continue
            await self._owner.look(now)
            if now - connection.used_at > (connection.idle_ping_s if self._owner.is_idle() else timing.ping_s):
                await self._write_frame({"type": "ping"})
            age = now - connection.online_at
            if age > connection.lasts_s * (1.0 if self._owner.is_idle() else 1.05):
                self._replacing = True
                await connection.socket.close()
            if callable(self._token) and (due := tokens.refresh_at(connection.token)) and time.time() > due:
                await self.refresh()

    async def _write_token(self, connection: _Connection) -> None:
        connection.resume_sent_at = time.monotonic()
        await self._write_frame({"type": "refresh_token", "token": connection.token})

    async def _write_frame(self, frame: Mapping[str, Any]) -> None:
        await self.write(json.dumps(frame).encode())


class _WebSocket(websocket):
    """Opens a WebSocket, and follows no redirect, so that neither a token nor a frame reaches another server."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isdecimal() else None


def _refused_upgrade(address: Address, status: int) -> SessionError:
    if status == 403:
        return Unauthorized(f"{address.shown} refuses this session (HTTP 403)")
    if status == 404:
        return Unreachable(f"{address.shown} is not a CodeLab server, or the path is wrong (HTTP 404)")
    if status == 400:
        return InvalidAddress(f"{address.shown} does not understand the address (HTTP 400)")
    return Unreachable(f"{address.shown} does not accept the connection (HTTP {status})")


def _told(error: BaseException) -> str:
    """Why a connection could not be opened."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, InvalidMessage | EOFError):
        return "what listens there does not speak WebSocket"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text or type(error).__name__
