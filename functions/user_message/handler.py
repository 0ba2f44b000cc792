"""user_message: start a turn, or queue the message behind the running one."""

from codelab.process_start import begin_init

begin_init()

from codelab.gateway.app import WebSocketApp
from codelab.turns.messages import user_message

handler = WebSocketApp(user_message, starts_steps=True).handler
