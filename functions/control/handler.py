"""Frames that steer a session or concern one connection: hello, resume, cancel, ping and others."""

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from codelab.process_start import begin_init

begin_init()

from codelab.engine import replay
from codelab.engine.engine import Engine
from codelab.gateway.app import WebSocketApp
from codelab.gateway.identity import name_in_log
from codelab.protocol import limits
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.incoming import Ping, RefreshToken, Resume, UploadRequest
from codelab.protocol.outgoing import Pong
from codelab.sessions.items import dumps
from codelab.sessions.spending import Spending
from codelab.turns.caller import Caller
from codelab.turns.cancel import cancel
from codelab.turns.control import Refresh, change_rules, configure, hello, refresh
from codelab.turns.inbox import withdraw
from codelab.turns.requested_compaction import compact
from codelab.wiring import engine

if TYPE_CHECKING:
    from codelab.gateway.tokens import TokenVerifier

app = WebSocketApp(hello, configure, change_rules, cancel, withdraw, compact)

#: Seconds that a replay waits for `$connect` to return; until then posts are answered as for a closed connection.
CONNECT_S = 5.0


@app.route(Resume)
def resume(frame: Resume, caller: Caller, engine: Engine) -> None:
    replay.resume(engine, caller, frame.last_seq, request_id=frame.request_id)


@app.route(Ping)
def ping(frame: Ping, caller: Caller, engine: Engine) -> None:
    pong = {**(frame.model_extra or {}), **Pong(request_id=frame.request_id).wire()}
    if len(dumps(pong).encode()) > limits.INLINE_FRAME_BYTES:
        raise ProtocolError(ErrorCode.PAYLOAD_TOO_LARGE, "The pong must fit into one frame")
    engine.poster.post(caller.connection_id, pong)


@app.route(UploadRequest)
def upload_request(frame: UploadRequest, caller: Caller, engine: Engine) -> None:
    engine.admit(caller)
    now, new_id = engine.clock(), engine.ids()
    ticket = engine.payloads.ticket(caller.user, caller.session_id, frame.bytes, now, new_id)
    engine.reserve(caller, Spending(stored_bytes=frame.bytes))
    engine.poster.post(caller.connection_id, ticket.model_copy(update={"request_id": frame.request_id}).wire())


@cache
def verifier() -> "TokenVerifier":
    """Made when needed, because only this frame needs PyJWT."""
    from codelab.gateway.tokens import token_verifier

    return token_verifier()


@app.route(RefreshToken)
def refresh_token(frame: RefreshToken, caller: Caller, engine: Engine) -> None:
    from codelab.gateway.tokens import InvalidToken

    try:
        identity = verifier().verify(frame.token)
    except InvalidToken as error:
        raise ProtocolError(ErrorCode.UNAUTHORIZED, f"Invalid token: {error}") from None
    if identity.user != caller.user:
        raise ProtocolError(ErrorCode.UNAUTHORIZED, "The token belongs to another user")
    # Either token may have been revoked, so admission checks the older one.
    caller = replace(caller, issued=min(caller.issued or identity.issued, identity.issued))
    engine.handle(refresh, Refresh(identity.expires, frame.request_id), caller)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Handle a frame of the routes above, or a replay requested by `$connect?last_seq=`."""
    if event.get("kind") == "resume":
        caller = Caller(**event["caller"])
        name_in_log(caller, context)
        replay.resume(engine(), caller, event["last_seq"], patience_s=CONNECT_S)
        return {}
    return app.handler(event, context)
