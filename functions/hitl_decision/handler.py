"""hitl_decision: a human approves, edits or rejects a call."""

from codelab.engine.engine import Engine
from codelab.gateway.app import WebSocketApp
from codelab.protocol.incoming import HitlDecision
from codelab.sessions.keys import call_key
from codelab.sessions.rules import KEYS
from codelab.turns import calls
from codelab.turns.connections import Caller

app = WebSocketApp(starts_steps=True)


@app.route("hitl_decision")
def hitl_decision(frame: HitlDecision, caller: Caller, engine: Engine) -> None:
    books = KEYS.values() if frame.remember else ()
    engine.apply(
        caller.user,
        caller.session_id,
        lambda draft: calls.hitl_decision(draft, caller, frame),
        wanted=[call_key(frame.call_id), *books],
        caller=caller,
    )


handler = app.handler
