"""hello, resume, cancel, ping, session_config: frames that steer a session and concern one connection."""

from codelab.delivery.replay import replay
from codelab.gateway.app import WebSocketApp
from codelab.protocol.incoming import Cancel, Hello, Ping, Resume, SessionConfig
from codelab.protocol.outgoing import Pong
from codelab.turns import cancel, control
from codelab.turns.connections import Caller
from codelab.turns.shell import Engine

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
    greeted = engine.decide(caller.user, caller.session_id, lambda draft: control.greet(draft, caller))
    if greeted is not None:
        register = greeted.after
        open_calls = control.pending_calls(register)
        now = engine.clock()
        replay(engine.store, engine.poster, register, caller.connection_id, frame.last_seq, open_calls, now)


@app.route("cancel")
def cancel_turn(frame: Cancel, caller: Caller, engine: Engine) -> None:
    engine.apply(caller.user, caller.session_id, lambda draft: cancel.cancel(draft, caller, frame.turn_id))


@app.route("ping")
def ping(frame: Ping, caller: Caller, engine: Engine) -> None:
    engine.poster.post(caller.connection_id, {**(frame.model_extra or {}), **Pong().wire()})


handler = app.handler
