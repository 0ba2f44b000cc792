"""API Gateway: the WebSocket API, the HTTP API, authorizers, throttles."""
