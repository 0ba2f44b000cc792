"""user_message: start a turn, or queue the message behind the running one."""

from codelab.gateway.app import WebSocketApp
from codelab.turns.messages import user_message

handler = WebSocketApp(user_message, starts_steps=True).handler
