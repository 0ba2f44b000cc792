"""Frames that steer a session and concern one connection: hello, resume, cancel, ping, and their like."""

from functools import cache
from typing import TYPE_CHECKING

from codelab.gateway.app import WebSocketApp
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.incoming import Cancel, Hello, Ping, RefreshToken, Resume, SessionConfig
from codelab.protocol.outgoing import Pong
from codelab.turns import cancel, control
from codelab.turns import resume as replay
from codelab.turns.connections import Caller
from codelab.turns.shell import Engine

if TYPE_CHECKING:
    from codelab.gateway.tokens import TokenVerifier

app = WebSocketApp()


@app.route("hello")
def hello(_frame: Hello, caller: Caller, engine: Engine) -> None:
    greeted = engine.apply(caller.user, caller.session_id, lambda draft: control.greet(draft, caller))
    if greeted is not None:
        engine.poster.post(caller.connection_id, control.session_info(greeted.after).wire())


@app.route("session_config")
def session_config(frame: SessionConfig, caller: Caller, engine: Engine) -> None:
    configured = engine.apply(caller.user, caller.session_id, lambda draft: control.configure(draft, caller, frame))
    if configured is not None:
        engine.poster.post(caller.connection_id, control.session_info(configured.after).wire())


@app.route("resume")
def resume(frame: Resume, caller: Caller, engine: Engine) -> None:
    replay.resume(engine, caller, frame.last_seq)


@app.route("cancel")
def cancel_turn(frame: Cancel, caller: Caller, engine: Engine) -> None:
    engine.apply(caller.user, caller.session_id, lambda draft: cancel.cancel(draft, caller, frame.turn_id))


@app.route("ping")
def ping(frame: Ping, caller: Caller, engine: Engine) -> None:
    engine.poster.post(caller.connection_id, {**(frame.model_extra or {}), **Pong().wire()})


@cache
def verifier() -> "TokenVerifier":
    """Made at need: PyJWT is worth its import to no other frame."""
    from codelab.gateway.tokens import token_verifier

    return token_verifier()


@app.route("refresh_token")
def refresh_token(frame: RefreshToken, caller: Caller, engine: Engine) -> None:
    from codelab.gateway.tokens import InvalidToken

    try:
        identity = verifier().verify(frame.token)
    except InvalidToken as error:
        raise ProtocolError(ErrorCode.UNAUTHORIZED, f"The token is not valid: {error}") from None
    if identity.user != caller.user:
        raise ProtocolError(ErrorCode.UNAUTHORIZED, "The token is another user's")
    refreshed = engine.apply(
        caller.user, caller.session_id, lambda draft: control.refresh(draft, caller, identity.expires)
    )
    if refreshed is not None:
        engine.poster.post(caller.connection_id, control.session_info(refreshed.after).wire())


handler = app.handler
