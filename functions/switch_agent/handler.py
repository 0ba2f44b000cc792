"""switch_agent: another agent answers from the next step on, and at once what the frame says to it."""

from codelab.agents import agents
from codelab.engine.engine import Engine
from codelab.gateway.app import WebSocketApp
from codelab.protocol.incoming import SwitchAgent
from codelab.sessions.items import InputItem
from codelab.turns import control
from codelab.turns.connections import Caller
from codelab.turns.quotas import Asks

app = WebSocketApp(starts_steps=True)
known = set(agents())


@app.route("switch_agent")
def switch_agent(frame: SwitchAgent, caller: Caller, engine: Engine) -> None:
    message = None
    if frame.content:
        message = InputItem(frame.client_msg_id or engine.ids(), frame.content, "user", engine.clock())
    engine.apply(
        caller.user,
        caller.session_id,
        lambda draft: control.switch_agent(draft, caller, frame, known, message),
        caller=caller,
        asks=Asks.TURN if message else Asks.NOTHING,
    )


handler = app.handler
