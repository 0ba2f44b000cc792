"""A WebSocket function: the frames it accepts, their handlers, and the answer to a refused frame.

app = WebSocketApp(user_message)  # decisions of `turns`

@app.route(Ping)  # a frame without a decision
def ping(frame: Ping, caller: Caller, engine: Engine) -> None: ...

handler = app.handler
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from codelab import turn_log
from codelab.aws.errors import AwsError
from codelab.engine.engine import Engine
from codelab.gateway.identity import caller_of, name_in_log
from codelab.observability import logger, metrics
from codelab.protocol.errors import ErrorCode, ProtocolError
from codelab.protocol.incoming import FRAMES, NAMING, ClientFrame, Referenced, RefreshToken, parse_frame
from codelab.protocol.outgoing import Ack, Error
from codelab.sessions.keys import partition
from codelab.turns.caller import Caller
from codelab.turns.decision import Decision, DecisionResult
from codelab.wiring import posting_engine

#: What a proxy integration must return. Nobody receives it, because the routes have no route response.
ACCEPTED = {"statusCode": 200}

F = TypeVar("F", bound=ClientFrame)

#: Takes a frame of its type, who sent it, and the engine.
Handle = Callable[[Any, Caller, Engine], None]


class WebSocketApp:
    """Dispatches the frames of one function. Make it at init, so that clients are warm before the first event.

    decisions: those that the function's frames need. starts_steps: its frames may start the step of a turn.
    """

    def __init__(self, *decisions: Decision[Any], starts_steps: bool = False) -> None:
        self._engine = posting_engine(starts_steps=starts_steps)
        self._decisions = {decision.event: decision for decision in decisions}
        self._routes: dict[type[ClientFrame], Handle] = {}
        for frame_type in self._decisions:
            frame_type.model_rebuild()

    def route(self, frame_type: type[F]) -> Callable[[Callable[[F, Caller, Engine], None]], Handle]:
        """A decorator that registers a handler for a type of frame. Builds the type's validator now, at init."""
        frame_type.model_rebuild()

        def register(handle: Callable[[F, Caller, Engine], None]) -> Handle:
            self._routes[frame_type] = handle
            return handle

        return register

    def handler(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """The Lambda handler. Answers every refusal with an `error` frame; the connection stays open."""
        caller = caller_of(event)
        name_in_log(caller, context)
        try:
            self._answer(event, caller)
        finally:
            turn_log.end(context.get_remaining_time_in_millis())
        return ACCEPTED

    def _answer(self, event: Mapping[str, Any], caller: Caller) -> None:
        try:
            frame = parse_frame(event.get("body"))
        except ProtocolError as error:
            self._refuse(caller, error)
            return
        try:
            self._dispatch(frame, caller)
        except ProtocolError as error:
            self._refuse(caller, error, frame)
        except AwsError:
            logger().exception("aws call failed", extra=metrics(HandlersFailed=1))
            self._refuse(caller, ProtocolError(ErrorCode.DATABASE_ERROR, "Storage failed; send the frame again"), frame)
        except Exception:
            logger().exception("handler failed", extra=metrics(HandlersFailed=1))
            self._refuse(caller, ProtocolError(ErrorCode.AGENT_ERROR, "Internal error; send the frame again"), frame)

    def _dispatch(self, frame: ClientFrame, caller: Caller) -> None:
        kind = FRAMES[getattr(frame, "type", "")]
        if 0 < 1000 * caller.expires <= self._engine.clock() and kind is not RefreshToken:
            self._check_refreshed(caller)
        decision, handle = self._decisions.get(kind), self._routes.get(kind)
        if decision is None and handle is None:
            raise ProtocolError(
                ErrorCode.INVALID_TYPE, "This route does not accept this type", details={"field": "type"}
            )
        try:
            if isinstance(frame, Referenced):
                payloads, now = self._engine.payloads, self._engine.clock()
                frame = frame.uploaded(payloads.fetch(caller.user, caller.session_id, frame.payload_ref, now))
            if decision is not None:
                result = self._engine.handle(decision, frame, caller)
                if frame.request_id is not None:
                    self._acknowledge(frame, caller, result)
            elif handle is not None:
                handle(frame, caller, self._engine)
        except ProtocolError as error:  # the uploaded frame has more names than the one that refers to it
            _name(error, frame)
            raise

    def _acknowledge(self, frame: ClientFrame, caller: Caller, result: DecisionResult) -> None:
        """Acknowledge the frame to its sender, unless a reply does."""
        if result.transition is not None and result.transition.replies:
            return
        outcome = result.outcome
        ack = Ack(
            request_id=frame.request_id,
            outcome=outcome.outcome,
            turn_id=outcome.turn_id,
            client_msg_id=outcome.client_msg_id,
            call_id=getattr(frame, "call_id", None),
        )
        self._engine.poster.post(caller.connection_id, ack.wire())

    def _check_refreshed(self, caller: Caller) -> None:
        """Raise ProtocolError SESSION_EXPIRED unless the connection has a newer token than that of `$connect`."""
        register = self._engine.store.read(partition(caller.user, caller.session_id))
        connection = register.connections.get(caller.connection_id) if register else None
        if connection is None or connection.has_expired(self._engine.clock()):
            raise ProtocolError(
                ErrorCode.SESSION_EXPIRED, "The token has expired; send refresh_token, or reconnect with a new token"
            )

    def _refuse(self, caller: Caller, error: ProtocolError, frame: ClientFrame | None = None) -> None:
        """Post the error, even if the connection's token has expired: it reveals nothing about the session."""
        if frame is not None:
            _name(error, frame)
        self._engine.poster.post(caller.connection_id, Error.of(error).wire())


def _name(error: ProtocolError, frame: ClientFrame) -> None:
    """Have the error name the refused frame."""
    error.call_id = error.call_id or getattr(frame, "call_id", None)
    for name in NAMING:
        if (identifier := getattr(frame, name, None)) is not None:
            error.names.setdefault(name, identifier)
    if client_msg_id := getattr(frame, "client_msg_id", None):
        error.details["client_msg_id"] = client_msg_id
