"""The Agent Runtime API over HTTP: a shell around the engine, like the WebSocket functions. Uses FastAPI."""
