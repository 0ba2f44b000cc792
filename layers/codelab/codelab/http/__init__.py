"""HTTP/1.1 for calls of AWS and of models: the way to a host, the connections that are kept, the reading of answers."""
