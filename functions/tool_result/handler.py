"""tool_result: settle a call; the last one of a step starts the next step."""

from codelab.process_start import begin_init

begin_init()

from codelab.gateway.app import WebSocketApp
from codelab.turns.calls import tool_result

handler = WebSocketApp(tool_result, starts_steps=True).handler
