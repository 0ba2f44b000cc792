"""user_message: start a turn, or queue the message behind the running one."""

from codelab.engine.engine import Engine
from codelab.gateway.app import WebSocketApp
from codelab.protocol.incoming import UserMessage
from codelab.sessions.items import InputItem
from codelab.turns import messages
from codelab.turns.connections import Caller
from codelab.turns.quotas import Asks

app = WebSocketApp(starts_steps=True)


@app.route("user_message")
def user_message(frame: UserMessage, caller: Caller, engine: Engine) -> None:
    message = InputItem(frame.client_msg_id or engine.ids(), frame.content, frame.role, engine.clock())
    engine.apply(
        caller.user,
        caller.session_id,
        lambda draft: messages.user_message(draft, caller, message),
        caller=caller,
        asks=Asks.TURN,
    )


handler = app.handler
