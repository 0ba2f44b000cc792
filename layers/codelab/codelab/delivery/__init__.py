"""Delivers logged frames to the clients: posting, the streaming sender, payloads by reference."""
