"""The Agent Runtime API over HTTP: a shell around the turn engine, as the WebSocket functions are. Uses FastAPI."""
