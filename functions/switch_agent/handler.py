"""switch_agent: another agent answers from the next step on, and at once what the frame says to it."""

from codelab.gateway.app import WebSocketApp
from codelab.turns.control import switch_agent

handler = WebSocketApp(switch_agent, starts_steps=True).handler
