"""$default: what no route takes. It has no frame of its own, so every body ends in the error that names its fault."""

from codelab.gateway.app import WebSocketApp

app = WebSocketApp()
handler = app.handler
