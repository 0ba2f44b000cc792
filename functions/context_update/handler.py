"""context_update: changes the files that the agent sees with every Request."""

from codelab.process_start import begin_init

begin_init()

from codelab.gateway.app import WebSocketApp
from codelab.turns.files import context_update

handler = WebSocketApp(context_update).handler
