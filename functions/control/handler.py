"""Frames that steer a session and concern one connection: hello, resume, cancel, ping, and their like."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from codelab.engine import replay
from codelab.engine.engine import Decide, Engine
from codelab.gateway.app import WebSocketApp
from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.incoming import (
    Cancel,
    Hello,
    Ping,
    RefreshToken,
    Resume,
    Rules,
    SessionConfig,
    UploadRequest,
)
from codelab.protocol.outgoing import Pong
from codelab.sessions.items import dumps
from codelab.sessions.keys import PLAN, TOOLS
from codelab.sessions.rules import KEYS
from codelab.sessions.spending import Spending
from codelab.turns import cancel, control
from codelab.turns.connections import Caller
from codelab.turns.quotas import Asks
from codelab.wiring import engine

if TYPE_CHECKING:
    from codelab.gateway.tokens import TokenVerifier

app = WebSocketApp()

#: How long a replay waits for `$connect` to return: a post before that is answered as if the connection were gone.
CONNECT_S = 5.0


@app.route("hello")
def hello(frame: Hello, caller: Caller, sessions: Engine) -> None:
    wanted = [PLAN] if frame.capabilities.tools is None else [PLAN, TOOLS]
    _apply(sessions, caller, lambda draft: control.hello(draft, caller, frame), wanted, Asks.SHOWN)


@app.route("session_config")
def session_config(frame: SessionConfig, caller: Caller, sessions: Engine) -> None:
    _apply(sessions, caller, lambda draft: control.configure(draft, caller, frame), [PLAN], Asks.SHOWN)


@app.route("rules")
def change_rules(frame: Rules, caller: Caller, sessions: Engine) -> None:
    _apply(sessions, caller, lambda draft: control.change_rules(draft, caller, frame), KEYS.values())


@app.route("resume")
def resume(frame: Resume, caller: Caller, sessions: Engine) -> None:
    replay.resume(sessions, caller, frame.last_seq)


@app.route("cancel")
def cancel_turn(frame: Cancel, caller: Caller, sessions: Engine) -> None:
    _apply(sessions, caller, lambda draft: cancel.cancel(draft, caller, frame.turn_id))


@app.route("ping")
def ping(frame: Ping, caller: Caller, sessions: Engine) -> None:
    pong = {**(frame.model_extra or {}), **Pong().wire()}
    if len(dumps(pong).encode()) > limits.INLINE_FRAME_BYTES:
        raise ProtocolError(ErrorCode.PAYLOAD_TOO_LARGE, "What a pong repeats must fit into one frame")
    sessions.poster.post(caller.connection_id, pong)


@app.route("upload_request")
def upload_request(frame: UploadRequest, caller: Caller, sessions: Engine) -> None:
    sessions.admit(caller)
    now, new_id = sessions.clock(), sessions.ids()
    ticket = sessions.payloads.ticket(caller.user, caller.session_id, frame.bytes, now, new_id)
    sessions.reserve(caller, Spending(stored_bytes=frame.bytes))
    sessions.poster.post(caller.connection_id, ticket.wire())


@cache
def verifier() -> "TokenVerifier":
    """Made at need: PyJWT is worth its import to no other frame."""
    from codelab.gateway.tokens import token_verifier

    return token_verifier()


@app.route("refresh_token")
def refresh_token(frame: RefreshToken, caller: Caller, sessions: Engine) -> None:
    from codelab.gateway.tokens import InvalidToken

    try:
        identity = verifier().verify(frame.token)
    except InvalidToken as error:
        raise ProtocolError(ErrorCode.UNAUTHORIZED, f"The token is not valid: {error}") from None
    if identity.user != caller.user:
        raise ProtocolError(ErrorCode.UNAUTHORIZED, "The token is another user's")
    # Either token may have been revoked, so the older one is what admission looks at.
    caller = replace(caller, issued=min(caller.issued or identity.issued, identity.issued))
    _apply(sessions, caller, lambda draft: control.refresh(draft, caller, identity.expires), [PLAN], Asks.SHOWN)


def _apply(
    sessions: Engine, caller: Caller, decide: Decide, wanted: Iterable[str] = (), asks: Asks = Asks.NOTHING
) -> None:
    sessions.apply(caller.user, caller.session_id, decide, wanted, caller=caller, asks=asks)


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """A frame of the routes above, or a replay that `$connect?last_seq=` has asked for."""
    if event.get("kind") == "resume":
        replay.resume(engine(), Caller(**event["caller"]), event["last_seq"], patience_s=CONNECT_S)
        return {}
    return app.handler(event, context)
