"""$default: messages without a route. It accepts no frame, so every message is answered with an error."""

from codelab.process_start import begin_init

begin_init()

from codelab.gateway.app import WebSocketApp

app = WebSocketApp()
handler = app.handler
