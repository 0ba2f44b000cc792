"""hitl_decision: a human approves, edits or rejects a call."""

from codelab.process_start import begin_init

begin_init()

from codelab.gateway.app import WebSocketApp
from codelab.turns.calls import hitl_decision

handler = WebSocketApp(hitl_decision, starts_steps=True).handler
