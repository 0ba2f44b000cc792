"""tool_result: settle a call; the last one of a step starts the next step."""

from codelab.gateway.app import WebSocketApp
from codelab.turns.calls import tool_result

handler = WebSocketApp(tool_result, starts_steps=True).handler
