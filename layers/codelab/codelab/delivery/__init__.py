"""From a logged frame to the clients: connections, the streaming sender, payloads by reference."""
