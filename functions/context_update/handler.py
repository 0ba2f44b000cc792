"""context_update: which files the agent is shown with every question."""

from codelab.gateway.app import WebSocketApp
from codelab.turns.files import context_update

handler = WebSocketApp(context_update).handler
