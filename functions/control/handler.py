"""Frames that steer a session and concern one connection: hello, resume, cancel, ping, and their like."""

from functools import cache
from typing import TYPE_CHECKING, Any

from codelab.gateway.app import WebSocketApp
from codelab.gateway.services import engine
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
from codelab.sessions.keys import PLAN
from codelab.sessions.rules import KEYS
from codelab.turns import cancel, control
from codelab.turns import resume as replay
from codelab.turns.connections import Caller
from codelab.turns.shell import Engine

if TYPE_CHECKING:
    from codelab.gateway.tokens import TokenVerifier

app = WebSocketApp()

#: How long a replay waits for `$connect` to return: a post before that is answered as if the connection were gone.
CONNECT_S = 5.0


@app.route("hello")
def hello(frame: Hello, caller: Caller, sessions: Engine) -> None:
    sessions.apply(caller.user, caller.session_id, lambda draft: control.hello(draft, caller, frame), wanted=[PLAN])


@app.route("session_config")
def session_config(frame: SessionConfig, caller: Caller, sessions: Engine) -> None:
    sessions.apply(caller.user, caller.session_id, lambda draft: control.configure(draft, caller, frame), wanted=[PLAN])


@app.route("rules")
def change_rules(frame: Rules, caller: Caller, sessions: Engine) -> None:
    wanted = list(KEYS.values())
    sessions.apply(
        caller.user, caller.session_id, lambda draft: control.change_rules(draft, caller, frame), wanted=wanted
    )


@app.route("resume")
def resume(frame: Resume, caller: Caller, sessions: Engine) -> None:
    replay.resume(sessions, caller, frame.last_seq)


@app.route("cancel")
def cancel_turn(frame: Cancel, caller: Caller, sessions: Engine) -> None:
    sessions.apply(caller.user, caller.session_id, lambda draft: cancel.cancel(draft, caller, frame.turn_id))


@app.route("ping")
def ping(frame: Ping, caller: Caller, sessions: Engine) -> None:
    pong = {**(frame.model_extra or {}), **Pong().wire()}
    if len(dumps(pong).encode()) > limits.INLINE_FRAME_BYTES:
        raise ProtocolError(ErrorCode.PAYLOAD_TOO_LARGE, "What a pong repeats must fit into one frame")
    sessions.poster.post(caller.connection_id, pong)


@app.route("upload_request")
def upload_request(frame: UploadRequest, caller: Caller, sessions: Engine) -> None:
    now, new_id = sessions.clock(), sessions.ids()
    ticket = sessions.payloads.ticket(caller.user, caller.session_id, frame.bytes, now, new_id)
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
    sessions.apply(
        caller.user, caller.session_id, lambda draft: control.refresh(draft, caller, identity.expires), wanted=[PLAN]
    )


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """A frame of the routes above, or a replay that `$connect?last_seq=` has asked for."""
    if event.get("kind") == "resume":
        replay.resume(engine(), Caller(**event["caller"]), event["last_seq"], patience_s=CONNECT_S)
        return {}
    return app.handler(event, context)
