"""context_update: which files the agent is shown with every question."""

from codelab.engine.engine import Engine
from codelab.gateway.app import WebSocketApp
from codelab.protocol.incoming import ContextUpdate
from codelab.turns import files
from codelab.turns.connections import Caller
from codelab.turns.quotas import Asks

app = WebSocketApp()


@app.route("context_update")
def context_update(frame: ContextUpdate, caller: Caller, engine: Engine) -> None:
    engine.apply(
        caller.user,
        caller.session_id,
        lambda draft: files.context_update(draft, caller, frame),
        caller=caller,
        asks=Asks.SPENDS,
    )


handler = app.handler
