"""tool_result: settle a call; the last one of a step starts the next step."""

from codelab.engine.engine import Engine
from codelab.gateway.app import WebSocketApp
from codelab.protocol.incoming import ToolResult
from codelab.sessions.keys import call_key
from codelab.turns import calls
from codelab.turns.connections import Caller

app = WebSocketApp(starts_steps=True)


@app.route("tool_result")
def tool_result(frame: ToolResult, caller: Caller, engine: Engine) -> None:
    engine.apply(
        caller.user,
        caller.session_id,
        lambda draft: calls.tool_result(draft, caller, frame),
        wanted=[call_key(frame.call_id)],
        caller=caller,
    )


handler = app.handler
