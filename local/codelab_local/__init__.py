"""The local cloud: a SAM WebSocket application on one machine, with no account and no Docker."""
