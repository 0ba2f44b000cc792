"""switch_agent: another agent answers from the next step on, and the frame's message at once."""

from codelab.process_start import begin_init

begin_init()

from codelab.gateway.app import WebSocketApp
from codelab.turns.control import switch_agent

handler = WebSocketApp(switch_agent, starts_steps=True).handler
