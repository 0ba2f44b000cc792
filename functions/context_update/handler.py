"""context_update: which files the agent is shown with every question."""

from codelab.gateway.app import WebSocketApp
from codelab.protocol.incoming import ContextUpdate
from codelab.turns import files
from codelab.turns.connections import Caller
from codelab.turns.shell import Engine

app = WebSocketApp()


@app.route("context_update")
def context_update(frame: ContextUpdate, caller: Caller, engine: Engine) -> None:
    updated = engine.apply(caller.user, caller.session_id, lambda draft: files.context_update(draft, caller, frame))
    if updated is not None and updated.after.connections[caller.connection_id].extensions:
        engine.poster.post(caller.connection_id, files.context_updated(updated.after, frame).wire())


handler = app.handler
